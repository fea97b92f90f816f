"""Policies, runs and settings made to break a reader: each is read as it was written or refused in a sentence."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from statewise.algorithms import ALGORITHMS
from statewise.base.decode import changed
from statewise.base.ranges import check_ranges
from statewise.learning.presets import preset
from statewise.learning.runs import RunFolder
from statewise.learning.settings import read_settings
from statewise.policies.files import load_policy, save_policy
from statewise.policies.network import Policy
from statewise.policies.trees import TreePolicy
from statewise.report.content import ReportContent, from_json, to_json
from statewise.report.folder import from_run

SEEN = np.array([[0.0, 1.0], [-2.0, 0.5]])
ODD: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63, 10**400, 1e308, float("nan"), float("inf"), -0.5, "", "x", "\x1b[2J", "\ud800",
    [], [1], [[1]], {}, {"a": 1}, [None] * 100, "x" * 10_000,
]  # fmt: skip


def network(rng: np.random.Generator) -> Policy:
    width = int(rng.integers(1, 5))
    weights = (rng.normal(size=(2, width)), rng.normal(size=(width, 3)))
    biases = (np.zeros(width), np.zeros(3))
    return Policy(weights, biases, np.zeros(2), np.ones(2), ("a", "b"), ("x", "y", "z"), {"seed": 1})


def trees(rng: np.random.Generator) -> TreePolicy:
    return TreePolicy(
        feature=np.array([0, 0, 0, 1, 0, 0, 0], np.int32),
        threshold=rng.normal(size=7).astype(np.float32),
        children=np.array([[1, 2], [1, 1], [2, 2], [4, 5], [4, 4], [5, 5], [6, 6]], np.int32),
        value=rng.normal(size=7),
        roots=np.array([[0], [3], [6]], np.int32),
        depth=1,
        epsilon=0.1,
        observation_names=("a", "b"),
        action_names=("x", "y", "z"),
        card={"seed": 1},
    )


def damaged(rng: np.random.Generator, contents: bytes) -> bytes:
    """Bytes flipped, cut, put in, taken out or written over."""
    place, width = int(rng.integers(len(contents) + 1)), int(rng.integers(1, 40))
    noise = bytes(rng.integers(256, size=width).tolist())
    kind = rng.integers(6)
    if kind == 0 and place < len(contents):
        return contents[:place] + bytes([contents[place] ^ 1 << int(rng.integers(8))]) + contents[place + 1 :]
    if kind == 1:
        return contents[:place]
    if kind == 2:
        return contents[:place] + noise + contents[place:]
    if kind == 3:
        return contents[:place] + contents[place + width :]
    if kind == 4:
        return contents[:place] + contents[max(0, place - width) :]
    return contents[:place] + noise + contents[place + width :]


def exchanged(rng: np.random.Generator, value: Any) -> Any:
    """One thing somewhere within a value, exchanged for an odd one, renamed, or taken out."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = str(rng.choice(list(value)))
        kind = rng.random()
        if kind < 0.1:
            return {key: inner for key, inner in value.items() if key != name}
        if kind < 0.2:
            return {**value, f"{name}{rng.integers(9)}": value[name]}
        return {**value, name: exchanged(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = int(rng.integers(len(value)))
        return [*value[:place], exchanged(rng, value[place]), *value[place + 1 :]]
    return ODD[int(rng.integers(len(ODD)))]


class Forged:
    """A policy with other parts, written with a digest that is right."""

    def __init__(self, policy: Any, tensors: dict[str, np.ndarray], header: dict[str, Any]):
        self.format, self._tensors, self._header = policy.format, tensors, header
        self.observation_names, self.action_names = policy.observation_names, policy.action_names
        self.card, self.probabilities, self.full_card = policy.card, policy.probabilities, policy.full_card
        self.save, self.from_parts = policy.save, policy.from_parts

    def tensors(self) -> dict[str, np.ndarray]:
        return self._tensors

    def header(self) -> dict[str, Any]:
        return self._header


def check_policy(rng: np.random.Generator, folder: Path) -> str:
    path = folder / "p [1].safetensors"
    policy = network(rng) if rng.random() < 0.5 else trees(rng)
    policy.save(path)
    if rng.random() < 0.5:
        path.write_bytes(damaged(rng, path.read_bytes()))
        same = load_policy(path)  # what is not refused must be what was written
        for name, array in policy.tensors().items():
            np.testing.assert_array_equal(same.tensors()[name], array, strict=True)
        return "read"
    tensors = dict(policy.tensors())
    name = str(rng.choice(list(tensors)))
    array = tensors[name]
    kind = rng.integers(5)
    if kind == 0 and array.size:
        tensors[name] = array.copy()
        tensors[name].flat[int(rng.integers(array.size))] = rng.choice([-1, 0, 1, 5, 100, 2**30])
    elif kind == 1:
        tensors[name] = np.zeros(tuple(rng.integers(0, 4, size=rng.integers(0, 4)).tolist()), array.dtype)
    elif kind == 2:
        tensors[name] = array.astype(str(rng.choice(["f8", "f4", "i8", "i4", "u1", "?"])))
    elif kind == 3:
        del tensors[name]
    whole = {"observations": list(policy.observation_names), "actions": list(policy.action_names), "card": {}}
    header = exchanged(rng, whole | policy.header()) if kind == 4 or rng.random() < 0.3 else policy.header()
    save_policy(Forged(policy, tensors, header if isinstance(header, dict) else {}), path)
    chances = load_policy(path).probabilities(SEEN)  # a policy that can be loaded can act
    assert chances.shape == (2, len(load_policy(path).action_names))
    return "read"


def check_run(rng: np.random.Generator, folder: Path) -> str:
    run = RunFolder(folder / "run")
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    settings = ALGORITHMS["opposd"].settings()
    manifest = {"algorithm": "OPPOSD", "config": asdict(settings), "seeds": [0, 1], "data": "0" * 64, "versions": {}}
    manifest = json.loads(json.dumps(manifest))
    run.write_manifest(manifest)
    metrics = {"value": rng.normal(size=(2, 5)), "entropy": rng.normal(size=(2, 5)), "finite": np.ones((2, 5, 3), bool)}
    run.write_metrics(metrics)
    state = [rng.normal(size=3), np.arange(4)]
    for old in run.checkpoints.iterdir():
        old.unlink()
    run.write_state(5, state)
    decision = to_json(ReportContent("deploy", "since it earns more", weight_shares=(0.5, 0.5), notes=("a",)))
    (run.path / "decision.json").write_text(decision)
    place = str(rng.choice(["manifest.json", "metrics.npz", "state", "decision.json"]))
    path = run.path / place if place != "state" else next(run.checkpoints.glob("state-*.npz"))
    if path.suffix == ".json" and rng.random() < 0.6:
        value = exchanged(rng, json.loads(path.read_text()))
        path.write_text(json.dumps(value), encoding="utf-8", errors="replace")
    else:
        path.write_bytes(damaged(rng, path.read_bytes()))
    content = from_run(run)
    saved = run.read_state()
    if place == "metrics.npz":
        for name, array in run.metrics().items():
            np.testing.assert_array_equal(array, metrics.get(name, array))
    if place == "state" and saved is not None:
        for one, other in zip(saved.leaves, state, strict=False):
            np.testing.assert_array_equal(one, other)
    assert from_json(to_json(content)).answer == content.answer
    return "read"


def check_settings(rng: np.random.Generator, folder: Path) -> str:
    name = str(rng.choice(list(ALGORITHMS)))
    path = folder / "settings.toml"
    if rng.random() < 0.5:
        lines = [
            "updates = 100",
            "discount = 0.9",
            "[actor]",
            "learning_rate = 1e-3",
            "hidden = [32, 32]",
            "batch = 10",
        ]
        path.write_bytes(damaged(rng, "\n".join(lines).encode()))
        tables = read_settings(path)
    else:
        tables = exchanged(rng, json.loads(json.dumps(asdict(preset("default", name)))))
    if not isinstance(tables, dict):
        return "refused"
    settings = changed(preset("default", name), tables)
    check_ranges(settings)
    assert check_ranges(changed(settings, {})) is None
    return "read"


CHECKS = (check_policy, check_run, check_settings)


def check(seed: int, folder: Path) -> str:
    """One file: `read` or `refused`."""
    rng = np.random.default_rng([2, seed])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return CHECKS[seed % len(CHECKS)](rng, folder)
        except ValueError as error:
            sentence = str(error)
            assert sentence
            assert "\n" not in sentence, sentence
            return "refused"
