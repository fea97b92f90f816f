"""Episodes of simulated decisions: one description of a simulator, and one function that runs it."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

# Episodes simulated side by side. The number is fixed and the last batch padded, so that an episode is the same to the
# last bit however many are simulated. 64 fit into a core's cache; an accelerator needs more.
LANES_CPU = 64
LANES_ACCELERATOR = 4096

P = ParamSpec("P")
R = TypeVar("R")

Act = Callable[[Float[Array, "features"]], Float[Array, "actions"]]


@dataclass(frozen=True)
class Domain:
    """A simulator as three pure functions of one state, and the names for its logs.

    The state is float64, the observation float32. `step` returns the next state, the reward that a learner sees (the
    domain's own reward divided by `reward_scale`), and whether the episode has ended.
    """

    name: str
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    horizon: int
    discount: float
    reset: Callable[[Key[Array, ""]], Float[Array, "state"]]
    observe: Callable[[Float[Array, "state"]], Float[Array, "features"]]
    step: Callable[
        [Float[Array, "state"], Int[Array, ""] | int],
        tuple[Float[Array, "state"], Float[Array, ""], Bool[Array, ""]],
    ]
    reward_scale: float = 1.0


class Rollout(NamedTuple):
    """Episodes side by side. After the end of an episode its observation repeats and its reward is 0."""

    observations: Float[np.ndarray, "episodes steps+1 features"]
    actions: Int[np.ndarray, "episodes steps"]
    rewards: Float[np.ndarray, "episodes steps"]
    probabilities: Float[np.ndarray, "episodes steps actions"]  # π(·|s) of every step
    terminated: Bool[np.ndarray, "episodes steps"]  # true only at the step that ended the episode
    valid: Bool[np.ndarray, "episodes steps"]  # true up to and including that step


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """`function` with 64-bit numbers enabled, whatever JAX's setting is outside.

    With them disabled, JAX keeps a float64 array as it is but computes with it in float32, and warns.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapped


def lanes() -> int:
    """How many episodes run side by side here."""
    return LANES_CPU if jax.default_backend() == "cpu" else LANES_ACCELERATOR


def episode_keys(seed: int, episodes: int) -> Key[Array, "episodes"]:
    """One key per episode: key i depends only on `seed` and i."""
    return jax.vmap(functools.partial(jax.random.fold_in, jax.random.key(seed)))(jnp.arange(episodes))


def rollout(domain: Domain, act: Act, keys: Key[Array, "episodes"]) -> Rollout:
    """Runs one episode per key to the domain's horizon, with actions drawn from `act(observation)`.

    `act` may be a pytree, such as an Equinox module: new weights do not recompile, a new function does.
    """
    episodes = keys.shape[0]
    if episodes < 1:
        raise ValueError("rollout: expected one key per episode, got none")
    act = jax.tree.map(_in_float32, act)
    width = lanes()
    batches = [
        _episodes(domain, act, keys[np.minimum(np.arange(first, first + width), episodes - 1)])
        for first in range(0, episodes, width)
    ]
    return Rollout(*(np.concatenate(parts)[:episodes] for parts in zip(*batches, strict=True)))


def returns(episodes: Rollout, discount: float) -> Float[np.ndarray, "episodes"]:
    """The return of every episode, Σ_t γᵗ r_t, summed in float64."""
    weights = discount ** np.arange(episodes.rewards.shape[1], dtype=np.float64)
    return episodes.rewards.astype(np.float64) @ weights


def rewards_of_each(
    domain: Domain, acts: Act, which: Int[np.ndarray, " episodes"], keys: Key[Array, "episodes"]
) -> Float[np.ndarray, "episodes steps"]:
    """Rewards of many policies' episodes: episode i is played by policy `which[i]` of `acts`, whose leaves are stacked.

    An accelerator plays thousands of episodes as fast as one, so policies are played together.
    """
    acts = jax.tree.map(_in_float32, acts)
    width, episodes = lanes(), len(which)
    played = []
    for first in range(0, episodes, width):
        rows = np.minimum(np.arange(first, first + width), episodes - 1)
        mine = jax.tree.map(lambda leaf, rows=rows: leaf[which[rows]], acts)
        played.append(np.asarray(_rewards(domain, mine, keys[rows])))
    return np.concatenate(played)[:episodes]


def _in_float32(leaf):
    """Float64 weights would make the policy compute in another precision here than elsewhere."""
    return leaf.astype(np.float32) if getattr(leaf, "dtype", None) == np.float64 else leaf


@in_float64
@eqx.filter_jit
def _episodes(domain: Domain, act: Act, keys: Key[Array, "lanes"]) -> tuple[Array, ...]:
    return jax.vmap(functools.partial(_episode, domain, act))(keys)


@in_float64
@eqx.filter_jit
def _rewards(domain: Domain, acts: Act, keys: Key[Array, "lanes"]) -> Float[Array, "lanes steps"]:
    return jax.vmap(lambda act, key: _episode(domain, act, key)[2])(acts, keys)


def _episode(domain: Domain, act: Act, key: Key[Array, ""]) -> tuple[Array, ...]:
    reset_key, action_key = jax.random.split(key)

    def advance(carry, time):
        state, alive = carry
        observation = domain.observe(state)
        # The policy computes in the same precision as outside the simulator.
        with jax.enable_x64(False):
            probabilities = act(observation).astype(jnp.float32)
        # log 0 = −∞: an action without probability is never drawn.
        action = jax.random.categorical(jax.random.fold_in(action_key, time), jnp.log(probabilities))
        action = action.astype(jnp.int32)
        next_state, reward, terminated = domain.step(state, action)
        reward = jnp.where(alive, reward, 0.0).astype(jnp.float32)
        row = (observation, action, reward, probabilities, alive & terminated, alive)
        return (jnp.where(alive, next_state, state), alive & ~terminated), row

    start = (domain.reset(reset_key), jnp.asarray(True))
    (last_state, _), rows = jax.lax.scan(advance, start, jnp.arange(domain.horizon, dtype=jnp.int32))
    observations, *rest = rows
    return jnp.concatenate([observations, domain.observe(last_state)[None]]), *rest
