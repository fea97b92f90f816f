"""Values of all actions in closed form, for logs that are simple enough: single decisions, or few states.

Where an episode is one decision, Q̂ is a regression of rewards (`reward_model`). Where the log has few states, each seen
often, it is counted: with n(s,a) decisions, mean rewards r̂ and frequencies P̂ of what followed,

    Q̂ = r̂ − c σ̂/√n + γ P̂ V̂,     V̂(s) = Σ_a π(a|s) Q̂(s,a),

solved exactly for the policy π. σ̂ is the deviation of r + γV̂(s') from its mean in (s,a), over all rows: what was tried
less must look better by more. An action that was never tried in a state is worth what the worst one there is, less
c σ̂, as if it had been tried once: where one action alone was tried, the policy keeps to it. Either way the actor
follows Σ_a ∇π(a|s) Q̂(s,a) in the logged states, without the noise of ρ.
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from statewise.base.column import parts_of
from statewise.data.clock import has_clock
from statewise.data.dataset import Dataset
from statewise.data.device import DeviceLog, KnownStates, Lines, Rows
from statewise.data.states import PART, few_states, places_of
from statewise.ops.chains import earned
from statewise.ops.networks import Network
from statewise.ops.placed import placed
from statewise.parts import reward_model
from statewise.parts.policy import log_policy

CAUTION = 0.75  # c
MOST_ENTRIES = 20_000_000  # of P̂
MANY, SOME = 1 << 18, 1 << 16  # of more single decisions, V̂ is evaluated for some: nothing but a mean depends on it


class Values(eqx.Module):
    """Q̂ and V̂ of every state for one policy, and σ̂."""

    actions: Float[Array, "states actions"]
    states: Float[Array, " valued"]
    deviation: Float[Array, ""]

    @property
    def network(self) -> Values:
        return self


class Gains(eqx.Module):
    """What every action gains over the mean of all, in the states where a batch's decisions were taken."""

    state: Float[Array, "*states features"]
    legal: Bool[Array, "*states actions"] | None
    gain: Float[Array, "*states actions"]
    place: Int[Array, "*batch"] | None  # the state of each decision; None: each has its own

    def weights(self, weight: Float[Array, "*batch"]) -> Float[Array, "*states"]:
        """The states' weights from those of the decisions."""
        if self.place is None:
            return weight
        return jax.ops.segment_sum(weight.ravel(), self.place.ravel(), num_segments=len(self.state))


def known_states(dataset: Dataset) -> KnownStates | None:
    """What is needed to value all actions; None where the log is not simple enough. Observations must be scaled."""
    if reward_model.single_decisions(dataset):
        rewards = reward_model.expected_rewards(dataset)
        place = np.arange(len(dataset), dtype=np.int32)
        known = _on_device(place, dataset.observations, dataset.legal, rewards, None, None, None)
        if len(dataset) <= MANY:
            return known
        some = np.sort(np.random.default_rng(0).choice(len(dataset), SOME, replace=False))
        return replace(known, valued=placed(some, jnp.int32))
    return _counted(dataset)


def evaluate(known: KnownStates, before: object, policy: Network | None, discount: Float[Array, ""]) -> Values:
    """Q̂ of the policy, or of the behaviour; σ̂ is that of the values `before`, if there are any."""
    deviation = before.deviation if isinstance(before, Values) else jnp.zeros(())
    if known.onward is None or known.trials is None or known.noise is None:
        some = known if known.valued is None else _of_some(known, known.valued)
        chances = _uniform(some.rewards) if policy is None else _chances(some, policy)
        return Values(known.rewards, jnp.sum(chances * some.rewards, axis=1), deviation)
    trials = known.trials
    tried = trials > 0
    chances = trials / jnp.maximum(jnp.sum(trials, axis=1, keepdims=True), 1.0)
    if policy is not None:
        chances = _chances(known, policy)
    # what was never tried counts as the worst of the others, which are not known before they are valued
    held = jnp.where(tried, chances, 0.0)
    held = held / jnp.maximum(jnp.sum(held, axis=1, keepdims=True), 1e-8)
    paid = known.rewards - CAUTION * deviation / jnp.sqrt(jnp.maximum(trials, 1.0))
    move = jnp.einsum("sa,sat->st", held, known.onward)
    values = earned(discount * move, jnp.sum(held * paid, axis=1))
    following = discount * known.onward @ values
    variance = known.noise + jnp.maximum(discount**2 * known.onward @ values**2 - following**2, 0.0)
    spread = jnp.sqrt(jnp.sum(trials * variance) / jnp.sum(trials))
    worth = paid + following
    worst = jnp.min(jnp.where(tried, worth, jnp.inf), axis=1, keepdims=True) - CAUTION * deviation
    return Values(jnp.where(tried, worth, jnp.where(jnp.isfinite(worst), worst, 0.0)), values, spread)


