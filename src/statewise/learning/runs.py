"""The run folder: settings, metrics, checkpoints, and what is needed to compute them again.

run/
  manifest.json           settings, seeds, versions, the data's fingerprint
  metrics.npz             one array [seeds, updates] per metric
  policy.safetensors      the chosen policy, if one was chosen
  checkpoints/            state-<update>.npz to resume from (the last two), seed-<s>-update-<u>.safetensors to act with
  .lock                   held while a process writes here
"""

from __future__ import annotations

import json
import platform
import re
import struct
import warnings
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import jax
import numpy as np

from statewise.base.files import make_folder, remove, write_text, written_whole
from statewise.base.lock import NAME as LOCK
from statewise.base.lock import locked
from statewise.policies.files import load_policy

STATE = re.compile(r"state-(\d+)\.npz")
# what reading a damaged .npz may raise; zipfile checks the CRC of every array
DAMAGED = (BadZipFile, EOFError, KeyError, ValueError, NotImplementedError, OSError, struct.error, zlib.error)
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

    @classmethod
    def create(cls, path: str | Path) -> RunFolder:
        folder = cls(path)
        if folder.path.exists() and not folder.path.is_dir():
            raise RunError(f"{path}: there is a file of that name")
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
            manifest = json.loads((self.path / "manifest.json").read_text())
        except ValueError as error:
            raise RunError(f"{self.path}: its manifest.json is damaged ({error})") from error
        if not isinstance(manifest, dict):
            raise RunError(f"{self.path}: its manifest.json is not that of a run")
        return manifest

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        write_text(self.path / "manifest.json", json.dumps(manifest, indent=2, default=str))

    # Metrics and checkpoints

    def write_metrics(self, metrics: Mapping[str, np.ndarray]) -> None:
        self._write_arrays("metrics.npz", metrics)

    def metrics(self) -> dict[str, np.ndarray]:
        path = self.path / "metrics.npz"
        try:
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (BadZipFile, EOFError, ValueError) as error:
            raise RunError(f"{path}: it is damaged ({error})") from error

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
                # opened here: NumPy would leave a damaged file open
                with paths[update].open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                    return SavedState(update, [file[name] for name in sorted(file.files)])
            except PermissionError:
                raise
            except DAMAGED as error:
                earlier = max((number for number in paths if number < update), default=None)
                instead = "from the start" if earlier is None else f"after update {earlier:,}, from the one before"
                warnings.warn(
                    f"{paths[update]}: this checkpoint is damaged ({error or type(error).__name__}); learning resumes "
                    f"{instead}",
                    RunWarning,
                    stacklevel=2,
                )
        return None

    def _state_paths(self) -> dict[int, Path]:
        names = {path: STATE.fullmatch(path.name) for path in self.checkpoints.glob("state-*.npz")}
        return {int(name[1]): path for path, name in names.items() if name}

    def write_policy(self, seed: int, update: int, policy: Any) -> None:
        policy.save(self.checkpoints / f"seed-{seed}-update-{update}.safetensors")

    def policies(self) -> dict[tuple[int, int], Any]:
        """Every checkpoint's policy by (seed, update), in that order."""
        return {key: load_policy(path) for key, path in self._policy_paths().items()}

    def policy(self) -> tuple[Any, str]:
        """The policy to act with, and a description of it: the chosen one, or the first seed's last."""
        if self.chosen.is_file():
            return load_policy(self.chosen), "the policy that was chosen for this run"
        paths = self._policy_paths()
        if not paths:
            raise RunError(f"{self.path}: it has no checkpoints yet")
        first = min(seed for seed, _ in paths)
        last = max(update for seed, update in paths if seed == first)
        description = f"the last policy of seed {first} (update {last:,}); none was chosen by evaluation"
        return load_policy(paths[first, last]), description

    def _policy_paths(self) -> dict[tuple[int, int], Path]:
        paths = {}
        for path in self.checkpoints.glob("seed-*-update-*.safetensors"):
            _, seed, _, update = path.stem.split("-")
            paths[int(seed), int(update)] = path
        return {key: paths[key] for key in sorted(paths)}

    def _write_arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        with written_whole(self.path / name) as part, part.open("wb") as file:
            np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]


def _begun(path: Path) -> bool:
    """Whether this is left over from a run that stopped before it wrote its manifest."""
    return path.name == LOCK or path.name.endswith(".part") or (path.name == "checkpoints" and not any(path.iterdir()))


def provenance() -> dict[str, Any]:
    """What the numbers were computed with."""
    return {
        "versions": versions(),
        "device": jax.devices()[0].device_kind,
        "machine": platform.machine(),
    }


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
