"""Writes into docs/ what can be listed from the code: docs/api.md, and in other pages what stands between two markers.

    python tools/docs.py

A list goes where a page says `<!-- measures -->` and `<!-- end of measures -->`. `make docs` runs this first, and a
test fails where a page is not what this would write.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import statewise as sw
from statewise.base.registry import Registry
from statewise.learning.fit import prepare, settled
from statewise.learning.presets import PRESETS
from statewise.policies.exports import EXPORTS

HOMES: dict[str, str] = vars(sw)["_HOMES"]  # of the public names
DOCS = Path(__file__).parents[1] / "docs"
SOURCE = re.compile(r"[A-Z]\w+(?:, [A-Z]\w+)*(?: and [A-Z]\w+)? \(\d{4}\)")  # Jiang and Li (2016)
API = """# Python

Everything here is `statewise.NAME`. The page is made from the code by `tools/docs.py`.
"""
# Every public name, in one of these.
GROUPS = {
    "From a log to a decision": "improve Plan Improvement certify Certificate NextLog",
    "Logs": "load scan concat Dataset Columns Schema Code LogError LogWarning from_arrays to_arrays from_minari "
    "to_minari FORMATS Format",
    "Propensities that were not logged": "estimate_propensities Estimated balanced model_of_today",
    "Learning": "fit Result preset ALGORITHMS Algorithm",
    "Algorithms": "OPPOSD OffPAC GeoffPAC SAC ACER CQL FittedQ BehaviourCloning",
    "Their parts": "Actor Anchor Critic QNetwork ClosedForm RatioNetwork COPTD Emphasis Temperature",
    "What is it worth?": "evaluate evaluate_all Estimate gate Decision select Selection prepare fit_ratio ESTIMATORS "
    "reward_sensitivity RewardPart",
    "What it rests on": "MEASURES Measure Measurement Support",
    "Policies": "load_policy Policy TreePolicy PathPolicy as_target",
    "Simulators": "DOMAINS rounds Round",
    "Several machines": "on_ray",
}


def api() -> str:
    """docs/api.md: every public name, in its group."""
    listed = [name for names in GROUPS.values() for name in names.split()]
    if sorted(listed) != sorted(HOMES):
        wrong = set(HOMES) ^ set(listed) or {name for name in listed if listed.count(name) > 1}
        raise ValueError(f"GROUPS: expected every public name once; look for {', '.join(sorted(wrong))}")
    parts = [API]
    for title, names in GROUPS.items():
        parts += [f"\n## {title}\n", *map(_reference, names.split())]
    return "\n".join(parts) + "\n"


def _reference(name: str) -> str:
    """Signature and docstring; a registry has neither, and its names say more."""
    registry = getattr(sw, name)
    if not isinstance(registry, Registry):
        return f"::: {HOMES[name]}.{name}"
    return (
        f"\n### {name}\n\nEvery {registry.kind} by name: {_codes(registry)}. `{name}.add(name, entry)` adds "
        "[one of your own](extending.md).\n"
    )


def measures() -> str:
    rows = []
    for measure in sw.MEASURES.values():
        good, identified = measure.bounds
        sign = "≥" if identified is not None and good > identified else "≤"
        percent = measure.unit.startswith("of ")
        unit = measure.unit.removesuffix(", at least")
        rows.append((measure.title, measure.meaning, *(_bound(one, sign, percent) for one in measure.bounds), unit))
    return _table(("check", "what it means", "good", "still identified", "in"), rows)


def _bound(bound: float | None, sign: str, percent: bool) -> str:
    if bound is None:
        return "any"
    return f"{sign} {100 * bound:g} %" if percent else f"{sign} {bound:g}"


def algorithms() -> str:
    rows = []
    for name, algorithm in sw.ALGORITHMS.items():
        what = _first_sentence(_module_doc(algorithm.settings))
        rows.append((f"`{name}`", f"`{algorithm.settings.__name__}`", what, _needs(name)))
    return _table(("name", "settings", "what it is", "propensities"), rows)


def _needs(algorithm: str) -> str:
    """The least that the algorithm can be prepared with."""
    for needs, log in _logs().items():
        try:
            prepare(settled(algorithm, log), log)
        except ValueError:
            continue
        return needs
    raise ValueError(f"{algorithm} cannot be prepared with any log")


def _logs() -> dict[str, sw.Dataset]:
    """The same small log, with less and more known of how its actions were chosen."""
    rng = np.random.default_rng(0)
    whole = sw.Dataset.from_episodes(
        observations=list(rng.normal(size=(20, 6, 2))),
        actions=list(rng.integers(2, size=(20, 5))),
        rewards=[np.ones(5)] * 20,
        distributions=[np.full((5, 2), 0.5)] * 20,
        terminated=[False] * 20,
    )
    taken = replace(whole, distributions=None)
    return {
        "not needed": replace(taken, propensities=None),
        "of the action taken": taken,
        "of every action": whole,
    }


def estimators() -> str:
    rows = []
    for name, estimator in sw.ESTIMATORS.items():
        own, shared = estimator.__doc__ or "", _module_doc(estimator)
        sources = SOURCE.findall(own) or SOURCE.findall(shared)
        said = (_first_sentence(text) for text in (shared, own))
        what = " ".join(sentence for sentence in said if sentence and not SOURCE.match(sentence))
        rows.append((f"`{name}`", what, "; ".join(sources) or "–"))
    return _table(("name", "what it does", "reference"), rows)


def presets() -> str:
    lines = []
    for name, table in PRESETS.items():
        own = f"settings of its own for {_codes(table)}" if table else "the defaults of every algorithm"
        differing = _codes(_settings(table["opposd"], sw.OPPOSD())) if table else ""
        lines.append(f"- `{name}`: {own}." + (f" Those of `opposd` that differ: {differing}." if differing else ""))
    return "\n".join(lines)


def _settings(one: Any, other: Any, prefix: str = "") -> list[str]:
    """The settings of `one` that `other` does not have: `updates=900`, and `critic.batch=500` where they are nested."""
    found = []
    for field in fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if mine == theirs:
            continue
        if not is_dataclass(mine):
            found.append(f"{prefix}{field.name}={mine!r}")
        elif type(mine) is type(theirs):
            found += _settings(mine, theirs, f"{prefix}{field.name}.")
        else:
            kind: Any = type(mine)
            found.append(f"{prefix}{field.name}={kind.__name__}({', '.join(_settings(mine, kind()))})")
    return found


def formats() -> str:
    rows = []
    for ending, format in sw.FORMATS.items():
        written = "yes" if format.write else "no"
        rows.append((f"`{ending}`", _first_sentence(_module_doc(format.read)), written))
    return _table(("ending", "what it is", "can be written"), rows)


def exports() -> str:
    rows = [(f"`{name}`", _first_sentence(_module_doc(export.write))) for name, export in EXPORTS.items()]
    return _table(("name", "what it is"), rows)


def domains() -> str:
    rows = []
    for name, source in sw.DOMAINS.items():
        place = sys.modules[sw.DOMAINS._places[name].split(":")[0]]
        sizes = (str(len(source.observation_names)), str(len(source.action_names)), f"{source.discount:g}")
        rows.append((f"`{name}`", _first_sentence(place.__doc__ or ""), *sizes))
    return _table(("name", "what it is", "observations", "actions", "discount"), rows)


def _module_doc(thing: Any) -> str:
    return sys.modules[thing.__module__].__doc__ or ""


def _first_sentence(text: str) -> str:
    """Of a docstring; it ends with its paragraph, or with a full stop before a capital or an equation."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[^\s.]\.) (?=[A-Z])", paragraph)[0]


def _codes(names: Iterable[Any]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *escaped))


LISTS: dict[str, Callable[[], str]] = {
    made.__name__: made for made in (measures, algorithms, estimators, presets, formats, exports, domains)
}


def pages() -> dict[Path, str]:
    """What the pages that hold anything made should contain."""
    found = {DOCS / "api.md": api()}
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        for name, made in LISTS.items():
            between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", flags=re.S)
            if between.search(text):
                text = between.sub(lambda marks, made=made: f"{marks[1]}\n{made()}\n\n{marks[2]}", text)
                found[path] = text
    return found


if __name__ == "__main__":
    for path, text in pages().items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"Wrote {path.relative_to(DOCS.parent)}")
