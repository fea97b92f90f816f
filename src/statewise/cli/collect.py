"""`statewise collect`: write a log of simulated decisions."""

from __future__ import annotations

import time
from pathlib import Path

import click

from statewise.cli.options import json_option, misfit, seed_option, writable
from statewise.cli.progress import bar
from statewise.cli.terminal import echo_json
from statewise.cli.types import FilePath, RegisteredName
from statewise.data.formats import any_of, writable_endings
from statewise.domains import DOMAINS
from statewise.domains.behaviours import Uniform, with_noise
from statewise.domains.simulate import Act
from statewise.domains.source import Source
from statewise.policies.files import load_policy


@click.command(epilog="Example: statewise collect cartpole --episodes 500 --seed 0 --out cartpole.parquet")
@click.argument("domain", type=RegisteredName(DOMAINS, "domain"))
@click.option("--episodes", type=click.IntRange(min=1), default=500, show_default=True)
@seed_option
@click.option(
    "--out",
    type=FilePath(dir_okay=False),
    required=True,
    help=f"A {any_of(writable_endings())} file.",
)
@click.option(
    "--behaviour",
    metavar="uniform|FILE",
    help="Who acts: uniform for random choices, or a policy file [default: the domain's own behaviour].",
)
@click.option(
    "--noise",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="With a policy file: the probability of a uniformly random choice instead of its own.",
)
@json_option
def command(
    domain: str, episodes: int, seed: int, out: Path, behaviour: str | None, noise: float, as_json: bool
) -> None:
    """Write a log of DOMAIN: cartpole under uniformly random actions, HIV treatment under a learned, noisy policy
    (hiv: the stronger one; hiv-weak: the weaker one), or a finite problem (hard-example, random-mdp, wet-chicken) under
    its usual behaviour. Every seed of random-mdp is another problem.

    The same seed gives the same file, byte for byte.
    """
    if out.suffix.lower() not in writable_endings():
        raise click.BadParameter(f"{out.name} must end in {any_of(writable_endings())}", param_hint="--out")
    if noise and behaviour in (None, "uniform"):
        raise click.BadParameter("it needs --behaviour FILE", param_hint="--noise")
    writable(out)
    source, acting = DOMAINS[domain], None
    if behaviour == "uniform":
        acting = Uniform(len(source.action_names))
    elif behaviour is not None:
        acting = _from_file(behaviour, noise, source)
    started = time.perf_counter()
    with bar(f"collecting {domain}", episodes, quiet=as_json) as progress:
        dataset = source.collect(episodes, seed, act=acting, progress=progress)
    dataset.save(out)
    seconds = time.perf_counter() - started
    if as_json:
        facts = {"log": str(out), "episodes": dataset.episodes, "steps": len(dataset)}
        echo_json({**facts, "mean_return": float(dataset.returns().mean()), "seconds": seconds})
    else:
        click.echo(
            f"Wrote {out}: {dataset.episodes:,} episodes, {len(dataset):,} decisions, "
            f"mean return {dataset.returns().mean():.4g} ({seconds:.1f} s)"
        )


def _from_file(path: str, noise: float, source: Source) -> Act:
    policy = load_policy(path)
    unfit = misfit(policy, source)
    if unfit is not None:
        raise click.BadParameter(f"{path} {unfit}", param_hint="--behaviour")
    return with_noise(policy, share=1 - noise)
