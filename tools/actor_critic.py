"""On-policy advantage actor–critic, which makes the policies that write logs.

A log is written by μ = .7 π̂ + .3 uniform. Training keeps the π̂ whose μ comes nearest to a target return: good enough
to have seen success, far from optimal.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Key

from statewise.domains.behaviours import LEARNED_SHARE, Noisy
from statewise.domains.simulate import Domain, Rollout, returns, rollout
from statewise.ops.networks import Network
from statewise.policies.network import Policy

ACTOR_HIDDEN, CRITIC_HIDDEN = (16, 16, 16), (32, 32)
TRACE = 0.95  # λ
ACTOR_STEPS, CRITIC_STEPS = 4, 16  # gradient steps per iteration
ACTOR_OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(5e-4))
CRITIC_OPTIMISER = optax.adam(3e-3)
ENTROPY_FIRST, ENTROPY_LAST = 0.03, 0.003  # relative to advantages of standard deviation 1
EVALUATION_EPISODES, ITERATIONS_PER_EVALUATION = 512, 2


class Learner(NamedTuple):
    """What training changes. Returns grow a hundredfold as treatment succeeds, and their unit grows with them."""

    actor: Network
    critic: Network
    actor_state: optax.OptState
    critic_state: optax.OptState
    unit: Float[Array, ""]  # running standard deviation of the returns, the unit of the critic


class Reading(NamedTuple):
    """What μ should earn: the paper's "1.5E7" may be the discounted or the plain sum of raw rewards."""

    target: float
    discounted: bool
    iterations: int


READINGS = {"hiv": Reading(1.5e7, True, 110), "hiv-weak": Reading(1.5e7, False, 40)}


def train(
    domain: Domain,
    target: float,
    discounted: bool,
    seed: int,
    iterations: int,
    episodes_per_iteration: int = 64,
    progress: Callable[[int, float], None] = lambda iteration, behaviour_return: None,
) -> Policy:
    """Trains π̂, and keeps the iterate whose μ has the raw return nearest to `target` on fresh episodes."""
    keys = iter(jax.random.split(jax.random.key(seed), 4 + 3 * iterations))
    actor = he_network(next(keys), (len(domain.observation_names), *ACTOR_HIDDEN, len(domain.action_names)))
    critic = he_network(next(keys), (len(domain.observation_names), *CRITIC_HIDDEN, 1))

    zero, one = jnp.zeros(len(domain.observation_names)), jnp.ones(len(domain.observation_names))
    uniform = Noisy(actor, zero, one, share=jnp.asarray(0.0))
    first = rollout(domain, uniform, jax.random.split(next(keys), episodes_per_iteration))
    seen = first.observations[:, :-1][first.valid]
    mean, std = jnp.asarray(seen.mean(axis=0)), jnp.asarray(np.maximum(seen.std(axis=0), 1e-6))

    unit = jnp.asarray(returns(first, domain.discount).std(), jnp.float32)
    actor_state = ACTOR_OPTIMISER.init(eqx.filter(actor, eqx.is_array))
    critic_state = CRITIC_OPTIMISER.init(eqx.filter(critic, eqx.is_array))
    learner = Learner(actor, critic, actor_state, critic_state, unit)
    best, best_iteration, best_return = actor, 0, np.inf
    for iteration in range(1, iterations + 1):
        episode_key, update_key, evaluation_key = next(keys), next(keys), next(keys)
        pi = Noisy(learner.actor, mean, std, share=jnp.asarray(1.0))
        episodes = rollout(domain, pi, jax.random.split(episode_key, episodes_per_iteration))
        entropy = ENTROPY_FIRST + (ENTROPY_LAST - ENTROPY_FIRST) * iteration / iterations
        learner = improve(learner, episodes, mean, std, domain.discount, jnp.asarray(entropy), update_key)
        if iteration % ITERATIONS_PER_EVALUATION == 0 or iteration == iterations:
            mu = Noisy(learner.actor, mean, std, share=jnp.asarray(LEARNED_SHARE))
            fresh = rollout(domain, mu, jax.random.split(evaluation_key, EVALUATION_EPISODES))
            discount = domain.discount if discounted else 1.0
            mu_return = float(returns(fresh, discount).mean() * domain.reward_scale)
            progress(iteration, mu_return)
            if abs(mu_return - target) < abs(best_return - target):
                best, best_iteration, best_return = learner.actor, iteration, mu_return
    return Policy(
        weights=tuple(np.asarray(weight) for weight in best.weights),
        biases=tuple(np.asarray(bias) for bias in best.biases),
        mean=np.asarray(mean),
        std=np.asarray(std),
        observation_names=domain.observation_names,
        action_names=domain.action_names,
        card={
            "kind": "on-policy actor–critic, to be mixed with uniform noise into a behaviour policy",
            "domain": domain.name,
            "learned_share": LEARNED_SHARE,
            "target_return": target,
            "discounted": discounted,
            "behaviour_return": best_return,
            "seed": seed,
            "iteration": f"{best_iteration} of {iterations}",
        },
    )


