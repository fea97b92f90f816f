"""Minari datasets ⇄ Dataset. Propensities are kept in the step infos, as `propensity`."""

from __future__ import annotations

from typing import Any

import numpy as np

from statewise.data.build import accept, build
from statewise.data.dataset import Dataset
from statewise.data.episodes import raw_from_episodes
from statewise.data.findings import Findings
from statewise.data.horizon import CutOff, said

INFO = "propensity"


def from_minari(
    source: Any, uniform: bool = False, *, cut_off: CutOff | None = None, horizon: int | None = None
) -> Dataset:
    """Reads a Minari dataset, given as an object or as `"minari:NAME"`.

    Its step infos must hold `propensity`, unless actions were drawn uniformly at random (`uniform=True`). `cut_off` and
    `horizon` are as in `statewise.load`.
    """
    return accept(*read_minari(source, uniform, cut_off=cut_off, horizon=horizon))


def read_minari(
    source: Any, uniform: bool = False, *, cut_off: CutOff | None = None, horizon: int | None = None
) -> tuple[Dataset | None, Findings]:
    """As `from_minari`, but returns the findings instead of raising them."""
    given = said(cut_off, horizon)
    minari = _minari()
    if isinstance(source, str):
        name = source.removeprefix("minari:")
        try:
            source = minari.load_dataset(name)
        except (FileNotFoundError, ValueError) as error:  # the latter for a name that cannot be Minari's
            raise ValueError(
                f"{source}: there is no such Minari dataset on this machine; `minari list local` lists those there "
                f"are, `minari download {name}` fetches it"
            ) from error
    actions = int(source.spec.action_space.n)
    first = int(getattr(source.spec.action_space, "start", 0))
    columns: dict[str, list] = {"observations": [], "actions": [], "rewards": [], "propensities": []}
    terminated = []
    for episode in source.iterate_episodes():
        taken = np.asarray(episode.actions) - first
        columns["observations"].append(np.asarray(episode.observations).reshape(len(taken) + 1, -1))
        columns["actions"].append(taken)
        columns["rewards"].append(episode.rewards)
        columns["propensities"].append(
            np.full(len(taken), 1 / actions) if uniform else _propensities(episode, len(taken))
        )
        terminated.append(bool(episode.terminations[-1]))
    return build(raw_from_episodes(**columns, terminated=terminated, action_count=actions, horizon=given))


def to_minari(dataset: Dataset, name: str, **metadata: Any) -> Any:
    """Writes a Minari dataset called `name` (such as `cartpole/uniform-v0`) and returns it.

    Minari requires a state after the last step; if it was not logged, the last state is repeated.
    """
    from gymnasium.spaces import Box, Discrete

    minari = _minari()
    buffers = []
    for e in range(dataset.episodes):
        rows = slice(dataset.starts[e], dataset.starts[e + 1])
        observations = dataset.observations[rows]
        after = dataset.final_observations[e] if dataset.has_final_observation[e] else observations[-1]
        steps = len(observations)
        last = np.arange(steps) == steps - 1
        infos = {}
        if dataset.propensities is not None:
            # infos have one more entry than actions: the first is from the reset, that of step t is at t + 1
            infos[INFO] = np.concatenate([[np.nan], dataset.propensities[rows]])
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=e,
                observations=np.vstack([observations, after]),
                actions=dataset.actions[rows].astype(np.int64),
                rewards=dataset.rewards[rows],
                terminations=last & dataset.terminated[e],
                truncations=last & dataset.truncated[e],
                infos=infos,
            )
        )
    features = len(dataset.observation_names)
    return minari.create_dataset_from_buffers(
        dataset_id=name,
        buffer=buffers,
        observation_space=Box(-np.inf, np.inf, (features,), dataset.observations.dtype.type),
        action_space=Discrete(dataset.action_count),
        **metadata,
    )


def _propensities(episode: Any, steps: int) -> np.ndarray:
    infos = episode.infos or {}
    if INFO not in infos:
        findings = Findings()
        findings.fault(
            f"infos['{INFO}']",
            f"episode {episode.id} has no propensities",
            "Log the probability of each action taken there; if actions were uniformly random, use `uniform=True`",
        )
        findings.raise_faults()
    return np.asarray(infos[INFO], dtype=float)[1 : steps + 1]


def _minari() -> Any:
    try:
        import minari
        import minari.data_collector
    except ImportError as error:
        raise ImportError("Minari datasets need an extra: pip install 'statewise[minari]'") from error
    return minari
