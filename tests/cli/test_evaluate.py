"""`statewise evaluate` as a stranger meets it: a table, a verdict on each number, and one answer."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.cli.decision import hidden_reason
from statewise.cli.propensities import propensities_as_json
from statewise.data.horizon import sentence
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.learning.runs import RunFolder
from statewise.policies.network import Policy

STATES, ACTIONS = 4, 2
MDP = TabularMDP.random(STATES, ACTIONS, seed=3, termination=0.3)
BEHAVIOUR = np.random.default_rng(0).dirichlet([4.0, 4.0], size=STATES)
GREEDY = np.eye(ACTIONS)[MDP.action_values(BEHAVIOUR, 1.0).argmax(axis=1)]
BETTER = 0.5 * BEHAVIOUR + 0.5 * GREEDY
DATA = collect_tabular(MDP, BEHAVIOUR, 400, 40, seed=0)
QUICK = ("--estimator", "weighted-per-decision")


def policy(table, **card):
    """The policy of a table, for states seen one-hot."""
    names = DATA.observation_names
    return Policy((np.log(table),), (np.zeros(ACTIONS),), np.zeros(STATES), np.ones(STATES), names, ("no", "yes"), card)


@pytest.fixture
def folder(tmp_path):
    """A log, policy files, and a run whose second of three checkpoints is the best."""
    DATA.save(tmp_path / "log.parquet")
    policy(BETTER).save(tmp_path / "better.safetensors")
    policy(0.1 * BEHAVIOUR + 0.9 * (1 - GREEDY)).save(tmp_path / "worse.safetensors")
    run = RunFolder.create(tmp_path / "run")
    run.write_manifest({"config": {"discount": 1.0}, "data": DATA.fingerprint})
    for update, table in ((1, BEHAVIOUR), (2, BETTER), (3, 0.6 * BEHAVIOUR + 0.4 * (1 - GREEDY))):
        run.write_policy(0, update, policy(table))
    return tmp_path


def words(text):
    return " ".join(text.split())


def test_a_policy_file_gets_a_table_and_an_answer(folder, statewise):
    code, out, _ = statewise("evaluate", folder / "better.safetensors", folder / "log.parquet", *QUICK)
    assert code == 0
    assert "on 400 episodes of log.parquet, γ = 1" in words(out)
    expected = sw.evaluate(policy(BETTER), DATA, "weighted-per-decision")
    assert f"{expected.value:.4g} {expected.low:.4g} to {expected.high:.4g}" in words(out)
    assert sentence(DATA, 1.0) in words(out)
    assert "behaviour" in out
    assert "Deploy (by weighted-per-decision): it earns" in words(out)
    decision = sw.gate(policy(BETTER), DATA, estimator="weighted-per-decision", discount=1.0)
    assert hidden_reason(decision) in words(out)
    for measure in decision.measures:  # every check, and what it means where it is not good
        assert f"{measure.outcome} {measure.title}: {measure.sentence}." in " ".join(words(out).split("│"))
        assert (measure.meaning in words(out)) == (measure.outcome != "good")
    _, out, _ = statewise("evaluate", folder / "worse.safetensors", folder / "log.parquet", "--estimator", "importance")
    assert "Deploy (" not in out


def test_a_machine_is_told_the_same(folder, statewise):
    code, out, err = statewise("evaluate", folder / "better.safetensors", folder / "log.parquet", *QUICK, "--json")
    told = json.loads(out)
    assert code == 0
    assert err == ""
    decision = sw.gate(policy(BETTER), DATA, estimator="weighted-per-decision", discount=1.0)
    assert told["gate"]["answer"] == decision.answer == "deploy"
    assert told["gate"]["difference"] == pytest.approx(decision.difference)
    assert told["gate"]["hidden_reason"] == pytest.approx(decision.hidden_reason)
    assert told["gate"]["verdict"] == decision.verdict
    assert [one["name"] for one in told["gate"]["measures"]] == [one.name for one in decision.measures]
    assert [one["estimator"] for one in told["estimates"]] == ["behaviour", "weighted-per-decision"]
    assert told["estimates"][0]["value"] == pytest.approx(DATA.returns().mean())
    assert told["selection"] is None
    assert told["horizon"] == {**DATA.horizon._asdict(), "sentence": sentence(DATA, 1.0)}


def test_of_a_run_a_checkpoint_is_chosen_and_that_is_said(folder, statewise):
    code, out, err = statewise("evaluate", folder / "run", folder / "log.parquet", *QUICK)
    assert code == 0
    assert "Of 3 checkpoints, update 2 of seed 0: on the other half of the log, it has the greatest lower bound" in (
        words(out)
    )
    assert "on 200 episodes of log.parquet" in words(out)
    assert "trained on these very episodes" in words(err)
    told = json.loads(statewise("evaluate", folder / "run", folder / "log.parquet", *QUICK, "--json")[1])
    assert (told["selection"]["seed"], told["selection"]["update"]) == (0, 2)
    assert [one["update"] for one in told["selection"]["scores"]] == [1, 2, 3]


def test_a_value_that_the_log_cannot_tell_is_not_printed(folder, statewise):
    """The behaviour never takes action 1 in the log, and the policy always does."""
    only = np.tile([1.0, 0.0], (STATES, 1))
    data = collect_tabular(MDP, only, 50, 40, seed=0)
    data.save(folder / "only.parquet")
    policy(np.tile([1e-9, 1 - 1e-9], (STATES, 1))).save(folder / "other.safetensors")
    arguments = ("evaluate", folder / "other.safetensors", folder / "only.parquet", *QUICK)
    code, out, _ = statewise(*arguments)
    assert code == 0
    assert "weighted-per-decision – –" in words(out)
    assert "Collect more data (by weighted-per-decision): the log cannot tell what the policy is worth" in words(out)
    told = json.loads(statewise(*arguments, "--json")[1])
    assert told["estimates"][1]["verdict"] == "not identified"
    assert told["estimates"][1]["value"] is None
    assert told["gate"]["verdict"] == "not identified"
    assert [told["gate"][name] for name in ("difference", "low", "high", "hidden_reason")] == [None] * 4


def test_target_columns_are_a_policy(folder, statewise):
    replace(DATA, targets=(DATA.observations @ BETTER).astype(np.float64)).save(folder / "targets.parquet")
    code, out, _ = statewise("evaluate", folder / "targets.parquet", "--target-columns", *QUICK, "--json")
    assert code == 0
    from_file = statewise("evaluate", folder / "better.safetensors", folder / "log.parquet", *QUICK, "--json")[1]
    values = [json.loads(told)["estimates"][1]["value"] for told in (out, from_file)]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_missing_propensities_are_estimated_only_when_asked(folder, statewise, monkeypatch):
    monkeypatch.setattr("statewise.propensities.crossfit.REFITS", 2)
    replace(DATA, propensities=None, distributions=None).save(folder / "bare.csv")
    arguments = ("evaluate", folder / "better.safetensors", folder / "bare.csv", *QUICK)
    code, _, err = statewise(*arguments)
    assert code == 2
    assert "--propensity estimate" in err
    code, out, err = statewise(*arguments, "--propensity", "estimate")
    assert code == 0
    assert "They agree with the actions taken" in words(err)
    assert "Deploy (" in words(out)


def test_a_machine_is_told_of_the_calibration():
    found = sw.estimate_propensities(replace(DATA, propensities=None, distributions=None), "logistic")
    told = json.loads(json.dumps(propensities_as_json(found)))
    assert told["calibration_error"] == pytest.approx(found.estimated.calibration.error)
    assert told["summary"] == found.estimated.summary
    assert sum(one["predictions"] for one in told["reliability"]) == ACTIONS * len(DATA)
    assert propensities_as_json(DATA) is None


def test_missing_propensities_are_estimated_for_learning_too(folder, statewise, monkeypatch):
    """What reaches the learner is the log with the estimates, and nothing reaches it without the flag."""
    replace(DATA, propensities=None, distributions=None).save(folder / "bare.csv")
    code, _, err = statewise("fit", folder / "bare.csv", "--out", folder / "learned", "--updates", 1)
    assert code == 2
    assert "--propensity estimate" in err

    def learn(dataset, *_, **options):
        expected = sw.estimate_propensities(replace(DATA, propensities=None, distributions=None))
        np.testing.assert_allclose(dataset.distributions, expected.distributions, rtol=1e-6)
        raise ValueError("the learner was reached")

    monkeypatch.setattr("statewise.cli.fit.fit", learn)
    code, _, err = statewise("fit", folder / "bare.csv", "--out", folder / "learned", "--propensity", "estimate")
    assert "They agree with the actions taken" in words(err)
    assert "the learner was reached" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["better.safetensors"], "With --target-columns, LOG alone is enough"),
        (["absent.safetensors", "log.parquet"], "there is no such file"),
        (["absent.onnx", "log.parquet"], "there is no such file"),
        (["better.safetensors", "absent.csv"], "there is no such file"),
        (["better.safetensors", "log.parquet", "--estimator", "wis"], "there is no estimator 'wis'; choose from all, "),
        (["log.parquet", "--target-columns"], "target_0: there is no such column"),
        (["model.d3", "log.parquet"], "opening such a file can run code"),
        (["log.parquet", "log.parquet"], "it is not a policy file"),
        ([".", "log.parquet"], "it is not a run folder"),
        (["swapped.safetensors", "log.parquet"], "the policy looks at state_3, state_2"),
    ],
)
def test_mistakes_are_answered_by_a_sentence(arguments, said, folder, statewise, monkeypatch):
    replace(policy(BETTER), observation_names=DATA.observation_names[::-1]).save(folder / "swapped.safetensors")
    monkeypatch.chdir(folder)
    code, out, err = statewise("evaluate", *arguments)
    assert code == 2
    assert said in words(out + err)
    assert "Traceback" not in err


def test_a_log_that_lacks_an_action_is_read_by_the_policys_own_words(folder, statewise):
    """By alphabet alone, 'yes' would be the log's action 0."""
    one = replace(DATA, distributions=None, action_names=("no", "yes"))
    only = one.take(np.array([e for e in range(one.episodes) if one.actions[one.starts[e] : one.starts[e + 1]].all()]))
    only.save(folder / "only.csv")
    code, out, err = statewise("evaluate", folder / "better.safetensors", folder / "only.csv", *QUICK, "--json")
    assert code == 0, err
    expected = sw.evaluate(policy(BETTER), only, "weighted-per-decision")
    assert json.loads(out)["estimates"][1]["effective_sample_size"] == pytest.approx(expected.effective_sample_size)
    names = folder / "only.csv", "--actions", "yes,no"
    code, _, err = statewise("evaluate", folder / "better.safetensors", *names, *QUICK)
    assert code == 2
    assert "the policy's actions are no, yes, and the log's yes, no" in words(err)


