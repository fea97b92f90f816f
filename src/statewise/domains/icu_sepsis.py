"""ICU-Sepsis: which fluids and vasopressors patients with sepsis get in intensive care; 1 for survival, 0 for death.

The tables are those of the package `icu-sepsis` (Choudhary, Gupta & Thomas 2024), made from the records of MIMIC-III:
713 clusters of patients, each seen as 47 measurements, and 25 actions, doses of two drugs at five levels each. On
average three of them are admissible in a state, which are those that were recorded there often enough; they are logged
as legal. The others would lead where these lead on average, so that nothing is to be gained by them. Episodes are cut
off after 500 decisions, as the package does, which hardly ever happens: ten is usual.

The behaviour is that of the recorded doctors in seven decisions of ten, as far as it is admissible. In the others it
takes any admissible action: of doctors alone, whole logs would have next to no trial of many actions, and nothing could
be said of them. The share is that of the HIV logs.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from statewise.domains.behaviours import LEARNED_SHARE
from statewise.domains.source import Exact, Family
from statewise.domains.tabular import Policy, TabularMDP

STATES, ACTIONS, MEASUREMENTS = 713, 25, 47
SURVIVED = 714  # the package's number of that end; 713 is death
HORIZON = 500
OBSERVATION_NAMES = tuple(f"measurement_{i}" for i in range(MEASUREMENTS))


@lru_cache(maxsize=1)
def problem() -> Exact:
    """The problem as its package has it."""
    folder = _tables()
    with np.load(folder / "dynamics.npz", allow_pickle=False) as file:
        names = ("tx_mat", "d_0", "expert_policy", "state_cluster_centers")
        transitions, initial, doctors, measured = (file[name][:STATES] for name in names)
    legal = _admissible((folder / "admissible_actions.txt").read_text(encoding="utf-8"))
    # a step pays 1 where it leads to survival, which ends the episode
    mdp = TabularMDP(
        np.ascontiguousarray(transitions[:, :, :STATES]),
        transitions[:, :, SURVIVED],
        initial,
        won_or_lost=True,
    )
    seen = measured.astype(np.float32)
    return Exact(mdp, behaviour(doctors, legal), seen, OBSERVATION_NAMES, HORIZON, legal=legal)


def behaviour(doctors: Policy, legal: Bool[np.ndarray, "states actions"]) -> Policy:
    """μ = .7 · what doctors did of the admissible + .3 · uniform over the admissible."""
    recorded: Float[np.ndarray, "states actions"] = np.where(legal, doctors, 0.0)
    share = LEARNED_SHARE * recorded / recorded.sum(axis=1, keepdims=True)
    return share + (1 - LEARNED_SHARE) * legal / legal.sum(axis=1, keepdims=True)


def _tables() -> Path:
    """The folder of the package's tables; the package itself, which needs gymnasium, is not imported."""
    package = find_spec("icu_sepsis")
    if package is None or package.origin is None:
        raise ImportError(
            "the domain icu-sepsis needs the package icu-sepsis, whose tables it reads: pip install icu-sepsis"
        )
    return Path(package.origin).parent / "envs" / "assets"


def _admissible(text: str) -> Bool[np.ndarray, "states actions"]:
    """The file has the number of actions of every state in its first line, and then a line of actions for each."""
    legal = np.zeros((STATES, ACTIONS), bool)
    for state, line in enumerate(text.splitlines()[1 : STATES + 1]):
        legal[state, [int(action) for action in line.split()]] = True
    return legal


SOURCE = Family(lambda seed: problem(), OBSERVATION_NAMES, tuple(map(str, range(ACTIONS))))
