"""manifest.json: everything needed to compute a study's numbers again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from statewise.base.files import make_folder, write_text
from statewise.base.jsonfile import read_json
from statewise.experiments import provenance, records
from statewise.experiments.study import Cell, Study
from statewise.learning.runs import RunError


def begin(out: Path, study: Study) -> None:
    """Refuses a folder that cannot be written or holds another study, before anything is computed."""
    make_folder(out)
    known = read(out)
    for name in ("name", "quick"):
        if known is not None and known["study"].get(name) != getattr(study, name):
            what = "another study" if name == "name" else "a quick run" if known["study"].get("quick") else "a full run"
            raise RunError(f"{out}: it holds {what}; choose another folder")
    write(out, study)


def read(out: Path) -> dict[str, Any] | None:
    """The manifest of a folder; None where there is none."""
    path = out / "manifest.json"
    if not path.is_file():
        return None
    try:
        manifest = read_json(path)
        return manifest if isinstance(manifest, dict) and isinstance(manifest.get("study"), dict) else None
    except ValueError as error:
        raise RunError(f"{path}: it is damaged ({error})") from error


def write(out: Path, study: Study) -> None:
    """Writes what is known by now; the settings of methods that ran here earlier are kept."""
    settings = {
        cell.name: {method.name: asdict(study.config(cell, method)) for method in study.methods} for cell in study.cells
    }
    earlier = read(out) or {}
    manifest = {
        "study": asdict(study),
        "settings": _merged(earlier.get("settings", {}), settings),
        "data": {cell.name: _fingerprints(out, study, cell) for cell in study.cells},
        "commit": provenance.commit(),
        **provenance.machine(),
    }
    write_text(out / "manifest.json", json.dumps(manifest, indent=2, default=str))


def _fingerprints(out: Path, study: Study, cell: Cell) -> dict[str, str]:
    """Of the logs that were learned from or evaluated on, by seed."""
    if study.kind == "safe":
        return _block_fingerprints(out, cell)
    if study.kind in ("certified", "rounds"):
        return _record_fingerprints(out, cell)
    paths = sorted(records.log_path(out, cell, 0).parent.glob("*.npz"), key=lambda path: int(path.stem))
    return {path.stem: str(records.read(path)["fingerprint"]) for path in paths}


def _block_fingerprints(out: Path, cell: Cell) -> dict[str, str]:
    """One hash for the logs of each block: there are thousands of them."""
    paths = (out / "blocks" / records.slug(cell.name)).glob("*/*.npz")
    blocks = {path.stem: "".join(records.read(path)["fingerprints"]) for path in sorted(paths)}
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in blocks.items()}


def _record_fingerprints(out: Path, cell: Cell) -> dict[str, str]:
    """Of a log; or one hash for the logs of a run's rounds."""
    paths = sorted((out / "jobs" / records.slug(cell.name)).glob("*.json"), key=lambda path: int(path.stem))
    logs = {path.stem: read_json(path)["fingerprints"] for path in paths}
    hashes = {seed: hashlib.sha256("".join(own).encode()).hexdigest() for seed, own in logs.items()}
    return {seed: own[0] if len(own) == 1 else hashes[seed] for seed, own in logs.items() if own}


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """A study may be run a few methods at a time."""
    return {name: {**old.get(name, {}), **new.get(name, {})} for name in {**old, **new}}
