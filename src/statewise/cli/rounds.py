"""`statewise rounds`: the whole loop in a simulator: log, improve, deploy, and again."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from statewise.cli.options import json_option, seed_option
from statewise.cli.progress import Watch
from statewise.cli.terminal import answers, echo_json, messages, table
from statewise.cli.types import FilePath, RegisteredName
from statewise.domains import DOMAINS
from statewise.improvement import Plan
from statewise.learning.presets import OWN, preset
from statewise.loop import Round, rounds
from statewise.report.rounds import write_rounds


@click.command(epilog="Example: statewise rounds --domain cartpole --rounds 4 --episodes 500")
@click.option("--domain", type=RegisteredName(DOMAINS, "domain"), required=True)
@click.option("--rounds", "count", type=click.IntRange(1, 50), default=4, show_default=True)
@click.option("--episodes", type=click.IntRange(min=15), default=500, show_default=True, help="Logged in each round.")
@click.option("--preset", "name", type=RegisteredName(OWN, "preset"), default="default", show_default=True)
@click.option("--out", type=FilePath(), help="Folder for every round's run and the figure.")
@seed_option
@json_option
def command(domain: str, count: int, episodes: int, name: str, out: Path | None, seed: int, as_json: bool) -> None:
    """Deploy what a log certifies, log that, and improve again, in a simulator.

    Every round learns from all logs so far and is judged against the newest. What a policy is worth in truth is shown
    beside what was certified; learning and judging never see it.
    """
    console, source = messages(quiet=as_json), DOMAINS[domain]
    plan = Plan(discount=source.discount, beside=(preset(name, "offpac"), preset(name, "cql")))
    with Watch(console, "round 1") as watch:
        done = rounds(
            source,
            rounds=count,
            episodes=episodes,
            seed=seed,
            config=preset(name, "opposd"),
            plan=plan,
            out=out,
            progress=lambda number, stage: watch.show(
                f"round {number}: {stage.name}", stage.done, stage.total, stage.note
            ),
        )
    figure = None if out is None else write_rounds(done, out / "rounds.svg", source.reward_scale)
    if as_json:
        echo_json(
            {"domain": domain, "rounds": [vars(one) for one in done], "figure": None if figure is None else str(figure)}
        )
        return
    _show(done, source.reward_scale)
    if figure is not None:
        answers().print(Text(f"  figure: {figure}"))


def _show(done: tuple[Round, ...], scale: float) -> None:
    shown = table(("round", "episodes", "today", "of the way", "certified", "truth", "the goal", "by"), left=("by",))
    for one in done:
        certified = f"≥ {scale * (one.today + one.gain_at_least):.4g}" if one.deployed else "–"
        step = f"{100 * one.step:.3g} %" if one.deployed else "–"
        values = (f"{scale * value:.4g}" for value in (one.value, one.goal))
        shown.add_row(
            f"{one.number}", f"{one.episodes:,}", f"{scale * one.today:.4g}", step, certified, *values, one.algorithm
        )
    answers(wide=True).print(shown)
