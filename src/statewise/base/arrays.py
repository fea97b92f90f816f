"""Reads NumPy's .npz files: sizes and headers are checked before memory is taken, and nothing is unpickled."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from statewise.base.memory import in_words

# What arrays may take beyond the bytes of their file. Zeros shrink a thousandfold, real ones hardly at all.
SPARE, RATIO = 64_000_000, 20
KINDS = "biufcU"
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class ArrayFileError(ValueError):
    """The file does not hold arrays, or not whole ones."""


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name."""
    path = Path(path)
    with path.open("rb") as file:
        try:
            return _members(file, path.stat().st_size)
        # zipfile and NumPy's reader of headers raise whatever broken bytes lead them to, also errors of the system
        except Exception as error:
            reason = str(error).split("\n")[0][:120] or "it is empty"
            raise ArrayFileError(f"{path}: it is damaged ({reason})") from error


def _members(file: BinaryIO, size: int) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > SPARE + RATIO * size:
            raise ArrayFileError(f"its arrays take {in_words(total)}, far more than the file itself")
        names = [member.filename.removesuffix(".npy") for member in members]
        if len(set(names)) < len(names):
            raise ArrayFileError("it holds the same array twice")
        # read whole: that is when zipfile compares each member with its checksum
        return {name: _array(archive.read(member), name) for name, member in zip(names, members, strict=True)}


def _array(contents: bytes, name: str) -> np.ndarray:
    file = io.BytesIO(contents)
    version = npy.read_magic(file)
    if version not in HEADERS:
        raise ArrayFileError(f"'{name}' is in version {version[0]}.{version[1]} of its format")
    shape, by_column, dtype = HEADERS[version](file)
    if dtype.kind not in KINDS:
        raise ArrayFileError(f"'{name}' holds {dtype}, expected numbers or text")
    data = contents[file.tell() :]
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ArrayFileError(f"'{name}' should have shape {list(shape)[:8]}, but there are {len(data):,} bytes")
    flat = np.frombuffer(data, dtype) if data else np.zeros(0, dtype)
    return flat.reshape(shape, order="F" if by_column else "C").copy()
