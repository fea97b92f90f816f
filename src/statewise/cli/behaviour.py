"""`statewise behaviour`: make the policies that write the HIV logs."""

from __future__ import annotations

from pathlib import Path

import click

from statewise.cli.options import seed_option, writable
from statewise.cli.progress import bar
from statewise.domains.actor_critic import READINGS, train
from statewise.domains.hiv import HIV


@click.command(epilog="Example: statewise behaviour hiv --out hiv.safetensors")
@click.argument("reading", type=click.Choice(list(READINGS)))
@seed_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="A .safetensors file.")
def command(reading: str, seed: int, out: Path) -> None:
    """Train the policy behind a log of HIV treatment, on the simulator.

    The files that come with the package were made by this command; it takes a few minutes.
    """
    writable(out)
    wanted = READINGS[reading]
    with bar(f"training {reading}", wanted.iterations) as progress:
        policy = train(
            HIV,
            wanted.target,
            wanted.discounted,
            seed,
            wanted.iterations,
            progress=lambda iteration, _: progress(iteration),
        )
    policy.save(out)
    kind = "discounted" if wanted.discounted else "undiscounted"
    click.echo(f"Wrote {out}: with its noise it earns {policy.card['behaviour_return']:.3g} ({kind}, raw)")