def gains(values: Values, log: DeviceLog, rows: Rows, baseline: bool) -> Gains:
    """Of few states each is there once, whatever the number of its decisions: sums over these are the same."""
    known = log.known
    assert known is not None
    gain = values.actions - jnp.mean(values.actions, axis=1, keepdims=True) if baseline else values.actions
    if known.onward is not None:
        return Gains(known.states, known.legal, gain, known.place[rows.index])
    return Gains(rows.state, rows.legal, gain[known.place[rows.index]], None)


def of_first(values: Values, log: DeviceLog, index: Int[Array, " count"]) -> Float[Array, " count"]:
    """V̂ of the states of these rows, or of as many that stand for them."""
    assert log.known is not None
    if log.known.valued is not None:
        return values.states[index % len(values.states)]
    return values.states[log.known.place[index]]


def _of_some(known: KnownStates, rows: Int[Array, " some"]) -> KnownStates:
    legal = None if known.legal is None else known.legal[rows]
    return replace(known, states=known.states[rows], legal=legal, rewards=known.rewards[rows])


def _chances(known: KnownStates, policy: Network) -> Float[Array, "states actions"]:
    return jnp.exp(log_policy(policy, known.states, known.legal))


def _uniform(table: Float[Array, "states actions"]) -> Float[Array, "states actions"]:
    return jnp.full(table.shape, 1 / table.shape[1])


def _counted(dataset: Dataset) -> KnownStates | None:
    """Counts of every (s,a) and (s,a,s') of a log with few states."""
    seen = dataset.observations[:, :-1] if has_clock(dataset) else dataset.observations
    few = few_states(seen)
    if few is None or len(few.states) ** 2 * dataset.action_count > MOST_ENTRIES:
        return None
    (states, place), count, actions = few, len(few.states), dataset.action_count
    trials, earned, noise = (np.zeros((count, actions)) for _ in range(3))
    moves, used, lines = np.zeros((count, actions, count), np.float32), [], Lines(dataset, propensities=False)
    for part in parts_of(len(dataset), PART):
        rows = jax.device_get(lines.table(lines[part]).take(jnp.arange(part.stop - part.start)))
        following = places_of(states, rows.next_state[:, : seen.shape[1]])
        onward = rows.onward > 0
        # nothing is known of a state in which no decision was logged: rows that lead there are left out
        usable = (rows.usable > 0) & (rows.live > 0) & (~onward | (following >= 0))
        pair = (place[part][usable], rows.action[usable])
        np.add.at(trials, pair, 1.0)
        np.add.at(earned, pair, dataset.rewards[part][usable])
        on = usable & onward
        np.add.at(moves, (place[part][on], rows.action[on], following[on]), 1.0)
        used.append(usable)
    each = np.maximum(trials, 1.0)
    mean = earned / each
    for part, usable in zip(parts_of(len(dataset), PART), used, strict=True):
        pair = (place[part][usable], dataset.actions[part][usable])
        np.add.at(noise, pair, (dataset.rewards[part][usable] - mean[pair]) ** 2)
    return _on_device(
        place.astype(np.int32),
        states,
        None if dataset.legal is None else dataset.legal[few.first],
        mean,
        trials,
        moves / each[..., None],
        noise / each,
    )


def _on_device(
    place: Int[np.ndarray, " rows"],
    states: Float[np.ndarray, "states features"],
    legal: Bool[np.ndarray, "states actions"] | None,
    rewards: Float[np.ndarray, "states actions"],
    trials: Float[np.ndarray, "states actions"] | None,
    onward: Float[np.ndarray, "states actions states"] | None,
    noise: Float[np.ndarray, "states actions"] | None,
) -> KnownStates:
    def put(values: np.ndarray | None) -> Array | None:
        return None if values is None else placed(values, jnp.float32)

    return KnownStates(
        place=jnp.asarray(place),
        states=placed(states, jnp.float32),
        legal=None if legal is None else jnp.asarray(legal),
        rewards=placed(rewards, jnp.float32),
        trials=put(trials),
        onward=put(onward),
        noise=put(noise),
    )
