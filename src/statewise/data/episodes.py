"""Arrays ⇄ raw logs: one array an episode, or flat arrays in d3rlpy's manner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from statewise.data.dataset import Dataset
from statewise.data.findings import Findings, RowNames
from statewise.data.rawlog import RawLog


def raw_from_episodes(
    *,
    observations: Sequence[Any],
    actions: Sequence[Any],
    rewards: Sequence[Any],
    terminated: Sequence[bool],
    propensities: Sequence[Any] | None = None,
    distributions: Sequence[Any] | None = None,
    legal: Sequence[Any] | None = None,
    units: Sequence[Any] | None = None,
    observation_names: Sequence[str] | None = None,
    action_count: int | None = None,
) -> RawLog:
    """Lays episodes end to end; an episode with one observation more than actions ends in its final state."""
    findings = Findings(RowNames("episode"))
    if propensities is None and distributions is None:
        findings.fault(
            "propensities",
            "neither propensities nor distributions were given",
            "Give the probability with which each action was taken, or the whole distributions",
        )
    decisions = [len(episode) for episode in actions]
    seen = [len(episode) for episode in observations]
    per_step = {
        "rewards": rewards,
        "propensities": propensities,
        "distributions": distributions,
        "legal": legal,
    }
    for name, column in per_step.items():
        if column is not None:
            _check_lengths(name, [len(episode) for episode in column], decisions, 0, findings)
    _check_lengths("observations", seen, decisions, 1, findings)
    for name, column in {"terminated": terminated, "units": units}.items():
        if column is not None and len(column) != len(decisions):
            findings.fault(name, f"{len(column)} entries for {len(decisions)} episodes", "Give one an episode")
    findings.raise_faults()

    extra = np.array(seen, dtype=int) - np.array(decisions, dtype=int)
    lengths = np.array(seen, dtype=int)
    finals = np.cumsum(decisions)[extra > 0]  # a final state's row follows the decisions of its episode

    def laid(column: Sequence[Any] | None, empty: Any = np.nan, dtype: Any = float) -> Any:
        """End to end, with `empty` on the rows that hold a final state."""
        if column is None:
            return None
        joined = np.concatenate([np.asarray(values) for values in column]) if len(column) else np.zeros(0)
        return np.insert(joined.astype(dtype), finals, empty, axis=0)

    flat = [np.asarray(episode, dtype=_float_type(episode)) for episode in observations]
    flat = [episode[:, None] if episode.ndim == 1 else episode for episode in flat]
    features = flat[0].shape[1] if flat else 0
    width = _width(distributions) or _width(legal)
    return RawLog(
        episode=np.repeat(np.arange(len(decisions)), lengths),
        episode_ids=np.arange(len(decisions)),
        step=np.concatenate([np.arange(n) for n in lengths]) if len(lengths) else np.zeros(0, dtype=int),
        observations=np.concatenate(flat) if flat else np.zeros((0, 0)),
        observation_names=tuple(observation_names or (f"x{j}" for j in range(features))),
        action=laid(actions),
        reward=laid(rewards),
        propensity=laid(propensities),
        distribution=laid(distributions),
        legal=laid(legal, empty=True, dtype=bool),
        terminated=_on_last_rows(np.asarray(terminated, dtype=bool), lengths),
        unit=None if units is None else np.repeat(np.asarray(units), lengths),
        action_count=action_count if action_count is not None else width,
    )


def from_arrays(
    observations: Any,
    actions: Any,
    rewards: Any,
    terminals: Any,
    timeouts: Any | None = None,
    *,
    propensities: Any | None = None,
    distributions: Any | None = None,
    **more: Any,
) -> Dataset:
    """From flat arrays in d3rlpy's manner: an episode ends where `terminals` or `timeouts` is set."""
    terminals = np.asarray(terminals, dtype=bool).reshape(-1)
    ends = terminals if timeouts is None else terminals | np.asarray(timeouts, dtype=bool).reshape(-1)
    if len(ends) != len(observations):
        findings = Findings()
        findings.fault("terminals", f"{len(ends)} entries for {len(observations)} observations", "Give one a row")
        findings.raise_faults()
    edges = np.flatnonzero(ends[:-1]) + 1  # rows after the last end are an episode that was cut off

    def episodes(column: Any | None) -> list[np.ndarray] | None:
        return None if column is None else np.split(np.asarray(column), edges)

    split_observations = episodes(observations)
    assert split_observations is not None
    return Dataset.from_episodes(
        observations=split_observations,
        actions=[np.reshape(episode, -1) for episode in episodes(actions) or []],
        rewards=[np.reshape(episode, -1) for episode in episodes(rewards) or []],
        terminated=[bool(episode[-1]) for episode in np.split(terminals, edges) if len(episode)],
        propensities=episodes(propensities),
        distributions=episodes(distributions),
        **more,
    )


def to_arrays(dataset: Dataset) -> dict[str, np.ndarray]:
    """Flat arrays in d3rlpy's manner: `d3rlpy.dataset.MDPDataset(**to_arrays(data))` after dropping propensities."""
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


def _check_lengths(name: str, has: list[int], needs: list[int], spare: int, findings: Findings) -> None:
    if len(has) != len(needs):
        findings.fault(name, f"{len(has)} episodes where actions have {len(needs)}", "Give every episode")
        return
    wrong = np.array([e for e, (h, n) in enumerate(zip(has, needs, strict=True)) if not n <= h <= n + spare])
    if len(wrong):
        e = int(wrong[0])
        more = ", or one more for the final state" if spare else ""
        findings.fault(name, f"{has[e]} entries for {needs[e]} actions", f"Give one an action{more}", wrong)


def _float_type(values: Any) -> Any:
    return np.float32 if getattr(values, "dtype", None) == np.float32 else np.float64


def _width(column: Sequence[Any] | None) -> int | None:
    return None if not column else int(np.asarray(column[0]).shape[1])


def _on_last_rows(flags: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    rows = np.zeros(int(lengths.sum()), dtype=bool)
    rows[np.cumsum(lengths) - 1] = flags
    return rows
