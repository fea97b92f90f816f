"""Prepared logs of one kind, padded to equal length and stacked, so that one compiled program learns from all of them.

Padding is never drawn and has no weight: a run in a stack equals the run on its own, up to rounding. The longest
episode and the mean length, which decide how large batches of whole episodes are, become those of all logs together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from statewise.data.device import DeviceLog, KnownStates
from statewise.data.sampling import RowSampler
from statewise.parts.ratio import Ground
from statewise.parts.ratio_closed_form import Flow
from statewise.parts.ratio_cop_td import Moves


def stacked(prepared: Sequence[Any]) -> Any:
    """One pytree whose leaves have a first axis over the logs."""
    logs = [one if isinstance(one, DeviceLog) else one.log for one in prepared]
    if len({(log.starts.shape, log.terminal.shape[0] > 0) for log in logs}) > 1:
        raise ValueError("logs to stack need the same number of episodes, and either all or none with terminated ones")
    ended = max(log.terminal.shape[0] for log in logs)
    rows = max(log.rows.table.shape[0] for log in logs)
    horizon = max(log.horizon for log in logs)
    length = float(np.mean([log.mean_length for log in logs]))
    grounds = [getattr(one, "ground", None) for one in prepared]
    fold = max((g.flow.folds.shape[1] for g in grounds if g is not None and g.flow is not None), default=0)
    states = max((log.known.states.shape[0] for log in logs if log.known is not None), default=0)
    padded = []
    for one, log, ground in zip(prepared, logs, grounds, strict=True):
        longer = _log(log, rows, ended, horizon, length, states)
        changes: dict[str, Any] = {"log": longer}
        if ground is not None:
            changes["ground"] = _ground(ground, log.rows.table.shape[0], rows, fold)
        if hasattr(one, "behaviour"):
            changes["behaviour"] = _padded(one.behaviour, rows, "edge")
        padded.append(longer if one is log else replace(one, **changes))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *padded)


def stack_of(prepared: Any) -> tuple[int, ...]:
    """How many episodes there are, and whether any terminated; whether rows have a clock, whether the state ratio has,
    and whether all actions are valued in closed form; whether the ratio is that of a sample; and how many observations
    and actions there are.

    Logs of which all that holds alike can be stacked.
    """
    log = getattr(prepared, "log", prepared)
    if not isinstance(log, DeviceLog):  # of an algorithm that is not compiled
        return ()
    flow = getattr(getattr(prepared, "ground", None), "flow", None)
    episodes = log.starts.shape[0], log.terminal.shape[0] > 0
    clocks = log.rows.timed, flow is not None and flow.memory is not None
    closed = log.known is not None, flow is not None and flow.sample is not None
    return *episodes, *clocks, *closed, log.rows.features, log.actions


def part_of(stack: Any, which: Sequence[int]) -> Any:
    """Some of the logs of a stack."""
    return jax.tree.map(lambda leaf: leaf[jnp.asarray(which)], stack)


def _padded(values: Array, length: int, mode: Literal["edge", "constant"] = "constant", axis: int = 0) -> Array:
    """With zeros, or with the last entry repeated."""
    padding = [(0, 0)] * values.ndim
    padding[axis] = (0, length - values.shape[axis])
    return jnp.pad(values, padding, mode=mode)


def _log(log: DeviceLog, rows: int, ended: int, horizon: int, mean_length: float, states: int) -> DeviceLog:
    return replace(
        log,
        rows=replace(log.rows, table=_padded(log.rows.table, rows, "edge")),
        terminal=_padded(log.terminal, ended),
        uniform=_sampler(log.uniform, horizon),
        discounted=_sampler(log.discounted, horizon),
        horizon=horizon,
        mean_length=mean_length,
        known=None if log.known is None else _known(log.known, rows, states),
    )


def _known(known: KnownStates, rows: int, states: int) -> KnownStates:
    """Padded states are those of no row; nothing leads there."""

    def longer(values: Array | None) -> Array | None:
        return None if values is None else _padded(values, states)

    onward = longer(known.onward)
    return KnownStates(
        place=_padded(known.place, rows, "edge"),
        states=_padded(known.states, states),
        legal=longer(known.legal),
        rewards=_padded(known.rewards, states),
        trials=longer(known.trials),
        onward=None if onward is None else _padded(onward, states, axis=2),
        noise=longer(known.noise),
    )


def _sampler(sampler: RowSampler, horizon: int) -> RowSampler:
    """Padded steps are never drawn: the cumulative probability before them is already 1."""
    cumulative = sampler.cumulative.at[-1].set(1.0)
    return replace(
        sampler, cumulative=_padded(cumulative, horizon, "edge"), reach=_padded(sampler.reach, horizon, "edge")
    )


def _ground(ground: Ground, steps: int, rows: int, fold: int) -> Ground:
    flow, moves = ground.flow, ground.moves
    if moves is not None:
        longer = Moves(_padded(moves.onward, rows), _padded(moves.recorded, rows))
        return replace(ground, moves=longer)
    if flow is None:
        return ground
    if flow.sample is not None:  # as many rows of every log
        time = None if flow.sample.time is None else _padded(flow.sample.time, rows)
        longer = replace(flow, folds=_padded(flow.folds, fold, axis=1), sample=replace(flow.sample, time=time))
        return replace(ground, flow=longer)
    # the states in which episodes ended come after those of the decisions
    phi = jnp.concatenate([_padded(flow.phi[:steps], rows), flow.phi[steps:]])
    following = jnp.where(flow.following >= steps, flow.following + rows - steps, flow.following)
    longer = Flow(
        phi=phi,
        following=_padded(following, rows),
        onward=_padded(flow.onward, rows),
        weight=_padded(flow.weight, rows),
        fresh=flow.fresh,
        folds=_padded(flow.folds, fold, axis=1),
        sizes=flow.sizes,
        importance=flow.importance,
        continuing=flow.continuing,
        memory=flow.memory,
    )
    return replace(ground, flow=longer)
