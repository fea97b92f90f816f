"""A policy that was learned from words, dates and gaps takes the raw row: in files, over HTTP, and in its exports."""

import asyncio
import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import httpx
import numpy as np
import onnxruntime
import polars as pl
import pytest
from click.testing import CliRunner

import statewise as sw
from statewise.cli.main import group
from statewise.data.encoding import Code
from statewise.data.rawlog import Columns
from statewise.data.schema import Schema
from statewise.policies.act import ObservationError, arrange
from statewise.policies.exports import EXPORTS, export_policy, raw_rows
from statewise.policies.files import PolicyFileError
from statewise.policies.network import Policy
from statewise.policies.serve import application

CODES = (
    Code("age", gaps=True, fill=50.0),
    Code("mean"),  # as a constant inside of exports is called
    Code("smoker", "flag"),
    Code("in pain", "order", ("low", "mid", "high"), gaps=True, fill=1.0),
    Code("ward", "words", ("A", "B"), other=True, gaps=True),
    Code("sex", "words", ("f", "m")),
    Code("since", "date", gaps=True, fill=30.0, format="%d.%m.%Y", origin="2024-01-01"),
    Code("born", "date", origin="1940-05-01"),
)
ROW = {"age": None, "mean": 2.5, "smoker": True, "in pain": "high", "ward": "Z", "sex": "m", "since": "11.01.2024"}
ROW |= {"born": "1950-05-01"}
FEATURES = [50, 1, 2.5, 1, 2, 0, 0, 0, 1, 0, 0, 1, 10, 0, 3652]


@pytest.fixture
def learned() -> Policy:
    rng = np.random.default_rng(0)
    schema = Schema(Columns(), CODES)
    sizes = [len(schema.features), 8, 3]
    return Policy(
        weights=tuple(rng.normal(size=pair) for pair in pairwise(sizes)),
        biases=tuple(rng.normal(size=n) for n in sizes[1:]),
        mean=np.append(rng.normal(size=sizes[0] - 1), 9000.0),
        std=np.append(rng.uniform(1, 2, size=sizes[0] - 1), 5000.0),
        observation_names=schema.features,
        action_names=("none", "one", "two"),
        card={"schema": schema.as_json()},
    )


def test_a_raw_row_becomes_the_features_that_it_stands_for(learned):
    np.testing.assert_allclose(arrange(learned, [ROW, list(ROW.values())]), [FEATURES, FEATURES])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"mean": None}, "observation 1: expected a finite number for 'mean', got 'None'"),
        ({"smoker": "perhaps"}, "observation 1: expected true or false for 'smoker', got 'perhaps'"),
        ({"born": "May"}, "observation 1: expected a date such as 1940-05-01 for 'born', got 'May'"),
        ({"since": "2024-01-01"}, "expected a date such as day.month.year for 'since', got '2024-01-01'"),
    ],
)
def test_what_has_no_meaning_is_refused(learned, change, sentence):
    with pytest.raises(ObservationError, match=sentence):
        arrange(learned, [ROW | change])


def test_the_file_carries_the_recipe_and_refuses_one_that_does_not_fit(learned, tmp_path):
    learned.save(tmp_path / "p.safetensors")
    back = sw.load_policy(tmp_path / "p.safetensors")
    np.testing.assert_array_equal(arrange(back, [ROW]), arrange(learned, [ROW]))
    other = Schema(Columns(), CODES[:-1]).as_json()
    replace(learned, card={"schema": other}).save(tmp_path / "p.safetensors")
    with pytest.raises(PolicyFileError, match="its schema makes other observations"):
        sw.load_policy(tmp_path / "p.safetensors")
    replace(learned, card={"schema": {"columns": {}, "codes": [{"name": 3}]}}).save(tmp_path / "p.safetensors")
    with pytest.raises(PolicyFileError, match="expected text, got 3"):
        sw.load_policy(tmp_path / "p.safetensors")


@pytest.mark.parametrize("format", ["onnx", "numpy"])
def test_exports_take_raw_rows_and_agree_with_the_policy(learned, format):
    rows = raw_rows(learned, 500, seed=1)
    assert {row[4] for row in rows} == {None, "A", "B", "a word that the log does not hold"}
    expected = learned.probabilities(arrange(learned, rows))
    answer = EXPORTS[format].probabilities(export_policy(learned, format), rows)
    np.testing.assert_allclose(answer, expected, rtol=0, atol=1e-6)


