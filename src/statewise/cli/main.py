"""`statewise`: one command per file; every mistake is answered by one clear sentence and exit code 2."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from statewise.base.registry import unknown_name
from statewise.cli.commands import COMMANDS
from statewise.cli.flags import with_flags
from statewise.cli.plugins import PLUGIN, with_plugins
from statewise.cli.terminal import warnings_as_notes

SECTIONS = {"everyday": "Commands", "research": "For research"}


class LazyGroup(click.Group):
    """The registered commands, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return with_plugins(COMMANDS[cmd_name].load(cmd_name)) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: click.Context, args: list[str]):
        if args[0] not in COMMANDS:
            late = any(arg.split("=")[0] == "--plugin" for arg in args)
            hint = "; for a command that a plugin adds, write --plugin before it" if late else ""
            ctx.fail(f"{unknown_name('command', args[0], COMMANDS)}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        entries = COMMANDS.items()
        for section, title in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.summary) for name, entry in entries if entry.section == section])


@click.group(cls=LazyGroup, params=[PLUGIN], context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="statewise")
def group() -> None:
    """From logged decisions to a better policy you can trust."""


def main() -> None:
    """Runs the command line; what the user can fix ends with a sentence and exit code 2, never a traceback."""
    try:
        with _interruptible(), warnings_as_notes():
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
    """Raises Control-C again where Python dropped it, inside a finaliser or a callback of JAX's."""
    usual = sys.unraisablehook

    def again(dropped) -> None:
        if isinstance(dropped.exc_value, KeyboardInterrupt):
            threading.Timer(0.05, _thread.interrupt_main).start()
        else:
            usual(dropped)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = usual


def _sentence(error: Exception) -> str:
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