def test_the_model_of_propensities_can_be_chosen(folder, statewise):
    ask = ("evaluate", folder / "better.safetensors", folder / "log.parquet", *QUICK, "--propensity-model", "logistic")
    code, _, err = statewise(*ask)
    assert code == 2
    assert "--propensity-model is for --propensity estimate" in err
    code, out, _ = statewise(*ask, "--propensity", "estimate", "--json")
    assert code == 0
    assert json.loads(out)["propensities"]["model"] == "logistic"


@pytest.fixture
def in_parts(folder):
    """A file of the log with what its reward was made of, in no order."""
    frame = DATA.to_polars().with_columns(cost=pl.col("action").cast(pl.Float64))
    frame = frame.with_columns(paid=pl.col("reward") + 0.05 * pl.col("cost"))
    frame.sample(fraction=1.0, shuffle=True, seed=0).write_parquet(folder / "parts.parquet")
    return folder / "parts.parquet"


def test_how_far_the_weights_of_a_reward_may_change(folder, in_parts, statewise):
    log = sw.load(in_parts)
    cost = (log.actions == 1).astype(float)
    parts = {"paid": (1.0, log.rewards + 0.05 * cost), "cost": (-0.05, cost)}
    asked = (folder / "better.safetensors", in_parts, *QUICK, "--reward-parts", "paid=1,cost=-0.05")
    kept = sw.load_policy(folder / "better.safetensors")
    found = sw.reward_sensitivity(kept, log, parts, estimator="weighted-per-decision", discount=1.0)
    assert found[0].lower is not None
    code, out, _ = statewise("evaluate", *asked)
    assert code == 0
    for one in found:
        assert str(one) in words(out)
    told = json.loads(statewise("evaluate", *asked, "--json")[1])["reward_parts"]
    assert [(one["column"], one["weight"]) for one in told] == [("paid", 1.0), ("cost", -0.05)]
    for one, known in zip(told, found, strict=True):
        assert one["lower"] == pytest.approx(known.lower)
        assert one["upper"] == pytest.approx(known.upper)
        assert one["least_change"] == pytest.approx(known.least_change)


