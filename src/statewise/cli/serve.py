"""`statewise serve`: a policy over HTTP."""

from __future__ import annotations

import socket
from pathlib import Path

import click

from statewise.cli.options import choose_option, needs, policy_at


@click.command(epilog="Example: statewise serve runs/cartpole --port 8000")
@click.argument("policy_path", metavar="POLICY", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free port.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; with 0.0.0.0 other machines can ask too; there is no authentication.",
)
@choose_option
def command(policy_path: Path, port: int, host: str, choose) -> None:
    """Serve POLICY (a file or a run folder): POST /act with observations gives actions and probabilities.

    GET /docs is a page to try it on, /card describes the policy, /health says whether it is up.
    """
    needs("serve", "fastapi", "fastapi_offline", "uvicorn")
    policy, which = policy_at(policy_path)
    import uvicorn

    from statewise.policies.serve import application

    with _listen(host, port) as listening:
        address, chosen = listening.getsockname()[:2]
        click.echo(
            f"Serving {policy_path} ({which}) on http://{address}:{chosen}; try it at http://{address}:{chosen}/docs"
        )
        config = uvicorn.Config(application(policy, choose), log_level="warning")
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        # without this every answer waits 40 ms for the client's acknowledgement
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        reason = error.strerror or str(error)
        raise click.ClickException(f"cannot listen on {host}:{port} ({reason}); choose another --port") from error
