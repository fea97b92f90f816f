"""Policy files of every kind: they come back equal, are the same bytes every time, and refuse whatever was touched."""

import itertools
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import safetensors.numpy

import statewise as sw
from statewise.policies.files import KINDS, PolicyFileError, load_policy, save_policy
from statewise.policies.network import Policy
from statewise.policies.trees import TreePolicy

OLD = Path(__file__).parent / "files"  # written by version 0.1.0
OBSERVATIONS = np.array([[0.0, 0.0], [1.0, -1.0], [-0.5, 2.0]])


def network() -> Policy:
    rng = np.random.default_rng(0)
    weights = tuple(rng.normal(size=size) for size in ((2, 4), (4, 3)))
    names, actions = ("a", "b"), ("no", "yes", "maybe")
    return Policy(weights, (np.zeros(4), np.ones(3)), np.zeros(2), np.ones(2), names, actions, {"made by": "a test"})


def trees() -> TreePolicy:
    """Of two actions: a tree of depth 2 and one of depth 1 for the first, a leaf for the second."""
    return TreePolicy(
        feature=np.array([0, 1, 0, 0, 0, 1, 0, 0, 0], np.int32),
        threshold=np.array([0.5, -1, 0, 0, 0, 1, 0, 0, 0], np.float32),
        children=np.array([[1, 2], [3, 4], [2, 2], [3, 3], [4, 4], [6, 7], [6, 6], [7, 7], [8, 8]], np.int32),
        value=np.array([0.0, 0, 1, 2, 3, 0, 4, 5, -np.inf]),
        roots=np.array([[0, 5], [8, 8]], np.int32),
        depth=2,
        epsilon=0.25,
        observation_names=("a", "b"),
        action_names=("go", "stop"),
        card={"made by": "a test"},
    )


@pytest.fixture(params=[network, trees])
def policy(request):
    return request.param()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "p.safetensors"


def test_round_trip(policy, path):
    policy.save(path)
    again = load_policy(path)
    assert type(again) is type(policy)
    assert again.tensors().keys() == policy.tensors().keys()
    for name, array in policy.tensors().items():
        np.testing.assert_array_equal(again.tensors()[name], array, strict=True)
    assert again.header() == policy.header()
    assert (again.observation_names, again.action_names) == (policy.observation_names, policy.action_names)
    assert again.card == {"made by": "a test"}
    assert again.full_card() == policy.full_card()
    np.testing.assert_array_equal(again.probabilities(OBSERVATIONS), policy.probabilities(OBSERVATIONS))
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_trees_by_hand():
    """Q(s, go) is the mean of the two trees' leaves."""
    expected = [(3 + 4) / 2, (1 + 4) / 2, (3 + 5) / 2]
    np.testing.assert_array_equal(trees().action_values(OBSERVATIONS)[:, 0], expected)
    np.testing.assert_array_equal(trees().probabilities(OBSERVATIONS), [[0.875, 0.125]] * 3)


def test_files_of_the_first_version_are_still_read():
    """What they answer was computed by that version."""
    answers = load_policy(OLD / "network.safetensors").probabilities(OBSERVATIONS)
    expected = [
        [0.3333333333333333, 0.3333333333333333, 0.3333333333333333],
        [0.22088104669093406, 0.06793854295969204, 0.711180410349374],
        [0.3783124408761872, 0.6082761204521283, 0.013411438671684432],
    ]
    np.testing.assert_allclose(answers, expected, rtol=1e-14)
    grown = load_policy(OLD / "trees.safetensors")
    assert isinstance(grown, TreePolicy)
    values = [[-0.039689423674930335, -0.2767712901009171], [-0.07333002259030734, 0.2144903913913972]]
    np.testing.assert_allclose(grown.action_values(OBSERVATIONS)[:2, :2], values, rtol=1e-14)
    assert (grown.action_values(OBSERVATIONS)[:, 2] == -np.inf).all()
    assert grown.full_card()["algorithm"] == "FittedQ"


def test_the_policies_that_come_with_the_package_are_read():
    for weights in (Path(sw.__file__).parent / "domains" / "weights").iterdir():
        assert len(load_policy(weights).action_names) == 4


# The same bytes

SCRIPT = """
import sys; sys.path.insert(0, {here!r})
import hashlib
from dataclasses import replace
from test_files import network, trees
for i in range(5):
    for policy in (network(), trees()):
        card = {{"versions": {{"b": "2", "a": "1"}}, "log": None, "estimate": {{"value": 0.1}}}}
        replace(policy, card=dict(reversed(card.items())) if i % 2 else card).save({path!r})
        print(hashlib.sha256(open({path!r}, "rb").read()).hexdigest())
"""


def test_equal_policies_are_equal_bytes_in_every_process(path):
    code = SCRIPT.format(here=str(Path(__file__).parent), path=str(path))
    digests = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        digests += done.stdout.split()
    assert len(digests) == 20
    assert len(set(digests[::2])) == len(set(digests[1::2])) == 1
    assert len(set(digests)) == 2


