"""Small settings for runs of which nothing is asked but that they run: compiled and done in a moment."""

from dataclasses import fields
from functools import partial

from statewise.algorithms.behaviour_cloning import BehaviourCloning
from statewise.parts.actor import Actor
from statewise.parts.critic import Critic
from statewise.parts.ratio import ClosedForm
from statewise.plan import Plan

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


def alone(patch) -> None:
    """Unless asked to, `improve` learns with no other algorithm beside the one that it is given."""
    patch.setattr(Plan, "beside", ())
    patch.setattr(Plan, "__init__", _smaller(Plan, {"beside": ()}))


def few_steps(patch, steps=(0.1, 0.4, 1.0)) -> None:
    """The way to the goal has these steps alone: to try one is a whole evaluation."""
    from statewise.ope import walk

    patch.setattr("statewise.ope.certify.STEPS", steps)
    patch.setattr("statewise.ope.certify.FORECAST", steps)
    patch.setattr("statewise.ope.certify.forecast", partial(walk.forecast, steps=steps))
    patch.setattr("statewise.ope.certify.order_by", partial(walk.order_by, steps=steps))


def few_refits(patch) -> None:
    """Propensities that are estimated are fitted anew this often: with each, all is evaluated again."""
    patch.setattr("statewise.propensities.crossfit.REFITS", 2)


def _smaller(kind, values):
    usual = kind.__init__
    names = [field.name for field in fields(kind)]

    def begin(self, *given, **named):
        left_open = {name: value for name, value in values.items() if name not in names[: len(given)]}
        usual(self, *given, **(left_open | named))

    return begin
