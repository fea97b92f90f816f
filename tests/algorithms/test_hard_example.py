"""The paper's hard example through the parts that learners are made of: Off-PAC stands still where OPPOSD climbs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from statewise.data.device import device_log
from statewise.domains.collect import collect_tabular
from statewise.domains.hard_example import ALIASED, BEHAVIOUR, HARD_EXAMPLE
from statewise.ops.networks import Network
from statewise.parts import actor, critic, ratio
from statewise.parts.actor import Actor
from statewise.parts.anchor import Anchor
from statewise.parts.chain import chain_of
from statewise.parts.critic import Batch, Critic
from statewise.parts.learned import start
from statewise.parts.policy import action_ratio
from statewise.parts.ratio import Ground
from statewise.parts.ratio_closed_form import make_flow
from statewise.parts.ratio_features import ClosedForm, turned

EPISODES, DECISIONS = 100_000, 3  # each episode makes three decisions
RATIO = ClosedForm(regularisation=(1e-6,), rows=10**9)
PLAIN = Actor(entropy=0.0, relative=False, anchor=Anchor(weight=0.0))


def policy_network(alpha):
    """π_α: one hidden unit for the two aliased states and one for the others, so that one number moves both."""
    hidden = jnp.asarray(np.stack([ALIASED, ~ALIASED], axis=1), jnp.float32)
    logits = jnp.stack([jnp.stack([jnp.log(alpha), jnp.log1p(-alpha)]), jnp.asarray([0.0, -60.0])])
    return Network((hidden, logits), (jnp.zeros(2), jnp.zeros(2)))


@pytest.fixture(scope="module")
def estimates():
    """α ↦ ∂R/∂α per episode as Off-PAC and OPPOSD estimate it from one log with the exact critic, and OPPOSD's w."""
    data = collect_tabular(HARD_EXAMPLE, BEHAVIOUR, EPISODES, horizon=5, seed=0)
    assert (data.lengths == DECISIONS).all()
    log = device_log(data, 1.0)
    basis = turned(RATIO, None, np.asarray(data.observations, np.float64))
    ground = Ground(jnp.asarray(1.0), basis, make_flow(basis, data, chain_of(data, 1.0)))
    rows = log.rows.take(jnp.arange(len(data)))

    @jax.jit
    def estimate(alpha, values):
        policy = policy_network(alpha)
        batch = Batch(rows, action_ratio(policy, rows), rows.usable)
        critical = Network((values[:, None],), (jnp.zeros(1),))
        advantage = critic.advantages(Critic(), critical, batch, log, baseline=True)
        key = jax.random.key(0)
        state = ratio.initial(RATIO, ground, 5, key)
        state = ratio.fit(RATIO, ground, state, policy, log, "renewal", key)
        gradients = []
        for weight in (batch.weight, batch.weight * ratio.of_rows(ground, state, rows)):
            learned = start(policy, actor.optimiser(PLAIN, 1))
            learned, _ = actor.ascend(PLAIN, learned, policy, rows, weight, advantage, updates=1, key=key)
            # Adam's first moment is a tenth of the gradient of the loss; the logit of ℓ moves α by α(1 − α)
            moment = optax.tree_utils.tree_get(learned.optimiser, "mu").weights[1][0, 0]
            gradients.append(-10 * moment / (alpha * (1 - alpha)) * DECISIONS)
        return gradients, ratio.of_states(ground, state, jnp.eye(5))

    def at(alpha):
        left = np.where(ALIASED, alpha, 1.0)
        values = HARD_EXAMPLE.state_values(np.stack([left, 1 - left], axis=1), 1.0)
        (offpac, opposd), w = estimate(jnp.asarray(alpha, jnp.float32), jnp.asarray(values, jnp.float32))
        return float(offpac), float(opposd), np.asarray(w)

    return at


def error_of_the_mean(alpha, weight):
    """What the estimate's mean over the episodes may be off by, from the law of one episode's w ρ ∂log π A."""
    left = np.where(ALIASED, alpha, 1.0)
    values = HARD_EXAMPLE.state_values(np.stack([left, 1 - left], axis=1), 1.0)
    terms = []
    for s, a, t in np.ndindex(5, 2, 5):
        chance = HARD_EXAMPLE.visits(BEHAVIOUR, 1.0)[s] * 0.5 * HARD_EXAMPLE.transitions[s, a, t]
        slope = (1 if a == 0 else -1) * ALIASED[s] / 0.5
        terms.append((chance, weight[s] * slope * (values[t] - values[s])))
    mean, square = (sum(p * x**power for p, x in terms) for power in (1, 2))
    return np.sqrt((square - mean**2) / EPISODES)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_offpac_sees_nothing_and_opposd_a_half(estimates, alpha):
    offpac, opposd, w = estimates(alpha)
    exact = np.array([1, 2, 0, 1 + alpha, 1 - alpha])
    np.testing.assert_allclose(w, exact, atol=0.02)
    error = error_of_the_mean(alpha, np.ones(5))
    assert error < 0.01
    assert abs(offpac) < 4 * error
    error = error_of_the_mean(alpha, exact)
    assert error < 0.01
    assert abs(opposd - 0.5) < 4 * error


def test_ascent_on_opposds_estimate_reaches_the_best_policy_and_on_offpacs_goes_nowhere(estimates):
    start, rate, steps = 0.3, 0.1, 20
    alpha = {"offpac": start, "opposd": start}
    for _ in range(steps):
        for which, name in enumerate(alpha):
            alpha[name] = float(np.clip(alpha[name] + rate * estimates(alpha[name])[which], 0.001, 0.999))
    assert alpha["opposd"] >= 0.99
    assert abs(alpha["offpac"] - start) < steps * rate * 4 * error_of_the_mean(start, np.ones(5))
    assert abs(alpha["offpac"] - start) < 0.02
