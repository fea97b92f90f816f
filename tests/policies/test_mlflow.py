"""Policies as models of MLflow: logged, registered, loaded by MLflow itself, and asked."""

import numpy as np
import pytest

from statewise.data.encoding import Code
from statewise.data.rawlog import Columns
from statewise.data.schema import Schema
from statewise.policies.files import fingerprint
from statewise.policies.network import Policy

mlflow = pytest.importorskip("mlflow")
pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own, of its type hints

SCHEMA = Schema(Columns(), (Code("ward", "words", ("a", "b"), gaps=True), Code("age", gaps=True, fill=50.0)))
ROWS = pandas.DataFrame({"ward": ["a", None, "c"], "age": [61.0, 40.0, None], "patient": ["p", "q", "r"]})


@pytest.fixture
def policy():
    rng = np.random.default_rng(0)
    size = len(SCHEMA.features)
    parts = ((rng.normal(size=(size, 2)),), (np.zeros(2),), np.zeros(size), np.full(size, 20.0))
    return Policy(*parts, SCHEMA.features, ("wait", "treat"), {**Schema.stated(SCHEMA), "algorithm": "OPPOSD"})


@pytest.fixture
def tracked(tmp_path):
    """A store of MLflow's in a file, and an experiment whose models lie beside it."""
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    yield mlflow.create_experiment("tests", artifact_location=(tmp_path / "models").as_uri())
    mlflow.set_tracking_uri(before)


def same(answer, policy) -> None:
    assert answer["action"].tolist() == policy.predict(ROWS).tolist()
    for a, name in enumerate(policy.action_names):
        np.testing.assert_array_equal(answer[f"probability_{name}"], policy.predict_proba(ROWS)[:, a])


def test_logged_registered_loaded_and_asked(policy, tracked):
    from statewise.policies import mlflow as policies

    with mlflow.start_run(experiment_id=tracked):
        logged = policies.log_model(policy, registered_model_name="clinic")
    for uri in (logged.model_uri, "models:/clinic/1"):
        same(mlflow.pyfunc.load_model(uri).predict(ROWS), policy)
        assert fingerprint(policies.load_model(uri)) == fingerprint(policy)
    assert mlflow.models.get_model_info(logged.model_uri).metadata["card"]["algorithm"] == "OPPOSD"


def test_saved_as_a_folder(policy, tmp_path):
    from statewise.policies import mlflow as policies

    policies.save_model(policy, tmp_path / "model")
    same(mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(ROWS), policy)
    requirements = (tmp_path / "model" / "requirements.txt").read_text()
    assert "statewise==" in requirements
