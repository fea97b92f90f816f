"""`fit`: the only training loop, with its checkpoints, its metrics and its run folder."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from statewise.algorithms import ALGORITHMS, Settings, algorithm_of
from statewise.base.drawn import drawn
from statewise.base.pages import few_in_memory
from statewise.base.ranges import check_ranges
from statewise.data.dataset import Dataset
from statewise.data.discount import discount_of
from statewise.data.schema import Schema
from statewise.learning.program import Program, Stretch, check_finite, program, stretches
from statewise.learning.runs import RunError, RunFolder, provenance, threads, versions
from statewise.learning.side_by_side import processes_for, spread
from statewise.ops.keys import key_for
from statewise.parts.metrics import Metrics

CHECKPOINTS = 10  # per run, by default


@dataclass(frozen=True)
class Progress:
    """The state of learning after each stretch of updates; what an algorithm does not have is NaN."""

    update: int
    updates: int
    value: float  # mean over seeds of the critic's V̂(s₀)
    ratio_ess: float
    entropy: float


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A finished run: the last policy of each seed, every checkpoint, and all metrics [seeds, updates]."""

    policies: tuple[Any, ...]
    checkpoints: dict[tuple[int, int], Any]  # by seed and update
    metrics: dict[str, np.ndarray]
    config: Settings
    seeds: tuple[int, ...]

    def __str__(self) -> str:
        name, seeds = type(self.config).__name__, len(self.seeds)
        values = self.metrics["value"][:, -1]
        critic = "no critic" if np.isnan(values).all() else f"{np.mean(values):.4g}, which is not evidence"
        return (
            f"{name}: {seeds} seed{'s' if seeds != 1 else ''}, {self.config.updates:,} updates, "
            f"γ = {self.config.discount:g}, {len(self.checkpoints)} checkpoints\n"
            f"  the critic's own final estimate: {critic}\n"
            "  .policies holds the last policy of each seed; sw.evaluate(policy, held_out) estimates its value"
        )

    __repr__ = __str__
    _repr_html_ = drawn("statewise.report.notebook:result")
    plot = drawn("statewise.report.plots:result", "Draws a `metric` of every seed on matplotlib's axes `ax`.")