def he_network(key: Key[Array, ""], sizes: tuple[int, ...]) -> Network:
    """He's initial weights, scaled to a hundredth in the last layer: the first policy is almost uniform."""
    shapes = list(pairwise(sizes))
    scales = [1.0] * (len(shapes) - 1) + [0.01]
    weights = [
        scale * jnp.sqrt(2 / shape[0]) * jax.random.normal(layer_key, shape)
        for scale, shape, layer_key in zip(scales, shapes, jax.random.split(key, len(shapes)), strict=True)
    ]
    return Network(tuple(weights), tuple(jnp.zeros(outputs) for _, outputs in shapes))


def advantages(
    rewards: Float[Array, "steps"],
    values: Float[Array, "steps+1"],
    terminated: Bool[Array, "steps"],
    discount: float,
) -> Float[Array, "steps"]:
    """Â_t = δ_t + γλ c_t Â_{t+1} with δ_t = r_t + γ c_t V_{t+1} − V_t, and c_t = 0 where the episode ends.

    Schulman et al. (2016), "High-dimensional continuous control using generalized advantage estimation".
    """
    onward = discount * (1.0 - terminated)
    errors = rewards + onward * values[1:] - values[:-1]

    def accumulate(following, step):
        error, decay = step
        advantage = error + TRACE * decay * following
        return advantage, advantage

    return jax.lax.scan(accumulate, jnp.zeros(()), (errors, onward), reverse=True)[1]


@eqx.filter_jit
def improve(
    learner: Learner,
    episodes: Rollout,
    mean: Float[Array, "features"],
    std: Float[Array, "features"],
    discount: float,
    entropy: Float[Array, ""],
    key: Key[Array, ""],
) -> Learner:
    """A few gradient steps of the actor on normalised advantages, and of the critic on the λ-returns."""
    observations, actions, rewards, _, terminated, valid = map(jnp.asarray, episodes)
    gains = rewards @ (discount ** jnp.arange(rewards.shape[1]))
    unit = jnp.maximum(0.9 * learner.unit + 0.1 * gains.std(), 1e-6)
    scaled = jax.vmap(jax.vmap(lambda observation: (observation - mean) / std))(observations)
    values = jax.vmap(jax.vmap(learner.critic))(scaled)[..., 0]
    advantage = jax.vmap(advantages, in_axes=(0, 0, 0, None))(rewards / unit, values, terminated, discount)
    target = (advantage + values[:, :-1]).ravel()
    # Steps after the end of an episode have no weight.
    weight = valid.ravel() / valid.sum()
    advantage = advantage.ravel() - weight @ advantage.ravel()
    advantage = advantage / (jnp.sqrt(weight @ advantage**2) + 1e-8)
    states, action = scaled[:, :-1].reshape(-1, scaled.shape[-1]), actions.ravel()
    rows = jax.random.permutation(key, action.shape[0])

    def actor_loss(actor, batch):
        log_policy = jax.nn.log_softmax(jax.vmap(actor)(states[batch]))
        chosen = jnp.take_along_axis(log_policy, action[batch, None], axis=1)[:, 0]
        spread = -(jnp.exp(log_policy) * log_policy).sum(axis=1)
        return -weight[batch] @ (chosen * advantage[batch] + entropy * spread) / weight[batch].sum()

    def critic_loss(critic, batch):
        errors = jax.vmap(critic)(states[batch])[:, 0] - target[batch]
        return weight[batch] @ errors**2 / weight[batch].sum()

    batches = rows[: rows.shape[0] // ACTOR_STEPS * ACTOR_STEPS].reshape(ACTOR_STEPS, -1)
    repeated = jnp.tile(batches, (CRITIC_STEPS // ACTOR_STEPS, 1))
    actor, actor_state = _descend(actor_loss, ACTOR_OPTIMISER, learner.actor, learner.actor_state, batches)
    critic, critic_state = _descend(critic_loss, CRITIC_OPTIMISER, learner.critic, learner.critic_state, repeated)
    return Learner(actor, critic, actor_state, critic_state, unit)


def _descend(
    loss: Callable,
    optimiser: optax.GradientTransformation,
    network: Any,
    state: optax.OptState,
    batches: Array,
) -> tuple[Any, optax.OptState]:
    """One step of the optimiser for each batch in turn."""

    def step(carry, batch):
        network, state = carry
        updates, state = optimiser.update(jax.grad(loss)(network, batch), state)
        return (optax.apply_updates(network, updates), state), None

    return jax.lax.scan(step, (network, state), batches)[0]
