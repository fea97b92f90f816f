"""A network with a slow copy that follows it, to bootstrap from or to stay close to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import optax
from jaxtyping import Array, Float

from statewise.ops.networks import Network
from statewise.parts.learned import Learned, descend_once


class Tracked(eqx.Module):
    """A network as it is learned, and the slow copy that its targets bootstrap from."""

    learned: Learned
    target: Any

    @property
    def network(self) -> Any:
        return self.learned.network


def follow(network: Any, slow: Any, rate: float) -> Any:
    """θ̄ ← (1 − rate) θ̄ + rate θ; at rate 1 the copy is the network itself."""
    return optax.incremental_update(network, slow, rate)  # pyright: ignore[reportArgumentType, reportReturnType]


def descend_tracked(
    tracked: Tracked,
    optimiser: optax.GradientTransformation,
    loss: Callable[[Network], Float[Array, ""]],
    rate: float,
) -> tuple[Tracked, Float[Array, ""]]:
    """One step of the optimiser, then one of the slow copy; also returns the loss before them."""
    learned, lost = descend_once(tracked.learned, optimiser, loss)
    return Tracked(learned, follow(learned.network, tracked.target, rate)), lost
