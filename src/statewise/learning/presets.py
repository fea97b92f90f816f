"""Settings by name: `default`, what we would use; `quick`, a first look; and the paper's own, to its table's letter."""

from __future__ import annotations

from dataclasses import replace

from statewise.algorithms.acer import ACER
from statewise.algorithms.behaviour_cloning import BehaviourCloning
from statewise.algorithms.cql import CQL
from statewise.algorithms.fitted_q import FittedQ
from statewise.algorithms.offpac import OffPAC
from statewise.algorithms.opposd import OPPOSD
from statewise.algorithms.sac import SAC
from statewise.parts.actor import Actor
from statewise.parts.anchor import Anchor
from statewise.parts.critic import Critic
from statewise.parts.ratio_network import RatioNetwork

Config = OPPOSD | OffPAC | SAC | ACER | BehaviourCloning | CQL | FittedQ

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
OWN = {"default": OPPOSD(), "quick": QUICK}  # of no paper, and so for every discount
PRESETS = {**OWN, "paper-cartpole": PAPER_CARTPOLE, "paper-hiv": PAPER_HIV}


OTHERS = {
    "sac": SAC(),
    "acer": ACER(),
    "behaviour-cloning": BehaviourCloning(),
    "fitted-q": FittedQ(),
    "cql": CQL(),
}
ALGORITHMS = ("opposd", "offpac", *OTHERS)


def preset(name: str = "default", algorithm: str = "opposd", discount: float | None = None) -> Config:
    """The settings of that name for that algorithm; Off-PAC's are OPPOSD's without the ratio."""
    if name not in PRESETS:
        raise ValueError(f"there is no preset '{name}'; there are {', '.join(PRESETS)}")
    config = PRESETS[name] if discount is None else replace(PRESETS[name], discount=discount)
    if algorithm == "opposd":
        return config
    if algorithm in OTHERS:
        if name not in OWN:
            raise ValueError(f"{name}: the paper's table has no settings of {algorithm}; use the preset 'default'")
        return replace(OTHERS[algorithm], discount=config.discount)
    if algorithm != "offpac":
        raise ValueError(f"there is no algorithm '{algorithm}'; there are {', '.join(ALGORITHMS)}")
    return OffPAC(
        discount=config.discount,
        variant="full" if config.variant == "full" else "average",
        critic=config.critic,
        actor=config.actor,
        scale_values=config.scale_values,
        horizon=config.horizon,
        smoothing=config.smoothing,
        updates=config.updates,
    )
