"""Methods of safe policy improvement on finite problems, by name: the literature's, and our own beside them.

A method is a frozen dataclass of settings, `discount` among them, that is called with a `FiniteLog` and returns the
probabilities of each action in each state, or None where it prefers to keep the behaviour.
"""

from collections.abc import Callable
from typing import Any

from statewise.base.registry import Registry

METHODS: Registry[Callable[..., Any]] = Registry(
    "method",
    {
        "basic-rl": "statewise.experiments.safe.basic_rl:BasicRL",
        "spibb": "statewise.experiments.safe.spibb:SPIBB",
        "lower-approx-soft-spibb": "statewise.experiments.safe.soft_spibb:LowerApproxSoftSPIBB",
        "ramdp": "statewise.experiments.safe.ramdp:RaMDP",
        "duipi": "statewise.experiments.safe.duipi:DUIPI",
        "hcpi": "statewise.experiments.safe.hcpi:HCPI",
        "certified": "statewise.experiments.safe.certified:Certified",
    },
)
