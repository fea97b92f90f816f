"""A user's module registers what it likes, and `--plugin` makes it known by name in that call."""

import sys

import pytest

from statewise.cli import COMMANDS
from statewise.policies.exports import EXPORTS

TOY = '''
import click
import numpy as np

from statewise.cli import COMMANDS, Entry
from statewise.policies.exports import EXPORTS, Export


@click.command(epilog="Example: statewise hello --name you")
@click.option("--name", default="world")
def hello(name):
    """Say hello."""
    click.echo(f"Hello, {name}.")


COMMANDS.add("hello", Entry("Say hello.", hello))
EXPORTS.add("table", Export(".txt", lambda policy, name: str(policy.mean.tolist()).encode(), lambda contents, seen: 0))
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with toy.py in it; what plugins leave behind is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    for registry in (COMMANDS, EXPORTS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    (tmp_path / "toy.py").write_text(TOY)
    yield tmp_path
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) and sys.modules[name].__file__.startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("plugin", ["toy", "toy.py", "./toy.py", "inner/toy.py", "inner.toy"])
def test_a_plugin_s_command_is_a_command(plugin, folder, statewise):
    (folder / "inner").mkdir()
    (folder / "inner" / "toy.py").write_text(TOY)
    assert statewise("--plugin", plugin, "hello", "--name", "you") == (0, "Hello, you.\n", "")


def test_a_plugin_s_command_is_listed(folder, statewise):
    assert "hello" not in statewise("--help")[1]
    code, out, _ = statewise("--plugin", "toy", "--help")
    assert code == 0
    everyday, research = out.split("For research:")
    assert "hello Say hello." in " ".join(everyday.split())
    assert "hello" not in research
    assert "Example: statewise hello" in statewise("--plugin", "toy", "hello", "--help")[1]


def test_everyday_commands_come_first(statewise):
    everyday, research = statewise("--help")[1].split("For research:")
    commands = [line.split()[0] for line in everyday.split("Commands:")[1].splitlines() if line.strip()]
    first = ["inspect", "improve", "studio", "evaluate", "certify", "fit"]
    assert commands == [*first, "act", "serve", "record", "export", "report"]
    others = [line.split()[0] for line in research.splitlines() if line.strip()]
    assert others == ["collect", "rounds", "score", "reproduce"]


def test_a_name_can_be_used_in_options_before_the_plugin_is_named(folder, policy, statewise):
    """The plugin is imported before any other option is read, wherever it stands."""
    policy.save("p.safetensors")
    call = ("export", "p.safetensors", "--format", "table", "--out", "p.txt")
    code, _, err = statewise(*call)
    assert code == 2
    assert "Invalid value for '--format': there is no export format 'table'; choose from onnx, numpy" in err
    code, _, err = statewise(*call, "--plugin", "toy.py")
    assert code == 2  # the format was found, and what it writes compared
    assert "the table file differs from the policy by" in err
    assert "[onnx|numpy|table]" in statewise("export", "--plugin", "toy", "--help")[1]


def test_plugins_may_be_many_and_the_same(folder, statewise):
    (folder / "other.py").write_text(TOY.replace('"hello"', '"hi"').split("EXPORTS.add")[0])
    code, out, err = statewise(
        "--plugin", "toy", "--plugin", "other.py", "--plugin", "./toy.py", "hi", "--plugin", "toy"
    )
    assert (code, out, err) == (0, "Hello, world.\n", "")


def test_a_plugin_s_command_needs_the_plugin_before_it(folder, statewise):
    code, _, err = statewise("hello", "--plugin", "toy")
    assert code == 2
    assert "there is no command 'hello'; " in err
    assert "for a command that a plugin adds, write --plugin before it" in err


@pytest.mark.parametrize(
    ("plugin", "text", "sentence"),
    [
        ("absent", None, "there is no plugin 'absent': give the name of a module that can be imported from here, or"),
        ("inner.absent", None, "there is no plugin 'inner.absent': "),
        ("absent.py", None, "absent.py': no such file"),
        ("bad.py", "x = 1\nx / 0\n", "'bad.py' failed on import: ZeroDivisionError: division by zero (bad.py, line 2)"),
        ("bad", "import nothing_of_that_name", "failed on import: ModuleNotFoundError: No module named 'nothing_of_"),
        ("bad", "def :", "the plugin 'bad' failed on import: SyntaxError: invalid syntax (bad.py, line 1)"),
        (
            "bad",
            "raise SystemExit('no more')",
            "the plugin 'bad' failed on import: SystemExit: no more (bad.py, line 1)",
        ),
        ("bad", TOY.replace('"hello"', '"fit"'), "there is already a command called 'fit' (bad.py, line 16)"),
        ("json.py", "x = 1", "json.py' has the name of another module; rename the file"),
        ("", None, "the plugin '' failed on import: ValueError: Empty module name"),
    ],
)
@pytest.mark.parametrize("place", ["group", "command"])
def test_a_plugin_that_fails_is_a_sentence(plugin, text, sentence, place, folder, statewise):
    if text is not None:
        (folder / (plugin.removesuffix(".py") + ".py")).write_text(text)
    given = ("--plugin", plugin)
    code, out, err = (
        statewise(*given, "inspect", "x.csv") if place == "group" else statewise("inspect", "x.csv", *given)
    )
    assert code == 2
    assert out == ""
    assert sentence in err
    assert "Traceback" not in err
