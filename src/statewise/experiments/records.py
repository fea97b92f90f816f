"""The files of a study's jobs and logs: each is written whole or not at all, with NumPy alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from statewise.base.arrays import read_arrays
from statewise.base.files import make_folder, write_text, written_whole
from statewise.data.dataset import Dataset
from statewise.domains import DOMAINS
from statewise.domains.source import Earned
from statewise.experiments import provenance
from statewise.experiments.study import Cell, Method
from statewise.learning.runs import RunError
from statewise.policies.network import Policy

DIAGNOSTICS = ("value", "ratio_ess", "entropy")  # metrics of the learner itself


class History(NamedTuple):
    """One run's checkpoints: their policies, after how many updates, and whether everything was still finite."""

    policies: list[Any]
    updates: Int[np.ndarray, " checkpoints"]
    finite: Bool[np.ndarray, " checkpoints"]
    diagnostics: dict[str, np.ndarray]


def slug(name: str) -> str:
    """The name as part of a path: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def job_path(out: Path, cell: Cell, method: Method, seed: int) -> Path:
    return out / "jobs" / slug(cell.name) / slug(method.name) / f"{seed}.npz"


def log_path(out: Path, cell: Cell, seed: int) -> Path:
    return out / "logs" / slug(cell.name) / f"{seed}.npz"


def read(path: Path) -> dict[str, np.ndarray]:
    return read_arrays(path)


def write(path: Path, arrays: Mapping[str, Any]) -> None:
    """The same arrays always become the same bytes."""
    make_folder(path.parent)
    with written_whole(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType]


def is_done(out: Path, cell: Cell, method: Method, seed: int, identity: str) -> bool:
    """Whether the job's file exists; a file made with other settings is refused, never mixed in."""
    path = job_path(out, cell, method, seed)
    if not path.is_file():
        return False
    if str(read(path)["identity"]) != identity:
        raise RunError(f"{path}: made with other settings; choose another folder")
    return True


def write_log(out: Path, cell: Cell, seed: int, data: Dataset) -> None:
    """What a log says about the behaviour that wrote it."""
    arrays = {
        "discounted": data.returns(DOMAINS[cell.domain].discount),
        "undiscounted": data.returns(1.0),
        "fingerprint": data.fingerprint,
        "rows": len(data),
    }
    write(log_path(out, cell, seed), arrays)


def write_job(
    out: Path,
    cell: Cell,
    method: Method,
    seed: int,
    identity: str,
    fingerprint: str,
    history: History,
    scores: Earned,
    seconds: Mapping[str, float],
) -> None:
    """A finished job; scores of policies that are no longer finite are NaN."""
    arrays: dict[str, Any] = {"updates": history.updates, "finite": history.finite, **history.diagnostics}
    arrays |= {name: np.where(history.finite[:, None], values, np.nan) for name, values in scores._asdict().items()}
    networks = [policy for policy in history.policies if isinstance(policy, Policy)]  # trees are large, and not kept
    if networks:
        arrays |= {"mean": networks[0].mean, "std": networks[0].std}
        for i in range(len(networks[0].weights)):
            arrays[f"weight_{i}"] = np.stack([policy.weights[i] for policy in networks])
            arrays[f"bias_{i}"] = np.stack([policy.biases[i] for policy in networks])
    file = job_path(out, cell, method, seed)
    make_folder(file.parent)
    made_with = {"seconds": dict(seconds), "commit": provenance.commit(), **provenance.machine()}
    write_text(file.with_suffix(".json"), json.dumps(made_with))
    # last, since this file marks the job as done
    write(file, {**arrays, "identity": identity, "fingerprint": fingerprint})


def policies_of(job: Mapping[str, np.ndarray], names: tuple[str, ...]) -> list[Policy]:
    """The policies that a job kept, in the order of their updates."""
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
