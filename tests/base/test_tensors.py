"""Safetensors: read by NumPy alone as the format's own reader does, and written to the same bytes every time."""

import json

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from statewise.base.tensors import read_tensors, write_tensors


def arrays():
    rng = np.random.default_rng(0)
    return {
        f"{kind}{n}": rng.integers(2, size=shape).astype(kind)
        for n, shape in enumerate([(), (0,), (3,), (2, 3)])
        for kind in ("f8", "f4", "f2", "i8", "i4", "u1", "?")
    }


CASES = [(arrays(), {"a": "é", "b": "", "c": 'quotes " and \\'}), ({}, {"a": "b"}), ({"x": np.eye(3)}, {})]


@pytest.mark.parametrize("write", [safetensors.numpy.save, write_tensors])
@pytest.mark.parametrize(("tensors", "metadata"), CASES)
def test_the_reader_agrees_with_the_format_s_own(tensors, metadata, write, tmp_path):
    """Array for array, over all kinds and shapes, whoever wrote the file."""
    contents = write(tensors, metadata)
    (tmp_path / "t").write_bytes(contents)
    read, entries = read_tensors(contents)
    with safetensors.safe_open(tmp_path / "t", framework="numpy") as file:
        assert entries == metadata
        assert (file.metadata() or {}) == metadata
        assert set(read) == set(file.keys()) == set(tensors)
        for name in read:
            np.testing.assert_array_equal(read[name], file.get_tensor(name), strict=True)
            np.testing.assert_array_equal(read[name], tensors[name], strict=True)


def test_equal_contents_are_equal_bytes():
    """In whatever order they come; safetensors' own order of metadata changes from call to call."""
    tensors, metadata = arrays(), {f"key {i}": str(i) for i in range(20)}
    written = {write_tensors(tensors, metadata) for _ in range(20)}
    written.add(write_tensors(dict(reversed(tensors.items())), dict(reversed(metadata.items()))))
    (contents,) = written
    header = json.loads(contents[8 : 8 + int.from_bytes(contents[:8], "little")])
    assert list(header["__metadata__"]) == sorted(metadata)


def test_arrays_begin_where_every_reader_can_map_them():
    for length in range(9):
        contents = write_tensors({"x": np.arange(2.0)}, {"a": "b" * length})
        assert int.from_bytes(contents[:8], "little") % 8 == 0
        assert contents.endswith(np.arange(2.0).tobytes())
