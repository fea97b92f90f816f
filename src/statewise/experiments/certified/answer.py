"""From logs to a certificate, as `improve` does it, but without files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from statewise.data.concat import concat
from statewise.data.dataset import Dataset
from statewise.experiments.together import Asked, apart, learned
from statewise.ope.certify import Certificate, certify, learning_part
from statewise.policies.simple import constants


class Answer(NamedTuple):
    """The certificate, and how long learning and certifying took."""

    certificate: Certificate
    learning_s: float
    certifying_s: float


def answer(
    logs: Sequence[Dataset],
    settings: Mapping[str, Any],
    *,
    discount: float,
    today: Any = None,
    training: float | None = None,
    seed: int = 0,
) -> Answer:
    """Learns from all logs with each of the settings, and certifies a step from the newest log's policy.

    A part of the newest log is not learned from, and judges: all but the share `training` of its episodes (None: as
    `improve` does). Beside what was learned compete the rules that always take one action.
    """
    part = learning_part(logs[-1]) if training is None else training
    learning, judging = logs[-1].split(part, seed=seed)
    everything = concat([*logs[:-1], learning]) if len(logs) > 1 else learning
    found = learned([Asked(everything, config, seed) for config in settings.values()])
    rules = constants(learning)
    certificate, seconds = apart(
        _certified,
        {**{name: one.policy for name, one in zip(settings, found, strict=True)}, **rules},
        judging,
        learning=learning,
        simple=rules,
        today=today,
        discount=discount,
        seed=seed,
        part=1 - part,
    )
    return Answer(certificate, sum(one.seconds for one in found), seconds)


def _certified(*arguments: Any, **named: Any) -> tuple[Certificate, float]:
    """Without what the judge made of the log, which is large; and the seconds that it took."""
    began = time.perf_counter()
    certificate = replace(certify(*arguments, **named), judged=None)
    return certificate, time.perf_counter() - began
