"""The run folder: settings, metrics, checkpoints, and what is needed to compute them again.

run/
  manifest.json           settings, seeds, versions, the data's fingerprint
  metrics.npz             one array [seeds, updates] per metric
  policy.safetensors      the policy that may be deployed, if one was certified
  goal.safetensors        the policy that was learned, where the run was judged
  checkpoints/            state-<update>.npz to resume from (the last two), seed-<s>-update-<u>.safetensors to act with
  .lock                   held while a process writes here
"""

from __future__ import annotations

import json
import os
import platform
import re
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from statewise.base.arrays import ArrayFileError, read_arrays
from statewise.base.files import make_folder, remove, write_text, written_whole
from statewise.base.jsonfile import read_json
from statewise.base.lock import NAME as LOCK
from statewise.base.lock import locked
from statewise.policies.files import load_policy

STATE = re.compile(r"state-(\d{1,15})\.npz")
POLICY = re.compile(r"seed-(\d{1,15})-update-(\d{1,15})\.safetensors")
EXPECTED = (
    ("algorithm", str, "a name"),
    ("config", dict, "settings"),
    ("seeds", list, "a list"),
    ("data", str, "text"),
)
LIBRARIES = ("statewise", "jax", "equinox", "optax", "numpy")


class RunError(ValueError):
    """The folder is not a run folder, or its run cannot be resumed."""


class RunWarning(UserWarning):
    """Something in a run folder is damaged, and the run goes on without it."""


class SavedState(NamedTuple):
    """The leaves of a learner's state after `update` updates."""

    update: int
    leaves: list[np.ndarray]


class RunFolder:
    """A run's files, each written whole or not at all, so that an interrupted run can be resumed."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.chosen = self.path / "policy.safetensors"
        self.goal = self.path / "goal.safetensors"

    @classmethod
    def create(cls, path: str | Path) -> RunFolder:
        folder = cls(path)
        if folder.path.exists() and not folder.path.is_dir():
            raise RunError(f"{path}: there is a file with that name")
        if folder.path.is_dir() and not folder.exists() and not all(map(_begun, folder.path.iterdir())):
            raise RunError(f"{path}: it holds other files; choose an empty folder")
        make_folder(folder.checkpoints)
        return folder

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        folder = cls(path)
        if not folder.exists():
            raise RunError(f"{path}: it is not a run folder (it has no manifest.json)")
        return folder

    def locked(self) -> AbstractContextManager[None]:
        """Keeps other processes from writing here; they get a sentence that says who does."""
        return locked(self.path)

    def exists(self) -> bool:
        return (self.path / "manifest.json").is_file()

    # The manifest

    def manifest(self) -> dict[str, Any]:
        try:
            manifest = read_json(self.path / "manifest.json")
        except ValueError as error:
            raise RunError(f"{self.path}: its manifest.json is damaged ({error})") from error
        if not isinstance(manifest, dict):
            raise RunError(f"{self.path}: its manifest.json is not that of a run")
        _check_manifest(self.path, manifest)
        return manifest

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        write_text(self.path / "manifest.json", json.dumps(manifest, indent=2, default=str))

    # Metrics and checkpoints

    def write_metrics(self, metrics: Mapping[str, np.ndarray]) -> None:
        self._write_arrays("metrics.npz", metrics)

    def metrics(self) -> dict[str, np.ndarray]:
        metrics = _arrays(self.path / "metrics.npz")
        for name, values in metrics.items():
            if values.ndim < 2 or values.dtype.kind not in "biuf":
                raise RunError(f"{self.path / 'metrics.npz'}: '{name}' is not an array of numbers [seeds, updates]")
        return metrics

    def write_state(self, update: int, state: Any) -> None:
        """The whole learner's state, to resume from; it and the one before are kept."""
        leaves = jax.tree.leaves(state)
        arrays = {f"leaf_{i:04d}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        self._write_arrays(f"checkpoints/state-{update}.npz", arrays)
        self.forget_states(update)

    def forget_states(self, update: int) -> None:
        """Removes the states of all updates but this one and the one before; later ones could not be read."""
        paths = self._state_paths()
        kept = sorted(number for number in paths if number <= update)[-2:]
        remove(*(path for number, path in paths.items() if number not in kept))

    def read_state(self) -> SavedState | None:
        """The newest state that is not damaged; None where there is none."""
        paths = self._state_paths()
        for update in sorted(paths, reverse=True):
            try:
                arrays = read_arrays(paths[update])
                return SavedState(update, [arrays[name] for name in sorted(arrays)])
            except ArrayFileError as error:
                earlier = max((number for number in paths if number < update), default=None)
                instead = "from the start" if earlier is None else f"after update {earlier:,}, from the one before"
                warnings.warn(f"{error}; learning resumes {instead}", RunWarning, stacklevel=2)
        return None

    def _state_paths(self) -> dict[int, Path]:
        return {int(match[1]): path for path, match in _named(self.checkpoints, STATE)}

    def write_policy(self, seed: int, update: int, policy: Any) -> None:
        policy.save(self.checkpoints / f"seed-{seed}-update-{update}.safetensors")

    def policies(self) -> dict[tuple[int, int], Any]:
        """Every checkpoint's policy by (seed, update), in that order."""
        return {key: load_policy(path) for key, path in self._policy_paths().items()}

    def policy(self) -> tuple[Any, str]:
        """The policy to act with, and a description of it: the certified one, the goal, or the first seed's last."""
        if self.chosen.is_file():
            return load_policy(self.chosen), "the policy that was certified"
        if self.goal.is_file():
            return load_policy(self.goal), "the goal, which was not certified"
        paths = self._policy_paths()
        if not paths:
            raise RunError(f"{self.path}: it has no checkpoints yet")
        first = min(seed for seed, _ in paths)
        last = max(update for seed, update in paths if seed == first)
        description = f"the last policy of seed {first} (update {last:,}); none was chosen by evaluation"
        return load_policy(paths[first, last]), description

    def learned(self) -> Any:
        """The goal where the run was judged, or else the first seed's last policy."""
        return load_policy(self.goal) if self.goal.is_file() else self.policy()[0]

    def last_policies(self) -> dict[int, Any]:
        """The last checkpoint's policy of every seed."""
        paths = self._policy_paths()
        last = {seed: max(update for other, update in paths if other == seed) for seed, _ in paths}
        return {seed: load_policy(paths[seed, update]) for seed, update in last.items()}

    def _policy_paths(self) -> dict[tuple[int, int], Path]:
        paths = {(int(match[1]), int(match[2])): path for path, match in _named(self.checkpoints, POLICY)}
        return {key: paths[key] for key in sorted(paths)}

    def _write_arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        with written_whole(self.path / name) as part, part.open("wb") as file:
            np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]


