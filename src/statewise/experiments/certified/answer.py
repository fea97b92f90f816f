"""From logs to a certificate, as `improve` does it, but without files."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from statewise.base.files import make_folder
from statewise.data.concat import concat
from statewise.data.dataset import Dataset
from statewise.experiments.together import Asked, Learned, apart, learned
from statewise.learning.runs import RunError
from statewise.ope.certify import Certificate, certify, learning_part
from statewise.ope.unlearned import unlearned
from statewise.policies.files import load_policy

SECONDS, MADE_WITH = "learning_s", "made_with"  # on the card of a policy that was kept


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
    kept: Path | None = None,
) -> Answer:
    """Learns from all logs with each of the settings, and certifies a step from the newest log's policy.

    A part of the newest log is not learned from, and judges: all but the share `training` of its episodes (None: as
    `improve` does). Beside what was learned compete the rules that always take one action, and doing as today more
    consistently. What was learned is kept in the folder `kept`, and not learned again.
    """
    part = learning_part(logs[-1]) if training is None else training
    learning, judging = logs[-1].split(part, seed=seed)
    everything = concat([*logs[:-1], learning]) if len(logs) > 1 else learning
    found = _learned(everything, settings, seed, kept)
    policies = {name: one.policy for name, one in found.items()}
    named = {"today": today, "discount": discount, "seed": seed, "part": 1 - part}
    certificate, seconds = apart(_certified, policies, learning, judging, named)
    return Answer(certificate, sum(one.seconds for one in found.values()), seconds)


def _learned(log: Dataset, settings: Mapping[str, Any], seed: int, kept: Path | None) -> dict[str, Learned]:
    """What was learned, by name; from the folder, or else now."""
    before = {} if kept is None else _before(kept, log, settings)
    left = {name: config for name, config in settings.items() if name not in before}
    now = dict(zip(left, learned([Asked(log, config, seed) for config in left.values()]), strict=True)) if left else {}
    if kept is not None:
        make_folder(kept)
        for name, (policy, seconds) in now.items():
            card = {**policy.card, SECONDS: seconds, MADE_WITH: _made_with(log, settings[name])}
            replace(policy, card=card).save(_file(kept, name))
    return {name: (before | now)[name] for name in settings}


def _before(kept: Path, log: Dataset, settings: Mapping[str, Any]) -> dict[str, Learned]:
    """What the folder holds; a policy made with other settings, or from another log, is refused."""
    found = {}
    for name, config in settings.items():
        path = _file(kept, name)
        if path.is_file():
            policy = load_policy(path)
            if policy.card.get(MADE_WITH) != _made_with(log, config):
                raise RunError(f"{path}: made with other settings; choose another folder")
            found[name] = Learned(policy, policy.card[SECONDS])
    return found


def _made_with(log: Dataset, config: Any) -> str:
    return json.dumps([log.fingerprint, asdict(config)], sort_keys=True)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors"


def _certified(
    policies: Mapping[str, Any], learning: Dataset, judging: Dataset, named: Mapping[str, Any]
) -> tuple[Certificate, float]:
    """Without what the judge made of the log, which is large; and the seconds that it took."""
    began = time.perf_counter()
    rules, consistent = unlearned(learning, judging, named["seed"])
    candidates = {**policies, **consistent, **rules}
    found = certify(candidates, judging, learning=learning, simple=rules, unlearned=consistent, **named)
    return replace(found, judged=None), time.perf_counter() - began
