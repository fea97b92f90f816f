"""A Dataset as device arrays: one table of rows, from which mini-batches and whole episodes are drawn."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from statewise.base.column import goes_to_file, parts_of, to_draw_from
from statewise.data.clock import has_clock
from statewise.data.dataset import Dataset
from statewise.data.sampling import RowSampler, random_below, row_sampler
from statewise.ops.placed import placed


class Rows(eqx.Module):
    """Decisions in a batch of any shape.

    `onward` is 1 where the value of the next state counts: not after a terminal step, nor on the way into padding.
    `usable` is 0 where an episode was cut off in a state that was not logged: nothing is known of what followed.
    """

    index: Int[Array, "*batch"]  # the row of the log
    state: Float[Array, "*batch features"]
    next_state: Float[Array, "*batch features"]
    action: Int[Array, "*batch"]
    reward: Float[Array, "*batch"]
    propensity: Float[Array, "*batch"]
    onward: Float[Array, "*batch"]
    usable: Float[Array, "*batch"]
    live: Float[Array, "*batch"]
    last: Float[Array, "*batch"]  # 1 on the last decision of an episode …
    terminated: Float[Array, "*batch"]  # … that the world ended
    legal: Bool[Array, "*batch actions"] | None  # None: all actions are legal in all states


ALIGNMENT = 64  # bytes
SCALARS = ("action", "reward", "propensity", "onward", "usable", "live", "last", "terminated")


class RowTable(eqx.Module):
    """All rows in one matrix, so that drawing a mini-batch is a single gather."""

    table: Float[Array, "steps width"]
    features: int = eqx.field(static=True)
    masked: bool = eqx.field(static=True)
    timed: bool = eqx.field(static=True, default=False)  # the last feature is the clock

    def inputs(self, clock: bool = False) -> int:
        """How many features there are, without the clock or with it."""
        return self.features - (self.timed and not clock)

    def take(self, index: Int[Array, "*batch"]) -> Rows:
        lines = self.table.at[index].get(mode="promise_in_bounds")
        f = self.features
        scalars = dict(zip(SCALARS, jnp.moveaxis(lines[..., 2 * f : 2 * f + len(SCALARS)], -1, 0), strict=True))
        return Rows(
            index=index,
            state=lines[..., :f],
            next_state=lines[..., f : 2 * f],
            **scalars | {"action": scalars["action"].astype(jnp.int32)},
            legal=lines[..., 2 * f + len(SCALARS) :] > 0 if self.masked else None,
        )


class KnownStates(eqx.Module):
    """The states of a log in which all actions can be valued; single decisions have one each, and lead nowhere."""

    place: Int[Array, " steps"]  # the state of each row
    states: Float[Array, "states features"]
    legal: Bool[Array, "states actions"] | None
    rewards: Float[Array, "states actions"]  # their means, or what a regression expects
    trials: Float[Array, "states actions"] | None  # how often each action was taken
    onward: Float[Array, "states actions states"] | None  # how often that led to each state, as a share of the trials
    noise: Float[Array, "states actions"] | None  # variances of rewards
    valued: Int[Array, " valued"] | None = None  # the states of which V̂ is known; None: all


class DeviceLog(eqx.Module):
    """What a learner draws from: the rows, and how to draw them."""

    rows: RowTable
    uniform: RowSampler
    discounted: RowSampler
    starts: Int[Array, " episodes"]  # the first row of each episode
    lengths: Int[Array, " episodes"]
    terminal: Int[Array, " terminated"]  # the last rows of the episodes that the world ended …
    ended: Int[Array, ""]  # … and their number: in a stack of logs, the shorter ones are filled up
    discount: Float[Array, ""]
    value_bounds: Float[Array, "2"]  # the least and the greatest return of rewards like the log's
    value_discount: Float[Array, ""]  # what values bootstrap with: the discount, or less if that is 1
    scale: Float[Array, ""]  # of the log's returns; 1 leaves rewards as they are
    first_share: Float[Array, ""]  # P(t = −1) if t = −1, 0, 1, … is drawn with probability ∝ γᵗ⁺¹
    known: KnownStates | None  # where the log is simple enough to value all actions in closed form
    actions: int = eqx.field(static=True)  # how many there are
    horizon: int = eqx.field(static=True)
    mean_length: float = eqx.field(static=True)  # of episodes, by which a number of rows becomes a number of episodes

    def draw(self, key: Key[Array, ""], count: int, discounted: bool = False) -> Rows:
        """Single decisions, drawn uniformly or from d̂_γ."""
        sampler = self.discounted if discounted else self.uniform
        return self.rows.take(sampler.draw(key, count))

    def draw_first(self, key: Key[Array, ""], count: int) -> Rows:
        """First decisions of episodes."""
        return self.rows.take(self.draw_first_rows(key, count))

    def draw_first_rows(self, key: Key[Array, ""], count: int) -> Int[Array, " count"]:
        """Which rows those are."""
        return self.starts[random_below(key, count, self.starts.shape[0])]

    def draw_initial(self, key: Key[Array, ""], count: int) -> Float[Array, "count features"]:
        return self.draw_first(key, count).state

    def draw_terminal(self, key: Key[Array, ""], count: int) -> Float[Array, "count features"]:
        """States in which episodes ended."""
        which = random_below(key, count, self.ended)
        return self.rows.take(self.terminal[which]).next_state

    def renewed(self, key: Key[Array, ""], rows: Rows) -> Float[Array, "count features"]:
        """Next states on the renewal chain, where the end of an episode leads to a fresh initial state.

        The chain's stationary ratio is, up to scale, the ratio of expected visits per episode,
        Σₜ P(sₜ=s|π) / Σₜ P(sₜ=s|μ): what the gradient of an episodic return needs.
        """
        fresh = self.draw_initial(key, rows.last.shape[0])
        return jnp.where(rows.last[:, None] > 0, fresh, rows.next_state)

    def draw_episodes(self, key: Key[Array, ""], count: int) -> tuple[Rows, Bool[Array, "count horizon"]]:
        """Whole episodes, filled up to the horizon with their last row, and which entries are real."""
        episode = random_below(key, count, self.starts.shape[0])
        time = jnp.arange(self.horizon)[None, :]
        length = self.lengths[episode][:, None]
        return self.rows.take(self.starts[episode][:, None] + jnp.minimum(time, length - 1)), time < length


def device_log(
    dataset: Dataset,
    discount: float,
    scale: float = 1.0,
    value_discount: float | None = None,
    propensities: bool = True,
    known: KnownStates | None = None,
) -> DeviceLog:
    """Puts a Dataset, with its observations scaled, on the device.

    `value_discount` is what values bootstrap with, by default the discount; `propensities=False` is for learners that
    need none. `known` is what `parts.known_values` makes of simple logs.
    """
    later = discount * float(np.sum(float(discount) ** dataset.time))
    terminal = (dataset.starts[1:] - 1)[dataset.terminated & dataset.has_final_observation]
    return DeviceLog(
        rows=row_table(dataset, propensities),
        uniform=row_sampler(dataset, 1.0),
        discounted=row_sampler(dataset, discount),
        starts=placed(dataset.starts[:-1], dtype=jnp.int32),
        lengths=placed(dataset.lengths, dtype=jnp.int32),
        terminal=placed(terminal, dtype=jnp.int32),
        ended=placed(len(terminal), dtype=jnp.int32),
        discount=placed(discount, dtype=jnp.float32),
        value_bounds=value_bounds(dataset, discount if value_discount is None else value_discount),
        value_discount=placed(discount if value_discount is None else value_discount, dtype=jnp.float32),
        scale=placed(scale, dtype=jnp.float32),
        first_share=placed(dataset.episodes / (dataset.episodes + later), dtype=jnp.float32),
        known=known,
        actions=dataset.action_count,
        horizon=int(dataset.lengths.max()),
        mean_length=float(dataset.lengths.mean()),
    )


def value_bounds(dataset: Dataset, discount: float) -> Float[Array, "2"]:
    """Σₜ γᵗ r of the least and of the greatest logged reward for ever, or 0 where ending is worse or better.

    Where the limit is an end, up to the limit.
    """
    extremes = np.array([min(dataset.rewards.min(), 0.0), max(dataset.rewards.max(), 0.0)])
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.where(extremes == 0, 0.0, extremes / (1 - discount))
    if has_clock(dataset) and not dataset.truncated.any():
        bounds = extremes * np.sum(float(discount) ** np.arange(dataset.lengths.max()))
    return placed(bounds, dtype=jnp.float32)


class Lines:
    """Every decision as one line: state, next state, scalars, legal mask; propensities that are not needed are NaN.

    A line is made when it is asked for, since all of them take more memory than the log.
    """

    def __init__(self, dataset: Dataset, propensities: bool = True):
        steps, self.last = len(dataset), dataset.starts[1:] - 1
        live = np.ones(steps, dtype=bool) if dataset.live is None else dataset.live
        next_live = np.append(live[1:], True)
        next_live[self.last] = live[self.last]  # a padded episode ends in padding
        known = np.ones(steps, dtype=bool)
        known[self.last] = dataset.has_final_observation
        ends, terminated = np.zeros(steps, dtype=bool), np.zeros(steps, dtype=bool)
        ends[self.last], terminated[self.last] = True, dataset.terminated
        self.scalars = {
            "action": dataset.actions,
            "reward": dataset.rewards,
            "propensity": propensities_of(dataset) if propensities else np.nan,
            "onward": known & next_live & ~terminated,
            "usable": known | terminated,
            "live": live,
            "last": ends,
            "terminated": terminated,
        }
        self.dataset, self.after_last = dataset, after_last(dataset)
        self.features = dataset.observations.shape[1]
        masks = 0 if dataset.legal is None else dataset.action_count
        self.shape = steps, 2 * self.features + len(SCALARS) + masks

    def fill(self, lines: Float[np.ndarray, "part width"], part: slice) -> Float[np.ndarray, "part width"]:
        """Writes those of a part of the log into an array."""
        observations, f, until = self.dataset.observations, self.features, min(part.stop, self.shape[0] - 1)
        lines[:, :f] = observations[part]
        lines[: until - part.start, f : 2 * f] = observations[part.start + 1 : until + 1]
        ended = slice(*np.searchsorted(self.last, (part.start, part.stop)))
        lines[self.last[ended] - part.start, f : 2 * f] = self.after_last[ended]
        for j, name in enumerate(SCALARS):
            lines[:, 2 * f + j] = self.scalars[name][part] if np.ndim(self.scalars[name]) else self.scalars[name]
        if self.dataset.legal is not None:
            lines[:, 2 * f + len(SCALARS) :] = self.dataset.legal[part]
        return lines

    def __getitem__(self, part: slice) -> Float[np.ndarray, "part width"]:
        return self.fill(np.empty((part.stop - part.start, self.shape[1]), np.float32), part)

    def table(self, lines: Float[np.ndarray, "part width"]) -> RowTable:
        """Lines on the device. On a CPU this is no copy: what is drawn from a log in files is read from the disk."""
        return RowTable(jax.device_put(lines), self.features, self.dataset.legal is not None, has_clock(self.dataset))


def row_table(dataset: Dataset, propensities: bool = True) -> RowTable:
    """All rows of a log, to draw from."""
    lines, steps = Lines(dataset, propensities), len(dataset)
    if goes_to_file(dataset.rewards, steps):
        blocks = (lines[part] for part in parts_of(steps))
        return lines.table(to_draw_from(blocks, lines.shape, np.float32, beside=dataset.rewards))
    table = _aligned(*lines.shape)
    for part in parts_of(steps):
        lines.fill(table[part], part)
    return lines.table(table)


def _aligned(rows: int, width: int) -> Float[np.ndarray, "rows width"]:
    """An empty table that begins where XLA wants it: on a CPU, `device_put` then takes it over without a copy."""
    memory = np.empty(4 * rows * width + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    return memory[first : first + 4 * rows * width].view(np.float32).reshape(rows, width)


def after_last(dataset: Dataset) -> Float[np.ndarray, "episodes features"]:
    """The state after the last decision of each episode: the logged final state, or else the last one again."""
    known = dataset.has_final_observation[:, None]
    return np.where(known, dataset.final_observations, dataset.observations[dataset.starts[1:] - 1])


def propensities_of(dataset: Dataset) -> Float[np.ndarray, " steps"]:
    """The propensities; a log without them is refused, never silently completed."""
    if dataset.propensities is None:
        raise ValueError("the log has no propensities: log them, or estimate them with `estimate_propensities`")
    return dataset.propensities
