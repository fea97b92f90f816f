"""`predict` and `predict_proba` of every kind of policy, for rows of every kind of table."""

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.data.encoding import Code
from statewise.data.rawlog import Columns
from statewise.data.schema import Schema
from statewise.policies.act import ObservationError
from statewise.policies.files import KINDS
from statewise.policies.network import Policy
from statewise.policies.path import PathPolicy

SCHEMA = Schema(
    Columns(), (Code("ward", "words", ("a", "b"), gaps=True), Code("age", gaps=True, fill=50.0), Code("seen", "flag"))
)
ROWS = [{"ward": "a", "age": 61.0, "seen": True}, {"ward": None, "age": None, "seen": False}]


def network(seed=0) -> Policy:
    rng = np.random.default_rng(seed)
    features = len(SCHEMA.features)
    return Policy(
        (rng.normal(size=(features, 3)),),
        (np.zeros(3),),
        np.zeros(features),
        np.ones(features) * 10,
        SCHEMA.features,
        ("wait", "treat", "refer"),
        Schema.stated(SCHEMA),
    )


def encoded(rows) -> np.ndarray:
    """The features of rows, one by one."""
    one = {"a": [1, 0, 0], "b": [0, 1, 0], None: [0, 0, 1]}
    made = [
        [*one[row["ward"]], *([50.0, 1] if row["age"] is None else [row["age"], 0]), float(row["seen"])] for row in rows
    ]
    return np.array(made, dtype=float)


def tables():
    pandas = pytest.importorskip("pandas")
    frame = pl.DataFrame(ROWS)
    other = pandas.DataFrame(ROWS).assign(patient=["p", "q"])  # columns that the policy does not know are passed over
    return {
        "dicts": ROWS,
        "lists": [list(row.values()) for row in ROWS],
        "polars": frame.select("seen", "ward", "age"),
        "prefixed": frame.rename({"ward": "obs_ward"}),
        "pandas": other,
        "array": np.array([list(row.values()) for row in ROWS], dtype=object),
    }


@pytest.mark.parametrize("kind", ["dicts", "lists", "polars", "prefixed", "pandas", "array"])
def test_rows_of_every_table_are_the_same_rows(kind):
    policy = network()
    chances = policy.predict_proba(tables()[kind])
    np.testing.assert_allclose(chances, policy.probabilities(encoded(ROWS)))
    assert policy.predict(tables()[kind]).tolist() == [policy.action_names[a] for a in chances.argmax(axis=1)]
    assert policy.classes_.tolist() == ["wait", "treat", "refer"]


def test_every_kind_of_policy_has_them(tmp_path):
    for kind in KINDS.values():
        assert {"predict", "predict_proba", "classes_"} <= set(dir(kind)), kind
    path = PathPolicy(network(0), network(1), 0.3, card=Schema.stated(SCHEMA))
    path.save(tmp_path / "path.safetensors")
    back = sw.load_policy(tmp_path / "path.safetensors")
    np.testing.assert_allclose(back.predict_proba(ROWS), path.probabilities(encoded(ROWS)))


def test_actions_that_are_not_legal_are_never_predicted():
    legal = np.array([[True, False, False], [False, True, True]])
    chances = network().predict_proba(ROWS, legal)
    assert (chances[~legal] == 0).all()
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert network().predict(ROWS, legal)[0] == "wait"


def test_rows_that_it_cannot_read_are_refused_in_a_sentence():
    policy = network()
    with pytest.raises(ObservationError, match="observation 1: expected a finite number for 'age', got 'old'"):
        policy.predict([{"ward": "a", "age": "old", "seen": True}])
    with pytest.raises(ObservationError, match="'age' is missing"):
        policy.predict(pl.DataFrame({"ward": ["a"], "seen": [True]}))
    with pytest.raises(ObservationError, match=r"rows: expected an array \[n, columns\], got one of 1 dimensions"):
        policy.predict(np.zeros(3))
