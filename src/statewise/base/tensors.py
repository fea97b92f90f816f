"""Reads safetensors with NumPy alone, all that a machine needs to act; writes them with the safetensors library.

The format: eight bytes, the header's length N (little-endian); N bytes of JSON, {name: {dtype, shape, data_offsets}}
and {"__metadata__": {text: text}}; then the arrays' bytes, one after another.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}
LONGEST_HEADER = 100_000_000  # the format's own limit


class TensorError(ValueError):
    """The bytes are not a safetensors file, or not a whole one."""


def read_tensors(contents: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays by name, and the metadata; every byte must be accounted for."""
    header_end = 8 + int.from_bytes(contents[:8], "little")
    if len(contents) < 8 or header_end > min(len(contents), 8 + LONGEST_HEADER):
        raise TensorError("its header is incomplete")
    try:
        header = json.loads(contents[8:header_end])
        metadata = header.pop("__metadata__", {})
        described = sorted((*entry["data_offsets"], name, *_kind(entry)) for name, entry in header.items())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TensorError("its header cannot be read") from error
    if not _texts(metadata):
        raise TensorError("its header cannot be read")
    tensors, position = {}, 0
    for first, last, name, dtype, shape in described:
        if first != position or last - first != dtype.itemsize * math.prod(shape):
            raise TensorError(f"the offsets of '{name}' do not fit its shape")
        if header_end + last > len(contents):
            raise TensorError(f"'{name}' is incomplete")
        flat = np.frombuffer(contents, dtype, math.prod(shape), header_end + first)
        tensors[name], position = flat.reshape(shape).copy(), last
    if header_end + position != len(contents):
        raise TensorError("there are bytes left over")
    return tensors, metadata


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
    if not all(isinstance(size, int) and size >= 0 for size in (*shape, *entry["data_offsets"])):
        raise ValueError("sizes must be whole numbers")
    return np.dtype(DTYPES[entry["dtype"]]), shape


def _texts(metadata: object) -> bool:
    return isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
