"""`statewise studio`: a page on this machine, for people without a terminal."""

from __future__ import annotations

import socket
import webbrowser
from pathlib import Path
from typing import Any

import click

from statewise.base.lock import FolderInUse, locked
from statewise.cli.config import write_config
from statewise.cli.options import needs
from statewise.cli.types import FilePath
from statewise.learning.settings import read_settings

HOST = "127.0.0.1"  # never another: there are logs here


@click.command(epilog="Example: statewise studio --folder clinic")
@click.option(
    "--folder",
    type=FilePath(file_okay=False),
    default=Path("statewise-studio"),
    show_default=True,
    help="Where logs and runs are kept; a studio that is started on it again carries on.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8008, show_default=True, help="0: any free port.")
@click.option("--open/--no-open", "open_browser", default=True, show_default=True, help="Open the page in a browser.")
@click.option(
    "--config",
    type=FilePath(dir_okay=False, exists=True),
    help="TOML file with options and settings of `improve` for every run.",
)
def command(folder: Path, port: int, open_browser: bool, config: Path | None) -> None:
    """Open a page to drop a log on: see its columns, start, watch, read the report, try the policy.

    It answers to this machine alone, and nothing leaves it. All that counts lies in the folder: if the studio is
    stopped or killed, start it again on the same folder, and it goes on.
    """
    needs("studio", "fastapi", "uvicorn")
    settings: dict[str, Any] = {} if config is None else read_settings(config)
    from statewise.policies.connections import Limits, run
    from statewise.studio.app import application
    from statewise.studio.folder import StudioFolder

    place = StudioFolder.create(folder)
    try:
        with locked(place.path), _listen(port) as listening:
            link = f"http://{HOST}:{listening.getsockname()[1]}/?key={place.key()}"
            click.echo(f"The studio is open on this machine: {link}\nFolder: {place.path}\nStop it with Control-C.")
            if open_browser:
                webbrowser.open(link)
            run(application(place, write_config, settings), listening, Limits(request=3600, response=3600))
    except FolderInUse:
        raise click.ClickException(f"{folder}: another studio is open on this folder; use that one") from None


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        reason = error.strerror or str(error)
        raise click.ClickException(f"cannot listen on port {port} ({reason}); choose another --port") from error
