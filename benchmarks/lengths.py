"""How long episodes of better policies last, by `fit_ratio` from logs of 22-step episodes: CartPole, random actions.

    python benchmarks/lengths.py

The policies push right with probability σ(k(θ + θ̇/2)). The length is Σ wρ / Σ wρ·[the episode ends here], from each of
four logs of 500 episodes; the truth is the mean of 2,000 simulated ones.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import statewise as sw
from statewise.domains.behaviours import Uniform
from statewise.domains.cartpole import CARTPOLE
from statewise.domains.collect import collect

STEEPNESS = (1.0, 2.0, 3.0, 3.7)
SEEDS = (20, 21, 22, 23)


class Balancing(eqx.Module):
    """σ(k(θ + θ̇/2)), for the simulator."""

    steepness: Float[Array, ""]

    def __call__(self, observation: Float[Array, " features"]) -> Float[Array, " actions"]:
        right = jax.nn.sigmoid(self.steepness * (observation[2] + 0.5 * observation[3]))
        return jnp.stack([1 - right, right])


def estimated(log: sw.Dataset, policy: Balancing) -> float:
    def probabilities(observations: np.ndarray) -> np.ndarray:
        return np.asarray(jax.vmap(policy)(jnp.asarray(observations, jnp.float32)), np.float64)

    ratio = sw.fit_ratio(probabilities, log)
    visits = ratio.of_rows * ratio.action_ratio
    return float(visits.sum() / visits[log.starts[1:] - 1].sum())


def main() -> None:
    logs = [collect(CARTPOLE, Uniform(2), 500, seed=seed) for seed in SEEDS]
    print("| truth | mean of the estimates | off by | each log |\n|--:|--:|--:|---|")
    for steepness in STEEPNESS:
        policy = Balancing(jnp.asarray(steepness))
        truth = float(collect(CARTPOLE, policy, 2000, seed=10**6).lengths.mean())
        lengths = [estimated(log, policy) for log in logs]
        each = ", ".join(f"{length:.1f}" for length in lengths)
        print(f"| {truth:.1f} | {np.mean(lengths):.1f} | {100 * (np.mean(lengths) / truth - 1):+.0f} % | {each} |")


if __name__ == "__main__":
    main()