def fit(
    dataset: Dataset,
    config: Settings | str | None = None,
    *,
    seeds: int | Sequence[int] = 1,
    updates: int | None = None,
    checkpoint_every: int | None = None,
    out: str | Path | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
    processes: int | None = None,
) -> Result:
    """Learns policies from a log.

    `config` holds the settings of an algorithm, or is its name (default: OPPOSD); without a discount, the log's own is
    used. `seeds` is the number of runs, or a list of their seeds. With `out`, metrics and checkpoints are written to
    that folder, and an interrupted run in it is resumed.

    On a CPU, `processes` learn seeds side by side, on one core each; by default as many as there are cores for, where
    that takes less time.

    >>> result = fit(train, OPPOSD(), seeds=5)  # doctest: +SKIP
    >>> result.policies[0].probabilities(observations)  # doctest: +SKIP
    """
    config = settled(config, dataset, updates)
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"seeds: expected at least one, all different, got {seeds!r}")
    if checkpoint_every is not None and checkpoint_every < 1:
        raise ValueError(f"checkpoint_every: expected 1 or more, got {checkpoint_every}")
    if processes is not None and processes < 1:
        raise ValueError(f"processes: expected 1 or more, got {processes}")
    every = max(1, config.updates // CHECKPOINTS) if checkpoint_every is None else checkpoint_every
    folder = None if out is None else RunFolder.create(out)
    with nullcontext() if folder is None else folder.locked(), few_in_memory():
        return _Run(dataset, config, chosen, folder, processes).learn(every, progress)


def settled(config: Settings | str | None, dataset: Dataset, updates: int | None = None) -> Settings:
    """The complete settings of a run on this log: defaults filled in, the discount included."""
    settings: Any = ALGORITHMS[config or "opposd"].settings() if config is None or isinstance(config, str) else config
    changes: dict[str, Any] = {"discount": discount_of(dataset, settings.discount)}
    settings = replace(settings, **changes if updates is None else changes | {"updates": updates})
    check_ranges(settings)
    return settings


def prepare(config: Settings, dataset: Dataset) -> tuple[Any, Any]:
    """The log as the algorithm draws from it, and as its policies see it; the same for every seed."""
    return algorithm_of(config).prepare(config, dataset, key_for(jax.random.key(0), "prepare"))


def keys_of(seeds: Sequence[int]) -> jax.Array:
    return jnp.stack([jax.random.key(seed) for seed in seeds])


class _Run:
    """One run: its program, its results so far, and its folder."""

    program: Program

    def __init__(
        self,
        dataset: Dataset,
        config: Settings,
        seeds: tuple[int, ...],
        folder: RunFolder | None,
        processes: int | None,
    ):
        self.dataset, self.config, self.seeds, self.folder = dataset, config, seeds, folder
        data, self.view = prepare(config, dataset)
        self.alone = program(config, data, keys_of(seeds))
        self.processes = processes_for(config, data, len(seeds), processes)
        self.threads = threads() if self.processes == 1 else 1  # of a process
        self.checkpoints: dict[tuple[int, int], Any] = {}
        self.metrics: dict[str, np.ndarray] = {}

    def learn(self, every: int, progress: Callable[[Progress], None]) -> Result:
        with spread(self.alone, self.seeds, self.processes) as self.program:
            done, states = self._begin()
            for stretch in stretches(self.program, states, done, self.config.updates, every):
                self._check_finite(stretch)
                self._keep(stretch)
                progress(_progress(stretch, self.config.updates))
        last = tuple(self.checkpoints[seed, self.config.updates] for seed in self.seeds)
        return Result(last, self.checkpoints, self.metrics, self.config, self.seeds)

    def _begin(self) -> tuple[int, Any]:
        """The updates already done, and the states after them; a warm start if there is nothing to resume."""
        if self.folder is None:
            return 0, self.program.begin()
        identity = {
            "algorithm": type(self.config).__name__,
            "config": json.loads(json.dumps(asdict(self.config))),  # pyright: ignore[reportArgumentType]
            "seeds": list(self.seeds),
            "data": self.dataset.fingerprint,
        }
        if self.folder.exists():
            known = self.folder.manifest()
            changed = [name for name, value in identity.items() if known.get(name) != value]
            if changed:
                raise RunError(
                    f"{self.folder.path}: it holds a run with a different {', '.join(changed)}; choose another folder"
                )
            saved = self.folder.read_state()
            if saved is not None and known.get("threads", self.threads) != self.threads:
                warnings.warn(
                    f"{self.folder.path}: begun on {known['threads']} cores and resumed on {self.threads}; sums are "
                    "added in a different order, so the result is not exactly that of an uninterrupted run",
                    stacklevel=2,
                )
            if saved is not None:
                self.folder.forget_states(saved.update)
                return saved.update, self._resumed(saved.update, saved.leaves)
        self.folder.write_manifest({**identity, **provenance(), "threads": self.threads, **self._schema()})
        return 0, self.program.begin()

    def _resumed(self, done: int, leaves: list[np.ndarray]) -> Any:
        assert self.folder is not None
        # whatever was written after that state will be written again
        self.metrics = {name: values[:, :done] for name, values in self.folder.metrics().items()}
        self.checkpoints = {place: one for place, one in self.folder.policies().items() if place[1] <= done}
        try:
            return self.program.restored(leaves)
        except ValueError as error:
            raise RunError(
                f"{self.folder.path}: its checkpoint was made with other settings; choose another folder"
            ) from error

    def _check_finite(self, stretch: Stretch) -> None:
        done = stretch.done - stretch.metrics.finite.shape[1]
        kept = f"; the checkpoint of update {done} is kept in {self.folder.path}" if self.folder and done else ""
        check_finite(stretch, self.seeds, kept)

    def _keep(self, stretch: Stretch) -> None:
        for field in fields(stretch.metrics):  # pyright: ignore[reportArgumentType]
            new = np.asarray(getattr(stretch.metrics, field.name))
            old = self.metrics.get(field.name)
            self.metrics[field.name] = new if old is None else np.concatenate([old, new], axis=1)
        policies = self.program.policies(stretch.states, [self.view] * len(self.seeds))
        for seed, policy in zip(self.seeds, policies, strict=True):
            self.checkpoints[seed, stretch.done] = replace(policy, card=self._card(seed, stretch.done))
        if self.folder is not None:
            for seed in self.seeds:
                self.folder.write_policy(seed, stretch.done, self.checkpoints[seed, stretch.done])
            self.folder.write_metrics(self.metrics)
            # last, so that a resumed run finds everything before it
            self.folder.write_state(stretch.done, stretch.states)

    def _card(self, seed: int, update: int) -> dict[str, Any]:
        return {
            "algorithm": type(self.config).__name__,
            "seed": seed,
            "update": update,
            "discount": self.config.discount,
            "data": self.dataset.fingerprint,
            "versions": versions(),
            **self._schema(),
        }

    def _schema(self) -> dict[str, Any]:
        """How the log was read, so that the next one and the rows to act on are read alike."""
        return Schema.stated(self.dataset.schema)


def _progress(stretch: Stretch, updates: int) -> Progress:
    def last(values: Any) -> float:
        return float(np.mean(np.asarray(values)[:, -1]))

    metrics: Metrics = stretch.metrics
    return Progress(stretch.done, updates, last(metrics.value), last(metrics.ratio_ess), last(metrics.entropy))
