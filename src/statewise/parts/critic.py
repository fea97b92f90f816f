"""The critic V̂: ρ-weighted regression on off-policy λ-returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from statewise.data.clock import has_clock
from statewise.data.dataset import Dataset
from statewise.data.device import DeviceLog, KnownStates, Rows
from statewise.ops.keys import key_for
from statewise.ops.loops import gathers_ahead, in_turn
from statewise.ops.networks import Least, Network, initial_network, members, seen_by
from statewise.ops.returns import lambda_returns
from statewise.parts import known_values
from statewise.parts.known_values import Gains, Values
from statewise.parts.learned import start
from statewise.parts.policy import action_ratio
from statewise.parts.tracked import Tracked, descend_tracked

SHORTEST_VIEW = 50  # the least number of steps that a value looks ahead
TERMINAL_PART = 10  # a batch has one terminal state for every so many rows
AHEAD = 100_000  # up to so many rows may be gathered before the loop


@dataclass(frozen=True)
class Critic:
    """Settings of the critic."""

    hidden: tuple[int, ...] = (128, 128)  # layers of V̂
    learning_rate: float = 1e-3  # step size of Adam
    discount: float | None = None  # what V̂ bootstraps with; None: the objective's if below 1, else 0.98 or more
    clock: bool = False  # V̂ knows the time left where a limit cuts episodes off; otherwise it looks beyond the limit
    trace: float = 0.0  # λ of the λ-returns
    batch: int = 1000  # rows in each step
    steps: int = 10  # steps before each update of the policy
    warm_steps: int = 1000  # steps before the first update of the policy
    clip: float | None = None  # the largest ρ; None: no limit
    members: int = 2  # number of critics; the lowest of their values counts
    terminal_weight: float = 1.0  # weight of the loss V̂² in states where episodes ended
    target_rate: float = 0.02  # how fast the target network follows the critic; 1: it is the critic itself
    closed_form: bool = True  # solve for all actions' values where episodes are single decisions or states are few


Value = Tracked | Values  # the latter where all actions are valued in closed form


class Batch(eqx.Module):
    """Decisions to learn from; whole episodes in time order where λ > 0."""

    rows: Rows
    ratio: Float[Array, "*batch"]  # ρ of the fixed policy
    weight: Float[Array, "*batch"]  # 0 on padding, and where the next state is unknown


def value_discount(settings: Critic, dataset: Dataset, discount: float) -> float:
    """The objective's discount where it is below 1; else 1 − 1/H, with H = 50 or twice the mean logged episode.

    A policy that never fails has no finite undiscounted value, and the differences that the actor learns from are lost
    in a V̂ that grows without bound. As in generalised advantage estimation, a discount below the objective's recovers
    them for a little bias. The state ratio keeps the objective's own discount.
    """
    if settings.discount is not None:
        return settings.discount
    return discount if discount < 1 else 1 - 1 / max(SHORTEST_VIEW, 2 * float(dataset.lengths.mean()))


def known_states(settings: Critic, dataset: Dataset) -> KnownStates | None:
    """What values all actions in closed form, where the log is simple enough; observations must be scaled."""
    knows_time = settings.clock and has_clock(dataset)  # counts do not
    return known_values.known_states(dataset) if settings.closed_form and not knows_time else None


def optimiser(settings: Critic) -> optax.GradientTransformation:
    return optax.adam(settings.learning_rate)


def initial(settings: Critic, features: int, key: Key[Array, ""]) -> Tracked:
    sizes = (features, *settings.hidden, 1)
    network = initial_network(key, sizes)
    if settings.members > 1:
        network = Least(tuple(initial_network(one, sizes) for one in jax.random.split(key, settings.members)))
    return Tracked(start(network, optimiser(settings)), network)


def draw(
    settings: Critic,
    policy: Network | None,
    log: DeviceLog,
    key: Key[Array, ""],
    count: int,
    times: int = 1,
    discounted: bool = False,
) -> Batch:
    """`times` batches of about `count` rows in one draw; without a `policy`, the behaviour's own: ρ = 1."""
    if settings.trace == 0:
        return _batch(settings, policy, log.draw(key, times * count, discounted))
    rows, valid = log.draw_episodes(key, times * max(1, round(count / log.mean_length)))
    batch = _batch(settings, policy, rows)
    weight = batch.weight * valid
    if discounted:
        weight = weight * log.discount ** jnp.arange(log.horizon)[None, :]
    return Batch(rows, batch.ratio, weight)


def _batch(settings: Critic, policy: Network | None, rows: Rows) -> Batch:
    ratio = jnp.ones(rows.reward.shape) if policy is None else action_ratio(policy, rows, settings.clip)
    return Batch(rows, ratio, rows.usable)


def values(
    network: Network | Least, scale: Float[Array, ""], states: Float[Array, "*batch features"]
) -> Float[Array, "*batch"]:
    """V̂(s), in units of the log's returns."""
    return scale * network(seen_by(network, states))[..., 0]


