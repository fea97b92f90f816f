"""Policy files: one way to write and to read every kind of policy. Reading needs NumPy alone.

A policy file is safetensors: the policy's arrays, and as metadata its `format` (which kind it is), its header `policy`
as JSON (observations, actions, card, and what the kind adds) and the `sha256` of both. The card holds, where known:
`algorithm`, `seed`, `update`, `discount`, `data` (the training log's fingerprint), `log` (of the whole that the
training data are a part of), `schema` (how that log was read, so that raw rows become observations: `data.schema`),
`versions` and `estimate` (what the policy is worth: estimator, verdict, and where the log identifies it, value, low,
high and level).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from statewise.base.files import written_whole
from statewise.base.memory import in_words, memory_of_machine
from statewise.base.registry import Registry
from statewise.base.tensors import TensorError, open_tensors, write_tensors
from statewise.data.schema import Schema

KNOWN = ("algorithm", "seed", "update", "discount", "data", "estimate", "versions")  # of every card; null if unknown


SMALL = 1 << 26  # bytes; what is smaller is read without asking where it lies on the disk


class PolicyFileError(ValueError):
    """The file is not a policy that can be trusted."""


@runtime_checkable
class StoredPolicy(Protocol):
    """What a kind of policy needs to have a file: add the class to `KINDS` under its `format`."""

    format: ClassVar[str]

    @property
    def observation_names(self) -> tuple[str, ...]: ...

    @property
    def action_names(self) -> tuple[str, ...]: ...

    @property
    def card(self) -> Mapping[str, Any]: ...

    def probabilities(self, observations: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:
        """π(·|s), [n, actions], for observations [n, features]; actions that are not `legal` have probability 0."""
        ...

    def full_card(self) -> dict[str, Any]:
        """All that the file says about itself but the arrays, as JSON can hold it."""
        ...

    def save(self, path: str | Path) -> None:
        """Writes the file, by `save_policy`."""
        ...

    def tensors(self) -> dict[str, np.ndarray]:
        """The arrays that are kept, by name."""
        ...

    def header(self) -> dict[str, Any]:
        """What is kept besides the arrays, names and card, as JSON can hold it."""
        ...

    @classmethod
    def from_parts(cls, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any], **common: Any) -> Any:
        """The policy of such parts; `common` are names and card. What does not fit together raises a ValueError."""
        ...


KINDS: Registry[type[StoredPolicy]] = Registry(
    "kind of policy",
    {
        "statewise-policy-1": "statewise.policies.network:Policy",
        "statewise-trees-1": "statewise.policies.trees:TreePolicy",
        "statewise-path-1": "statewise.policies.path:PathPolicy",
    },
)


def save_policy(policy: StoredPolicy, path: str | Path) -> None:
    """Writes a policy file, whole or not at all; equal policies give equal bytes."""
    tensors, header = _parts(policy)
    metadata = {
        "format": policy.format,
        "policy": json.dumps(header, sort_keys=True),
        "sha256": _digest_of(tensors, header),
    }
    with written_whole(path) as part:
        part.write_bytes(write_tensors(tensors, metadata))


def fingerprint(policy: StoredPolicy) -> str:
    """The hash of everything in the policy's file, which its record and its file have in common."""
    return _digest_of(*_parts(policy))


def load_policy(path: str | Path) -> StoredPolicy:
    """Reads a policy file of any kind; one that is cut short, changed, or something else is refused.

    >>> load_policy("run/policy.safetensors").probabilities(observations)  # doctest: +SKIP
    """
    path = Path(path)
    if not path.is_file():
        raise PolicyFileError(f"{path}: {'it is a folder' if path.is_dir() else 'there is no such file'}")
    _check_size(path)
    try:
        file = open_tensors(path)
    except TensorError as error:
        raise PolicyFileError(f"{path}: it is not a policy file, or it is cut short ({error})") from error
    kind = _kind(path, file.metadata)
    try:
        header = json.loads(file.metadata["policy"])
        shapes = {name: (tensor.dtype, tensor.shape) for name, tensor in file.tensors.items()}
        changed = file.metadata["sha256"] != _digest(shapes, file.blocks, header)
    except (ValueError, RecursionError):
        changed, header = True, {}
    if changed:
        raise PolicyFileError(f"{path}: its contents were changed after it was written")
    try:
        return kind.from_parts(file.arrays(), header, **_common(header))
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise PolicyFileError(f"{path}: its parts do not fit together ({reason})") from error


def full_card(policy: StoredPolicy, observations: list[dict[str, Any]], **described: Any) -> dict[str, Any]:
    """A kind's `full_card`, from what it says of each observation and of itself."""
    names = {"format": policy.format, "observations": observations, "actions": list(policy.action_names)}
    return {**names, **described, **dict.fromkeys(KNOWN), **policy.card}


def _parts(policy: StoredPolicy) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    header = {
        "observations": list(policy.observation_names),
        "actions": list(policy.action_names),
        "card": dict(policy.card),
        **policy.header(),
    }
    return {name: np.ascontiguousarray(array) for name, array in policy.tensors().items()}, header


def _kind(path: Path, metadata: Mapping[str, str]) -> Any:
    if not {"format", "policy", "sha256"} <= set(metadata):
        raise PolicyFileError(f"{path}: it is a safetensors file, but not a statewise policy")
    if metadata["format"] not in KINDS:
        raise PolicyFileError(
            f"{path}: its kind of policy, '{metadata['format']}', is not known here; it needs a newer version of "
            "statewise, or the module that registers that kind"
        )
    return KINDS[metadata["format"]]


def _common(header: Any) -> dict[str, Any]:
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    names = {"observation_names": header["observations"], "action_names": header["actions"]}
    for name, values in names.items():
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ValueError(f"{name} must be a list of strings")
        if len(set(values)) < len(values):
            raise ValueError(f"{name} must differ from each other")
    if not isinstance(header["card"], dict):
        raise ValueError("the card must be an object")
    schema = Schema.of(header["card"])
    if schema is not None and list(schema.features) != names["observation_names"]:
        raise ValueError("its schema makes other observations than those that the policy looks at")
    return {**{name: tuple(values) for name, values in names.items()}, "card": header["card"]}


def _check_size(path: Path) -> None:
    """Refuses what this machine could not hold, and files with holes, which were never written completely."""
    held, most = path.stat(), memory_of_machine() // 2
    if held.st_size > most:
        raise PolicyFileError(f"{path}: it has {in_words(held.st_size)}, and this machine can hold {in_words(most)}")
    blocks = getattr(held, "st_blocks", None)  # of 512 bytes each; not known on every system
    if blocks is not None and held.st_size > SMALL and 512 * blocks < held.st_size // 8:
        raise PolicyFileError(f"{path}: it was never written completely; most of it is empty")


def _digest_of(tensors: Mapping[str, np.ndarray], header: Any) -> str:
    shapes = {name: (array.dtype, array.shape) for name, array in tensors.items()}
    return _digest(shapes, lambda name: [tensors[name].tobytes()], header)


def _digest(
    arrays: Mapping[str, tuple[np.dtype, tuple[int, ...]]], blocks: Callable[[str], Iterable[Any]], header: Any
) -> str:
    """Of the header, and of every array's name, kind, shape and bytes, which come in `blocks`."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        dtype, shape = arrays[name]
        digest.update(f"{name}{dtype}{shape}".encode())
        for block in blocks(name):
            digest.update(block)
    return digest.hexdigest()
