"""`statewise certify`, against values that are known exactly."""

import json

import numpy as np
import pytest

import small
import statewise as sw
from chain import BEHAVIOUR, chain, linear
from processes import statewise_here
from statewise.learning.runs import RunFolder

SOURCE = chain()
GOAL = np.array([[0.05, 0.95]] * 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With the goal, what is done today, and two logs of it."""
    folder = tmp_path_factory.mktemp("certify")
    linear(GOAL).save(folder / "goal.safetensors")
    linear(np.array([[0.95, 0.05]] * 3)).save(folder / "worse.safetensors")
    linear(BEHAVIOUR).save(folder / "today.safetensors")
    SOURCE.collect(400, seed=1).save(folder / "log.parquet")
    SOURCE.collect(300, seed=2).save(folder / "before.parquet")
    return folder


@pytest.fixture(scope="module")
def certify(folder):
    """What `statewise certify` prints in that folder; the same command is run once."""
    known = {}

    def certify(*arguments):
        if arguments not in known:
            with pytest.MonkeyPatch.context() as patch:
                small.few_steps(patch, (0.1, 0.2, 0.4, 0.7, 1.0))
                known[arguments] = statewise_here("certify", *arguments, cwd=folder)
        done = known[arguments]
        assert (done.returncode, done.stderr if "--json" in arguments else "") == (0, "")
        return done.stdout

    return certify


def gain(policy) -> float:
    """Over what is done today, exactly."""
    return SOURCE.problem.value(policy.probabilities(SOURCE.seen), 1.0) - SOURCE.problem.value(BEHAVIOUR, 1.0)


def written(certify, *more):
    """As JSON, of a call that writes the policy too."""
    return json.loads(certify("goal.safetensors", "log.parquet", "--out", "d.safetensors", "--json", *more))


LEARNING = ("--learning", "before.parquet", "--out", "other.safetensors")


@pytest.mark.parametrize(
    ("more", "file"),
    [
        ((), "d.safetensors"),
        (LEARNING, "other.safetensors"),
        (("--today", "today.safetensors", "--out", "third.safetensors"), "third.safetensors"),
    ],
)
def test_what_is_written_is_what_was_certified(certify, folder, more, file):
    said = written(certify, *more)
    assert (said["answer"], said["policy"]) == ("deploy", file)
    policy = sw.load_policy(folder / file)
    mixed = (1 - said["step"]) * BEHAVIOUR + said["step"] * GOAL
    np.testing.assert_allclose(policy.probabilities(SOURCE.seen), mixed, atol=1e-6)
    assert gain(policy) >= said["gain"]["at_least"] - 1e-9 > 0  # of a log without noise it is known exactly
    assert policy.card["certified"]["low"] == said["gain"]["at_least"]
    assert policy.card["certified"]["today"] == said["today"]
    assert policy.card["log"] == sw.load(folder / "log.parquet").fingerprint
    assert [one["passed"] for one in said["tried"][:-1]] == [True] * (len(said["tried"]) - 1)


def test_learning_episodes_leave_the_whole_log_to_judge(certify, folder):
    whole, part = written(certify, *LEARNING), written(certify)
    log = sw.load(folder / "log.parquet")
    assert whole["today"] == pytest.approx(log.returns(1.0).mean())
    assert part["today"] == pytest.approx(log.split(1 / 3, seed=0)[1].returns(1.0).mean())


def test_a_person_reads_the_answer_the_steps_and_what_to_do_next(certify):
    said = written(certify)
    shown = " ".join(certify("goal.safetensors", "log.parquet").replace("│", " ").split())
    assert "Deploy" in shown
    assert f"deploy this {said['today'] + said['gain']['difference']:.4g}, at least" in shown
    assert f"log this next {said['next']['sentence']}" in shown
    for one in said["tried"]:
        assert f"{100 * one['step']:.3g} % {one['gain']:.4g} {one['at_least']:.4g} {one['verdict']}" in shown
    assert "--out FILE writes the policy that may be deployed" in shown
    kept = certify("goal.safetensors", "log.parquet", "--out", "kept.safetensors")
    assert "deploy kept.safetensors" in " ".join(kept.split())


def test_where_no_step_passes_nothing_is_written(certify, folder):
    said = json.loads(certify("worse.safetensors", "log.parquet", "--out", "none.safetensors", "--json"))
    assert said["answer"] != "deploy"
    assert (said["step"], said["policy"], said["hidden_reason"]) == (0, None, None)
    assert not (folder / "none.safetensors").exists()


def test_a_run_stands_for_its_goal(certify, folder):
    run = RunFolder.create(folder / "run")
    run.write_manifest({"algorithm": "OPPOSD", "seeds": [0], "config": {"discount": 1.0}})
    linear(GOAL).save(run.goal)
    linear(BEHAVIOUR).save(run.chosen)
    of_run = json.loads(certify("run", "log.parquet", "--json"))
    assert of_run["policy"] is None  # no file was asked for
    assert of_run == written(certify) | {"policy": None}


@pytest.mark.parametrize("level", ["0.5", "1", "95"])
def test_a_level_that_is_none(folder, level):
    done = statewise_here("certify", "goal.safetensors", "log.parquet", "--level", level, cwd=folder)
    assert done.returncode == 2
    assert "'--level'" in done.stderr
