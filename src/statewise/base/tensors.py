"""Reads safetensors with NumPy alone, all that a machine needs to act; writes them with the safetensors library.

The format: eight bytes, the header's length N (little-endian); N bytes of JSON, {name: {dtype, shape, data_offsets}}
and {"__metadata__": {text: text}}; then the arrays' bytes, one after another.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}
LONGEST_HEADER = 4_000_000  # bytes; ours have a few thousand, and JSON takes many times its length in memory
BLOCK = 1 << 22
MOST_AXES = 32


class TensorError(ValueError):
    """The bytes are not a safetensors file, or not a whole one."""


class Tensor(NamedTuple):
    """Where an array is in a file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    first: int
    last: int


@dataclass(frozen=True)
class TensorFile:
    """A file of which only the header has been read; every byte of it is accounted for."""

    path: Path
    tensors: dict[str, Tensor]
    metadata: dict[str, str]

    def blocks(self, name: str) -> Iterator[bytes]:
        """An array's bytes, a few at a time."""
        with self.path.open("rb") as file:
            file.seek(self.tensors[name].first)
            for place in range(self.tensors[name].first, self.tensors[name].last, BLOCK):
                yield file.read(min(BLOCK, self.tensors[name].last - place))

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: _array(tensor, b"".join(self.blocks(name))) for name, tensor in self.tensors.items()}


def open_tensors(path: Path) -> TensorFile:
    """Reads the header; the arrays are left where they are."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            raise TensorError("its header is incomplete")
        tensors, metadata = _described(file.read(length), 8 + length, size)
    return TensorFile(path, tensors, metadata)


def read_tensors(contents: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays by name, and the metadata; every byte must be accounted for."""
    header_end = 8 + int.from_bytes(contents[:8], "little")
    if len(contents) < 8 or header_end > min(len(contents), 8 + LONGEST_HEADER):
        raise TensorError("its header is incomplete")
    tensors, metadata = _described(contents[8:header_end], header_end, len(contents))
    return {name: _array(one, contents[one.first : one.last]) for name, one in tensors.items()}, metadata


def _described(text: bytes, header_end: int, size: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What a header says of a file of `size` bytes."""
    try:
        header = json.loads(text)
        metadata = header.pop("__metadata__", {})
        described = sorted((*_offsets(entry), name, *_kind(entry)) for name, entry in header.items())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise TensorError("its header cannot be read") from error
    if not _texts(metadata):
        raise TensorError("its header cannot be read")
    tensors, position = {}, 0
    for first, last, name, dtype, shape in described:
        if first != position or last - first != dtype.itemsize * math.prod(shape):
            raise TensorError(f"the offsets of '{name[:40]}' do not fit its shape")
        if header_end + last > size:
            raise TensorError(f"'{name[:40]}' is incomplete")
        tensors[name], position = Tensor(dtype, shape, header_end + first, header_end + last), last
    if header_end + position != size:
        raise TensorError("there are bytes left over")
    return tensors, metadata


def _array(tensor: Tensor, contents: bytes) -> np.ndarray:
    flat = np.frombuffer(contents, tensor.dtype) if contents else np.zeros(0, tensor.dtype)
    return flat.reshape(tensor.shape).copy()


def write_tensors(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """The file's contents: the same bytes for the same arrays and metadata, whose keys are sorted.

    safetensors itself orders metadata by a hash that differs from call to call.
    """
    from safetensors.numpy import save

    contents = save(dict(tensors), dict(metadata))
    header_end = 8 + int.from_bytes(contents[:8], "little")
    header = json.loads(contents[8:header_end]) | {"__metadata__": dict(sorted(metadata.items()))}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of eight
    return len(text).to_bytes(8, "little") + text + contents[header_end:]


def _kind(entry: Mapping) -> tuple[np.dtype, tuple[int, ...]]:
    shape = tuple(entry["shape"])
    if len(shape) > MOST_AXES or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("sizes must be whole numbers")
    return np.dtype(DTYPES[entry["dtype"]]), shape


def _offsets(entry: Mapping) -> tuple[int, int]:
    first, last = entry["data_offsets"]
    if not all(type(place) is int and place >= 0 for place in (first, last)):
        raise ValueError("offsets must be whole numbers")
    return first, last


def _texts(metadata: object) -> bool:
    return isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
