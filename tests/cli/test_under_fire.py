"""What the command line does when something breaks, and what it shows of names that were made to harm."""

import csv
import importlib
import io
import json
import os
import re
import subprocess
import sys
import warnings
import zipfile
import zlib

import click
import numpy as np
import polars as pl
import pytest
from rich.console import Console

import statewise as sw
from logs import make
from statewise.cli.harmless import PLAIN, Harmless, harmless
from statewise.cli.terminal import warnings_as_notes
from statewise.data.observations import table_text
from statewise.data.table import to_frame
from statewise.learning.runs import RunFolder, RunWarning

main_module = importlib.import_module("statewise.cli.main")  # the package has a function of that name
ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202eevil"


def failing(monkeypatch, error):
    """Every command raises this."""

    def main(*_, **__):
        raise error

    monkeypatch.setattr(main_module.group, "main", main)


def ended(monkeypatch, capsys, error):
    failing(monkeypatch, error)
    with pytest.raises(SystemExit) as stopped:
        main_module.main()
    return stopped.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (pl.exceptions.ComputeError("broken\nlong story"), "ComputeError: broken"),
        (pl.exceptions.ColumnNotFoundError("x"), "ColumnNotFoundError: x"),
        (pl.exceptions.PanicException("index out of bounds"), "PanicException: index out of bounds"),
        (np.linalg.LinAlgError("singular"), "singular"),
        (np.exceptions.AxisError("axis 3"), "axis 3"),
        (zipfile.BadZipFile("not a zip"), "BadZipFile: not a zip"),
        (zlib.error("bad data"), "error: bad data"),
        (csv.Error("field larger than limit"), "Error: field larger than limit"),
        (json.JSONDecodeError("Expecting value", "x", 0), "Expecting value: line 1 column 1 (char 0)"),
        (PermissionError(13, "Permission denied", "a.csv"), "a.csv: Permission denied"),
        (MemoryError("Unable to allocate 9 TiB"), "there is not enough memory (Unable to allocate 9 TiB); give a sma"),
        (RecursionError("maximum depth"), "something in a file is nested too deeply"),
        (EOFError("no data left"), "no data left"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "'utf-8' codec can't decode"),
        (OverflowError(""), "OverflowError"),
    ],
)
def test_what_files_and_machines_do_is_a_sentence_and_exit_code_2(monkeypatch, capsys, error, sentence):
    code, err = ended(monkeypatch, capsys, error)
    assert code == 2
    assert err.startswith(f"Error: {sentence}")
    assert "Traceback" not in err


def test_a_bug_says_that_it_is_one(monkeypatch, capsys):
    for error in (TypeError("no len()"), KeyError("seeds"), AssertionError(), AttributeError("x"), IndexError("y")):
        code, err = ended(monkeypatch, capsys, error)
        assert code == 1
        assert f"this is a bug in statewise or in a plugin, not a mistake on your part: {type(error).__name__}" in err
        assert "Please report it as CONTRIBUTING.md says" in err
        assert "Traceback" not in err
    monkeypatch.setenv("STATEWISE_TRACEBACK", "1")
    assert "Traceback" in ended(monkeypatch, capsys, TypeError("no len()"))[1]


def test_the_end_of_a_file_is_not_taken_for_control_d(monkeypatch, capsys):
    stopped = click.Abort()
    stopped.__cause__ = EOFError("No data left in file")
    assert ended(monkeypatch, capsys, stopped) == (2, "Error: a file ended too early (No data left in file)\n")
    assert ended(monkeypatch, capsys, click.Abort()) == (130, "Stopped.\n")


@pytest.mark.filterwarnings("always::statewise.learning.runs.RunWarning")
@pytest.mark.parametrize("contents", [b"", b"PK\x03\x04", b"\x93NUMPY"])
def test_a_run_whose_checkpoints_are_broken_starts_again_and_names_them(statewise, tmp_path, contents):
    make([5] * 20).save(tmp_path / "log.parquet")
    arguments = ("fit", tmp_path / "log.parquet", "--algorithm", "behaviour-cloning", "--updates", 2)
    assert statewise(*arguments, "--out", tmp_path / "run")[0] == 0
    folder = RunFolder.open(tmp_path / "run")
    states = sorted(folder.checkpoints.glob("state-*.npz"))
    learned = folder.learned().probabilities(np.zeros((1, 2)))
    for state in states:
        state.write_bytes(contents)
    code, _, err = statewise(*arguments, "--out", tmp_path / "run")
    assert code == 0
    assert err.count("note ") == err.count("it is damaged (File is not a zip file)") == len(states)
    assert err.count("learning resumes from the start") == 1
    np.testing.assert_array_equal(folder.learned().probabilities(np.zeros((1, 2))), learned)


