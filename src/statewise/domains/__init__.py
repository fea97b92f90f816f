"""Worlds that write logs like any user's, and where policies can be played. Learning never looks in here."""

from statewise.base.registry import Registry
from statewise.domains.source import Source

DOMAINS: Registry[Source] = Registry(
    "domain",
    {
        "cartpole": "statewise.domains.cartpole:SOURCE",
        "hiv": "statewise.domains.hiv:SOURCE",
        "hiv-weak": "statewise.domains.hiv:WEAK_SOURCE",
        "hard-example": "statewise.domains.hard_example:SOURCE",
    },
)
