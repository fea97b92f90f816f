"""How a policy sees a log: scaled observations, and the names of observations and actions."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from statewise.data.augment import Scaler, pad, seen_by_policy, smooth
from statewise.data.dataset import Dataset
from statewise.ops.networks import Network
from statewise.policies.network import Policy


@dataclass(frozen=True, eq=False)
class View:
    """What turns a network into a policy that acts on observations as logged."""

    scaler: Scaler
    observation_names: tuple[str, ...]  # without the column of the absorbing state, which is 0 in the world
    action_names: tuple[str, ...]

    def policy(self, network: Network) -> Policy:
        """softmax(network((s − mean)/std))."""
        network = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), network)
        seen = len(self.observation_names)
        return Policy(
            weights=(network.weights[0][:seen], *network.weights[1:]),  # pyright: ignore[reportArgumentType]
            biases=network.biases,  # pyright: ignore[reportArgumentType]
            mean=self.scaler.mean[:seen],
            std=self.scaler.std[:seen],
            observation_names=self.observation_names,
            action_names=self.action_names,
        )


def view_of(dataset: Dataset, *, smoothing: float = 0.0, horizon: int | None = None) -> tuple[Dataset, View]:
    """The log with scaled observations, and the view by which its policies act on unscaled ones.

    With `smoothing`, actions that the behaviour never takes lead to an absorbing state; with a `horizon`, terminated
    episodes are padded to that length. Padding does not change the scaling.
    """
    if smoothing != 0:
        dataset = smooth(dataset, smoothing, horizon=horizon).dataset
    scaler = Scaler.of(dataset)
    names = dataset.observation_names[: seen_by_policy(dataset).shape[1]]
    view = View(scaler, names, dataset.action_names)
    return scaler.scale(dataset if horizon is None else pad(dataset, horizon)), view


def scale_of_returns(dataset: Dataset, discount: float) -> float:
    """The standard deviation of the log's returns; 1 where they never vary."""
    scale = float(np.std(dataset.returns(discount)))
    return scale if scale > 0 else 1.0
