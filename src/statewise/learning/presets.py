"""Settings by name: `default`, what we would use; `quick`, for a first look; and those printed in the paper."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from statewise.algorithms import ALGORITHMS
from statewise.algorithms.offpac import OffPAC
from statewise.algorithms.opposd import OPPOSD
from statewise.base.registry import Registry
from statewise.parts.actor import Actor
from statewise.parts.anchor import Anchor
from statewise.parts.critic import Critic
from statewise.parts.ratio_network import RatioNetwork

OFF = Anchor(weight=0.0)

# The paper's table. What it leaves open is read as literally as possible: no baseline, absolute entropy, unscaled
# values, no target network, no clock, no brake, terminated episodes padded to 200 steps with their last state. Cloning
# has its own learning rate in both (1e-3): at HIV's actor rate of 5e-6 it would not move from its start.
PAPER_CARTPOLE = OPPOSD(
    discount=1.0,
    variant="average",
    ratio=RatioNetwork(hidden=(32,), learning_rate=1e-3, warm_steps=500, clock=False),
    critic=Critic(
        hidden=(32,),
        learning_rate=1e-3,
        discount=1.0,
        batch=5000,
        steps=10,
        warm_steps=500,
        members=1,
        terminal_weight=0.0,
        target_rate=1.0,
        closed_form=False,
    ),
    actor=Actor(
        hidden=(32,),
        learning_rate=1e-3,
        decay=False,
        baseline=False,
        entropy=0.01,
        relative=False,
        anchor=OFF,
        clone_rate=1e-3,
    ),
    scale_values=False,
    horizon=200,
    least_share=0.0,
    updates=5000,
)
PAPER_HIV = OPPOSD(
    discount=0.98,
    variant="full",
    ratio=RatioNetwork(hidden=(16, 16, 16), learning_rate=3e-4, warm_steps=2500, bandwidth=1.0, clock=False),
    critic=Critic(
        hidden=(32, 32, 32, 32),
        learning_rate=1e-3,
        batch=5000,
        steps=10,
        warm_steps=2500,
        members=1,
        terminal_weight=0.0,
        target_rate=1.0,
        closed_form=False,
    ),
    actor=Actor(
        hidden=(16, 16, 16),
        learning_rate=5e-6,
        decay=False,
        baseline=False,
        entropy=0.03,
        relative=False,
        anchor=OFF,
        clone_rate=1e-3,
    ),
    scale_values=False,
    least_share=0.0,
    updates=5000,
)
# A first look in half the time, but less stable: fewer and larger steps, and half the rows in each of the critic's.
QUICK = OPPOSD(critic=Critic(batch=500), actor=Actor(learning_rate=1e-3), updates=900)


def without_ratio(config: OPPOSD) -> OffPAC:
    """Off-PAC with the settings of OPPOSD, except for the ratio."""
    shared = {each.name for each in fields(OffPAC)} & {each.name for each in fields(OPPOSD)} - {"variant"}
    variant = "full" if config.variant == "full" else "average"
    return OffPAC(variant=variant, **{name: getattr(config, name) for name in shared})


# Settings by preset and algorithm. An algorithm that `default` or `quick` does not list uses its own defaults; the
# paper's presets exist only for the algorithms listed.
PRESETS: Registry[dict[str, Any]] = Registry("preset")
PRESETS.add("default", {})
PRESETS.add("quick", {"opposd": QUICK, "offpac": without_ratio(QUICK)})
PRESETS.add("paper-cartpole", {"opposd": PAPER_CARTPOLE, "offpac": without_ratio(PAPER_CARTPOLE)})
PRESETS.add("paper-hiv", {"opposd": PAPER_HIV, "offpac": without_ratio(PAPER_HIV)})
OWN = ("default", "quick")  # ours, and so for every algorithm


def preset(name: str = "default", algorithm: str = "opposd", discount: float | None = None) -> Any:
    """An algorithm's settings under that preset.

    >>> preset("paper-cartpole").updates
    5000
    """
    default = ALGORITHMS[algorithm].settings
    table = PRESETS[name]
    if algorithm not in table and name not in OWN:
        raise ValueError(f"preset '{name}' has no settings for {algorithm}; use the preset 'default'")
    config = table[algorithm] if algorithm in table else default()
    return config if discount is None else replace(config, discount=discount)
