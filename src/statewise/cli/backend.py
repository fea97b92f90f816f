"""`--backend ray --address …`: where the parts of a command's work are computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click


def backend_options(command: Callable) -> Callable:
    """Runs the command's work on a Ray cluster where that is asked for; what it prints is the same."""

    @wraps(command)
    def placed(*arguments: Any, backend: str, address: str | None, **options: Any) -> Any:
        if backend == "local":
            if address is not None:
                raise click.UsageError("--address needs --backend ray")
            return command(*arguments, **options)
        from statewise.cluster import on_ray

        with on_ray(address):
            return command(*arguments, **options)

    wrapped = click.option(
        "--address", metavar="HOST:PORT", help="A running Ray cluster, or auto [default: one on this machine alone]."
    )(placed)
    return click.option(
        "--backend",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="Where the work is done: in this process, or by a Ray cluster (pip install 'statewise[ray]').",
    )(wrapped)
