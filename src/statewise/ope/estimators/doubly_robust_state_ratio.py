"""The state-ratio estimate of what a critic leaves unexplained: its error is that of w times that of Q̂.

    V = mean V̂(s₀) + Σᵢ γᵗ wᵢ ρᵢ (rᵢ + γcV̂(s'ᵢ) − Q̂(sᵢ,aᵢ)) / Σᵢ γᵗ wᵢ ρᵢ (1 − γcᵢ)

Errors in w and Q̂ enter as their product. Both are regularised, so that it is not nothing: what an episode does to w and
to Q̂ is counted. In a log of few states both come from counts (`ope.counted`), and nothing is regularised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from statewise.ope.attainable import reach
from statewise.ope.centred import centred
from statewise.ope.counted import counted, in_states
from statewise.ope.estimators.behaviour_return import behaviour_return
from statewise.ope.estimators.state_ratio import carried_by_ratio, missed, with_length
from statewise.ope.linear_critic import cross_fitted, moved_by
from statewise.ope.prepared import Case
from statewise.ope.quotient import Allowance, Quotient, mean_of, standard_error
from statewise.ope.unseen import unseen_steps

# Of what the critic has put right, so much may still be wrong. On HIV, where health changes slowly and the ratio hardly
# follows, the critic moves estimates by 15 to 60 %, and a third to a half as much remains missing.
LEFT = 0.5
# A ratio is cut off at 0 where the policy goes to states that the log hardly has, and what they are worth is missing.
# On CartPole, from logs of 22 steps to policies of 43, 72 and 113, .1, .6 and 1.1 % of the ratio were negative, and
# estimates too low by six times the root of that, of what the policy was put above the behaviour.
CUT = 3.0
# Both are what is missing: the truth lies farther the way in which the estimate was moved. To overshoot it is the
# lesser worry: on 1,226 logs of worlds, random MDPs and learned policies, that end missed no oftener with half of it.
OVERSHOT = 0.5


@centred
def doubly_robust_state_ratio(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """Tang, Feng, Li, Zhou, Liu (2020); Kallus and Uehara (2020)."""
    policy = in_states(case)
    if policy is not None:
        return counted(case, rewards, policy)
    critic = cross_fitted(case, rewards)
    estimate = corrected(case, critic.first, critic.errors)
    moved = moved_by(case, rewards, critic, carried_by_ratio(case))
    estimate = replace(estimate, numerator=estimate.numerator + moved)
    leaning = missed(case, rewards, estimate)
    error = standard_error(estimate.influence(), case.prepared.dataset.groups)
    if not np.isfinite(error):
        return replace(estimate, leaning=abs(leaning))
    moved = estimate.value - behaviour_return(case, rewards).value
    beyond = CUT * np.sqrt((estimate.negative or 0.0) * estimate.more_features) * moved
    unseen = unseen_steps(case)
    allowance = _allowance([LEFT * leaning * error, beyond], unseen * reach(case.prepared, rewards))
    share = unseen / float(carried_by_ratio(case).sum())
    return replace(estimate, leaning=abs(leaning), unseen=share, allowance=allowance)


def _allowance(missing: Sequence[float], either_way: float) -> Allowance:
    """On the side of what is missing all of it, on the other `OVERSHOT` of it."""
    sides = ([part if part * side > 0 else OVERSHOT * part for part in missing] for side in (-1, 1))
    return Allowance(*(float(np.linalg.norm([*parts, either_way])) for parts in sides))


def corrected(case: Case, first: Float[np.ndarray, " episodes"], errors: Float[np.ndarray, " steps"]) -> Quotient:
    """From V̂(s₀), and what a critic leaves unexplained on every row; as a mean over episodes."""
    left = with_length(case, errors)
    return mean_of(first + left.value + left.influence(), left)