def _named(folder: Path, pattern: re.Pattern[str]) -> list[tuple[Path, re.Match[str]]]:
    """The files whose names fit the pattern; others are none of ours."""
    names = ((path, pattern.fullmatch(path.name)) for path in (folder.iterdir() if folder.is_dir() else ()))
    return [(path, match) for path, match in names if match is not None]


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        return read_arrays(path)
    except ArrayFileError as error:
        raise RunError(str(error)) from error


def _check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """What others read in it is of the right type."""
    for name, kind, expected in EXPECTED:
        if name in manifest and not isinstance(manifest[name], kind):
            raise RunError(f"{path}: its manifest.json says {str(manifest[name])[:40]!r} for '{name}', not {expected}")
    discount = manifest.get("config", {}).get("discount")
    if not all(type(seed) is int for seed in manifest.get("seeds", ())):
        raise RunError(f"{path}: its manifest.json has seeds that are not whole numbers")
    if discount is not None and (type(discount) not in (int, float) or not 0 < discount <= 1):
        raise RunError(f"{path}: its manifest.json has a discount of {str(discount)[:40]}, expected 0 to 1")


def _begun(path: Path) -> bool:
    """Whether this is left over from a run that stopped before it wrote its manifest."""
    return path.name == LOCK or path.name.endswith(".part") or (path.name == "checkpoints" and not any(path.iterdir()))


def provenance() -> dict[str, Any]:
    """What the numbers were computed with."""
    return {
        "versions": versions(),
        "device": jax.devices()[0].device_kind,
        "machine": platform.machine(),
        "threads": threads(),
    }


def threads() -> int:
    """The cores that this process may use, over which XLA spreads its sums: their order, and so their last digits."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def versions() -> dict[str, str]:
    """Of Python, and of the libraries that learning depends on."""
    return {name: _version(name) for name in LIBRARIES} | {"python": platform.python_version()}


def _version(name: str) -> str:
    try:
        return version(name)
    except Exception:  # a source tree that was never installed has no version
        return "source"


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"actor": {"rate": 1}} as {"actor.rate": 1}, for tables of settings."""
    flat = {}
    for name, value in settings.items():
        flat |= flattened(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat
