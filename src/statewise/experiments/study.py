"""A study: which logs, which methods with which settings, and what is measured. Frozen, and read from a TOML file.

A *cell* is a kind of log (domain, number of episodes, behaviour) and a policy class; a *job* is a method on one dataset
of a cell. Every name in the file is checked, so that a typo is reported instead of running another experiment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from statewise.base.decode import changed, decode
from statewise.base.ranges import check_ranges
from statewise.base.registry import unknown_name
from statewise.domains import DOMAINS
from statewise.domains.source import Exact, Family
from statewise.experiments.paper import Preset, paper_tables
from statewise.experiments.safe import METHODS
from statewise.learning.presets import preset
from statewise.learning.settings import read_settings

Kind = Literal["exact", "curves", "selection", "cells", "safe", "certified", "rounds"]


@dataclass(frozen=True)
class Cell:
    """Logs of one kind, and settings for every method on them, such as the policy class."""

    name: str
    domain: str
    episodes: int
    lean: float = 0.0  # CartPole: how far the behaviour leans towards the balancing rule (1) or its opposite (−1)
    gain: bool = False  # scores are shares of what can be gained: 0 is the behaviour, 1 the best policy
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None  # of all methods on these logs; None: each method's own
    datasets: tuple[int, ...] = ()  # seeds of these logs; (): the study's


@dataclass(frozen=True)
class Method:
    """An algorithm with a preset and changes to it, or one of `experiments.safe` with changes to its settings."""

    name: str
    algorithm: str
    preset: str = "default"
    every: int | None = None  # updates between scores; None: as in the study
    settings: Mapping[str, Any] = field(default_factory=dict)
    ms: tuple[float, float] = (30.0, 10.0)  # an update on two cores, and on an H200 for all datasets at once
    most_datasets: int | None = None  # how many of the study's datasets it runs on; None: all

    @property
    def group(self) -> Preset:
        return "paper" if self.preset.startswith("paper") else "default"


@dataclass(frozen=True)
class Study:
    """One figure of the paper, or one claim."""

    name: str
    title: str
    kind: Kind
    datasets: tuple[int, ...] = ()  # seeds of the logs, and of the runs on them
    cells: tuple[Cell, ...] = ()
    methods: tuple[Method, ...] = ()
    measure: Literal["discounted", "undiscounted"] = "discounted"
    unit: str = "return"
    every: int = 100
    score_episodes: int = 20
    reach: float | None = None  # a score: when does each run first reach it?
    pairs: tuple[tuple[str, str], ...] = ()  # methods to compare, dataset by dataset
    evaluation: tuple[int, ...] = ()  # seeds of further logs, on which checkpoints are evaluated
    rounds: int = 1  # of deploying, logging and learning again
    most_updates: int | None = None  # per method, for quick runs
    quick: bool = False

    def config(self, cell: Cell, method: Method) -> Any:
        """The settings of a job; a cell's changes apply to the methods that have such settings."""
        discount = DOMAINS[cell.domain].discount
        if method.algorithm in METHODS:
            config: Any = METHODS[method.algorithm](discount=discount)
        else:
            config = preset(cell.preset or method.preset, method.algorithm, discount)
        config = changed(config, method.settings, method.name)
        known = {each.name for each in fields(config)}
        config = changed(config, {k: v for k, v in cell.settings.items() if k in known}, cell.name)
        if method.algorithm in METHODS:
            return config
        most = config.updates if self.most_updates is None else min(config.updates, self.most_updates)
        config = replace(config, updates=most)
        check_ranges(config, method.name)
        return config

    def stride(self, method: Method) -> int:
        return self.every if method.every is None else method.every

    def jobs(self) -> Iterator[tuple[Cell, Method, int]]:
        for cell in self.cells:
            for method in self.methods:
                for seed in self.datasets_of(method):
                    yield cell, method, seed

    def datasets_of(self, method: Method) -> tuple[int, ...]:
        """The datasets that the method runs on: all of them, or the first few."""
        return self.datasets[: method.most_datasets]

    def seeds_of(self, cell: Cell) -> tuple[int, ...]:
        """The seeds of the cell's logs."""
        return cell.datasets or self.datasets

    def restricted(self, *, methods: Sequence[str] = (), cells: Sequence[str] = (), group: Preset | None = None):
        """The same study with some of its methods and cells."""
        for kind, requested, known in (("method", methods, self.methods), ("cell", cells, self.cells)):
            names = [each.name for each in known]
            for name in requested:
                if name not in names:
                    raise ValueError(f"{self.name}: {unknown_name(kind, name, names)}")
        kept = tuple(
            m for m in self.methods if (not methods or m.name in methods) and (group is None or m.group == group)
        )
        if self.methods and not kept:
            raise ValueError(f"{self.name}: none of its methods has the preset '{group}'")
        names = {method.name for method in kept}
        return replace(
            self,
            methods=kept,
            cells=tuple(c for c in self.cells if not cells or c.name in cells),
            pairs=tuple(pair for pair in self.pairs if names.issuperset(pair)),
        )


