"""The library speaks of parameters, the command line of flags, and what it advises can be typed as it stands."""

import ast
import json
import re
import shlex
from pathlib import Path

import pytest

import statewise
import statewise.cli
from statewise.cli.flags import FLAGS, with_flags
from statewise.cli.options import log_options

SOURCE = Path(statewise.__file__).parent
# these print or parse command lines: the studies' own, the one a results page was made by, git's and XLA's
COMMAND_LINES = {"experiments/run.py", "experiments/results_page.py", "experiments/provenance.py"}
COMMAND_LINES |= {"experiments/processes.py"}
COMMAND_LINES |= {"experiments/safe/run.py", "studio/runs.py"}  # the latter starts one
FLAG = re.compile(r"(?<!var\()--[a-z]")  # var(--name) is CSS


def literals(path):
    """Every string in a file; what an f-string fills in is an x."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)


def test_no_message_of_the_library_speaks_of_flags():
    files = {str(path.relative_to(SOURCE)): path for path in SOURCE.rglob("*.py")}
    files = {name: path for name, path in files.items() if not name.startswith("cli/") and name not in COMMAND_LINES}
    assert len(files) > 100
    spoken = [(name, line, text) for name, path in files.items() for line, text in literals(path) if FLAG.search(text)]
    assert spoken == []


@pytest.mark.parametrize("text", ["'--actions'", "'say (--ends terminated)'", "f'name it with --{name}-column'"])
def test_the_search_would_see_one(text, tmp_path):
    (tmp_path / "module.py").write_text(f"raise ValueError({text})")
    assert any(FLAG.search(found) for _, found in literals(tmp_path / "module.py"))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("`propensity='estimate'`", "--propensity estimate"),
        ('`propensity="estimate"`', "--propensity estimate"),
        ("`ends='terminated'`; else `ends='truncated'`", "--ends terminated; else --ends truncated"),
        ("`actions=4`", "--actions 4"),
        ("`actions=...`", "--actions"),
        ("`actions=('no', 'yes')`", "--actions no,yes"),
        ("`actions=('Drug A', 'B, C')`", "--actions 'Drug A,\"B, C\"'"),
        ("`Columns(observations=('age',))`", "--observations age"),
        ("`Columns(reward=...)`", "--reward-column"),
        ("`Columns(target_prefix='target_')`", "--target-columns"),
    ],
)
def test_parameters_become_flags(message, said):
    assert with_flags(f"Say {message}.") == f"Say {said}."


@pytest.mark.parametrize(
    "text", ["`minari list local`", "`colour='red'`", "`actions=('a`", "it costs 3=3", "`actions=x`"]
)
def test_other_text_stays(text):
    assert with_flags(text) == text


def test_every_flag_is_one_of_the_commands():
    options = {flag for parameter in log_options(lambda: None).__click_params__ for flag in parameter.opts}
    assert set(FLAGS.values()) - {"--target-columns"} <= options


# What is advised, typed

STATE = ["--observations", "age,weight"]
LEGAL = "action,reward,propensity,terminated,legal_0,legal_1"


def log(names="action,reward,propensity,terminated", actions=("0", "1"), masks=""):
    rows = [f"{e},{t},{30 + e},{70 + t},{actions[(e + t) % 2]},{t},0.5,{t}{masks}" for e in range(4) for t in range(2)]
    return "\n".join([f"episode,step,age,weight,{names}", *rows])


def run(capsys, monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["statewise", "inspect", *map(str, arguments), "--json"])
    with pytest.raises(SystemExit) as ended:
        statewise.cli.main()
    return ended.value.code or 0, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("text", "given", "advised"),
    [
        (log("action,reward,odds,terminated"), STATE, "--propensity estimate"),
        (log("action,reward,p_given,terminated"), STATE, "--propensity-column p_given"),
        (log("action,reward,propensity,over"), STATE, "--ends terminated"),
        (log("remedy,reward,propensity,terminated"), STATE, "--action-column remedy"),
        (log(LEGAL, ("no", "yes"), ",1,1"), STATE, "--actions no,yes"),
    ],
)
def test_advice_of_the_command_line_helps(text, given, advised, tmp_path, capsys, monkeypatch):
    (tmp_path / "log.csv").write_text(text)
    code, told = run(capsys, monkeypatch, tmp_path / "log.csv", *given)
    assert code == 2
    (fault,) = told["faults"]
    flag, *value = shlex.split(advised)
    assert (advised if "column" not in flag else flag) in fault["advice"]
    assert "`" not in fault["advice"]
    code, told = run(capsys, monkeypatch, tmp_path / "log.csv", *given, flag, *value)
    assert told["faults"] == []
    assert code == 0
