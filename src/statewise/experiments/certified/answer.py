"""From logs to a certificate, as `improve` does it, but without files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from statewise.data.concat import concat
from statewise.data.dataset import Dataset
from statewise.learning.fit import fit
from statewise.ope.certify import Certificate, certify, learning_part
from statewise.ope.unlearned import unlearned


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
    `improve` does). Beside what was learned compete the rules that always take one action, and doing as today more
    consistently.
    """
    part = learning_part(logs[-1]) if training is None else training
    learning, judging = logs[-1].split(part, seed=seed)
    everything = concat([*logs[:-1], learning]) if len(logs) > 1 else learning
    began = time.perf_counter()
    learned = {name: fit(everything, config, seeds=[seed]).policies[0] for name, config in settings.items()}
    fitted = time.perf_counter()
    rules, consistent = unlearned(learning, judging, seed)
    certificate = certify(
        {**learned, **consistent, **rules},
        judging,
        learning=learning,
        simple=rules,
        unlearned=consistent,
        today=today,
        discount=discount,
        seed=seed,
        part=1 - part,
    )
    return Answer(certificate, fitted - began, time.perf_counter() - fitted)