def studies(path: str | Path | None = None, quick: bool = False) -> dict[str, Study]:
    """Every study of a file, by name; without a file, the paper's."""
    tables = paper_tables() if path is None else read_settings(path)
    return {name: _study(name, table, quick) for name, table in tables.items()}


def named(name: str, quick: bool = False, path: str | Path | None = None) -> Study:
    known = studies(path, quick)
    if name not in known:
        raise ValueError(unknown_name("study", name, known))
    return known[name]


def _study(name: str, table: Any, quick: bool) -> Study:
    if not isinstance(table, Mapping):
        raise ValueError(f"{name}: expected a table of settings, got {table!r}")
    small = table.get("quick", {})
    whole = _with_ranges({key: value for key, value in table.items() if key != "quick"}, name)
    if isinstance(whole.get("cells"), list):
        whole["cells"] = [_with_ranges(cell, f"{name}.cells[{i}]") for i, cell in enumerate(whole["cells"])]
    study = decode(Study, {**whole, "name": name}, name)
    _check(study)
    return _small(study, small) if quick else study


def _with_ranges(table: Any, where: str) -> Any:
    """A table whose seeds are listed, where it says them as a range."""
    if not isinstance(table, Mapping) or not isinstance(table.get("datasets"), str):
        return table
    return {**table, "datasets": _range(table["datasets"], f"{where}.datasets")}


def _range(text: str, where: str) -> list[int]:
    """The numbers of "first-last", both included."""
    first, _, last = text.partition("-")
    if not (first.isdigit() and last.isdigit() and int(first) <= int(last)):
        raise ValueError(f"{where}: expected a list of seeds or a range such as '1000-1999', got {text!r}")
    return list(range(int(first), int(last) + 1))


def _small(study: Study, changes: Mapping[str, Any]) -> Study:
    """The same study with less of everything, as `changes` says."""
    changes = dict(changes)
    study = study.restricted(cells=changes.pop("cells", ()), methods=changes.pop("methods", ()))
    most, every = changes.pop("episodes", None), changes.pop("every", None)
    if most is not None:
        share = most / max(most, *(cell.episodes for cell in study.cells))
        study = replace(
            study,
            cells=tuple(replace(cell, episodes=min(cell.episodes, most)) for cell in study.cells),
            # growing trees takes longer the longer the log; other updates draw batches of a fixed size
            methods=tuple(
                replace(m, ms=(share * m.ms[0], share * m.ms[1])) if m.algorithm == "fitted-q" else m
                for m in study.methods
            ),
        )
    if "datasets" in changes:  # as many of those that are a cell's own
        count = len(changes["datasets"])
        study = replace(study, cells=tuple(replace(cell, datasets=cell.datasets[:count]) for cell in study.cells))
    if every is not None:
        shorter = tuple(m if m.every is None else replace(m, every=min(m.every, every)) for m in study.methods)
        study = replace(study, every=every, methods=shorter)
    return replace(changed(study, changes, f"{study.name}.quick"), quick=True)


def _check(study: Study) -> None:
    names = [method.name for method in study.methods]
    for kind, group in (("method", names), ("cell", [cell.name for cell in study.cells])):
        if len(set(group)) < len(group):
            raise ValueError(f"{study.name}: two of its {kind}s have the same name")
    for pair in study.pairs:
        if not set(pair) <= set(names):
            raise ValueError(f"{study.name}.pairs: expected two of its methods ({', '.join(names)}), got {list(pair)}")
    of_logs = study.kind in ("certified", "rounds")
    for cell in study.cells:
        if cell.datasets and not of_logs:
            raise ValueError(f"{study.name}, cell {cell.name}: only studies of certified logs have seeds for each cell")
        if cell.lean != 0 and cell.domain != "cartpole":
            raise ValueError(f"{study.name}, cell {cell.name}: only CartPole's behaviour can lean")
        source = DOMAINS[cell.domain]
        if study.kind == "safe" and not isinstance(source, Exact | Family):
            raise ValueError(f"{study.name}, cell {cell.name}: expected a finite problem, got '{cell.domain}'")
        comparable = study.kind == "safe" or of_logs or (cell.gain and study.kind in ("curves", "cells"))
        if isinstance(source, Family) and not comparable:
            raise ValueError(
                f"{study.name}, cell {cell.name}: every seed of '{cell.domain}' is another problem; use kind = 'safe', "
                "or kind = 'cells' or 'curves' with gain = true"
            )
        for method in study.methods:
            study.config(cell, method)  # reports names and settings that do not exist
