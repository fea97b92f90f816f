"""A log's fingerprint, by which run folders and policy cards say what was learned from what."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from statewise.base.column import parts_of
from statewise.data.dataset import Dataset


def fingerprint(dataset: Dataset) -> str:
    """A hash of everything in the log."""
    digest = hashlib.sha256(repr((dataset.observation_names, dataset.action_count)).encode())
    _hash_into(digest, _without_fills(dataset, dataset.observations))
    for name in ("actions", "rewards", "propensities", "starts", "terminated"):
        _hash_into(digest, getattr(dataset, name))
    _hash_into(digest, _without_fills(dataset, dataset.final_observations))
    for name in ("distributions", "legal", "units", "live"):
        _hash_into(digest, getattr(dataset, name))
    if dataset.logged_by is not None:
        _hash_into(digest, dataset.logged_by)
    if dataset.targets is not None:
        _hash_into(digest, dataset.targets)
    if dataset.has_action_words:
        digest.update(repr(dataset.action_names).encode())
    if dataset.horizon != replace(dataset, ends=None).horizon:  # its owner says otherwise than the log shows
        digest.update(repr(tuple(dataset.horizon)).encode())
    return digest.hexdigest()


def _without_fills(dataset: Dataset, observations: np.ndarray) -> np.ndarray:
    """What fills the gaps depends on what it was learned from, and is not in the log."""
    fills = [] if dataset.schema is None else dataset.schema.fills()
    return observations if not fills else dataset.schema.fill(observations, [0.0] * len(fills))  # pyright: ignore


def _hash_into(digest: Any, column: np.ndarray | None) -> None:
    if column is None:
        digest.update(b"none")
    elif column.dtype.kind in "OUS":
        digest.update(repr(column.tolist()).encode())
    else:
        digest.update(str(column.dtype).encode())
        for part in parts_of(len(column)):
            digest.update(np.ascontiguousarray(column[part]).data)