# What is refused


def test_touched_files_are_refused(policy, path):
    policy.save(path)
    whole = path.read_bytes()
    for contents, reason in (
        (whole[:-20], "it is not a policy file, or it is cut short"),
        (whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:], "its contents were changed after it was written"),
        (whole.replace(b"a test", b"a teSt"), "its contents were changed after it was written"),
        (whole.replace(b"statewise-", b"staTewise-"), r"'staTewise-\w+-1', is not known here; it needs a newer"),
        (whole.replace(b'"format"', b'"fORmat"'), "it is a safetensors file, but not a statewise policy"),
    ):
        path.write_bytes(contents)
        with pytest.raises(PolicyFileError, match=reason) as caught:
            load_policy(path)
        assert str(caught.value).startswith(str(path))


def test_what_is_no_file_is_named(tmp_path):
    with pytest.raises(PolicyFileError, match=r"absent\.safetensors: there is no such file"):
        load_policy(tmp_path / "absent.safetensors")
    with pytest.raises(PolicyFileError, match="it is a folder"):
        load_policy(tmp_path)


def test_a_network_is_asked_for_and_trees_come(path):
    trees().save(path)
    with pytest.raises(PolicyFileError, match="expected a network, got a TreePolicy"):
        Policy.load(path)
    network().save(path)
    assert isinstance(Policy.load(path), Policy)


