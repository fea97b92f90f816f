"""The command line, in this process or in one of its own as a shell starts it."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from statewise.cli import main


def statewise(*arguments, start=("-m", "statewise"), **options):
    """In a process of its own, which waits for JAX; where that is not asked about, `statewise_here` is quicker."""
    command = [sys.executable, *start, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def statewise_here(*arguments, cwd=None):
    """The same within this process; any exception but the command's exit is a traceback, and is raised."""
    command, code = ["statewise", *map(str, arguments)], 0
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        patch.object(sys, "argv", command),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    assert "this is a bug in statewise" not in err.getvalue(), err.getvalue()
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())
