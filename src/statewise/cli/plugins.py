"""`--plugin MODULE`: a user's module is imported first, so that what it registers can be used by name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path

import click


def import_plugin(name: str) -> None:
    """Imports a module by its dotted name, where the current folder counts too, or by the path of its .py file."""
    try:
        if name.endswith(".py"):
            _import_file(Path(name))
        else:
            _import_module(name)
    except click.ClickException:
        raise
    except (Exception, SystemExit) as error:
        raise click.ClickException(f"the plugin '{name}' failed on import: {_reason(error)}") from error


def _import_module(name: str) -> None:
    _importable(Path.cwd())
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the plugin is there, and what it imports is not
        raise click.ClickException(
            f"there is no plugin '{name}': give the name of a module that can be imported from here, or the path of a "
            ".py file"
        ) from error


def _import_file(path: Path) -> None:
    path = path.resolve()
    if not path.is_file():
        raise click.ClickException(f"there is no plugin '{path}': no such file")
    loaded = sys.modules.get(path.stem)
    if loaded is not None:
        if Path(getattr(loaded, "__file__", None) or "").resolve() == path:
            return
        raise click.ClickException(f"the plugin '{path}' has the name of another module; rename the file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    _importable(path.parent)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise


def _importable(folder: Path) -> None:
    """At the end: a file there does not hide a library of its name."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()


def _reason(error: BaseException) -> str:
    """The error and the module's line that it came from, in one line."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == "<module>"]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"


def _load(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> None:
    for name in names:
        import_plugin(name)


# eager: what a plugin registers is there when the other options are read
PLUGIN = click.Option(
    ["--plugin"],
    metavar="MODULE",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=_load,
    help="First import a module or .py file that registers commands, algorithms, estimators, domains … of your own.",
)


def with_plugins(command: click.Command) -> click.Command:
    """The command with the option --plugin."""
    if not any("--plugin" in param.opts for param in command.params):
        command.params.append(PLUGIN)
    return command
