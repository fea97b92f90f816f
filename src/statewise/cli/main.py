"""`statewise`: one command per file; every mistake is answered by one clear sentence and exit code 2."""

from __future__ import annotations

import _thread
import io
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

from statewise.base.registry import unknown_name
from statewise.cli.commands import COMMANDS
from statewise.cli.flags import with_flags
from statewise.cli.harmless import harmless, speak_plainly
from statewise.cli.plugins import PLUGIN, with_plugins
from statewise.cli.terminal import warnings_as_notes

# What a log, a file, a setting or the machine can cause; anything else is a bug.
USER_ERRORS = (
    click.ClickException, ValueError, OSError, ImportError, ArithmeticError, EOFError, MemoryError, RecursionError,
)  # fmt: skip
LIBRARIES = ("polars", "pyo3_runtime", "numpy", "zipfile", "zlib", "json", "struct", "_csv", "onnxruntime")
TRACEBACK = "STATEWISE_TRACEBACK"
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
    """From logged decisions to a better policy you can trust.

    Begin with `statewise inspect log.csv`, then `statewise improve log.csv`. Every command has --help, with an example.
    """


def main() -> None:
    """Runs the command line; what the user can fix ends with a sentence and exit code 2, never a traceback."""
    _open_closed_streams()
    speak_plainly()
    try:
        with _interruptible(), warnings_as_notes():
            code = group.main(standalone_mode=False)  # None, or the code a command ended with
            sys.stdout.flush()  # a full disk is noticed here, if not before
        sys.exit(code)
    except click.UsageError as error:
        shown = io.StringIO()
        error.show(shown)
        click.echo(harmless(shown.getvalue()), nl=False, err=True)
        sys.exit(2)
    except click.Abort as stopped:
        if isinstance(stopped.__cause__, EOFError):  # click takes the end of any file for Control-D
            _end(f"a file ended too early ({stopped.__cause__})")
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except (Exception, *_panics()) as error:
        if isinstance(error, USER_ERRORS) or type(error).__module__.split(".")[0] in LIBRARIES:
            _end(with_flags(_sentence(error)))
        _end(_bug(error), code=1)


def _open_closed_streams() -> None:
    """Nothing in the place of standard streams that whoever started this had closed, as some daemons do.

    Otherwise a policy that is written next would become the standard error, and hold what libraries write to that.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 - until the end


def _end(sentence: str, code: int = 2) -> NoReturn:
    if os.environ.get(TRACEBACK):
        traceback.print_exc()
    click.echo(f"Error: {harmless(sentence)}", err=True)
    _give_up_output()
    sys.exit(code)


def _give_up_output() -> None:
    """What could not be written, to a full disk say, is not tried again after the end, where Python would complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _panics() -> tuple[type[BaseException], ...]:
    """What polars raises where its own code breaks, which is no Exception; nothing where polars was not loaded."""
    known = sys.modules.get("polars.exceptions")
    return () if known is None else (known.PanicException,)


def _bug(error: BaseException) -> str:
    """Names the mistake as ours, and the place of it in the package."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "statewise" in frame.filename] or frames
    place = f"{Path(ours[-1].filename).name}, line {ours[-1].lineno}"
    what = f"{type(error).__name__}: {error} ({place})"
    return (
        f"this is a bug in statewise or in a plugin, not a mistake on your part: {what}. "
        f"Please report it as CONTRIBUTING.md says; {TRACEBACK}=1 before the command shows the whole traceback"
    )


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


def _sentence(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return f"there is not enough memory{f' ({error})' if str(error) else ''}; give a smaller log or file"
    if isinstance(error, RecursionError):
        return "something in a file is nested too deeply"
    if isinstance(error, USER_ERRORS):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason given'}"