def action_values(settings: Critic, network: Network | Least, batch: Batch, log: DeviceLog) -> Float[Array, "*batch"]:
    """Rλ(s,a) as an estimate of Q(s,a); V̂ is 0 after a terminal step, in padding and in the absorbing state."""
    rows = batch.rows
    onward = rows.onward * jnp.clip(values(network, log.scale, rows.next_state), *log.value_bounds)
    if settings.trace == 0:
        return rows.reward + log.value_discount * onward
    end = jnp.ones((batch.ratio.shape[0], 1))
    next_ratio = jnp.concatenate([batch.ratio[:, 1:], end], axis=1)
    # what follows an unusable row is unknown: the row before it bootstraps from the state it led to
    cut = jnp.concatenate([rows.usable[:, 1:], end], axis=1) == 0
    returns = jax.vmap(lambda_returns, in_axes=(0, 0, 0, 0, None, None))
    return returns(rows.reward, onward, next_ratio, (rows.last > 0) | cut, log.value_discount, settings.trace)


def initial_value(network: Network | Least | Values, log: DeviceLog, key: Key[Array, ""], count: int):
    """The mean of V̂ over so many first states."""
    first = log.draw_first(key, count)
    if isinstance(network, Values):
        return jnp.mean(known_values.of_first(network, log, first.index))
    return jnp.mean(values(network, log.scale, first.state))


def advantages(
    settings: Critic, network: Network | Least | Values, batch: Batch, log: DeviceLog, baseline: bool
) -> Float[Array, "*batch"] | Gains:
    """Q(s,a), less V̂(s) with a `baseline`; since E[ρ∇log π] = 0, that does not change the gradient's mean.

    Where all actions are valued, Q of all, less their mean.
    """
    if isinstance(network, Values):
        return known_values.gains(network, log, batch.rows, baseline)
    gain = action_values(settings, network, batch, log)
    if baseline:
        gain = gain - values(network, log.scale, batch.rows.state)
    # there is nothing to gain in padding or in the absorbing state
    return batch.rows.live * gain


def fit(
    settings: Critic,
    value: Value,
    policy: Network | None,
    log: DeviceLog,
    steps: int,
    key: Key[Array, ""],
    state_weight: Callable[[Rows], Float[Array, "*batch"]] | None = None,
) -> tuple[Value, Float[Array, ""]]:
    """`steps` updates for a fixed policy; rows are drawn before the loop, and gathered where that suits the device.

    Also returns the last loss.

    With `state_weight`, errors are also weighted by w(s): V̂ is then best where the policy goes, not the behaviour.
    """
    if log.known is not None:
        return known_values.evaluate(log.known, value, policy, log.value_discount), jnp.zeros(())
    assert isinstance(value, Tracked)

    def weighted(batch: Batch) -> Batch:
        if state_weight is None:
            return batch
        return Batch(batch.rows, batch.ratio, batch.weight * state_weight(batch.rows))

    ahead = settings.trace > 0 or (gathers_ahead() and steps * settings.batch <= AHEAD)
    rows_key = key_for(key, "rows")
    if ahead:
        drawn = weighted(draw(settings, policy, log, rows_key, settings.batch, steps))
    else:
        drawn = log.uniform.draw(rows_key, steps * settings.batch)
    batches = jax.tree.map(lambda leaf: leaf.reshape(steps, leaf.shape[0] // steps, *leaf.shape[1:]), drawn)
    anchored = settings.terminal_weight > 0 and log.terminal.shape[0] > 0
    count = settings.batch // TERMINAL_PART if anchored else 0
    ended = (
        log.draw_terminal(key_for(key, "terminal"), steps * count) if anchored else jnp.zeros((0, log.rows.features))
    )

    def loss(network: Network | Least, target: Network | Least, batch: Batch, ended: Float[Array, "ended features"]):
        """ℓ = mean ρ (Rλ − V̂)², in units of the returns' scale; Rλ carries no gradient."""
        returns = jax.lax.stop_gradient(action_values(settings, target, batch, log))
        return reduce(jnp.add, [loss_of(member, returns, batch, ended) for member in members(network)])

    def loss_of(network: Network, returns: Float[Array, "*batch"], batch: Batch, ended: Float[Array, "ended features"]):
        errors = (returns - values(network, log.scale, batch.rows.state)) / log.scale
        result = jnp.sum(batch.weight * batch.ratio * errors**2) / jnp.sum(batch.weight)
        if anchored:
            result = result + settings.terminal_weight * jnp.mean(network(seen_by(network, ended)) ** 2)
        return result

    def step(value: Tracked, drawn: tuple[Batch | Array, Array]) -> tuple[Tracked, Float[Array, ""]]:
        batch, ended = drawn
        if not isinstance(batch, Batch):
            batch = weighted(_batch(settings, policy, log.rows.take(batch)))
        loss_now = partial(loss, target=value.target, batch=batch, ended=ended)
        return descend_tracked(value, optimiser(settings), loss_now, settings.target_rate)

    value, losses = in_turn(step, value, (batches, ended.reshape(steps, count, log.rows.features)))
    return value, losses[-1]
