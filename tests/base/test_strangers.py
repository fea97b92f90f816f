"""Files from strangers: sizes are checked before memory is taken, nothing runs on load, and a sentence says why not."""

import json
import os
import pickle
import struct
import tempfile
import tracemalloc
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from statewise.base.arrays import ArrayFileError, read_arrays
from statewise.base.decode import DecodeError
from statewise.base.jsonfile import TextFileError, read_json
from statewise.base.tensors import TensorError, open_tensors, write_tensors
from statewise.data.table import read
from statewise.experiments import manifest
from statewise.learning.runs import RunError, RunFolder, RunWarning
from statewise.learning.settings import read_settings
from statewise.policies.external import as_target
from statewise.policies.files import PolicyFileError, load_policy
from statewise.report.content import from_json


class Trap:
    """Unpickling it makes a folder."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


MARK = Path(tempfile.mkdtemp()) / "sprung"
TRAP = pickle.dumps(Trap(MARK))


@contextmanager
def little_memory(most=50_000_000):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def npy(header: str, data: bytes = b"", version=(1, 0)) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(text)) + text + data


def archive(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, contents in members:
            file.writestr(name, contents)
    return path


def header(shape, kind="<f8", order=False):
    return f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape!r}, }}"


def test_what_numpy_writes_is_read(tmp_path):
    arrays = {
        "matrix": np.arange(6.0).reshape(2, 3),
        "by_column": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "scalar": np.asarray(3),
        "none": np.zeros((0, 4), np.float32),
        "text": np.asarray("größe"),
        "flags": np.array([True, False]),
    }
    for save in (np.savez, np.savez_compressed):
        with (tmp_path / "a.npz").open("wb") as file:
            save(file, **arrays)
        back = read_arrays(tmp_path / "a.npz")
        assert back.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(back[name], array, strict=True)


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (npy(header((10**12,))), "should have shape [1000000000000], but there are 0 bytes"),
        (npy(header((2,)), bytes(8)), "but there are 8 bytes"),
        (npy(header((-1,)), b""), "'value'"),
        (npy(header((1,), "|O"), TRAP), "holds object, expected numbers or text"),
        (npy(header((1,), "<M8[s]"), bytes(8)), "expected numbers or text"),
        (npy("(" * 5000), ""),
        (npy("{'descr': __import__('os').system('true')}"), ""),
        (npy(header((1,)), bytes(8), (9, 0)), ""),
        (b"", ""),
        (TRAP, ""),
    ],
    ids=range(10),  # contents make poor names, and TRAP has another in every process
)
def test_arrays_that_are_not_what_they_say_are_refused(tmp_path, contents, reason):
    path = archive(tmp_path / "a.npz", [("value.npy", contents)])
    with little_memory(), pytest.raises(ArrayFileError, match="it is damaged") as caught:
        read_arrays(path)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert not MARK.exists()


def test_four_megabytes_that_stand_for_gigabytes_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("value.npy", "w") as zeros,
    ):
        zeros.write(npy(header((200_000_000 // 8,))))
        for _ in range(200):
            zeros.write(bytes(1_000_000))
    assert path.stat().st_size < 1_000_000
    with little_memory(), pytest.raises(ArrayFileError, match=r"its arrays take 200 MB, far more than the file itself"):
        read_arrays(path)


def test_a_pickle_in_the_place_of_an_archive_is_not_opened(tmp_path):
    path = tmp_path / "a.npz"
    for contents in (TRAP, b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00"):
        path.write_bytes(contents)
        with pytest.raises(ArrayFileError, match="it is damaged"):
            read_arrays(path)
    path.write_bytes(b"PK\x05\x06" + bytes(18))
    assert read_arrays(path) == {}  # an archive of nothing is one
    assert not MARK.exists()
    with pytest.warns(UserWarning, match="Duplicate name"):
        archive(path, [("a.npy", npy(header((0,)))), ("a.npy", npy(header((0,))))])
    with pytest.raises(ArrayFileError, match="it holds the same array twice"):
        read_arrays(path)


def test_cuts_and_flips_in_archives_are_found(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, value=np.arange(200.0))
    whole = path.read_bytes()
    for length in range(0, len(whole), 13):
        path.write_bytes(whole[:length])
        with pytest.raises(ArrayFileError):
            read_arrays(path)
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :])
        try:
            values = list(read_arrays(path).values())
        except ArrayFileError:
            continue
        np.testing.assert_array_equal(values[0], np.arange(200.0))  # a time stamp or a flag of the archive's own


# Run folders


@pytest.fixture
def run(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    folder.write_manifest({"algorithm": "OPPOSD", "config": {"discount": 1.0}, "seeds": [0], "data": "x"})
    folder.write_metrics({"value": np.zeros((1, 3))})
    return folder


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ("", "its manifest.json is damaged"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a":' * 50_000, "it is nested too deeply"),
        ("[]", "its manifest.json is not that of a run"),
        ('{"config": 5}', "says '5' for 'config', not settings"),
        ('{"seeds": "many"}', "says 'many' for 'seeds', not a list"),
        ('{"seeds": [1.5]}', "has seeds that are not whole numbers"),
        ('{"config": {"discount": "1"}}', "has a discount of 1, expected 0 to 1"),
        ('{"config": {"discount": NaN}}', "has a discount of nan"),
        ('{"algorithm": null}', "says 'None' for 'algorithm', not a name"),
        ("9" * 5000, "its manifest.json is damaged"),
    ],
)
def test_manifests_are_checked(run, contents, reason):
    (run.path / "manifest.json").write_text(contents)
    with pytest.raises(RunError) as caught:
        run.manifest()
    assert reason in str(caught.value)
    (run.path / "manifest.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(RunError, match="it is not UTF-8 text"):
        run.manifest()


def test_metrics_and_states_are_checked(run):
    np.savez(run.path / "metrics.npz", value=np.zeros(3))
    with pytest.raises(RunError, match=r"'value' is not an array of numbers \[seeds, updates\]"):
        run.metrics()
    np.savez(run.path / "metrics.npz", value=np.array([["a"]]))
    with pytest.raises(RunError, match="'value' is not an array of numbers"):
        run.metrics()
    for name in ("state-x.npz", "state-.npz", f"state-{'9' * 5000}"[:200], "seed-a-update-b.safetensors", "seed-1.txt"):
        (run.checkpoints / name).write_bytes(b"")
    assert run.read_state() is None
    assert run.policies() == {}
    (run.checkpoints / "state-3.npz").write_bytes(b"")
    with pytest.warns(RunWarning, match=r"state-3\.npz: it is damaged \(.*\); learning resumes from the start"):
        assert run.read_state() is None


def test_texts_are_bounded(tmp_path):
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(1 << 33)  # a hole: eight gigabytes on no disk
    with little_memory():
        with pytest.raises(TextFileError, match=r"expected 50 MB at most, got 8.59 GB"):
            read_json(path)
        with pytest.raises(DecodeError, match=r"expected 1 MB at most, got 8.59 GB"):
            read_settings(path)
    (tmp_path / "s.toml").write_text("a = " + "[" * 20_000)
    with pytest.raises(DecodeError, match="not a TOML file"):
        read_settings(tmp_path / "s.toml")
    (tmp_path / "s.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(DecodeError, match="it is not UTF-8 text"):
        read_settings(tmp_path / "s.toml")
    with pytest.raises(DecodeError, match="it is nested too deeply"):
        from_json("[" * 100_000)
    (tmp_path / "manifest.json").write_text("[1]")
    assert manifest.read(tmp_path) is None
    (tmp_path / "manifest.json").write_text("{" * 3)
    with pytest.raises(RunError, match="it is damaged"):
        manifest.read(tmp_path)


# Policies


def sparse(path, tensors, metadata, size):
    """A file whose header is right and whose arrays are a hole."""
    entries, place = {}, 0
    for name, shape in tensors.items():
        count = 8 * int(np.prod(shape))
        entries[name] = {"dtype": "F64", "shape": list(shape), "data_offsets": [place, place + count]}
        place += count
    text = json.dumps({**entries, "__metadata__": metadata}).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + (place if size is None else size))


def test_a_sparse_policy_takes_no_memory(tmp_path):
    path = tmp_path / "p.safetensors"
    metadata = {"format": "statewise-policy-1", "policy": "{}", "sha256": "0" * 64}
    sparse(path, {"weight_0": (1 << 28, 2)}, metadata, None)
    assert path.stat().st_size > 4e9
    with little_memory(), pytest.raises(PolicyFileError, match=r"never written completely|this machine can hold"):
        load_policy(path)
    sparse(path, {"weight_0": (1 << 10, 2)}, metadata, None)
    with little_memory(), pytest.raises(PolicyFileError, match="its contents were changed after it was written"):
        load_policy(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F64", "shape": [1], "data_offsets": [0]},
        {"dtype": "F64", "shape": [1], "data_offsets": [0, 8, 16]},
        {"dtype": "F64", "shape": [1], "data_offsets": 8},
        {"dtype": "F64", "shape": [True], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1] * 100, "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": "1", "data_offsets": [0, 8]},
        {"dtype": ["F64"], "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "O", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [2**62, 4], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1.0], "data_offsets": [0, 8]},
        None,
        [],
        "x",
    ],
)
def test_headers_of_tensors_are_checked(tmp_path, entry):
    text = json.dumps({"x": entry}).encode()
    path = tmp_path / "p.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(TensorError):
        open_tensors(path)
    with pytest.raises(PolicyFileError, match="it is not a policy file, or it is cut short"):
        load_policy(path)


def test_deep_and_long_headers_are_refused(tmp_path):
    path = tmp_path / "p.safetensors"
    for text in (b'{"x":' * 100_000, b"[" * 1_000_000, b" " * 5_000_000, b'{"__metadata__": [1]}'):
        path.write_bytes(len(text).to_bytes(8, "little") + text)
        with little_memory(), pytest.raises(PolicyFileError, match="it is not a policy file, or it is cut short"):
            load_policy(path)


def test_a_policy_of_many_trees_or_a_wide_layer_acts_in_little_memory(trees, policy, monkeypatch):
    monkeypatch.setattr("statewise.policies.trees.MOST_WALKS", 1 << 16)
    monkeypatch.setattr("statewise.policies.network.MOST_UNITS", 1 << 16)
    many = replace(trees, roots=np.tile(trees.roots, (1, 2000)))
    with little_memory(10_000_000):  # all rows at once would take more than 20 bytes for each of 600,000 walks
        chances = many.probabilities(np.ones((100, 2)))
    np.testing.assert_allclose(chances, np.tile(trees.probabilities(np.ones((1, 2))), (100, 1)))
    wide = replace(
        policy, weights=(np.zeros((3, 10_000)), np.zeros((10_000, 4))), biases=(np.zeros(10_000), np.arange(4.0))
    )
    with little_memory(10_000_000):  # all rows at once: 16 bytes for each of 5,000,000 units
        chances = wide.probabilities(np.ones((500, 3)))
    np.testing.assert_allclose(chances, np.tile(np.exp(np.arange(4.0)) / np.exp(np.arange(4.0)).sum(), (500, 1)))


def test_nothing_runs_on_load(tmp_path, policy):
    """A pickle in the place of every kind of file that is read."""
    for name in ("p.safetensors", "p.onnx", "p.d3", "p.pt", "p.pkl"):
        (tmp_path / name).write_bytes(TRAP)
        with pytest.raises(ValueError, match=name.replace(".", r"\.")):
            as_target(tmp_path / name)
    for name in ("log.parquet", "log.csv"):
        (tmp_path / name).write_bytes(TRAP)
        assert read(tmp_path / name)[1].faults
    (tmp_path / "s.toml").write_bytes(TRAP)
    with pytest.raises(DecodeError):
        read_settings(tmp_path / "s.toml")
    run = RunFolder.create(tmp_path / "run")
    for place in (run.path / "manifest.json", run.path / "metrics.npz", run.checkpoints / "state-1.npz"):
        place.write_bytes(TRAP)
    (run.checkpoints / "seed-0-update-1.safetensors").write_bytes(TRAP)
    for reading in (run.manifest, run.metrics, run.policies):
        with pytest.raises(ValueError, match="run"):
            reading()
    with pytest.warns(RunWarning, match="run"):
        assert run.read_state() is None
    assert not MARK.exists()
    pickle.loads(TRAP)
    MARK.rmdir()  # the trap itself works


def test_an_onnx_file_reads_no_other_file(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="secret.bin")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "secret.bin").write_bytes(np.ones(6, np.float32).tobytes())
    (tmp_path / "p.onnx").write_bytes(onnx.ModelProto.SerializeToString(model))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"p\.onnx: it is not an ONNX file, or it cannot be run"):
        as_target(tmp_path / "p.onnx")


def test_written_tensors_are_opened(tmp_path):
    path = tmp_path / "t.safetensors"
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.zeros((0, 2), np.int32), "c": np.asarray(1.5)}
    path.write_bytes(write_tensors(arrays, {"k": "v"}))
    file = open_tensors(path)
    assert file.metadata == {"k": "v"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(file.arrays()[name], array, strict=True)