def test_of_a_run_the_parts_are_those_of_the_half_that_judges(folder, in_parts, statewise):
    asked = (in_parts, *QUICK, "--reward-parts", "paid=1,cost=-0.05")
    code, out, err = statewise("evaluate", folder / "run", *asked, "--json")
    assert code == 0, err  # rows of the other half would not add up to the reward
    assert json.loads(out)["reward_parts"] is not None


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("paid", "expected COLUMN=WEIGHT, such as cost=-1, got 'paid'"),
        ("paid=1,cost=0", "expected a column and a weight other than 0, got 'cost=0'"),
        ("paid=1", "parts: their weighted sum differs from the reward by up to 0.05"),
        ("paid=1,costs=-0.05", "costs"),
    ],
)
def test_parts_that_cannot_be(folder, in_parts, statewise, parts, message):
    code, out, err = statewise("evaluate", folder / "better.safetensors", in_parts, *QUICK, "--reward-parts", parts)
    assert code == 2
    assert message in words(out + err)


def test_without_being_asked_nothing_is_said_of_parts(folder, statewise):
    out = statewise("evaluate", folder / "better.safetensors", folder / "log.parquet", *QUICK, "--json")[1]
    assert json.loads(out)["reward_parts"] is None


def test_where_the_answer_is_not_deploy_no_weight_could_turn_it_over(folder, in_parts, statewise):
    asked = ("evaluate", folder / "worse.safetensors", in_parts, *QUICK, "--reward-parts", "paid=1,cost=-0.05")
    code, out, _ = statewise(*asked)
    assert code == 0
    assert "other weights of the reward have nothing to overturn" in words(out)
