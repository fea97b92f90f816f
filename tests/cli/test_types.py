"""Kinds of values: names that are looked up when an option is read, and times."""

import click
import pytest
from click.testing import CliRunner

from statewise.base.registry import Registry
from statewise.cli.commands import COMMANDS
from statewise.cli.types import Duration, FilePath, RegisteredName, listed


@pytest.fixture
def colours():
    return Registry("colour", {"red": "colours:RED"})  # a module that is not there: names alone are asked for


@pytest.fixture
def paint(colours):
    @click.command()
    @click.argument("first", type=RegisteredName(colours))
    @click.option("--colour", type=RegisteredName(colours, also=("any",)), default="any", show_default=True)
    def paint(first, colour):
        click.echo(f"{first} {colour}")

    return lambda *arguments: CliRunner().invoke(paint, arguments)


def test_a_name_that_is_added_later_is_a_choice(paint, colours):
    assert paint("red").output == "red any\n"
    refused = paint("blue")
    assert refused.exit_code == 2
    assert "Invalid value for '{red}': there is no colour 'blue'; choose from red\n" in refused.output
    colours.add("blue", 255)
    assert paint("blue", "--colour", "red").output == "blue red\n"
    assert (
        "there is no colour 'blu'; did you mean 'blue'? choose from any, red, blue"
        in paint("red", "--colour", "blu").output
    )


def test_help_lists_the_names_of_the_moment(paint, colours):
    assert "{red}" in paint("--help").output
    colours.add("blue", 255)
    shown = paint("--help").output
    assert "{red|blue}" in shown
    assert "--colour [any|red|blue]" in shown
    assert "[default: any]" in shown


def test_any_collection_of_names_will_do():
    kind = RegisteredName(("a", "b"), "letter")
    assert kind.convert("b", None, None) == "b"
    with pytest.raises(click.BadParameter, match="there is no letter 'c'; choose from a, b"):
        kind.convert("c", None, None)
    assert [item.value for item in RegisteredName(("ab", "b"), "letter").shell_complete(None, None, "a")] == ["ab"]


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1.5 h", 5400)])
def test_times(text, seconds):
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5m", "5 days", "m"])
def test_what_is_not_a_time(text):
    with pytest.raises(click.BadParameter, match="expected a time such as 90s, 5m or 1h, got"):
        Duration().convert(text, None, None)


def test_listed_names_may_hold_commas():
    assert listed('a, b,"c, d"') == ("a", "b", "c, d")


def test_no_name_is_not_the_working_folder(run):
    """What a shell makes of "$LOG" where LOG is not set: a folder's own logs must not be read in its place."""
    for arguments in (("inspect", ""), ("fit", "log.csv", "--out", " "), ("certify", "", "log.csv"), ("report", "")):
        ended = run(*arguments)
        assert ended.returncode == 2
        assert "expected the name of a file or folder, got nothing" in ended.stderr
    for name, entry in COMMANDS.items():
        paths = [param for param in entry.load(name).params if isinstance(param.type, click.Path)]
        assert all(isinstance(param.type, FilePath) for param in paths), name
