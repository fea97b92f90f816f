"""How strong a hidden reason would have to be to turn *deploy* over: Γ.

The log's propensities are taken for what made the behaviour choose. Suppose that at one decision of an episode it also
looked at something that is not in the log, which multiplies the odds of an action by at most Γ. Then what came of the
actions taken is no longer what would come of them in general: of an outcome with residuals δ around its mean given
state and action, the mean over those for whom the action was not taken may be as low as the κ < 0 with

    E[(δ − κ)₊] = Γ E[(δ − κ)₋],

and they are a share 1 − μ(a|s) of all. The value is then lower by at most max_t Σ_{i at t} gᵢ (1 − μᵢ) |κ|, where gᵢ
is what the estimate multiplies a row by. Γ is where this is as much as the lower bound of the gain.
Namkoong, Keramati, Yadlowsky, Brunskill (2020), for residuals whose distribution is the same in all states.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from statewise.data.device import propensities_of
from statewise.ope.centred import centred_rewards
from statewise.ope.estimators.state_ratio import carried_by_ratio
from statewise.ope.linear_critic import cross_fitted
from statewise.ope.prepared import Case

MOST = 100.0  # a Γ beyond which nobody asks


def turning_point(case: Case, margin: float) -> float:
    """The least Γ at which a gain of at least `margin` could be none; `MOST` if it would have to be more."""
    log, carried = case.prepared, carried_by_ratio(case)
    rewards = centred_rewards(case, log.dataset.rewards)[0]  # as the policy was judged, by the same critic
    residuals = cross_fitted(case, rewards).errors
    residuals = residuals - np.average(residuals, weights=carried)
    exposed = np.bincount(log.dataset.time, carried * (1 - propensities_of(log.dataset))).max()

    lowest_mean = lowest_means(residuals, carried)

    def loss(gamma: float) -> float:
        return -float(exposed) * lowest_mean(gamma)

    if loss(MOST) <= margin:
        return MOST
    low, high = 1.0, MOST
    for _ in range(40):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if loss(middle) <= margin else (low, middle)
    return low


def sentence(gamma: float) -> str:
    """What Γ says, to someone who has never heard of it."""
    if gamma >= MOST:
        return (
            f"A reason that is not in the log would have to multiply the odds of an action by more than {MOST:.0f} at "
            "one decision of an episode to overturn this."
        )
    digits = 2 if gamma < 1.1 else 1 if gamma < 10 else 0
    shown = np.floor(gamma * 10**digits) / 10**digits
    if shown <= 1:
        return (
            "Any reason that is not in the log, however weak, could overturn this: deploy only if the log holds "
            "all that those who decided looked at."
        )
    return (
        f"A reason that is not in the log would have to multiply the odds of an action by {shown:.{digits}f} at one "
        f"decision of an episode to overturn this: make it {100 * gamma / (1 + gamma):.0f} % likely where the log "
        "says 50 %. Ask those who decided whether anything that they saw could do that."
    )


def lowest_means(residuals: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]) -> Callable[[float], float]:
    """κ with Σ w (δ − κ)₊ = Γ Σ w (κ − δ)₊ for any Γ, exactly: the sum is linear between neighbouring residuals."""
    order = np.argsort(residuals)
    values, weight = residuals[order], weight[order]
    below, total = np.cumsum(weight), weight.sum()
    earned_below, earned = np.cumsum(weight * values), weight @ values

    def lowest_mean(gamma: float) -> float:
        # with the k + 1 least below κ, κ = (Σ_above wδ + Γ Σ_below wδ) / (Σ_above w + Γ Σ_below w)
        kappas = (earned - earned_below + gamma * earned_below) / (total - below + gamma * below)
        fits = np.flatnonzero(kappas >= values)
        return float(kappas[fits[-1]]) if len(fits) else float(values[0])

    return lowest_mean
