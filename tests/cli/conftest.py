"""The command line within this process, which is quicker than one of its own."""

from types import SimpleNamespace

import pytest

from statewise.cli import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command as the shell would; any exception but its exit would be a traceback, and fails the test."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["statewise", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert "this is a bug in statewise" not in err, err
        return SimpleNamespace(returncode=ended.value.code or 0, stdout=out, stderr=" ".join(err.split()))

    return run


@pytest.fixture
def statewise(run):
    """The same, as exit code, standard output and standard error."""

    def statewise(*arguments):
        ended = run(*arguments)
        return ended.returncode, ended.stdout, ended.stderr

    return statewise
