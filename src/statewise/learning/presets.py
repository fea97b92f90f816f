"""Settings by name: `default`, what we would use; `quick`, a first look; and the paper's own, to its table's letter."""

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

# The paper's table. What it leaves out is read as literally as will run: no baseline, entropy absolute, values
# unscaled, no target network, terminated episodes padded to 200 steps by their last state. Cloning has a rate of its
# own in both (1e-3): at HIV's actor rate of 5e-6 it would not leave its start.
PAPER_CARTPOLE = OPPOSD(
    discount=1.0,
    variant="average",
    ratio=RatioNetwork(hidden=(32,), learning_rate=1e-3, warm_steps=500),
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
    updates=5000,
)
PAPER_HIV = OPPOSD(
    discount=0.98,
    variant="full",
    ratio=RatioNetwork(hidden=(16, 16, 16), learning_rate=3e-4, warm_steps=2500, bandwidth=1.0),
    critic=Critic(
        hidden=(32, 32, 32, 32),
        learning_rate=1e-3,
        batch=5000,
        steps=10,
        warm_steps=2500,
        members=1,
        terminal_weight=0.0,
        target_rate=1.0,
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
    updates=5000,
)
# A first look in half the time, and less steady: fewer and longer steps, and half the rows in each of the critic's.
QUICK = OPPOSD(critic=Critic(batch=500), actor=Actor(learning_rate=1e-3), updates=900)


def without_ratio(config: OPPOSD) -> OffPAC:
    """Off-PAC with the settings that OPPOSD has but for the ratio."""
    shared = {each.name for each in fields(OffPAC)} & {each.name for each in fields(OPPOSD)} - {"variant"}
    variant = "full" if config.variant == "full" else "average"
    return OffPAC(variant=variant, **{name: getattr(config, name) for name in shared})


# Settings by preset and algorithm. An algorithm that `default` or `quick` do not list has its own defaults there; the
# paper's tables are those of the paper, and list all there is.
PRESETS: Registry[dict[str, Any]] = Registry("preset")
PRESETS.add("default", {})
PRESETS.add("quick", {"opposd": QUICK, "offpac": without_ratio(QUICK)})
PRESETS.add("paper-cartpole", {"opposd": PAPER_CARTPOLE, "offpac": without_ratio(PAPER_CARTPOLE)})
PRESETS.add("paper-hiv", {"opposd": PAPER_HIV, "offpac": without_ratio(PAPER_HIV)})
OWN = ("default", "quick")  # of no paper, and so for every algorithm and discount


def preset(name: str = "default", algorithm: str = "opposd", discount: float | None = None) -> Any:
    """The settings of that name for that algorithm.

    >>> preset("paper-cartpole").updates
    5000
    """
    default = ALGORITHMS[algorithm].settings
    table = PRESETS[name]
    if algorithm not in table and name not in OWN:
        raise ValueError(f"preset '{name}' has no settings of {algorithm}; use the preset 'default'")
    config = table[algorithm] if algorithm in table else default()
    return config if discount is None else replace(config, discount=discount)
