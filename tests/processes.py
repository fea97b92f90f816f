"""The command line in a process of its own, as a shell starts it."""

import subprocess
import sys


def statewise(*arguments, start=("-m", "statewise"), **options):
    command = [sys.executable, *start, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)
