"""What is in a log: the numbers that a reader asks for first."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from statewise.data.dataset import Dataset
from statewise.data.discount import suggested
from statewise.data.horizon import CutOff, sentence

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation, and quantiles from the least to the greatest value."""

    mean: float
    std: float
    quantiles: dict[str, float]

    @classmethod
    def of(cls, values: np.ndarray) -> Spread:
        with np.errstate(over="ignore", invalid="ignore"):  # the spread of the largest floats overflows
            quantiles = np.quantile(values, QUANTILES)
            named = {f"{q:g}": float(v) for q, v in zip(QUANTILES, quantiles, strict=True)}
            return cls(float(np.mean(values)), float(np.std(values)), named)


@dataclass(frozen=True)
class ActionSummary:
    """How often an action was taken, and in how many steps it could not have been."""

    action: int
    name: str
    count: int
    share: float
    unsupported_steps: int | None  # legal but with probability 0; None: distributions were not logged


@dataclass(frozen=True)
class Reading:
    """What being cut off was taken to mean, up to which step the value counts, and the discount that follows."""

    cut_off: CutOff | None
    horizon: int | None
    discount: float
    sentence: str

    @classmethod
    def of(cls, dataset: Dataset) -> Reading:
        discount, because = suggested(dataset)
        said = f"{sentence(dataset, discount)} γ is {discount:g}, since {because}."
        return cls(*dataset.horizon, discount, f"{said} Change this with `cut_off=...` and `horizon=...`.")


@dataclass(frozen=True)
class Summary:
    episodes: int
    steps: int
    units: int | None
    observations: dict[str, dict[str, float]]
    terminated: int
    truncated: int
    final_states: int
    reading: Reading
    lengths: Spread
    returns: Spread
    rewards: Spread
    actions: tuple[ActionSummary, ...]
    propensities: Spread | None
    whole_distributions: bool
    legal_masks: bool
    fingerprint: str

    def to_dict(self) -> dict:
        return asdict(self)


def summarise(dataset: Dataset) -> Summary:
    """Counts, spreads and support of a log."""
    counts = np.bincount(dataset.actions, minlength=dataset.action_count)
    unsupported = _unsupported(dataset)
    observed = dataset.observations
    with np.errstate(over="ignore", invalid="ignore"):  # the spread of the largest floats overflows
        numbers = {
            "mean": observed.mean(axis=0, dtype=float),
            "std": observed.std(axis=0, dtype=float),
            "min": observed.min(axis=0),
            "max": observed.max(axis=0),
        }
    return Summary(
        episodes=dataset.episodes,
        steps=len(dataset),
        units=None if dataset.units is None else len(np.unique(dataset.units)),
        observations={
            name: {which: float(values[j]) for which, values in numbers.items()}
            for j, name in enumerate(dataset.observation_names)
        },
        terminated=int(dataset.terminated.sum()),
        truncated=int(dataset.truncated.sum()),
        final_states=int(dataset.has_final_observation.sum()),
        reading=Reading.of(dataset),
        lengths=Spread.of(dataset.lengths),
        returns=Spread.of(dataset.returns()),
        rewards=Spread.of(dataset.rewards),
        actions=tuple(
            ActionSummary(
                action=a,
                name=dataset.action_names[a],
                count=int(counts[a]),
                share=float(counts[a] / len(dataset)),
                unsupported_steps=None if unsupported is None else int(unsupported[a]),
            )
            for a in range(dataset.action_count)
        ),
        propensities=None if dataset.propensities is None else Spread.of(dataset.propensities),
        whole_distributions=dataset.distributions is not None,
        legal_masks=dataset.legal is not None,
        fingerprint=dataset.fingerprint,
    )


def _unsupported(dataset: Dataset) -> np.ndarray | None:
    if dataset.distributions is None:
        return None
    impossible = dataset.distributions <= 0
    if dataset.legal is not None:
        impossible &= dataset.legal
    return impossible.sum(axis=0)


def describe(dataset: Dataset) -> str:
    """What a Dataset prints: its columns with their types and shapes."""
    names = ", ".join(dataset.observation_names[:4]) + (", …" if len(dataset.observation_names) > 4 else "")
    lines = [
        f"Dataset: {dataset.episodes:,} episodes, {len(dataset):,} steps",
        f"  observations  {dataset.observations.dtype}[{len(dataset)}, {len(dataset.observation_names)}]  {names}",
        f"  actions       {dataset.actions.dtype}[{len(dataset)}]  {dataset.action_count} actions"
        + (f": {', '.join(dataset.action_names[:8])}" if dataset.has_action_words else ""),
        f"  rewards       {dataset.rewards.dtype}[{len(dataset)}]",
        f"  propensities  {_propensity_line(dataset)}",
        f"  ends          {dataset.terminated.sum():,} terminated, {dataset.truncated.sum():,} truncated, "
        f"{dataset.has_final_observation.sum():,} final states logged",
    ]
    if dataset.legal is not None:
        lines.append(f"  legal         bool[{len(dataset)}, {dataset.action_count}]")
    if dataset.units is not None:
        lines.append(f"  units         {len(np.unique(dataset.units)):,}")
    if dataset.live is not None:
        lines.append(f"  live          {dataset.live.sum():,} of {len(dataset):,} steps; the others are padding")
    return "\n".join(lines)


def _propensity_line(dataset: Dataset) -> str:
    if dataset.propensities is None:
        return "not logged"
    whole = "whole distributions" if dataset.distributions is not None else "of the taken action"
    estimated = ", estimated" if dataset.estimated is not None else ""
    return f"{dataset.propensities.dtype}[{len(dataset)}]  {whole}{estimated}"
