"""`statewise`: one command a file; every mistake is answered by one clear sentence and exit code 2."""

from __future__ import annotations

import _thread
import difflib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import click

from statewise.cli.flags import with_flags

# Each command is imported when it is called, so that `--help` and `inspect` do not wait for JAX.
COMMANDS = {
    "act": "Say what a policy does in each row of a table.",
    "bench": "Time an update beside PyTorch.",
    "behaviour": "Make the policies that write the HIV logs.",
    "collect": "Write a log of simulated decisions.",
    "evaluate": "Say what a policy is worth, and whether to deploy it.",
    "export": "Write a policy for other programs: ONNX, or plain Python.",
    "fit": "Learn policies from a log.",
    "improve": "From a log to a decision: learn, choose, judge, report.",
    "inspect": "Check a log and say what it holds.",
    "report": "Write a run's report: one page, the answer first.",
    "reproduce": "Run the paper's experiments again.",
    "score": "Play a run's policies in a simulator.",
    "serve": "Answer over HTTP what a policy does.",
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            near = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"there is no command '{cmd_name}'.{hint}")
        found = import_module(f"statewise.cli.{cmd_name}").command
        found.name = cmd_name  # every module calls its own `command`
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="statewise")
def group() -> None:
    """From logged decisions to a better policy you can trust."""


def main() -> None:
    """Runs the command line; what the user can mend ends with a sentence and exit code 2, never a traceback."""
    try:
        with _interruptible():
            code = group.main(standalone_mode=False)  # None, or the code a command ended with
        sys.exit(code)
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except click.Abort:
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except (click.ClickException, ValueError, OSError, ImportError, ArithmeticError) as error:
        click.echo(f"Error: {with_flags(_sentence(error))}", err=True)
        sys.exit(2)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Control-C that comes while Python runs a finaliser or a callback of JAX's is dropped there: it comes again."""
    told = sys.unraisablehook

    def again(dropped) -> None:
        if isinstance(dropped.exc_value, KeyboardInterrupt):
            threading.Timer(0.05, _thread.interrupt_main).start()
        else:
            told(dropped)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = told


def _sentence(error: Exception) -> str:
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