def test_cuts_anywhere_are_refused(policy, path):
    policy.save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(PolicyFileError):
            load_policy(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(PolicyFileError, match="there are bytes left over"):
        load_policy(path)


def test_flipped_bits_anywhere_are_refused(policy, path):
    policy.save(path)
    whole = path.read_bytes()
    for i, bit in zip(range(0, len(whole), 5), itertools.cycle(range(8))):
        changed = bytearray(whole)
        changed[i] ^= 1 << bit
        path.write_bytes(bytes(changed))
        with pytest.raises(PolicyFileError):
            load_policy(path)


@pytest.mark.parametrize("contents", [b"", b"\x80\x04pickle", b"{}" * 50, b"\xff" * 64, b"PK\x03\x04" * 9])
def test_other_files_are_refused(contents, path):
    path.write_bytes(contents)
    with pytest.raises(PolicyFileError, match="not a policy file"):
        load_policy(path)


def test_safetensors_of_others_are_refused(path):
    for metadata in (None, {"format": "pt"}):
        path.write_bytes(safetensors.numpy.save({"x": np.zeros(3)}, metadata))
        with pytest.raises(PolicyFileError, match="it is a safetensors file, but not a statewise policy"):
            load_policy(path)


class Forged:
    """A policy's parts with some of them exchanged, to be written with a digest that is right."""

    def __init__(self, policy, observations=None, actions=None, card=None, header=None, **tensors):
        self.format, self._policy, self._tensors, self._header = policy.format, policy, tensors, header or {}
        self.observation_names = observations or policy.observation_names
        self.action_names = actions or policy.action_names
        self.card = policy.card if card is None else card
        self.probabilities, self.full_card, self.from_parts = policy.probabilities, policy.full_card, policy.from_parts
        self.save = policy.save

    def tensors(self):
        given = self._policy.tensors() | self._tensors
        return {name: array for name, array in given.items() if array is not None}

    def header(self):
        return self._policy.header() | self._header


def changed(name: str, place: Any, value: Any) -> dict[str, np.ndarray]:
    array = trees().tensors()[name].copy()
    array[place] = value
    return {name: array}


# what is exchanged, and what is said of it
NETWORKS = [
    ({"mean": np.zeros(1)}, "expected one mean and deviation for each observation"),
    ({"weight_1": None, "bias_1": None}, "layers of [(2, 4)] for 2 observations and 3 actions"),
    ({"weight_1": None}, "layers of [(2, 4)] for 2 observations and 3 actions"),
    ({"bias_0": None}, "'bias_0' is missing"),
    ({"bias_0": np.zeros((4, 1))}, "expected a weight matrix and a bias vector for each layer"),
    ({"mean": np.zeros(2, np.int64)}, "expected real numbers"),
    ({"other": np.zeros(2)}, "for each layer, and nothing else"),
    ({"actions": ("no", "yes")}, "for 2 observations and 2 actions"),
    ({"observations": ("a", 2)}, "observation_names must be a list of strings"),
    ({"header": {"card": "none"}}, "the card must be an object"),
    ({"header": {"actions": "no"}}, "action_names must be a list of strings"),
]
TREES = [
    (changed("feature", 1, 2), "expected 'feature' from 0 to 1, got 2"),
    (changed("feature", 1, -1), "expected 'feature' from 0 to 1, got -1"),
    (changed("children", (0, 0), 9), "expected 'children' from 0 to 8, got 9"),
    (changed("children", (0, 0), -3), "expected 'children' from 0 to 8, got -3"),
    (changed("roots", (1, 0), 9), "expected 'roots' from 0 to 8, got 9"),
    (changed("value", 3, np.nan), "expected every 'value' to be a number"),
    (changed("value", 3, np.inf), "expected every 'value' to be a number"),
    ({"threshold": np.zeros(8)}, "expected 'threshold' to hold real numbers of shape [9], got float64 of [8]"),
    ({"children": np.zeros(9, np.int32)}, "expected 'children' to hold whole numbers of shape [9, 2]"),
    ({"children": np.zeros((9, 2))}, "expected 'children' to hold whole numbers of shape [9, 2], got float64"),
    ({"roots": np.zeros(2, np.int32)}, "expected 'roots' to hold whole numbers of shape [2, 2], got int32 of [2]"),
    ({"feature": np.zeros((9, 1), np.int32)}, "expected 'feature' to hold whole numbers of shape [9]"),
    ({"feature": np.zeros(0, np.int32)}, "expected one tree or more for each action"),
    ({"roots": np.zeros((2, 0), np.int32)}, "expected one tree or more for each action"),
    ({"actions": ("a", "b", "c")}, "expected 'roots' to hold whole numbers of shape [3, 2], got int32 of [2, 2]"),
    ({"observations": ("a",)}, "expected 'feature' from 0 to 0, got 1"),
    ({"value": None}, "'value' is missing"),
    ({"other": np.zeros(2)}, "and nothing else"),
    ({"header": {"depth": 10**15}}, "expected a depth below the 9 nodes, got 1000000000000000"),
    ({"header": {"depth": -1}}, "expected a depth below the 9 nodes, got -1"),
    ({"header": {"depth": "2"}}, "expected a depth below the 9 nodes, got '2'"),
    ({"header": {"depth": 1}}, "expected a depth of 2, that of the deepest tree, got 1"),
    ({"header": {"epsilon": 1.5}}, "expected an epsilon from 0 to 1, got 1.5"),
    ({"header": {"epsilon": None}}, "expected an epsilon from 0 to 1, got None"),
    (changed("children", 3, [0, 4]), "the nodes do not form trees"),  # a ring
    (changed("children", 2, [2, 8]), "the nodes do not form trees"),  # a leaf that leads on
    (changed("children", 5, [6, 1]), "the nodes do not form trees"),  # a branch of two trees
    (changed("roots", (0, 0), 1), "the nodes do not form trees"),  # a root within a tree
]


@pytest.mark.parametrize(
    ("policy", "exchanged", "reason"), [(network, *case) for case in NETWORKS] + [(trees, *case) for case in TREES]
)
def test_parts_that_do_not_fit_are_refused(policy, exchanged, reason, path):
    """A file whose digest is right may still be nonsense; it is found out before any table is walked."""
    save_policy(Forged(policy(), **exchanged), path)
    with pytest.raises(PolicyFileError) as caught:
        load_policy(path)
    assert str(caught.value).startswith(f"{path}: its parts do not fit together (")
    assert reason in str(caught.value)


def test_forged_parts_that_fit_are_read(policy, path):
    save_policy(Forged(policy), path)
    np.testing.assert_array_equal(load_policy(path).probabilities(OBSERVATIONS), policy.probabilities(OBSERVATIONS))


# NumPy alone, and kinds of one's own


def test_loading_and_acting_need_numpy_alone(policy, path):
    policy.save(path)
    code = (
        "import sys, numpy as np; before = set(sys.modules); import statewise as sw; "
        f"p = sw.load_policy({str(path)!r}); p.probabilities(np.zeros((1, 2))); "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names) - {'numpy', 'statewise'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@dataclass(frozen=True, eq=False)
class Always:
    """Takes one action, always."""

    format: ClassVar[str] = "always-1"

    action: int
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    card: Mapping[str, Any] = field(default_factory=dict)

    def probabilities(self, observations, legal=None):
        return np.tile(np.eye(len(self.action_names))[self.action], (len(observations), 1))

    def full_card(self):
        return dict(self.card)

    def save(self, path):
        save_policy(self, path)

    def tensors(self):
        return {}

    def header(self):
        return {"action": self.action}

    @classmethod
    def from_parts(cls, tensors, header, **common):
        if header["action"] >= len(common["action_names"]):
            raise ValueError(f"there is no action {header['action']}")
        return cls(header["action"], **common)


def test_a_kind_of_one_s_own_is_registered_by_its_format(path, monkeypatch):
    Always(1, ("a", "b"), ("no", "yes")).save(path)
    with pytest.raises(PolicyFileError, match=r"'always-1', is not known here; .* or the module that registers that"):
        load_policy(path)
    monkeypatch.setattr(KINDS, "_entries", dict(KINDS._entries))
    KINDS.add(Always.format, Always)
    np.testing.assert_array_equal(load_policy(path).probabilities(OBSERVATIONS), [[0, 1]] * 3)
    Always(2, ("a", "b"), ("no", "yes")).save(path)
    with pytest.raises(PolicyFileError, match=r"its parts do not fit together \(there is no action 2\)"):
        load_policy(path)
