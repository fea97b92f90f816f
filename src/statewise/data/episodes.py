"""Arrays ⇄ logs: one array per episode, or flat arrays as in d3rlpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from statewise.data.dataset import Dataset
from statewise.data.findings import Findings, RowNames
from statewise.data.horizon import Horizon
from statewise.data.rawlog import RawLog


def raw_from_episodes(
    *,
    observations: Sequence[Any],
    actions: Sequence[Any],
    rewards: Sequence[Any],
    terminated: Sequence[Any],
    propensities: Sequence[Any] | None = None,
    distributions: Sequence[Any] | None = None,
    legal: Sequence[Any] | None = None,
    units: Sequence[Any] | None = None,
    observation_names: Sequence[str] | None = None,
    action_count: int | None = None,
    horizon: Horizon | None = None,
) -> RawLog:
    """Joins episodes end to end; an episode with one more observation than actions ends in its final state."""
    findings = Findings(RowNames("episode"))
    if propensities is None and distributions is None:
        findings.fault(
            "propensities",
            "neither propensities nor distributions were given",
            "Give the probability with which each action was taken, or whole distributions",
        )
    lists = _Lists([len(episode) for episode in actions], findings)
    seen = lists.matrices("observations", observations, spare=1)
    columns = {
        "action": lists.vectors("actions", actions),
        "reward": lists.vectors("rewards", rewards),
        "propensity": lists.vectors("propensities", propensities),
        "distribution": lists.matrices("distributions", distributions),
        "legal": lists.matrices("legal", legal),
    }
    flags = lists.flags("terminated", terminated)
    if units is not None:
        lists.one_each("units", units)
    findings.raise_faults()
    assert seen is not None
    assert flags is not None

    lengths = np.array([len(episode) for episode in seen])
    finals = np.cumsum(lists.decisions)[lengths > lists.decisions]  # each final state follows its episode's decisions
    laid = {}
    for name, column in columns.items():
        if column is not None:
            empty, kind = (1, np.int8) if name == "legal" else (np.nan, float)
            laid[name] = np.insert(np.concatenate(column).astype(kind), finals, empty, axis=0)
    joined = np.concatenate(seen)
    names = tuple(observation_names or (f"x{j}" for j in range(joined.shape[1])))
    if len(set(names)) != joined.shape[1] or len(names) != joined.shape[1]:
        problem = f"expected {joined.shape[1]} different names, got {len(set(names))}"
        findings.fault("observation_names", problem, "Give each column its own name")
        findings.raise_faults()
    widths = [laid[name].shape[1] for name in ("distribution", "legal") if name in laid]
    return RawLog(
        episode=np.repeat(np.arange(len(lengths)), lengths),
        episode_ids=np.arange(len(lengths)),
        step=np.concatenate([np.arange(n) for n in lengths]),
        observations=joined,
        observation_names=names,
        action=laid["action"],
        reward=laid["reward"],
        propensity=laid.get("propensity"),
        distribution=laid.get("distribution"),
        legal=laid.get("legal"),
        terminated=_on_last_rows(flags, lengths),
        unit=None if units is None else np.repeat(np.asarray(units), lengths),
        horizon=horizon,
        action_count=action_count if action_count is not None else (widths[0] if widths else None),
    )


class _Lists:
    """Converts lists of episodes to arrays; what does not fit becomes a fault."""

    def __init__(self, decisions: list[int], findings: Findings):
        self.decisions, self.findings = np.array(decisions, dtype=int), findings
        if len(decisions) == 0:
            findings.fault("actions", "there are no episodes", "Give one array of actions per episode")
        empty = np.flatnonzero(self.decisions == 0)
        if len(empty):
            findings.fault("actions", "an episode has no decisions", "Leave out empty episodes", empty)

    def vectors(self, name: str, column: Sequence[Any] | None) -> list[np.ndarray] | None:
        return self._arrays(name, column, 1, 0)

    def matrices(self, name: str, column: Sequence[Any] | None, spare: int = 0) -> list[np.ndarray] | None:
        arrays = self._arrays(name, column, 2, spare)
        if arrays and len({array.shape[1] for array in arrays}) > 1:
            self.findings.fault(
                name, "episodes differ in the number of columns", "Give the same columns in every episode"
            )
        return arrays

    def _arrays(self, name: str, column: Sequence[Any] | None, rank: int, spare: int) -> list[np.ndarray] | None:
        if column is None or not self.one_each(name, column):
            return None
        try:
            arrays = [np.asarray(episode, dtype=_float_type(episode)) for episode in column]
        except (TypeError, ValueError):
            self.findings.fault(name, "not everything is a number", "Give arrays of numbers")
            return None
        if name == "observations":
            arrays = [array[:, None] if array.ndim == 1 else array for array in arrays]
        wrong = np.array([e for e, array in enumerate(arrays) if array.ndim != rank])
        if len(wrong):
            shape = "[steps]" if rank == 1 else "[steps, columns]"
            problem = f"expected arrays of shape {shape}, got {arrays[wrong[0]].shape}"
            self.findings.fault(name, problem, "Give one such array per episode", wrong)
            return None
        has = np.array([len(array) for array in arrays])
        wrong = np.flatnonzero((has < self.decisions) | (has > self.decisions + spare))
        if len(wrong):
            e = int(wrong[0])
            more = ", or one more for the final state" if spare else ""
            problem = f"expected length {self.decisions[e]}, got {has[e]}"
            self.findings.fault(name, problem, f"Give one entry per action{more}", wrong)
            return None
        return arrays

    def flags(self, name: str, values: Sequence[Any]) -> np.ndarray | None:
        if not self.one_each(name, values):
            return None
        array = np.asarray(values)
        if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
            kind = "text" if array.dtype.kind in "SU" else "values"
            problem = f"expected booleans, got {kind} such as '{array.flat[0]}'"
            self.findings.fault(name, problem, "Give one True or False per episode")
            return None
        return array.astype(bool)

    def one_each(self, name: str, values: Sequence[Any]) -> bool:
        if len(values) == len(self.decisions):
            return True
        problem = f"expected length {len(self.decisions)}, got {len(values)}"
        self.findings.fault(name, problem, "Give one entry per episode")
        return False


def from_arrays(
    observations: Any,
    actions: Any,
    rewards: Any,
    terminals: Any,
    timeouts: Any | None = None,
    *,
    propensities: Any | None = None,
    distributions: Any | None = None,
    legal: Any | None = None,
    units: Any | None = None,
    **more: Any,
) -> Dataset:
    """From flat arrays as in d3rlpy: an episode ends where `terminals` or `timeouts` is set.

    `more` goes to `Dataset.from_episodes`: `observation_names`, `action_count`, `cut_off`, `horizon`.
    """
    flat = {"actions": actions, "rewards": rewards, "propensities": propensities, "terminals": terminals}
    columns = {name: None if column is None else np.reshape(column, -1) for name, column in flat.items()}
    columns |= {"observations": observations, "distributions": distributions, "legal": legal, "units": units}
    columns["timeouts"] = np.zeros(len(observations)) if timeouts is None else np.reshape(timeouts, -1)
    findings = Findings()
    for name, column in columns.items():
        if column is not None and len(column) != len(observations):
            problem = f"expected length {len(observations)}, got {len(column)}"
            findings.fault(name, problem, "Give one entry per observation")
    for name in ("terminals", "timeouts"):
        if not np.isin(np.asarray(columns[name]), (0, 1)).all():
            findings.fault(name, "not everything is true or false", "Give 1 where an episode ends, 0 elsewhere")
    findings.raise_faults()
    ends = (np.asarray(columns["terminals"]) != 0) | (np.asarray(columns["timeouts"]) != 0)
    edges = np.flatnonzero(ends[:-1]) + 1  # rows after the last end are an episode that was cut off
    split = {name: None if column is None else np.split(np.asarray(column), edges) for name, column in columns.items()}
    finished = split.pop("terminals")
    of_unit = split.pop("units")
    split.pop("timeouts")
    assert finished is not None
    return Dataset.from_episodes(
        **split,  # pyright: ignore[reportArgumentType]
        terminated=[bool(episode[-1]) for episode in finished],
        units=None if of_unit is None else [episode[0] for episode in of_unit],
        **more,
    )


def to_arrays(dataset: Dataset) -> dict[str, np.ndarray]:
    """Flat arrays as in d3rlpy: without propensities, `d3rlpy.dataset.MDPDataset` takes them."""
    last = dataset.starts[1:] - 1
    terminals, timeouts = np.zeros(len(dataset), dtype=bool), np.zeros(len(dataset), dtype=bool)
    terminals[last], timeouts[last] = dataset.terminated, dataset.truncated
    arrays = {
        "observations": dataset.observations,
        "actions": dataset.actions,
        "rewards": dataset.rewards,
        "terminals": terminals,
        "timeouts": timeouts,
    }
    if dataset.propensities is not None:
        arrays["propensities"] = dataset.propensities
    return arrays


def _float_type(values: Any) -> Any:
    return np.float32 if getattr(values, "dtype", None) == np.float32 else np.float64


def _on_last_rows(flags: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    rows = np.zeros(int(lengths.sum()), dtype=np.int8)
    rows[np.cumsum(lengths) - 1] = flags
    return rows
