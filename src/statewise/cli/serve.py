"""`statewise serve`: a policy over HTTP."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import click

from statewise.cli.options import choose_option, needs, policy_at
from statewise.cli.types import FilePath

TOKEN = "STATEWISE_TOKEN"
SHORTEST, LONGEST = 16, 10_000  # characters of a token


@click.command(epilog="Example: statewise serve runs/cartpole --port 8000 --record decisions")
@click.argument("policy_path", metavar="POLICY", type=FilePath())
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free port.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; with 0.0.0.0 other machines can connect too: then use a token.",
)
@choose_option
@click.option(
    "--record",
    type=FilePath(file_okay=False),
    metavar="FOLDER",
    help="Record every decision in this folder, on disk before it is answered; outcomes are reported with POST "
    "/outcome, and `statewise record` makes a log of it.",
)
@click.option(
    "--token-file",
    type=FilePath(dir_okay=False, exists=True),
    help=f"Answer only those who send the token in this file, as 'Authorization: Bearer TOKEN' [default: the token in "
    f"the environment variable {TOKEN}, if set].",
)
@click.option(
    "--connections",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    help="The largest number of clients at a time.",
)
def command(
    policy_path: Path,
    port: int,
    host: str,
    choose,
    record: Path | None,
    token_file: Path | None,
    connections: int,
) -> None:
    """Serve POLICY (a file or a run folder): POST /act with observations gives actions and probabilities.

    GET /docs is a page to try it on, /card describes the policy, /health says whether it is up.
    """
    needs("serve", "fastapi", "fastapi_offline", "uvicorn")
    token = _token(token_file)
    policy, which = policy_at(policy_path)
    from statewise.policies.connections import Limits, run
    from statewise.policies.record import Recorder
    from statewise.policies.serve import application

    with _listen(host, port) as listening:
        address, chosen = listening.getsockname()[:2]
        recorder = None if record is None else Recorder(record, policy)
        click.echo(
            f"Serving {policy_path} ({which}) on http://{address}:{chosen}; try it at http://{address}:{chosen}/docs"
        )
        if record is not None:
            click.echo(f"Decisions are recorded in {record}")
        run(application(policy, choose, recorder, token), listening, Limits(connections=connections))


def _token(file: Path | None) -> str | None:
    source = TOKEN if file is None else str(file)
    token = os.environ.get(TOKEN) if file is None else file.read_bytes()[:LONGEST].decode("utf-8", "replace").strip()
    if token is None:
        return None
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        hint = None if file is None else "--token-file"
        raise click.BadParameter(
            f"{source}: expected a token of at least {SHORTEST} letters, digits and signs", param_hint=hint
        )
    return token


def _listen(host: str, port: int) -> socket.socket:
    if not host.strip():  # "$HOST" where it is not set; sockets take that for all addresses of the machine
        raise click.BadParameter("expected an address such as 127.0.0.1, got nothing", param_hint="--host")
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        # without this every answer waits 40 ms for the client's acknowledgement
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        reason = error.strerror or str(error)
        raise click.ClickException(
            f"cannot listen on {host}:{port} ({reason}); choose another --port or --host"
        ) from error
