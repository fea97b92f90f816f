"""A checked log as files on disk, one for each column, written shard by shard and read as memory-mapped columns.

A shard is some whole episodes. Its rows stand at the end of every column's file, and `shards.json` has its size and the
SHA-256 of what it added to each. That file is written last: what a killed process wrote after it is cut off again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from statewise.base.column import from_file
from statewise.base.decode import decode
from statewise.base.files import make_folder, write_text
from statewise.base.jsonfile import read_json
from statewise.data.dataset import ROW_COLUMNS, Dataset
from statewise.data.findings import Finding
from statewise.data.horizon import Horizon
from statewise.data.loggers import newest_last
from statewise.data.schema import SCHEMA, Schema

VERSION = 1
MANIFEST = "shards.json"
OF_EPISODES = ("lengths", "terminated", "final_observations")
NAMES = ("episode_ids", "units", "logged_by")
BLOCK = 1 << 24


class ShardError(ValueError):
    """The files are not those that were written."""


class Shards:
    """The files of one log."""

    def __init__(self, folder: Path, key: str):
        self.folder = folder
        self.known: dict[str, Any] = {"version": VERSION, "key": key, "columns": {}, "shards": [], "log": None}
        make_folder(folder)
        if (folder / MANIFEST).is_file():
            self._reopen(key)

    def _reopen(self, key: str) -> None:
        try:
            known = read_json(self.folder / MANIFEST)
            fits = known["version"] == VERSION and known["key"] == key and isinstance(known["shards"], list)
        except (ValueError, KeyError, TypeError):
            return  # begun anew
        if fits and all(self._size(name) >= size for name, size in _sizes(known).items()):
            self.known = known

    def _size(self, name: str) -> int:
        path = self.folder / name
        return path.stat().st_size if path.is_file() else 0

    @property
    def count(self) -> int:
        return len(self.known["shards"])

    @property
    def finished(self) -> bool:
        return self.known["log"] is not None

    def findings(self) -> list[Finding]:
        """What was found in the log's files, and then in each shard, one after the other."""
        of_shards = [one for shard in self.known["shards"] for one in shard["findings"]]
        return [decode(Finding, one, "finding") for one in (*self.known["log"]["findings"], *of_shards)]

    # Writing

    def settled_limit(self, rows: int) -> int:
        """How many rows a shard has, about: what was said first, since a scan that goes on must cut where it did."""
        if "limit" not in self.known:
            self.known["limit"] = rows
            self._write()
        return self.known["limit"]

    def append(self, part: Dataset, findings: list[Finding], least: int | None) -> None:
        """Adds a checked part of the log; `least` is the number of its first step."""
        sizes, sums = _sizes(self.known), {}
        for name, values in _arrays(part).items():
            kind = [values.dtype.str, None if values.ndim == 1 else values.shape[1]]
            if self.known["columns"].setdefault(name, kind) != kind:
                raise ShardError(f"{name}: a different kind of number from the rows before; use one kind in all files")
            sums[name] = self._add(name, values, sizes.get(name, 0))
        for name in NAMES:
            if getattr(part, name) is not None:
                sums[name] = self._add_names(name, getattr(part, name))
        found = [asdict(finding) for finding in findings]
        shard = {"rows": len(part), "episodes": part.episodes, "actions": part.action_count, "least": least}
        shard |= {"sums": sums, "findings": found}
        self.known["shards"].append(shard)
        self._write()

    def _add(self, name: str, values: np.ndarray, size: int) -> str:
        digest = hashlib.sha256()
        with open(self.folder / name, "ab") as file:
            file.truncate(size)  # what was written after the last shard that is known
            for first in range(0, len(values), BLOCK):
                block = np.ascontiguousarray(values[first : first + BLOCK])
                digest.update(block.data)
                file.write(block.data)
            file.flush()
            os.fsync(file.fileno())
        return digest.hexdigest()

    def _add_names(self, name: str, values: np.ndarray) -> str:
        values = np.array(values.tolist()) if values.dtype.kind == "O" else values
        path = self.folder / f"{name}-{self.count}.npy"
        with path.open("wb") as file:
            np.save(file, values, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def finish(
        self, actions: tuple[str, ...], schema: Schema, horizon: Horizon | None, findings: list[Finding]
    ) -> None:
        """Says that all shards are there, and what they are of."""
        about = {"actions": actions, SCHEMA: asdict(schema), "horizon": horizon}
        self.known["log"] = about | {"findings": [asdict(finding) for finding in findings]}
        self._write()

    def _write(self) -> None:
        write_text(self.folder / MANIFEST, json.dumps(self.known))

    # Reading

    def check(self, progress: Callable[[int], None] = lambda done: None) -> None:
        """Raises ShardError where the bytes on disk are not those that were written."""
        places = dict.fromkeys(_sizes(self.known), 0)
        for number, shard in enumerate(self.known["shards"]):
            for name, known in shard["sums"].items():
                if name in NAMES:
                    found = hashlib.sha256((self.folder / f"{name}-{number}.npy").read_bytes()).hexdigest()
                else:
                    size = _size_in(self.known, name, shard)
                    found = self._sum(name, places[name], size)
                    places[name] += size
                if found != known:
                    raise ShardError(f"{self.folder}: shard {number} of {name} was damaged; delete the folder")
            progress(number + 1)

    def _sum(self, name: str, first: int, size: int) -> str:
        digest, left = hashlib.sha256(), size
        with (self.folder / name).open("rb") as file:
            file.seek(first)
            while left > 0 and (block := file.read(min(left, BLOCK))):
                digest.update(block)
                left -= len(block)
        return digest.hexdigest()

    def dataset(self) -> Dataset:
        """The log, its rows in memory-mapped files."""
        log, scratch = self.known["log"], self.folder
        schema = Schema.of({SCHEMA: log[SCHEMA]})
        assert schema is not None
        rows = {name: from_file(scratch / name, *self.known["columns"][name], scratch=scratch) for name in self._rows()}
        of_episodes = {name: self._in_memory(name) for name in OF_EPISODES}
        lengths = of_episodes.pop("lengths")
        names = {name: values for name in NAMES if (values := self._names(name)) is not None}
        columns: dict[str, Any] = {"propensities": None} | rows | of_episodes | names
        return Dataset(
            **columns,
            loggers=newest_last(names["logged_by"]) if "logged_by" in names else None,
            starts=np.concatenate([[0], np.cumsum(lengths)]),
            action_count=len(log["actions"]),
            observation_names=schema.features,
            action_names=tuple(log["actions"]),
            schema=schema,
            ends=None if log["horizon"] is None else Horizon(*log["horizon"]),
        )

    def _rows(self) -> list[str]:
        return [name for name in ROW_COLUMNS if name in self.known["columns"]]

    def _in_memory(self, name: str) -> np.ndarray:
        dtype, width = self.known["columns"][name]
        values = np.fromfile(self.folder / name, dtype)
        return values if width is None else values.reshape(-1, width)

    def _names(self, name: str) -> np.ndarray | None:
        if any(name not in shard["sums"] for shard in self.known["shards"]):
            return None
        parts = [np.load(self.folder / f"{name}-{number}.npy", allow_pickle=False) for number in range(self.count)]
        return np.concatenate(parts)


def _arrays(part: Dataset) -> dict[str, np.ndarray]:
    """What is written of a log, by the name of its file."""
    rows = {name: getattr(part, name) for name in ROW_COLUMNS}
    return {name: one for name, one in rows.items() if one is not None} | {
        name: getattr(part, name) for name in OF_EPISODES
    }


def _sizes(known: dict[str, Any]) -> dict[str, int]:
    """How many bytes of each file are known to be right."""
    return {name: sum(_size_in(known, name, shard) for shard in known["shards"]) for name in known["columns"]}


def _size_in(known: dict[str, Any], name: str, shard: dict[str, Any]) -> int:
    dtype, width = known["columns"][name]
    return shard["episodes" if name in OF_EPISODES else "rows"] * np.dtype(dtype).itemsize * (width or 1)
