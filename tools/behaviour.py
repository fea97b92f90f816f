"""Trains the policies that write the HIV logs: src/statewise/domains/weights/{hiv,hiv-weak}.safetensors.

    python tools/behaviour.py hiv --out hiv.safetensors

Training on the simulator takes a few minutes.
"""

from __future__ import annotations

from pathlib import Path

import click

from actor_critic import READINGS, train
from statewise.cli.options import seed_option, writable
from statewise.cli.progress import bar
from statewise.domains.hiv import HIV


@click.command()
@click.argument("reading", type=click.Choice(list(READINGS)))
@seed_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="A .safetensors file.")
def main(reading: str, seed: int, out: Path) -> None:
    """Train the policy behind a log of HIV treatment."""
    writable(out)
    goal = READINGS[reading]
    with bar(f"training {reading}", goal.iterations) as progress:
        policy = train(
            HIV,
            goal.target,
            goal.discounted,
            seed,
            goal.iterations,
            progress=lambda iteration, _: progress(iteration),
        )
    policy.save(out)
    kind = "discounted" if goal.discounted else "undiscounted"
    click.echo(f"Wrote {out}: with its noise, it earns {policy.card['behaviour_return']:.3g} ({kind}, raw)")


if __name__ == "__main__":
    main()