def test_warnings_become_notes_that_do_not_obey_escapes(capsys):
    with warnings.catch_warnings(), warnings_as_notes():
        warnings.simplefilter("always")
        warnings.warn(f"run{ESCAPES}/state-1.npz: it is damaged", RunWarning, stacklevel=1)
    err = capsys.readouterr().err
    assert err.startswith("note  run\\x1b[2J\\x1b]0;owned")
    assert not set(err) & set("\x1b\x07\u202e")


def test_escapes_in_names_are_shown_and_not_obeyed(statewise, tmp_path):
    frame = to_frame(make([3] * 10)).rename({"obs_x1": f"obs_{ESCAPES}"})
    words = ["no", f"yes{ESCAPES}", "maybe"]
    frame = frame.with_columns(action=pl.Series([None if a is None else words[int(a)] for a in frame["action"]]))
    frame = frame.drop("propensity_0", "propensity_1", "propensity_2")
    frame.write_parquet(tmp_path / "log.parquet")
    code, out, err = statewise("inspect", tmp_path / "log.parquet")
    assert code == 0
    assert "yes\\x1b[2J\\x1b]0;owned\\u202eevil" in out  # rich itself leaves out the bell
    assert not set(out + err) & set("\x1b\x07\u202e")
    frame.with_columns(pl.lit(float("inf")).alias(f"obs_{ESCAPES}")).write_parquet(tmp_path / "log.parquet")
    for arguments in (
        ("inspect", tmp_path / "log.parquet"),
        ("fit", tmp_path / "log.parquet", "--out", tmp_path / "r"),
    ):
        code, out, err = statewise(*arguments)
        assert code == 2
        assert "\\x1b[2J" in out + err  # the column is named
        assert not set(out + err) & set("\x1b\x07\u202e")
    code, out, err = statewise("inspect", tmp_path / f"{ESCAPES}.csv")
    assert not set(out + err) & set("\x1b\x07\u202e")
    code, out, err = statewise(f"in{ESCAPES}")
    assert not set(out + err) & set("\x1b\x07\u202e")


def test_colours_of_our_own_stay():
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard", highlight=False)
    console.push_render_hook(Harmless())
    console.print(f"[green]fine[/green] {ESCAPES}\ttab")
    assert file.getvalue().startswith("\x1b[32mfine\x1b[0m \\x1b[2J\\x1b]0;owned\\u202eevil")
    assert harmless("a\nb\tc é γ") == "a\nb\tc é γ"


def test_an_ascii_console_gets_ascii(tmp_path):
    frame = to_frame(make([3] * 10)).rename({"obs_x1": "obs_größe"})
    frame.write_parquet(tmp_path / "log.parquet")
    # one process for both: to start one takes seconds
    code = (
        "import sys; from statewise.cli import main\n"
        f"for arguments in (['inspect', {str(tmp_path / 'log.parquet')!r}], ['inspect', 'é.csv'], ['fit', '--help']):\n"
        "    sys.argv = ['statewise', *arguments]\n"
        "    try: main()\n"
        "    except SystemExit as ended: print('code', ended.code or 0)"
    )
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert (done.stdout + done.stderr).isascii()
    assert re.findall(rb"code (\d)", done.stdout) == [b"0", b"2", b"0"], done.stderr
    assert b"ok log.parquet can be used" in done.stdout
    assert rb"groe\xdfe" in done.stdout
    assert b"####" in done.stdout
    assert b"e.csv: there is no such file" in done.stdout
    assert b"gamma [default" in done.stdout
    assert all(text.isascii() for text in PLAIN.values())


