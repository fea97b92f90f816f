"""`--config` takes what flags take, in every command that reads a log, and flags count more."""

import json

import click
import pytest

from logs import make
from statewise.cli.commands import COMMANDS
from statewise.cli.config import _options


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make([3] * 20).save("log.csv")
    return tmp_path


def inspected(run, *flags):
    ended = run("inspect", "log.csv", *flags, "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_options_in_a_file_are_as_good_as_flags(place, run):
    (place / "log.toml").write_text('observations = ["obs_x1"]\nhorizon = 2\ncut_off = "limit"\njson = true\n')
    by_file = json.loads(run("inspect", "log.csv", "--config", "log.toml").stdout)
    by_flags = inspected(run, "--observations", "obs_x1", "--horizon", "2", "--cut-off", "limit")
    assert by_file == by_flags
    assert by_file["summary"]["reading"]["horizon"] == 2
    assert list(by_file["summary"]["observations"]) == ["x1"]
    overruled = inspected(run, "--config", "log.toml", "--horizon", "1")
    assert overruled["summary"]["reading"]["horizon"] == 1


@pytest.mark.parametrize("name", ["inspect", "fit", "evaluate", "improve"])
@pytest.mark.parametrize(("text", "words"), [
    ("actoins = 3", "has no option 'actoins'; did you mean 'actions'?"),
    ("colour = 3", "has no option 'colour'; `statewise {name} --help` lists them"),
    ("actions", "log.toml: not a TOML file"),
])  # fmt: skip
def test_what_is_no_option_is_refused_in_a_sentence(name, text, words, place, run):
    (place / "log.toml").write_text(text)
    more = {"fit": ["--out", "run"], "evaluate": ["log.csv"]}.get(name, [])
    ended = run(name, "log.csv", *more, "--config", "log.toml")
    assert ended.returncode == 2
    assert words.format(name=name) in ended.stderr
    assert "Usage" not in ended.stderr


def test_every_option_of_a_command_has_a_name_in_files():
    for name in ("inspect", "fit", "evaluate", "improve"):
        command = COMMANDS[name].load(name)
        flags = {param.name for param in command.params if isinstance(param, click.Option)}
        known = {option.name for option in _options(command).values()}
        assert flags - known <= {"config", "plugin", "config_file"}


def test_orders_and_names_that_hold_commas_come_back_from_a_written_file(place, run):
    rows = ["stay,step,pain,ward,drug,reward,propensity,done"]
    for e, t in [(e, t) for e in range(20) for t in range(2)]:
        pain, drug = ("low", "high")[(e + t) % 2], ('"a, b"', "c")[e % 2]
        rows.append(f"{e},{t},{pain},{e % 3},{drug},{t},0.5,{t}")
    (place / "log.csv").write_text("\n".join(rows))
    first = inspected(run, "--order", "pain=low,high", "--words", "ward", "--write-config", "log.toml")
    assert first["summary"]["observations"].keys() == {"pain", "ward=0", "ward=1", "ward=2"}
    again = inspected(run, "--config", "log.toml")
    assert again["summary"]["fingerprint"] == first["summary"]["fingerprint"]
    assert [action["name"] for action in again["summary"]["actions"]] == ["a, b", "c"]


@pytest.mark.parametrize("given", ["pain", "pain=low", "=low,high", "pain=low,low"])
def test_an_order_that_is_none(given, place, run):
    ended = run("inspect", "log.csv", "--order", given)
    assert ended.returncode == 2
    assert "expected a column and its words in order, such as pain=low,mid,high" in ended.stderr
