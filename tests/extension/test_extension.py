"""What a user adds from outside the package is used by name, in Python and on the command line, like all else.

One file and one registration each: an algorithm, an estimator, a measure, a domain and a file format.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import small
import statewise as sw
from statewise.learning.runs import RunFolder

HERE = Path(__file__).parent
ADDED = {"constant": sw.ALGORITHMS, "first-step": sw.ESTIMATORS, "even-actions": sw.MEASURES, "coin": sw.DOMAINS}


@pytest.fixture(scope="module")
def toys():
    """Registered for these tests alone: other tests count what there is."""
    with pytest.MonkeyPatch.context() as patch:
        for registry in (*ADDED.values(), sw.FORMATS):
            patch.setattr(registry, "_entries", dict(registry._entries))
        patch.syspath_prepend(HERE)
        import toys

        yield toys
        for name in ("toys", "coin", "constant", "even_actions", "first_step", "jsonl"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def log(toys, tmp_path_factory):
    """A log of the user's domain, in the user's file format."""
    path = tmp_path_factory.mktemp("toys") / "coins.jsonl"
    sw.DOMAINS["coin"].collect(2000, seed=0).save(path)
    return sw.load(path, actions=2)


def test_a_domain_and_a_file_format_of_ones_own(log):
    assert log.lengths.tolist() == [5] * 2000
    third = log.rewards[2::5] == log.actions[2::5]
    assert third.all()  # which is always heads


def test_an_algorithm_an_estimator_and_a_measure_of_ones_own(log, tmp_path):
    result = sw.fit(log, "constant", out=tmp_path / "fit")
    assert result.policies[0].probabilities(log.observations[:1])[0] == pytest.approx([0.05, 0.95])
    resumed = sw.fit(log, "constant", out=tmp_path / "fit")
    assert resumed.policies[0].biases[0].tolist() == result.policies[0].biases[0].tolist()
    one = sw.evaluate(result.policies[0], log, "first-step")
    first = log.take(np.arange(log.episodes)).starts[:-1]
    weight = np.where(log.actions[first] == 1, 0.95, 0.05) / 0.5
    assert one.value == pytest.approx(weight @ log.rewards[first] / weight.sum())
    measure = next(measure for measure in one.measures if measure.name == "even-actions")
    assert (measure.outcome, measure.title) == ("good", "Actions tried alike")


def test_all_of_them_go_through_improve_and_its_report(log, tmp_path, monkeypatch):
    small.few_steps(monkeypatch)
    improvement = sw.improve(log, "constant", plan=sw.Plan(beside=()), out=tmp_path / "run")
    run = RunFolder.open(improvement.folder)
    assert run.manifest()["algorithm"] == "Constant"
    (learned,) = run.last_policies().values()
    assert learned.probabilities(log.observations[:1])[0] == pytest.approx([0.05, 0.95])
    # heads is right 6 times in 10, and the log shows it: a rule without the last twentieth is better, and simpler
    assert (improvement.answer, improvement.algorithm, improvement.certificate.step) == ("deploy", "always 1", 1)
    earned = sw.DOMAINS["coin"].play([improvement.policy, learned, None], 2000, seed=1).discounted.mean(axis=1)
    assert earned == pytest.approx([5 * 0.6, 5 * (0.6 * 0.95 + 0.4 * 0.05), 2.5], abs=0.06)
    page = improvement.report.read_text()
    assert "Actions tried alike" in page
    assert "The goal (always 1)" in page


def test_on_the_command_line_too(toys, tmp_path):
    def statewise(*arguments):
        command = [sys.executable, "-m", "statewise", *map(str, arguments), "--plugin", HERE / "toys.py"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    for arguments in (
        ("collect", "coin", "--episodes", 100, "--out", "coins.jsonl"),
        ("inspect", "coins.jsonl"),
        ("fit", "coins.jsonl", "--algorithm", "constant", "--out", "run"),
    ):
        done = statewise(*arguments)
        assert done.returncode == 0, done.stderr
    done = statewise("evaluate", "run", "coins.jsonl", "--estimator", "first-step", "--json")
    assert done.returncode == 0, done.stderr
    estimates = {one["estimator"]: one for one in json.loads(done.stdout)["estimates"]}
    assert "even-actions" in {measure["name"] for measure in estimates["first-step"]["measures"]}
