"""The files of a study's run: jobs, logs and the manifest, each written whole or not at all, with NumPy alone."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Int

from statewise.base.files import write_text, written_whole
from statewise.data.dataset import Dataset
from statewise.domains import DOMAINS
from statewise.domains.source import Earned
from statewise.experiments.study import Cell, Method, Study, as_data
from statewise.learning.runs import RunError, versions
from statewise.policies.network import Policy

HERE = Path(__file__).parent
DIAGNOSTICS = ("value", "ratio_ess", "entropy")  # what the learner says of itself


class Way(NamedTuple):
    """How one run went: its policies from the first on, after how many updates, and which were still finite."""

    policies: list[Any]
    updates: Int[np.ndarray, " checkpoints"]
    finite: Bool[np.ndarray, " checkpoints"]
    diagnostics: dict[str, np.ndarray]


def slug(name: str) -> str:
    """A name as a file can have it."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def job_path(out: Path, cell: Cell, method: Method, seed: int) -> Path:
    return out / "jobs" / slug(cell.name) / slug(method.name) / f"{seed}.npz"


def log_path(out: Path, cell: Cell, seed: int) -> Path:
    return out / "logs" / slug(cell.name) / f"{seed}.npz"


def read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def write(path: Path, arrays: Mapping[str, Any]) -> None:
    """The same arrays, the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType]


def is_done(out: Path, cell: Cell, method: Method, seed: int, identity: str) -> bool:
    """Whether the job's file is there; one that was made with other settings is never mixed in."""
    path = job_path(out, cell, method, seed)
    if not path.is_file():
        return False
    if str(read(path)["identity"]) != identity:
        raise RunError(f"{path}: it was made with other settings; give another folder")
    return True


def write_log(out: Path, cell: Cell, seed: int, data: Dataset) -> None:
    """What a log says of the behaviour that wrote it."""
    told = {
        "discounted": data.returns(DOMAINS[cell.domain].discount),
        "undiscounted": data.returns(1.0),
        "fingerprint": data.fingerprint,
        "rows": len(data),
    }
    write(log_path(out, cell, seed), told)


def write_job(
    out: Path,
    cell: Cell,
    method: Method,
    seed: int,
    identity: str,
    fingerprint: str,
    way: Way,
    scores: Earned,
    seconds: Mapping[str, float],
) -> None:
    """A finished job; scores of policies that were no longer finite are NaN."""
    arrays: dict[str, Any] = {"updates": way.updates, "finite": way.finite, **way.diagnostics}
    arrays |= {name: np.where(way.finite[:, None], values, np.nan) for name, values in scores._asdict().items()}
    networks = [policy for policy in way.policies if isinstance(policy, Policy)]  # trees are large, and not kept
    if networks:
        arrays |= {"mean": networks[0].mean, "std": networks[0].std}
        for i in range(len(networks[0].weights)):
            arrays[f"weight_{i}"] = np.stack([policy.weights[i] for policy in networks])
            arrays[f"bias_{i}"] = np.stack([policy.biases[i] for policy in networks])
    file = job_path(out, cell, method, seed)
    file.parent.mkdir(parents=True, exist_ok=True)
    made = {"seconds": dict(seconds), "commit": commit(), **machine()}
    write_text(file.with_suffix(".json"), json.dumps(made))
    write(file, {**arrays, "identity": identity, "fingerprint": fingerprint})  # last: it says that the job is done


def policies_of(job: Mapping[str, np.ndarray], names: tuple[str, ...]) -> list[Policy]:
    """The policies that a job kept, in order of their updates."""
    layers = sum(name.startswith("weight_") for name in job)
    return [
        Policy(
            weights=tuple(job[f"weight_{i}"][k] for i in range(layers)),
            biases=tuple(job[f"bias_{i}"][k] for i in range(layers)),
            mean=job["mean"],
            std=job["std"],
            observation_names=names,
            action_names=tuple(str(a) for a in range(job[f"bias_{layers - 1}"].shape[1])),
        )
        for k in range(len(job["weight_0"]))
    ]


def begin(out: Path, study: Study) -> None:
    """Finds out that the folder cannot be written, or holds another study, before anything is computed."""
    out.mkdir(parents=True, exist_ok=True)
    known = manifest(out)
    for name in ("name", "quick"):
        if known is not None and known["study"][name] != getattr(study, name):
            what = "another study" if name == "name" else "a quick run" if known["study"]["quick"] else "a full run"
            raise RunError(f"{out}: it holds {what}; give another folder")
    finish(out, study)


def finish(out: Path, study: Study) -> None:
    """The manifest: all that is needed to make the numbers again."""
    settings = {
        cell.name: {method.name: asdict(study.config(cell, method)) for method in study.methods} for cell in study.cells
    }
    known = manifest(out) or {}
    told = {
        "study": as_data(study),
        "settings": _merged(known.get("settings", {}), settings),
        "data": {cell.name: _fingerprints(out, cell) for cell in study.cells},
        "commit": commit(),
        **machine(),
    }
    write_text(out / "manifest.json", json.dumps(told, indent=2, default=str))


def _fingerprints(out: Path, cell: Cell) -> dict[str, str]:
    """Of the logs that were learned from or evaluated on, by seed."""
    paths = sorted((out / "logs" / slug(cell.name)).glob("*.npz"), key=lambda path: int(path.stem))
    return {path.stem: str(read(path)["fingerprint"]) for path in paths}


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """A study may be run some methods at a time."""
    return {name: {**old.get(name, {}), **new.get(name, {})} for name in {**old, **new}}


def manifest(out: Path) -> dict[str, Any] | None:
    path = out / "manifest.json"
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if "study" in found else None
    except ValueError as error:
        raise RunError(f"{path}: it is damaged ({error})") from error


def machine() -> dict[str, Any]:
    """What the numbers were made on and with."""
    device = jax.devices()[0]
    return {
        "device": device.device_kind if device.platform != "cpu" else f"CPU, {os.cpu_count()} cores",
        "machine": platform.machine(),
        "versions": versions(),
    }


def commit() -> str | None:
    """The source's commit, where it is a checkout of git."""
    told = [_git("rev-parse", "HEAD"), _git("status", "--porcelain", "--", str(HERE.parent))]
    if told[0] is None:
        return None
    return told[0] + (" with changes" if told[1] else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
