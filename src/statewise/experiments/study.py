"""A study: which logs, which methods with which settings, what is measured. Frozen, and read from a TOML file.

A *cell* is a log (domain, number of episodes, behaviour) and a policy class; a *job* is a method on one dataset of a
cell. Every name in the file is checked, so that a slip of the pen ends with a sentence and not with another experiment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal

from statewise.base.decode import changed, decode
from statewise.domains import DOMAINS
from statewise.learning.presets import preset
from statewise.learning.settings import read_settings

Kind = Literal["exact", "curves", "selection", "cells"]
Preset = Literal["default", "paper"]


@dataclass(frozen=True)
class Cell:
    """Logs of one kind, and settings that every method has on them, such as the policy's class."""

    name: str
    domain: str
    episodes: int
    lean: float = 0.0  # CartPole: how far the behaviour leans to the rule that balances (1) or to its opposite (−1)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """An algorithm with a preset and changes to it; `ms` is what one update takes on two cores, and on an H200 for all
    datasets at once."""

    name: str
    algorithm: str
    preset: str = "default"
    every: int | None = None  # updates between two scores, where not the study's own
    settings: Mapping[str, Any] = field(default_factory=dict)
    ms: tuple[float, float] = (30.0, 10.0)

    @property
    def group(self) -> Preset:
        return "paper" if self.preset.startswith("paper") else "default"


@dataclass(frozen=True)
class Study:
    """One figure of the paper, or one claim."""

    name: str
    title: str
    kind: Kind
    datasets: tuple[int, ...] = ()  # seeds of the logs, and of what learns from them
    cells: tuple[Cell, ...] = ()
    methods: tuple[Method, ...] = ()
    measure: Literal["discounted", "undiscounted"] = "discounted"
    unit: str = "return"
    every: int = 100
    score_episodes: int = 20
    reach: float | None = None  # the score whose first time is told
    pairs: tuple[tuple[str, str], ...] = ()  # methods whose differences are told
    evaluation: tuple[int, ...] = ()  # seeds of further logs to evaluate checkpoints on
    most_updates: int | None = None  # of every method; for quick runs
    quick: bool = False

    def config(self, cell: Cell, method: Method) -> Any:
        """The settings a job runs with; a method that lacks what a cell changes keeps its own."""
        config = preset(method.preset, method.algorithm, DOMAINS[cell.domain].discount)
        config = changed(config, method.settings, method.name)
        known = {each.name for each in fields(config)}
        config = changed(config, {k: v for k, v in cell.settings.items() if k in known}, cell.name)
        most = config.updates if self.most_updates is None else min(config.updates, self.most_updates)
        return replace(config, updates=most)

    def stride(self, method: Method) -> int:
        return self.every if method.every is None else method.every

    def jobs(self) -> Iterator[tuple[Cell, Method, int]]:
        for cell in self.cells:
            for method in self.methods:
                for seed in self.datasets:
                    yield cell, method, seed

    def restricted(self, *, methods: Sequence[str] = (), cells: Sequence[str] = (), group: Preset | None = None):
        """The same study with some of its methods and cells."""
        for word, wanted, there in (("method", methods, self.methods), ("cell", cells, self.cells)):
            names = [each.name for each in there]
            for name in wanted:
                if name not in names:
                    raise ValueError(f"{self.name}: there is no {word} '{name}'; there are {', '.join(names)}")
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
    """Every study of a file, by name; the paper's own where none is given."""
    if path is None:
        with as_file(files("statewise.experiments") / "paper.toml") as own:
            return studies(own, quick)
    tables = read_settings(path)
    return {name: _study(name, table, quick) for name, table in tables.items()}


def named(name: str, quick: bool = False, path: str | Path | None = None) -> Study:
    known = studies(path, quick)
    if name not in known:
        raise ValueError(f"there is no study '{name}'; there are {', '.join(known)}")
    return known[name]


def as_data(study: Study) -> dict[str, Any]:
    """For a manifest."""
    return asdict(study)


def _study(name: str, table: Any, quick: bool) -> Study:
    if not isinstance(table, Mapping):
        raise ValueError(f"{name}: expected a table of settings, got {table!r}")
    small = table.get("quick", {})
    whole = {key: value for key, value in table.items() if key != "quick"}
    study = decode(Study, {**whole, "name": name}, name)
    _check(study)
    return _small(study, small) if quick else study


def _small(study: Study, changes: Mapping[str, Any]) -> Study:
    """The same study with fewer of everything; what `changes` does not shrink by itself follows."""
    changes = dict(changes)
    study = study.restricted(cells=changes.pop("cells", ()), methods=changes.pop("methods", ()))
    most, every = changes.pop("episodes", None), changes.pop("every", None)
    if most is not None:
        share = most / max(most, *(cell.episodes for cell in study.cells))
        study = replace(
            study,
            cells=tuple(replace(cell, episodes=min(cell.episodes, most)) for cell in study.cells),
            # trees take as long as the log has rows; other updates do not see its length
            methods=tuple(
                replace(m, ms=(share * m.ms[0], share * m.ms[1])) if m.algorithm == "fitted-q" else m
                for m in study.methods
            ),
        )
    if every is not None:
        shorter = tuple(m if m.every is None else replace(m, every=min(m.every, every)) for m in study.methods)
        study = replace(study, every=every, methods=shorter)
    return replace(changed(study, changes, f"{study.name}.quick"), quick=True)


def _check(study: Study) -> None:
    names = [method.name for method in study.methods]
    for word, group in (("method", names), ("cell", [cell.name for cell in study.cells])):
        if len(set(group)) < len(group):
            raise ValueError(f"{study.name}: two of its {word}s have the same name")
    for pair in study.pairs:
        if not set(pair) <= set(names):
            raise ValueError(f"{study.name}.pairs: {list(pair)} are not two of its methods, {', '.join(names)}")
    for cell in study.cells:
        if cell.lean != 0 and cell.domain != "cartpole":
            raise ValueError(f"{study.name}, cell {cell.name}: only CartPole's behaviour can lean")
        for method in study.methods:
            study.config(cell, method)  # names and settings that do not exist are found out now
