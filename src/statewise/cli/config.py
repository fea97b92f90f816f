"""`--config FILE`: a command's options from a TOML file; flags count more."""

from __future__ import annotations

import csv
import difflib
import io
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click

from statewise.cli.types import FilePath
from statewise.data.rawlog import NAMED, Columns
from statewise.data.schema import Schema
from statewise.learning.settings import read_settings

NOT_IN_FILES = ("config", "plugin", "help", "config_file")


def config_option(also: Collection[str] = ()) -> Callable[[Callable], Callable]:
    """Adds --config; the entries `also` are no options, and are handed to the command as a dict."""

    def read(ctx: click.Context, param: click.Parameter, path: Path | None) -> dict[str, Any]:
        given = {} if path is None else read_settings(path)
        options = _options(ctx.command)
        for name in given:
            if name not in options and name not in also:
                near = difflib.get_close_matches(name, [*options, *also], n=1)
                hint = f"did you mean '{near[0]}'?" if near else f"`statewise {ctx.command.name} --help` lists them"
                raise click.ClickException(f"{path}: {ctx.command.name} has no option '{name}'; {hint}")
        own = {options[name].name: _text(options[name], value) for name, value in given.items() if name in options}
        ctx.default_map = {**(ctx.default_map or {}), **own}
        return {name: value for name, value in given.items() if name in also}

    table = " and a table [settings]" if "settings" in also else ""
    return click.option(
        "--config",
        type=FilePath(),
        is_eager=True,  # before the options whose defaults it gives
        expose_value=bool(also),
        callback=read,
        help=f"TOML file with these options{table}, as `inspect --write-config` writes it; flags take precedence.",
    )


def write_config(schema: Schema) -> str:
    """The options that read a log as it was read."""
    columns, usual = schema.columns, Columns()
    named = {role: getattr(columns, role) for role in NAMED}
    lines: dict[str, Any] = {f"{role}_column": name for role, name in named.items() if name != getattr(usual, role)}
    if columns.observations is not None:
        lines["observations"] = list(columns.observations)
    lines |= {"words": list(columns.words), "order": [f"{name}={_joined(words)}" for name, words in columns.orders]}
    lines |= {"actions": list(schema.actions or ()), "ends": schema.ends, "cut_off": schema.cut_off}
    lines |= {"horizon": schema.horizon, "propensity": None if schema.propensity == "logged" else "estimate"}
    # a TOML string, number or list of strings is written as JSON writes it
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in lines.items() if value)


def _options(command: click.Command) -> dict[str, click.Option]:
    """By the name in a file: that of the flag, with underscores."""
    named = {}
    for param in command.params:
        if isinstance(param, click.Option) and param.name not in NOT_IN_FILES:
            long = next(flag for flag in param.opts if flag.startswith("--"))
            named[long.removeprefix("--").replace("-", "_")] = param
    return named


def _text(option: click.Option, value: Any) -> Any:
    """A list as a flag takes it: A,B,C, unless the flag may be repeated."""
    if isinstance(value, list):
        return [str(each) for each in value] if option.multiple else _joined(value)
    return [value] if option.multiple else value


def _joined(values: Collection[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
