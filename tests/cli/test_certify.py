"""`statewise certify`, against values that are known exactly."""

import json

import numpy as np
import pytest

import statewise as sw
from chain import BEHAVIOUR, chain, linear
from statewise.learning.runs import RunFolder

SOURCE = chain()
GOAL = np.array([[0.05, 0.95]] * 3)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with the goal, what is done today, and two logs of it."""
    monkeypatch.chdir(tmp_path)
    linear(GOAL).save("goal.safetensors")
    linear(BEHAVIOUR).save("today.safetensors")
    SOURCE.collect(400, seed=1).save("log.parquet")
    SOURCE.collect(300, seed=2).save("before.parquet")
    return tmp_path


def gain(policy) -> float:
    """Over what is done today, exactly."""
    return SOURCE.problem.value(policy.probabilities(SOURCE.seen), 1.0) - SOURCE.problem.value(BEHAVIOUR, 1.0)


@pytest.mark.parametrize("more", [[], ["--learning", "before.parquet"], ["--today", "today.safetensors"]])
def test_what_is_written_is_what_was_certified(statewise, more):
    code, out, err = statewise("certify", "goal.safetensors", "log.parquet", "--out", "d.safetensors", "--json", *more)
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert (said["answer"], said["policy"]) == ("deploy", "d.safetensors")
    policy = sw.load_policy("d.safetensors")
    mixed = (1 - said["step"]) * BEHAVIOUR + said["step"] * GOAL
    np.testing.assert_allclose(policy.probabilities(SOURCE.seen), mixed, atol=1e-6)
    assert gain(policy) >= said["gain"]["at_least"] > 0
    assert policy.card["certified"]["low"] == said["gain"]["at_least"]
    assert policy.card["certified"]["today"] == said["today"]
    assert policy.card["log"] == sw.load("log.parquet").fingerprint
    assert [one["passed"] for one in said["tried"][:-1]] == [True] * (len(said["tried"]) - 1)


def test_learning_episodes_leave_the_whole_log_to_judge(statewise):
    whole = json.loads(
        statewise("certify", "goal.safetensors", "log.parquet", "--learning", "before.parquet", "--json")[1]
    )
    part = json.loads(statewise("certify", "goal.safetensors", "log.parquet", "--json")[1])
    log = sw.load("log.parquet")
    assert whole["today"] == pytest.approx(log.returns(1.0).mean())
    assert part["today"] == pytest.approx(log.split(1 / 3, seed=0)[1].returns(1.0).mean())


def test_a_person_reads_the_answer_the_steps_and_what_to_do_next(statewise):
    code, out, _ = statewise("certify", "goal.safetensors", "log.parquet")
    said = json.loads(statewise("certify", "goal.safetensors", "log.parquet", "--json")[1])
    shown = " ".join(out.replace("│", " ").split())
    assert code == 0
    assert "Deploy" in shown
    assert f"deploy this {said['today'] + said['gain']['difference']:.4g}, at least" in shown
    assert f"log this next {said['next']['sentence']}" in shown
    for one in said["tried"]:
        assert f"{100 * one['step']:.3g} % {one['gain']:.4g} {one['at_least']:.4g} {one['verdict']}" in shown
    assert "--out FILE writes the policy that may be deployed" in shown
    code, out, _ = statewise("certify", "goal.safetensors", "log.parquet", "--out", "d.safetensors")
    assert "deploy d.safetensors" in " ".join(out.split())


def test_where_no_step_passes_nothing_is_written(statewise, place):
    linear(np.array([[0.95, 0.05]] * 3)).save("worse.safetensors")
    code, out, _ = statewise("certify", "worse.safetensors", "log.parquet", "--out", "d.safetensors", "--json")
    said = json.loads(out)
    assert code == 0
    assert said["answer"] != "deploy"
    assert (said["step"], said["policy"], said["hidden_reason"]) == (0, None, None)
    assert not (place / "d.safetensors").exists()


def test_a_run_stands_for_its_goal(statewise):
    folder = RunFolder.create("run")
    folder.write_manifest({"algorithm": "OPPOSD", "seeds": [0], "config": {"discount": 1.0}})
    linear(GOAL).save(folder.goal)
    linear(BEHAVIOUR).save(folder.chosen)
    of_run = json.loads(statewise("certify", "run", "log.parquet", "--json")[1])
    assert of_run == json.loads(statewise("certify", "goal.safetensors", "log.parquet", "--json")[1])


@pytest.mark.parametrize("level", ["0.5", "1", "95"])
def test_a_level_that_is_none(statewise, level):
    code, _, err = statewise("certify", "goal.safetensors", "log.parquet", "--level", level)
    assert code == 2
    assert "'--level'" in err
