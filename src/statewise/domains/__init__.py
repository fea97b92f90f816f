"""Worlds that write logs like any user's, and in which policies can be played. Learners never import them."""

from statewise.base.registry import Registry
from statewise.domains.source import Source

DOMAINS: Registry[Source] = Registry(
    "domain",
    {
        "cartpole": "statewise.domains.cartpole:SOURCE",
        "hiv": "statewise.domains.hiv:SOURCE",
        "hiv-weak": "statewise.domains.hiv:WEAK_SOURCE",
        "hard-example": "statewise.domains.hard_example:SOURCE",
        "decisions-5": "statewise.domains.decisions:FIVE",
        "decisions-50": "statewise.domains.decisions:FIFTY",
        "icu-sepsis": "statewise.domains.icu_sepsis:SOURCE",
        "inventory": "statewise.domains.inventory:SOURCE",
        "random-mdp": "statewise.domains.random_mdp:SOURCE",
        "wet-chicken": "statewise.domains.wet_chicken:SOURCE",
    },
)
