"""The simulators as Gymnasium environments, `statewise/CartPole-v0` and `statewise/HIV-v0`.

Importing this module registers them, and so does `gymnasium.make("statewise.domains.environments:statewise/HIV-v0")`.
"""

from typing import Any

import gymnasium
import jax
import numpy as np
from jaxtyping import Array, Float

from statewise.domains.cartpole import ANGLE_LIMIT, CARTPOLE, POSITION_LIMIT
from statewise.domains.hiv import HIV
from statewise.domains.simulate import Domain, in_float64


class DomainEnvironment(gymnasium.Env[np.ndarray, np.int64]):
    """A domain, one decision at a time. `info` holds its `state` in float64 and its `raw_reward`."""

    def __init__(self, domain: Domain, bounds: np.ndarray):
        self.domain = domain
        self.observation_space = gymnasium.spaces.Box(-bounds, bounds, dtype=np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(domain.action_names))
        # 64-bit numbers are on around jit too, so that the state is not rounded on its way in or out.
        self._step = in_float64(jax.jit(domain.step))
        self._state: Float[Array, "state"] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """A fresh episode; its start is drawn from the environment's own seeded generator."""
        super().reset(seed=seed, options=options)
        self._state = state = self.domain.reset(jax.random.key(int(self.np_random.integers(2**31))))
        return np.asarray(self.domain.observe(state)), {"state": np.asarray(state)}

    def step(self, action):
        """The next observation, the reward a learner sees, and whether the episode has ended."""
        if self._state is None:
            raise RuntimeError(f"{self.domain.name}: call reset() before step()")
        if not self.action_space.contains(action):
            raise ValueError(f"{self.domain.name}: expected an action in {self.action_space}, got {action!r}")
        state, reward, terminated = self._step(self._state, int(action))
        self._state, reward = state, float(reward)
        info = {"state": np.asarray(state), "raw_reward": reward * self.domain.reward_scale}
        return np.asarray(self.domain.observe(state)), reward, bool(terminated), False, info


def cartpole() -> DomainEnvironment:
    """CartPole. Episodes end well inside the bounds; 200 pushes to one side give a velocity below 40."""
    return DomainEnvironment(CARTPOLE, np.array([2 * POSITION_LIMIT, 100, 2 * ANGLE_LIMIT, 100], np.float32))


def hiv() -> DomainEnvironment:
    """HIV treatment. No treatment drives a number of the state beyond 10^±12."""
    return DomainEnvironment(HIV, np.full(6, 12, np.float32))


def register() -> None:
    """Makes the environments known to `gymnasium.make`; harmless when done twice."""
    for name, domain in (("statewise/CartPole-v0", CARTPOLE), ("statewise/HIV-v0", HIV)):
        if name not in gymnasium.registry:
            gymnasium.register(name, f"{__name__}:{domain.name}", max_episode_steps=domain.horizon)


register()
