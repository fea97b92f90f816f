"""Policies as MLflow models: logged, registered, loaded and served there like any other.

    from statewise.policies import mlflow as policies

    with mlflow.start_run():
        logged = policies.log_model(answer.policy, name="policy")
    mlflow.pyfunc.load_model(logged.model_uri).predict(rows)

The model holds the policy file as it is, and takes raw rows, as the policy does. MLflow's models need pandas.
"""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlflow
import numpy as np

from statewise.policies.files import StoredPolicy, load_policy
from statewise.policies.predict import predict_proba

FILE = "policy.safetensors"


def log_model(policy: StoredPolicy, name: str = "policy", **options: Any) -> Any:
    """Logs the policy in MLflow's current run; `options` are those of `mlflow.pyfunc.log_model`."""
    with tempfile.TemporaryDirectory() as folder:
        return mlflow.pyfunc.log_model(name=name, **_model(policy, folder, options))


def save_model(policy: StoredPolicy, path: str | Path, **options: Any) -> None:
    """Writes the policy as a model folder; `options` are those of `mlflow.pyfunc.save_model`."""
    with tempfile.TemporaryDirectory() as folder:
        mlflow.pyfunc.save_model(path=str(path), **_model(policy, folder, options))


def load_model(uri: str) -> StoredPolicy:
    """The policy itself, from the model that MLflow has under this URI."""
    return mlflow.pyfunc.load_model(uri).get_raw_model()


class PolicyModel:
    """What MLflow asks: raw rows in; out come the likeliest action and the probability of every action."""

    def __init__(self, policy: StoredPolicy):
        self.policy = policy

    def get_raw_model(self) -> StoredPolicy:
        """The policy, under the name that MLflow asks for it by."""
        return self.policy

    def predict(self, rows: Any, params: dict[str, Any] | None = None) -> Any:
        """A pandas frame with `action`, the likeliest, and `probability_NAME` of every action."""
        import pandas

        chances = predict_proba(self.policy, rows)
        names = self.policy.action_names
        columns: dict[str, Any] = {"action": np.asarray(names)[chances.argmax(axis=1)]}
        return pandas.DataFrame(columns | {f"probability_{name}": chances[:, a] for a, name in enumerate(names)})


def _load_pyfunc(path: str) -> PolicyModel:
    """The loader that MLflow calls, with the place of the data that was logged."""
    place = Path(path)
    return PolicyModel(load_policy(place / FILE if place.is_dir() else place))


def _model(policy: StoredPolicy, folder: str, options: dict[str, Any]) -> dict[str, Any]:
    """What makes a model of a policy: its file, and the module that reads it."""
    policy.save(Path(folder) / FILE)
    usual: dict[str, Any] = {
        "loader_module": __name__,
        "data_path": str(Path(folder) / FILE),
        "pip_requirements": [f"statewise=={version('statewise')}", "pandas"],
        "metadata": {"card": policy.full_card()},
    }
    return usual | options
