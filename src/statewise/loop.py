"""Rounds in a simulator: log, improve, deploy what was certified, and again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewise.data.dataset import Dataset
from statewise.domains import DOMAINS
from statewise.domains.rounds import Turn, turns
from statewise.domains.source import Source
from statewise.improvement import Plan, Stage, improve
from statewise.ope.certify import Certificate

PLAYED = 500  # episodes by which the truth is known, where it is not exact
ROUNDING = 1e-9


@dataclass(frozen=True)
class Round:
    """One round: what was done in it, what the log of it certified, and what that is worth in truth."""

    number: int
    episodes: int  # that judged and taught in this round, of what was done then
    today: float  # what was done in this round is worth
    deployed: bool
    step: float  # of the way to the goal; 0 where nothing was certified
    least: float  # today's value as logged, plus the certified bound; today's where nothing was certified
    gain_at_least: float
    value: float  # what is done from now on is worth
    goal: float  # what was learned is worth
    algorithm: str

    @property
    def held(self) -> bool:
        """Whether the certified gain is there, in truth, up to rounding: without noise it is known exactly."""
        return not self.deployed or self.value - self.today >= self.gain_at_least - ROUNDING * abs(self.value)


def rounds(
    domain: str | Source,
    *,
    rounds: int = 4,
    episodes: int = 500,
    seed: int = 0,
    config: Any = None,
    plan: Plan | None = None,
    out: str | Path | None = None,
    progress: Callable[[int, Stage], None] = lambda number, stage: None,
) -> tuple[Round, ...]:
    """Simulates the whole loop: each round logs what is done, learns from all logs, and deploys what it can certify.

    The first round's log is of the domain's own behaviour. Where a round certifies nothing, the next adds to its log.
    `out` keeps every round's run in a folder of its own.

    >>> for one in rounds("cartpole", rounds=4, episodes=500):  # doctest: +SKIP
    ...     print(one.today, one.value)
    """
    source = DOMAINS[domain] if isinstance(domain, str) else domain
    plan = Plan(discount=source.discount) if plan is None else plan
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch if out is None else out)

        def decide(number: int, logs: tuple[Dataset, ...], today: Any) -> Certificate:
            return improve(
                logs,
                config,
                out=folder / f"round-{number}",
                today=today,
                plan=plan,
                progress=lambda stage: progress(number, stage),
            ).certificate

        simulated = turns(source, decide, rounds=rounds, episodes=episodes, seed=seed, played=PLAYED)
        return tuple(_round(turn) for turn in simulated)


def _round(turn: Turn) -> Round:
    certificate: Certificate = turn.decided
    deployed = certificate.policy is not None
    gain = certificate.low if deployed else 0.0
    return Round(
        number=turn.number,
        episodes=turn.log.episodes,
        today=turn.today,
        deployed=deployed,
        step=certificate.step,
        least=certificate.decision.baseline.value + gain,
        gain_at_least=gain,
        value=turn.value,
        goal=turn.goal,
        algorithm=certificate.candidate,
    )
