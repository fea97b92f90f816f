"""`statewise score`: what a run's policies earn in the simulator its log came from."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from statewise.cli.options import json_option, misfit, seed_option
from statewise.cli.progress import bar
from statewise.cli.terminal import answers, echo_json, table
from statewise.cli.types import FilePath, RegisteredName
from statewise.domains import DOMAINS
from statewise.learning.runs import RunFolder

BAR = 30  # characters of the longest bar


@click.command(epilog="Example: statewise score runs/cartpole --domain cartpole")
@click.argument("run", type=FilePath())
@click.option("--domain", "name", type=RegisteredName(DOMAINS, "domain"), required=True)
@click.option("--episodes", type=click.IntRange(1, 100_000), default=64, show_default=True, help="Episodes per policy.")
@seed_option
@json_option
def command(run: Path, name: str, episodes: int, seed: int, as_json: bool) -> None:
    """Play every checkpoint of RUN in a simulator and print the curve.

    Learning never does this; it shows what was learned to those who have the simulator. Every seed of random-mdp is
    another problem: give the seed of the log.
    """
    domain = DOMAINS[name]
    policies = RunFolder.open(run).policies()
    if not policies:
        raise click.ClickException(f"{run}: it has no checkpoints yet")
    unfit = misfit(next(iter(policies.values())), domain)
    if unfit is not None:
        raise click.ClickException(f"{run}: its policy {unfit}")

    def earned(policy) -> float:
        return float(domain.play([policy], episodes, seed).discounted.mean() * domain.reward_scale)

    scores = {}
    with bar(f"scoring in {name}", len(policies), quiet=as_json) as progress:
        for done, (place, policy) in enumerate(policies.items(), start=1):
            scores[place] = earned(policy)
            progress(done)
    _show(name, domain.discount, earned(None), scores, as_json)


def _show(name: str, discount: float, current: float, scores: dict[tuple[int, int], float], as_json: bool) -> None:
    seeds = sorted({seed for seed, _ in scores})
    updates = sorted({update for _, update in scores})
    if as_json:
        rows = [{"seed": seed, "update": update, "return": value} for (seed, update), value in scores.items()]
        echo_json({"domain": name, "discount": discount, "behaviour": current, "checkpoints": rows})
        return
    most = max(*scores.values(), current)
    curve = f"return in {name}, γ = {discount:g}"
    shown = table(("update", "mean", "least", "most", curve), left=(curve,))
    shown.add_row("behaviour", f"{current:.4g}", "", "", _bar(current, most, "yellow"))
    for update in updates:
        values = np.array([scores[seed, update] for seed in seeds if (seed, update) in scores])
        numbers = (f"{value:.4g}" for value in (values.mean(), values.min(), values.max()))
        shown.add_row(f"{update:,}", *numbers, _bar(values.mean(), most, "green"))
    answers().print(shown)


def _bar(value: float, most: float, colour: str) -> str:
    return f"[{colour}]{'█' * max(0, round(BAR * value / most)) if most > 0 else ''}[/{colour}]"