def test_onnx_has_one_input_for_each_column(learned):
    session = onnxruntime.InferenceSession(export_policy(learned, "onnx"))
    kinds = {one.name: one.type for one in session.get_inputs()}
    assert kinds == {
        **dict.fromkeys(("age", "mean", "smoker", "since", "born"), "tensor(double)"),
        **dict.fromkeys(("in pain", "ward", "sex"), "tensor(string)"),
    }
    text = {name: np.array([[ROW[name]]], dtype=object) for name in ("in pain", "ward", "sex")}
    days = {"since": np.datetime64("2024-01-11"), "born": np.datetime64("1950-05-01")}
    numbers = {name: day.astype("datetime64[D]").astype(float) for name, day in days.items()}
    numbers |= {"age": np.nan, "mean": 2.5, "smoker": 1.0}
    feeds = text | {name: np.array([[value]], dtype=np.float64) for name, value in numbers.items()}
    (answer,) = session.run(["probabilities"], feeds)
    np.testing.assert_allclose(answer, learned.probabilities(np.array([FEATURES])), rtol=0, atol=1e-6)
    (lost,) = session.run(["probabilities"], feeds | {"mean": np.array([[np.nan]])})
    assert np.isnan(lost).all()  # a gap where the log has none


def test_the_python_file_encodes_by_itself(learned, tmp_path):
    (tmp_path / "policy.py").write_bytes(export_policy(learned, "numpy"))
    spec = importlib.util.spec_from_file_location("raw_policy", tmp_path / "policy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    np.testing.assert_allclose(module.encode([ROW]), [FEATURES])
    with pytest.raises(ValueError, match="an observation is missing"):
        module.probabilities([ROW | {"mean": None}])
    with pytest.raises(ValueError, match="expected 8 values in each row: age, mean"):
        module.probabilities([[1, 2]])
    words = ["", "2.5", "true", "high", "Z", "m", "11.01.2024", "1950-05-01"]
    command = [sys.executable, "-I", str(tmp_path / "policy.py"), *words]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    np.testing.assert_allclose(list(said.values()), learned.probabilities(np.array([FEATURES]))[0], atol=1e-9)


class Asked:
    """The application, asked without a server."""

    def __init__(self, policy):
        self.transport = httpx.ASGITransport(app=application(policy))

    def post(self, path, **body):
        return self._ask("POST", path, **body)

    def get(self, path):
        return self._ask("GET", path)

    def _ask(self, method, path, **body):
        async def ask():
            async with httpx.AsyncClient(transport=self.transport, base_url="http://policy") as client:
                return await client.request(method, path, **body)

        return asyncio.run(ask())


def test_serving_takes_the_raw_row_and_says_so(learned):
    client = Asked(learned)
    answer = client.post("/act", json={"observations": [ROW], "seed": 0})
    assert answer.status_code == 200
    (decision,) = answer.json()["decisions"]
    expected = learned.probabilities(np.array([FEATURES]))[0]
    np.testing.assert_allclose(list(decision["probabilities"].values()), expected, atol=1e-9)
    assert client.get("/health").json()["observations"] == list(ROW)
    wrong = client.post("/act", json={"observations": [ROW | {"smoker": "perhaps"}]})
    assert (wrong.status_code, wrong.json()["error"]) == (
        422,
        "observation 1: expected true or false for 'smoker', got 'perhaps'",
    )
    question = client.get("/openapi.json").json()["components"]["schemas"]["Question"]
    by_name = question["properties"]["observations"]["items"]["anyOf"][0]["properties"]
    assert by_name["mean"] == {"type": "number"}
    assert by_name["ward"]["type"] == ["string", "null"]
    assert "another word counts as other" in by_name["ward"]["description"]
    assert client.post("/act", json=question["examples"][0]).status_code == 200


def test_act_reads_the_raw_file(learned, tmp_path):
    learned.save(tmp_path / "p.safetensors")
    frame = pl.DataFrame([ROW | {"sex": "x"}, ROW]).with_columns(patient=pl.Series(["a", "b"]))
    frame.write_csv(tmp_path / "rows.csv")
    arguments = [tmp_path / "p.safetensors", tmp_path / "rows.csv", "--keep", "patient", "--json"]
    done = CliRunner().invoke(group, ["act", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    said = "sex: the policy's log does not hold 'x', which counts as none of the known words (1 row)."
    assert said in " ".join(done.stderr.split())
    chances = [[row[f"probability_{name}"] for name in learned.action_names] for row in json.loads(done.stdout)]
    np.testing.assert_allclose(chances[1], learned.probabilities(np.array([FEATURES]))[0], atol=1e-9)
    frame.with_columns(mean=pl.Series([None, 1.0])).write_csv(tmp_path / "rows.csv")
    done = CliRunner().invoke(group, ["act", *map(str, arguments)])
    assert "column 'mean', line 2: expected a finite number, got an empty cell" in str(done.exception)
