"""Small settings for runs of which nothing is asked but that they run: compiled and done in a moment."""

from dataclasses import fields

from statewise.algorithms.behaviour_cloning import BehaviourCloning
from statewise.parts.actor import Actor
from statewise.parts.critic import Critic
from statewise.parts.ratio import ClosedForm

DEFAULTS = {
    Actor: {"hidden": (8,), "batch": 100, "clone_steps": 4, "clone_batch": 50},
    Critic: {"hidden": (8,), "batch": 100, "steps": 2, "warm_steps": 4},
    ClosedForm: {"features": 32, "rank": 8, "rows": 2000},
    BehaviourCloning: {"hidden": (8,), "batch": 100},
}


def defaults(patch) -> None:
    """Makes these the defaults, for as long as the patch lasts: what is left open is small, what is given counts."""
    for kind, values in DEFAULTS.items():
        patch.setattr(kind, "__init__", _smaller(kind, values))


def _smaller(kind, values):
    usual = kind.__init__
    names = [field.name for field in fields(kind)]

    def begin(self, *given, **named):
        left_open = {name: value for name, value in values.items() if name not in names[: len(given)]}
        usual(self, *given, **(left_open | named))

    return begin