def test_answers_for_a_spreadsheet_hold_no_formulas(statewise, tmp_path, policy):
    assert table_text({"action": ["=cmd|' /C calc'!A0", "-1+1", "no"]}, as_json=False) == (
        "action\n'=cmd|' /C calc'!A0\n'-1+1\nno\n"
    )
    policy.save(tmp_path / "p.safetensors")
    pl.DataFrame({"a": [1.0], "b": [-2.0], "c": [0.5], "who": ["=HYPERLINK(1)"]}).write_parquet(tmp_path / "s.parquet")
    code, out, _ = statewise("act", tmp_path / "p.safetensors", tmp_path / "s.parquet", "--keep", "who,b")
    assert code == 0
    assert out.splitlines()[1].startswith("'=HYPERLINK(1),-2.0,")
    statewise("act", tmp_path / "p.safetensors", tmp_path / "s.parquet", "--keep", "who", "--out", tmp_path / "o.csv")
    assert "\n'=HYPERLINK(1)," in (tmp_path / "o.csv").read_text()
    assert sw.load_policy(tmp_path / "p.safetensors").action_names == policy.action_names


def test_serve_without_an_address_does_not_listen_on_all(run, tmp_path, policy):
    policy.save(tmp_path / "p.safetensors")
    for host in ("", " "):
        ended = run("serve", tmp_path / "p.safetensors", "--port", 0, "--host", host)
        assert ended.returncode == 2
        assert "--host: expected an address such as 127.0.0.1, got nothing" in ended.stderr


def test_where_metrics_cannot_be_written_nothing_is_learned(run, tmp_path):
    make([5] * 20).save(tmp_path / "log.parquet")
    taken = tmp_path / "taken"
    taken.write_text("")
    ended = run("fit", tmp_path / "log.parquet", "--out", tmp_path / "run", "--tensorboard", taken)
    assert ended.returncode == 2
    assert "taken: File exists" in ended.stderr
    assert not (tmp_path / "run").exists()


def test_a_size_beyond_all_numbers_is_as_much_as_there_is(run, tmp_path):
    make([5] * 20).save(tmp_path / "log.parquet")
    assert run("inspect", tmp_path / "log.parquet", "--memory", "9" * 400 + "GB").returncode == 0


def test_a_missing_reward_is_all_that_is_said_of_it(run, tmp_path):
    """Rows that hold only a final state are not taken for decisions without an action."""
    log = pl.DataFrame(
        {
            "episode": [0, 0, 0, 1, 1],
            "obs_x": [0.1, 0.2, 0.3, 0.4, 0.5],
            "action": [0, 1, None, 1, None],
            "propensity": [0.5, 0.5, None, 0.5, None],
            "truncated": [False, True, None, True, None],
            "terminated": [False, False, None, False, None],
        }
    )
    log.write_parquet(tmp_path / "log.parquet")
    ended = run("inspect", tmp_path / "log.parquet")
    assert ended.returncode == 2
    assert "cannot be used: 1 fault" in ended.stdout
    assert "reward: there is no such column" in ended.stdout


def test_a_token_file_that_is_none_is_named(run, tmp_path, policy):
    policy.save(tmp_path / "p.safetensors")
    (tmp_path / "token").write_bytes(b"\xff\xfe" * 20)
    ended = run("serve", tmp_path / "p.safetensors", "--port", 0, "--token-file", tmp_path / "token")
    assert ended.returncode == 2
    assert "token: expected a token of at least 16 letters, digits and signs" in ended.stderr


@pytest.mark.parametrize("closed", [1, 2])
def test_a_closed_stream_is_nothing_and_no_file_takes_its_place(closed, tmp_path):
    make([5] * 20).save(tmp_path / "log.parquet")
    script = """
import atexit, os
from statewise.cli import main
number = lambda: str(os.open("opened", os.O_WRONLY | os.O_CREAT))  # of a file that is opened after the start
atexit.register(lambda: open("number", "w").write(number()))
main()
"""
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}>&-', "sh", sys.executable, "-c", script, "inspect", "log.parquet"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0
    assert "Traceback" not in ended.stdout + ended.stderr
    assert int((tmp_path / "number").read_text()) > 2
    assert ("can be used" in ended.stdout) == (closed == 2)
