"""The paper's hard example: five states on which Off-PAC's gradient is 0 although the policy can improve.

    s₀ ─ℓ→ s₁    s₁ ─ℓ→ s₃    s₂ ─ℓ→ s₄    s₃ pays 1 and the episode ends
    s₀ ─r→ s₂    s₁ ─r→ s₃ or s₄, ½ each    s₂ ─r→ s₃ or s₄, ½ each    s₄ pays 0 and the episode ends

The policy class aliases s₁ and s₂: it takes ℓ with the same probability α in both. ℓ is right in s₁ and wrong
in s₂; π_α only visits s₁, the uniform behaviour visits each half of the time.
Liu, Swaminathan, Agarwal, Brunskill (2019), section 5 and appendix.
"""

import numpy as np
from jaxtyping import Float

from statewise.domains.source import Exact
from statewise.domains.tabular import Policy, TabularMDP

LEFT, RIGHT = 0, 1
ALIASED = np.array([False, True, True, False, False])
BEHAVIOUR = np.full((5, 2), 0.5)


def problem() -> TabularMDP:
    """The five states as a tabular problem, undiscounted."""
    transitions = np.zeros((5, 2, 5))
    transitions[0, LEFT, 1] = transitions[0, RIGHT, 2] = 1.0
    transitions[1, LEFT, 3] = transitions[2, LEFT, 4] = 1.0
    transitions[1:3, RIGHT, 3:5] = 0.5
    rewards = np.zeros((5, 2))
    rewards[3] = 1.0
    return TabularMDP(transitions, rewards, initial=np.eye(5)[0])


HARD_EXAMPLE = problem()
# Observations: first the columns in which s₁ and s₂ look alike, then those that distinguish them.
COLUMNS = ("is_s0", "is_s1_or_s2", "is_s3", "is_s4", "is_s1", "is_s2")
SEEN = np.array(
    [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 1], [0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0]], np.float32
)
SOURCE = Exact(HARD_EXAMPLE, BEHAVIOUR, SEEN, COLUMNS, horizon=5)


def policy(alpha: float) -> Policy:
    """π_α: ℓ with probability α in s₁ and s₂, always ℓ elsewhere."""
    left = np.where(ALIASED, alpha, 1.0)
    return np.stack([left, 1 - left], axis=1)


def gradient(alpha: float, state_weights: Float[np.ndarray, "5"]) -> float:
    """Σ_s v(s) Σ_a ∂π_α(a|s)/∂α Q(s,a) with state weights v and the exact critic.

    With the visits of π_α, v = v_π, it is the policy gradient of the episode's return; with the behaviour's,
    v = v_μ, it is Off-PAC's.
    """
    derivative = np.where(ALIASED[:, None], [1.0, -1.0], 0.0)
    return float(state_weights @ (derivative * HARD_EXAMPLE.action_values(policy(alpha), 1.0)).sum(axis=1))


def true_gradient(alpha: float) -> float:
    """∂V(s₀)/∂α, which is ½ for every α."""
    return gradient(alpha, HARD_EXAMPLE.visits(policy(alpha), 1.0))


def offpac_gradient(alpha: float) -> float:
    """Off-PAC's gradient, which is 0 for every α. Degris, White, Sutton (2012), equation 5."""
    return gradient(alpha, HARD_EXAMPLE.visits(BEHAVIOUR, 1.0))
