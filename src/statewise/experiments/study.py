"""A study: which logs, which methods with which settings, what is measured. Frozen, and read from a TOML file.

A *cell* is a log (domain, number of episodes, behaviour) and a policy class; a *job* is a method on one dataset of a
cell. Every name in the file is checked, so that a slip of the pen ends with a sentence and not with another experiment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal, get_args

from statewise.domains.behaviours import DOMAINS
from statewise.learning.presets import ALGORITHMS, PRESETS, Config, preset
from statewise.learning.settings import SettingsError, changed, read_settings

Kind = Literal["exact", "curves", "selection", "cells"]
Preset = Literal["default", "paper"]
LOGS = (*DOMAINS, "hard-example")
DISCOUNTS = {"cartpole": 1.0, "hard-example": 1.0, "hiv": 0.98, "hiv-weak": 0.98}


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

    def config(self, cell: Cell, method: Method) -> Config:
        """The settings a job runs with; a method that lacks what a cell changes keeps its own."""
        config = preset(method.preset, method.algorithm, DISCOUNTS[cell.domain])
        config = changed(config, method.settings, f"{method.name}.")
        known = {each.name for each in fields(config)}
        config = changed(config, {k: v for k, v in cell.settings.items() if k in known}, f"{cell.name}.")
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
                    raise SettingsError(f"{self.name}: it has no {word} '{name}'; it has {', '.join(names)}")
        kept = tuple(
            m for m in self.methods if (not methods or m.name in methods) and (group is None or m.group == group)
        )
        if self.methods and not kept:
            raise SettingsError(f"{self.name}: none of its methods has the preset '{group}'")
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
    found = studies(path, quick)
    if name not in found:
        raise SettingsError(f"there is no study '{name}'; there are {', '.join(found)}")
    return found[name]


def as_data(study: Study) -> dict[str, Any]:
    """For a manifest."""
    return asdict(study)


def _study(name: str, table: Any, quick: bool) -> Study:
    if not isinstance(table, Mapping):
        raise SettingsError(f"'{name}' is not a study: a study is a table")
    table = dict(table)
    small = table.pop("quick", {})
    cells = tuple(_made(Cell, each, f"{name}.cells") for each in table.pop("cells", []))
    methods = tuple(_made(Method, each, f"{name}.methods") for each in table.pop("methods", []))
    study = _made(Study, {**table, "name": name}, name)
    study = replace(study, cells=cells, methods=methods)
    _check(study)
    if quick:
        small = dict(small)
        study = study.restricted(cells=small.pop("cells", ()), methods=small.pop("methods", ()))
        most = small.pop("episodes", None)
        if most is not None:
            share = most / max(most, *(cell.episodes for cell in study.cells))
            study = replace(
                study,
                cells=tuple(replace(c, episodes=min(c.episodes, most)) for c in study.cells),
                # trees take as long as the log has rows; other updates do not see its length
                methods=tuple(
                    replace(m, ms=(share * m.ms[0], share * m.ms[1])) if m.algorithm == "fitted-q" else m
                    for m in study.methods
                ),
            )
        every = small.pop("every", None)
        if every is not None:
            shorter = tuple(m if m.every is None else replace(m, every=min(m.every, every)) for m in study.methods)
            study = replace(study, every=every, methods=shorter)
        study = replace(changed(study, small, f"{name}.quick."), quick=True)
    return study


def _made(kind: type, table: Any, where: str) -> Any:
    """A frozen class from a table, every key of which must be one of its fields."""
    if not isinstance(table, Mapping):
        raise SettingsError(f"'{where}' holds {table!r}, but should hold tables")
    known = {each.name: each for each in fields(kind)}
    for key in table:
        if key not in known:
            raise SettingsError(f"{where}: there is no setting '{key}'; there are {', '.join(known)}")
    values = {key: _tuples(value) for key, value in table.items()}
    needed = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
    for name in needed:
        if name not in values:
            raise SettingsError(f"{where}: it lacks '{name}'")
        wanted = int if name == "episodes" else str
        if type(values[name]) is not wanted:
            raise SettingsError(f"{where}: '{name}' is {values[name]!r}, but should be {wanted.__name__}")
    if "kind" in values and values["kind"] not in get_args(Kind):
        raise SettingsError(f"{where}: there is no kind '{values['kind']}'; there are {', '.join(get_args(Kind))}")
    given = {name: values.pop(name) for name in needed}
    return changed(kind(**given), values, f"{where}.")


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _check(study: Study) -> None:
    names = [method.name for method in study.methods]
    for word, group in (("method", names), ("cell", [cell.name for cell in study.cells])):
        if len(set(group)) < len(group):
            raise SettingsError(f"{study.name}: two of its {word}s have the same name")
    for pair in study.pairs:
        if len(pair) != 2 or not set(pair) <= set(names):
            raise SettingsError(f"{study.name}.pairs: {list(pair)} are not two of its methods, {', '.join(names)}")
    for cell in study.cells:
        if cell.domain not in LOGS:
            raise SettingsError(f"{study.name}: there is no domain '{cell.domain}'; there are {', '.join(LOGS)}")
        if cell.lean != 0 and cell.domain != "cartpole":
            raise SettingsError(f"{study.name}, cell {cell.name}: only CartPole's behaviour can lean")
    for method in study.methods:
        if method.preset not in PRESETS:
            raise SettingsError(f"{study.name}, {method.name}: there is no preset '{method.preset}'")
        if method.algorithm not in ALGORITHMS:
            known = ", ".join(ALGORITHMS)
            raise SettingsError(
                f"{study.name}, {method.name}: there is no algorithm '{method.algorithm}'; there are {known}"
            )
        for cell in study.cells:
            study.config(cell, method)  # settings that do not exist are told now
