"""An estimator of a user's own: what the first decision earns, by self-normalised importance weights."""

import statewise as sw
from statewise.ope.quotient import Quotient


def first_step(case, rewards):
    first = case.prepared.dataset.starts[:-1]
    weight = case.ratio[first]
    return Quotient(weight * rewards[first], weight, weight=weight, base=weight * 0 + 1, mass=float(weight.mean()))


sw.ESTIMATORS.add("first-step", first_step)
