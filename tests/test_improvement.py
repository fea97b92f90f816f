"""`improve`, on a problem of two steps whose every value is known exactly."""

import html
import io
import json
from dataclasses import replace
from types import SimpleNamespace

import click
import numpy as np
import polars as pl
import pytest
from rich.console import Console

import small
import statewise as sw
import statewise.cli
from statewise import improvement
from statewise.base.decode import changed
from statewise.cli.evaluate import _warn_of_training_data
from statewise.data.horizon import sentence
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.improvement import Plan, Stage, improve
from statewise.learning import candidates
from statewise.learning.runs import RunFolder
from statewise.ope.sensitivity import sentence as spoken
from statewise.policies.network import Policy
from statewise.policies.rule import rule_of
from statewise.report.content import from_json, to_json
from statewise.report.folder import from_run

EPISODES = 2000
# small networks, quick steps: the answers below need no more
SETTINGS = {
    "actor": {"hidden": [8], "learning_rate": 0.02, "batch": 200, "clone_steps": 50, "anchor": {"weight": 0.0}},
    "critic": {"hidden": [16], "learning_rate": 0.01, "batch": 200, "warm_steps": 50, "target_rate": 1.0},
    "ratio": {"features": 20, "regularisation": [0.01]},
}
CONFIG = changed(sw.OPPOSD(), SETTINGS)
PLAN = Plan(seeds=1, updates=60, beside=("behaviour-cloning",))


def two_steps() -> TabularMDP:
    """From states 0 and 1 to states 2 and 3, then the end: every episode has two decisions, so shapes never change."""
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0, 2] = transitions[0, 1, 3] = transitions[1, 0, 3] = transitions[1, 1, 2] = 1
    rewards = np.array([[0, 0], [0, 0], [1, 0.2], [0.1, 0]], dtype=float)
    return TabularMDP(transitions, rewards, np.array([0.5, 0.5, 0, 0]))


MDP = two_steps()
UNIFORM = np.full((4, 2), 0.5)
# the good actions are all but never taken
STUBBORN = np.array([[0.01, 0.99], [0.99, 0.01], [0.01, 0.99], [0.01, 0.99]])


# those that are never taken, on any log of this size
NEVER = np.array([[1e-6, 1 - 1e-6], [1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6], [1e-6, 1 - 1e-6]])


def log(behaviour=UNIFORM, units=True) -> sw.Dataset:
    made = collect_tabular(MDP, behaviour, EPISODES, 2, seed=0)
    return replace(made, units=np.arange(EPISODES) // 2) if units else made


def value(policy) -> float:
    """What a policy is worth, exactly."""
    return MDP.value(policy.probabilities(np.eye(4)), 1.0)


def linear(chances) -> Policy:
    """A policy of these probabilities, as a network without hidden layers."""
    names = tuple(f"state_{i}" for i in range(4))
    return Policy((np.log(chances),), (np.zeros(2),), np.zeros(4), np.ones(4), names, ("0", "1"))


@pytest.fixture(scope="module")
def seen():
    """The data that learning and judging received, and the stages that were reported."""
    return SimpleNamespace(learned=[], ordered=[], judged=[], parts=[], stages=[])


@pytest.fixture(scope="module")
def improved(tmp_path_factory, seen):
    def spied(function, *lists):
        def call(*arguments, **named):
            for place, into in lists:
                into.append(named[place] if isinstance(place, str) else arguments[place])
            return function(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "fit", spied(candidates.fit, (0, seen.learned)))
        spies = ((1, seen.judged), ("learning", seen.ordered), ("part", seen.parts))
        patch.setattr(improvement, "certify", spied(improvement.certify, *spies))
        return improve(
            log(), CONFIG, plan=PLAN, out=tmp_path_factory.mktemp("improved") / "run", progress=seen.stages.append
        )


@pytest.fixture(scope="module")
def partly(tmp_path_factory):
    """The good actions are rare: the log vouches for a part of the way."""
    return improve(log(STUBBORN), CONFIG, plan=PLAN, out=tmp_path_factory.mktemp("partly") / "run")


def test_a_better_policy_that_the_log_supports_is_to_be_deployed(improved):
    certificate = improved.certificate
    assert improved.answer == certificate.answer == "deploy"
    assert improved.algorithm == "opposd"
    assert (certificate.step, certificate.decision.verdict) == (1.0, "supported")  # every action is tried often
    np.testing.assert_allclose(improved.policy.probabilities(np.eye(4)), improved.goal.probabilities(np.eye(4)))
    exact = value(improved.policy)
    assert exact > MDP.value(UNIFORM, 1.0) + 0.3
    estimate = certificate.decision.estimate
    assert abs(estimate.value - exact) < 3.5 * estimate.standard_error
    for text in (improved.policy_file, improved.goal_file, improved.report, improved.next.sentence):
        assert str(text) in str(improved)


def test_the_two_parts_share_no_unit(improved, seen):
    learn, order, judge = ([set(part.units) for part in parts] for parts in (seen.learned, seen.ordered, seen.judged))
    assert len(learn) == 2  # algorithms
    assert learn == order * 2
    (judge,) = judge
    assert not learn[0] & judge
    assert learn[0] | judge == set(range(EPISODES // 2))
    assert len(judge) == EPISODES // 4
    assert seen.parts == [0.5]  # so that numbers of episodes to log are those of a whole log


def test_where_the_log_ends_a_step_is_deployed_and_not_the_goal(partly):
    certificate = partly.certificate
    assert partly.answer == "deploy"
    assert 0 < certificate.step < 1
    *passed, last = certificate.tried
    assert all(one.passed for one in passed)
    assert not last.passed
    assert certificate.low == max(one.low for one in passed)
    mixed = (1 - certificate.step) * STUBBORN + certificate.step * partly.goal.probabilities(np.eye(4))
    np.testing.assert_allclose(partly.policy.probabilities(np.eye(4)), mixed, atol=1e-6)
    assert value(partly.policy) - MDP.value(STUBBORN, 1.0) >= certificate.low > 0


def test_the_files_say_what_was_certified_and_what_was_not(improved, partly):
    for found in (improved, partly):
        kept, goal = sw.load_policy(found.policy_file), sw.load_policy(found.goal_file)
        certificate = found.certificate
        assert kept.card["certified"] == pytest.approx(
            {
                "difference": certificate.difference,
                "low": certificate.low,
                "level": 0.95,
                "step": certificate.step,
                "today": certificate.decision.baseline.value,
            }
        )
        assert kept.card["algorithm"] == found.algorithm
        assert goal.card["certified"] is False
        np.testing.assert_array_equal(kept.probabilities(np.eye(4)), found.policy.probabilities(np.eye(4)))
        np.testing.assert_array_equal(goal.probabilities(np.eye(4)), found.goal.probabilities(np.eye(4)))
        assert RunFolder.open(found.folder).policy()[1] == "the policy that was certified"
        assert RunFolder.open(found.folder).learned().card == goal.card


def test_metrics_are_kept_as_parquet(improved):
    for folder in (improved.folder, improved.folder / "beside" / "behaviour-cloning"):
        metrics = pl.read_parquet(folder / "metrics.parquet")
        assert metrics["update"].to_list() == list(range(1, 61))
    kept = RunFolder.open(improved.folder).metrics()
    np.testing.assert_array_equal(pl.read_parquet(improved.folder / "metrics.parquet")["value"], kept["value"][0])


def test_judging_on_the_log_that_taught_is_warned_of(improved):
    run, policy = RunFolder.open(improved.folder), sw.load_policy(improved.policy_file)
    goal = sw.load_policy(improved.goal_file)
    for data, warned in ((log(), True), (log(STUBBORN), False)):
        for folder, judged in ((run, run.policy()[0]), (None, policy), (None, goal)):
            console = Console(file=io.StringIO(), width=200)
            _warn_of_training_data(data, folder, judged, console)
            assert ("trained on these very episodes" in console.file.getvalue()) == warned


def test_the_decision_can_be_read_back(improved, partly):
    for found in (improved, partly):
        read = from_json((found.folder / "decision.json").read_text())
        assert read == from_json(to_json(read))
        assert replace(read, settings={}) == replace(found.content, settings={})
        assert from_run(RunFolder.open(found.folder)).answer == "deploy"
        assert {curve.run for curve in read.curves} == {"opposd", "behaviour-cloning"}
        assert not any(curve.metric == "value" for curve in read.curves if curve.run == "behaviour-cloning")


def test_the_report_shows_the_path_and_what_to_do_next(partly):
    content, certificate = partly.content, partly.certificate
    assert [one.step for one in content.path] == [one.step for one in certificate.tried]
    assert [one.step for one in content.path if one.deployed] == [certificate.step]
    last = content.path[-1]
    assert last.verdict == "not identified"
    assert last.gain is last.low is None  # what the log cannot tell is no number
    page = partly.report.read_text()
    assert "From today to the goal" in page
    assert html.escape(certificate.next.sentence, quote=False) in page
    assert content.next_log.situations
    for one in content.next_log.situations:
        assert html.escape(one.where) in page
    assert [worth.role for worth in content.worths] == ["current", "chosen", "goal", "gain", "other", "other", "other"]
    gain = content.worth("gain")
    assert (gain.value, gain.low) == (certificate.difference, certificate.low)


def test_the_report_says_what_was_looked_at_and_who_gains(improved):
    data, content = log(), improved.content
    learning, judging = data.split(0.5, seed=0)
    decision = improved.certificate.decision
    assert (content.facts.episodes, content.facts.decisions) == (data.episodes, len(data))
    assert (content.facts.discount, content.facts.names) == (1.0, ("a log of arrays",))
    assert content.rule == rule_of(improved.goal, learning, judging)
    assert content.step == improved.certificate.step
    assert {one.column for one in content.subgroups} <= set(data.observation_names)
    for groups in (content.subgroups, content.periods):
        assert all(one.low <= one.gain <= one.high for one in groups)
    whole = sum(one.gain * one.episodes for one in content.periods) / judging.episodes
    assert whole == pytest.approx(decision.difference)
    assert content.estimators[0].value == pytest.approx(decision.estimate.value)
    assert [int(step.count.replace(",", "")) for step in content.flow[1:4]] == [
        data.episodes, learning.episodes, judging.episodes,
    ]  # fmt: skip
    assert from_json(to_json(content)) == replace(content, settings=json.loads(to_json(content))["settings"])
    assert improved.certificate.judged is None  # large, and of no use any more


def test_subgroups_are_checked_before_anything_is_learned(tmp_path):
    with pytest.raises(ValueError, match="subgroups: there is no column 'age'; choose from"):
        improve(log(), CONFIG, plan=replace(PLAN, subgroups=("age",)), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_report_says_how_far_the_value_counts(improved):
    judging = log().split(0.5, seed=0)[1]
    assert improved.content.counted == sentence(judging, 1.0)
    assert improved.content.counted in improved.report.read_text()


def test_the_report_says_what_would_turn_the_answer_over(improved):
    gamma = improved.certificate.hidden_reason
    assert improved.content.hidden_reason == gamma > 1
    assert spoken(gamma) in improved.report.read_text()


def test_the_report_shows_how_evenly_episodes_count(improved):
    judging, estimate = log().split(0.5, seed=0)[1], improved.certificate.decision.estimate
    shares, of_episode = improved.content.weight_shares, estimate.shares
    assert len(shares) == 500  # of twice as many episodes: neighbours are summed
    assert sum(shares) == pytest.approx(1)
    np.testing.assert_allclose(shares, np.sort(of_episode)[::-1].reshape(500, -1).sum(axis=1))
    of_unit = np.bincount(judging.groups, of_episode)
    effective = 1 / np.sum(of_unit**2)  # every episode has two decisions, so this is the estimate's own
    assert effective == pytest.approx(estimate.effective_sample_size, rel=1e-3)
    assert "How evenly episodes count" in improved.report.read_text()


def test_progress_tells_every_stage_and_no_nan(improved, seen):
    names = list(dict.fromkeys(stage.name for stage in seen.stages))
    assert names == ["learning with opposd", "learning with behaviour-cloning", "certifying"]
    for name in names:
        done = [stage.done for stage in seen.stages if stage.name == name]
        assert done == sorted(done)
        assert done[-1] == next(stage.total for stage in seen.stages if stage.name == name)
    assert not any("nan" in stage.note for stage in seen.stages)
    assert any("V̂" in stage.note for stage in seen.stages)


def test_a_time_budget_stops_learning_and_the_next_call_goes_on(improved, tmp_path):
    """Also where it was stopped before there was a manifest, or between a stretch's metrics and its state."""
    stages = []
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    plan = replace(PLAN, time_budget=1e-3)
    with pytest.MonkeyPatch.context() as patch:
        small.few_steps(patch)
        stopped = improve(log(), CONFIG, plan=plan, out=tmp_path / "run", progress=stages.append)
    assert stopped.stopped == ("opposd", "behaviour-cloning")
    assert sum(stage.note == "stopped by the time budget" for stage in stages) == 2
    assert "The time budget stopped learning with opposd after 6 of 60 updates." in stopped.report.read_text()
    folder = RunFolder.open(tmp_path / "run")
    assert folder.metrics()["value"].shape == (1, 6)  # a tenth, the first checkpoint
    folder.write_metrics({name: np.concatenate([v, v], axis=1) for name, v in folder.metrics().items()})
    resumed = improve(log(), CONFIG, plan=PLAN, out=tmp_path / "run")
    assert resumed.stopped == ()
    assert to_json(resumed.content) == to_json(improved.content)


def test_where_nothing_is_certified_there_is_no_policy_to_deploy(improved, tmp_path, monkeypatch):
    """Nor one that an earlier call left there."""
    small.few_steps(monkeypatch)
    out = tmp_path / "run"
    RunFolder.create(out)
    unclear = improve(log(NEVER), CONFIG, plan=PLAN, out=out)
    improved.policy.save(out / "policy.safetensors")
    unclear = improve(log(NEVER), CONFIG, plan=PLAN, out=out)
    assert unclear.answer != "deploy"
    assert unclear.policy is unclear.policy_file is None
    assert unclear.certificate.step == 0
    assert not (out / "policy.safetensors").exists()
    assert unclear.goal_file.is_file()
    assert RunFolder.open(out).policy()[1] == "the goal, which was not certified"
    assert [worth.role for worth in unclear.content.worths] == ["current", "goal", "other", "other", "other"]
    assert not any(one.deployed or one.passed for one in unclear.content.path)
    assert "deploy: " not in str(unclear).split("\n", 1)[1]
    assert not unclear.next.deploy


def test_of_several_logs_all_are_learned_from_and_the_newest_is_today(tmp_path, monkeypatch):
    """A round later: today is a policy that is known."""
    small.few_steps(monkeypatch)
    first, today = log(), np.array([[0.8, 0.2], [0.2, 0.8], [0.8, 0.2], [0.8, 0.2]])
    newest = log(today)
    learned, judged = [], []
    fit, certify = candidates.fit, improvement.certify
    monkeypatch.setattr(candidates, "fit", lambda data, *a, **k: learned.append(data) or fit(data, *a, **k))
    monkeypatch.setattr(improvement, "certify", lambda *a, **k: judged.append((a[1], k)) or certify(*a, **k))
    second = improve([first, newest], CONFIG, plan=PLAN, out=tmp_path / "run", today=linear(today))
    half = newest.split(0.5, seed=0)
    assert [data.episodes for data in learned] == [EPISODES + EPISODES // 2] * 2
    assert learned[0].rewards.sum() == pytest.approx(first.rewards.sum() + half[0].rewards.sum())
    ((judging, named),) = judged
    assert judging.fingerprint == half[1].fingerprint
    assert named["learning"].fingerprint == half[0].fingerprint
    assert second.certificate.decision.baseline.value == pytest.approx(half[1].returns(1.0).mean())
    assert second.content.settings["episodes"] == {"older logs": EPISODES, "learning": 1000, "judging": 1000}
    gain = value(second.policy) - MDP.value(today, 1.0)
    assert gain >= second.certificate.low > 0
    np.testing.assert_allclose(second.certificate.today.probabilities(np.eye(4)), today)


def test_in_one_log_of_two_loggers_the_newest_is_today(tmp_path, monkeypatch):
    """As if each had a file of its own; what both did is never mixed into one practice."""
    today = np.array([[0.8, 0.2], [0.2, 0.8], [0.8, 0.2], [0.8, 0.2]])
    first, newest = log(units=False), log(today, units=False)
    named = [replace(one, logged_by=np.full(EPISODES, name)) for one, name in ((first, "run-1"), (newest, "run-2"))]
    seen = []
    monkeypatch.setattr(improvement, "learn", lambda data, *rest: seen.append(data) or ({}, {}))

    class Judging(Exception):
        """What would judge is known."""

    def stop(_, judging, **named):
        raise Judging(judging, named["learning"])

    monkeypatch.setattr(improvement, "certify", stop)
    with pytest.raises(Judging) as stopped:
        improve(sw.concat(named), CONFIG, plan=PLAN, out=tmp_path / "run")
    learning, judging = newest.split(0.5, seed=0)
    np.testing.assert_array_equal(seen[0].rewards, np.concatenate([first.rewards, learning.rewards]))
    for part, expected in zip(stopped.value.args, (judging, learning), strict=True):
        np.testing.assert_array_equal(part.rewards, expected.rewards)
        np.testing.assert_array_equal(part.propensities, expected.propensities)
    few = named[1].take(np.arange(9))
    with pytest.raises(ValueError, match="the newest logger, run-2, has 9 episodes: it needs at least 15"):
        improve(sw.concat([named[0], few]), CONFIG, plan=PLAN, out=tmp_path / "run")
    with pytest.raises(Judging) as stopped:
        improve(sw.concat([first, newest]), CONFIG, plan=PLAN, out=tmp_path / "run")
    assert [part.episodes for part in stopped.value.args] == [EPISODES, EPISODES]  # joined as one: nobody named them


def test_where_the_loggers_are_known_rows_are_weighed_by_all_of_them_together(tmp_path, monkeypatch):
    today = np.array([[0.8, 0.2], [0.2, 0.8], [0.8, 0.2], [0.8, 0.2]])
    logs = [log(), log(today)]

    class Learning(Exception):
        """What would be learned from is known."""

    def stop(data, *args, **kwargs):
        raise Learning(data)

    monkeypatch.setattr(candidates, "fit", stop)
    with pytest.raises(Learning) as learning:
        improve(logs, CONFIG, plan=PLAN, out=tmp_path / "run", loggers=[linear(UNIFORM), linear(today)])
    (found,) = learning.value.args
    both = sw.concat([logs[0], logs[1].split(0.5, seed=0)[0]])
    expected = sw.balanced(both, [linear(UNIFORM), linear(today)])
    np.testing.assert_allclose(found.propensities, expected.propensities, rtol=1e-9)
    with pytest.raises(ValueError, match="loggers: expected a policy for each of the 2 logs, or for all but the first"):
        improve(logs, CONFIG, plan=PLAN, out=tmp_path / "other", loggers=[linear(today)] * 3)
    with pytest.raises(ValueError, match="the last of `loggers` is what is done today"):
        improve(logs, CONFIG, plan=PLAN, out=tmp_path / "other", loggers=[linear(today)], today=linear(today))


def test_a_practice_that_cannot_be_saved_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(
        ValueError, match="today: expected a policy that has a file of its own, got a function; without"
    ):
        improve(log(), CONFIG, plan=PLAN, out=tmp_path / "run", today=lambda seen: seen @ UNIFORM)
    assert not (tmp_path / "run").exists()


def test_where_nothing_further_is_known_no_chance_is_given(improved, partly):
    """At the goal, and where the next step is not identified."""
    for found in (improved, partly):
        assert found.next.chance == 0
        assert found.next.sentence == (
            "Log about 2,000 episodes of the policy to deploy, with the probability of every decision, and improve "
            "again: only that log can tell how much further it goes."
        )


def test_logs_that_do_not_fit_together_are_refused_before_anything_is_written(tmp_path):
    other = replace(log(), observation_names=("a", "b", "c", "d"))
    with pytest.raises(ValueError, match="observation"):
        improve([log(), other], CONFIG, plan=PLAN, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_log_from_which_nothing_can_come_is_refused_before_anything_is_written(tmp_path):
    few = log(units=False).take(np.arange(14))
    with pytest.raises(
        ValueError, match="the log has 14 episodes: it needs at least 15, so that training and evaluation use separate"
    ):
        improve(few, CONFIG, plan=PLAN, out=tmp_path / "run")
    with pytest.raises(ValueError, match="the log has 14 units"):
        improve(log().take(np.arange(28)), CONFIG, plan=PLAN, out=tmp_path / "run")
    made = log()
    ones = {"actions": np.zeros_like(made.actions), "action_count": 1, "action_names": (), "distributions": None}
    with pytest.raises(ValueError, match="a single action"):
        improve(replace(made, **ones), CONFIG, plan=PLAN, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_propensities_that_were_not_logged_are_estimated_on_each_part(tmp_path, monkeypatch):
    small.few_steps(monkeypatch)
    small.few_refits(monkeypatch)
    bare = replace(log(), propensities=None, distributions=None)
    plan = replace(PLAN, propensities="logistic")
    improvement = improve(bare, CONFIG, plan=plan, out=tmp_path / "run")
    assert improvement.content.calibration is not None
    assert "estimated-propensities" in {measure.name for measure in improvement.content.measures}
    certificate = improvement.certificate
    assert improvement.content.measures == certificate.decision.measures
    # report and card show the same bound, widened because propensities were estimated
    assert improvement.content.worth("gain").low == certificate.low
    assert sw.load_policy(improvement.policy_file).card["certified"]["low"] == pytest.approx(certificate.low)


def test_parts_of_an_estimated_log_are_estimated_again_each_by_itself():
    """By the log's own model, so that no part's propensities have seen another part."""
    bare = replace(log(), propensities=None, distributions=None)
    part = sw.estimate_propensities(bare, "logistic").split(0.5)[0]
    alone = sw.estimate_propensities(bare.split(0.5)[0], "logistic")
    again = improvement._with_propensities(part, replace(PLAN, propensities="boosting"), lambda stage: None)
    np.testing.assert_array_equal(again.distributions, alone.distributions)
    assert not np.array_equal(again.distributions, part.distributions)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"discount": 1.5}, "discount: expected a number above 0 and at most 1, got 1.5"),
        ({"seeds": 0}, "seeds: expected 1 or more, got 0"),
        ({"updates": 0}, "updates: expected 1 or more, got 0"),
        ({"time_budget": -1.0}, "time_budget: expected seconds, above 0, got -1.0"),
        ({"level": 1.0}, "level: expected a number between 0.5 and 1, got 1.0"),
        ({"seed": -1}, "seed: expected 0 or more, got -1"),
        ({"propensities": "magic"}, "propensities: expected one of boosting, logistic, got 'magic'"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(change, sentence):
    with pytest.raises(ValueError, match="expected") as refusal:
        Plan(**change)
    assert str(refusal.value) == sentence


def test_a_discount_that_is_asked_for_twice_must_be_the_same(tmp_path):
    with pytest.raises(ValueError, match=r"discount: the settings say 0\.9, the plan 0\.8; set it in one of them"):
        improve(log(), sw.OPPOSD(discount=0.9), plan=Plan(discount=0.8), out=tmp_path / "run")


def test_an_algorithm_that_does_not_exist_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="there is no algorithm 'magic'; choose from opposd, offpac"):
        improve(log(), "magic", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_settings_without_a_value_take_what_their_type_allows():
    config = changed(sw.OPPOSD(), {"horizon": 50, "critic": {"clip": 3, "discount": 0.9}})
    assert (config.horizon, config.critic.clip, config.critic.discount) == (50, 3.0, 0.9)
    assert changed(config, {"horizon": None}).horizon is None
    with pytest.raises(ValueError, match=r"critic.clip: expected a number, got 'big'"):
        changed(sw.OPPOSD(), {"critic": {"clip": "big"}})
    emphatic = changed(sw.OffPAC(), {"emphasis": {}})
    assert emphatic.emphasis is not None


# On the command line


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["statewise", "improve", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            statewise.cli.main()
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=ended.value.code or 0, stdout=out, stderr=err)

    return run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds = ", "plan.toml: not a TOML file"),
        ("sedes = 3", "plan.toml: improve has no option 'sedes'; did you mean 'seeds'?"),
        ("seeds = 'three'", "Invalid value for '--seeds': 'three' is not a valid integer range"),
        ("discount = 'half'", "Invalid value for '--discount': 'half' is not a valid float range"),
        ("level = 'high'", "level: expected a number, got 'high'"),
        ("time_budget = '5 minutes'", "expected a time such as 90s, 5m or 1h, got '5 minutes'"),
        ("[settings.critic]\nstep = 3", "settings.critic.step: there is no such setting; did you mean 'steps'?"),
        ("[settings]\ncritic = 3", "settings.critic: expected a table, got 3"),
        ("[settings.actor]\nhidden = ['wide']", "settings.actor.hidden[0]: expected a whole number, got 'wide'"),
    ],
)
def test_a_wrong_settings_file_is_answered_by_a_sentence(run, tmp_path, text, message):
    log().save(tmp_path / "log.parquet")
    (tmp_path / "plan.toml").write_text(text)
    out = run(tmp_path / "log.parquet", "--config", tmp_path / "plan.toml", "--out", tmp_path / "run")
    assert out.returncode == 2
    assert message in " ".join(out.stderr.split())
    assert not (tmp_path / "run").exists()


def test_the_command_tells_a_person_and_a_machine(run, tmp_path, improved, monkeypatch):
    path = tmp_path / "log.parquet"
    log().save(path)
    tables = [f"[settings.{name}]\n{_toml(values)}" for name, values in SETTINGS.items()]
    (tmp_path / "plan.toml").write_text(
        "\n".join(["seeds = 1", "updates = 60", "beside = ['behaviour-cloning']", *tables])
    )
    monkeypatch.setattr(
        "statewise.cli.improve.improve", lambda *_, progress, **__: progress(Stage("learning by x", 1, 2)) or improved
    )
    out = run(path, "--config", tmp_path / "plan.toml")
    assert out.returncode == 0, out.stderr
    assert "Deploy" in out.stdout
    assert str(improved.report) in "".join(out.stdout.split("\n"))
    shown = " ".join(out.stdout.replace("│", " ").split())
    certificate = improved.certificate
    assert spoken(certificate.hidden_reason) in shown
    today = certificate.decision.baseline.value
    assert f"deploy this {today + certificate.difference:.4g}, at least {today + certificate.low:.4g}" in shown
    assert f"log this next {improved.next.sentence}" in shown
    assert f"the goal {certificate.candidate}, chosen for what the learning episodes promise: " in shown
    assert "100 % deploy" in shown
    measures = certificate.decision.measures
    for measure in measures:
        doubtful = measure.outcome in ("bad", "doubtful")
        assert (f"{measure.outcome} {measure.title}: {measure.sentence}." in shown) == doubtful
    assert f"✓ {sum(measure.outcome == 'good' for measure in measures)} good" in shown
    assert len(out.stdout.splitlines()) <= 40
    assert "learning by x: 1 of 2" in out.stderr
    units = EPISODES // 4
    assert f"learning from {units} units, by opposd, behaviour-cloning" in " ".join(out.stderr.split())
    brief = run(path, "--config", tmp_path / "plan.toml", "--brief")
    assert brief.stderr == ""
    said = " ".join(brief.stdout.split())
    assert f"{certificate.reason[1:]}. next {improved.next.sentence} deploy " in said
    assert "check" not in said
    assert len(brief.stdout.splitlines()) <= 12
    monkeypatch.undo()

    # called again, with the same log and plan, it learns nothing and says the same
    def written():
        """Without the name of the log, which at first came from arrays, and its rows."""
        decision = json.loads((improved.folder / "decision.json").read_text())
        del decision["facts"]["names"], decision["flow"][0]
        return decision, (improved.folder / "manifest.json").read_text()

    before = written()
    monkeypatch.setattr("statewise.learning.program.Compiled.advance", None)
    again = run(path, "--config", tmp_path / "plan.toml", "--out", improved.folder, "--json")
    assert again.stderr == ""
    printed = json.loads(again.stdout)
    assert printed["answer"] == "deploy"
    assert printed["policy"] == str(improved.policy_file)
    assert printed["goal"]["file"] == str(improved.goal_file)
    assert printed["goal"]["value"] == pytest.approx(certificate.goal.estimate.value)
    assert printed["gain"] == pytest.approx({"difference": certificate.difference, "at_least": certificate.low})
    assert [one["step"] for one in printed["tried"]] == [one.step for one in certificate.tried]
    assert printed["next"]["sentence"] == improved.next.sentence
    assert printed["hidden_reason"] == pytest.approx(certificate.hidden_reason)
    assert printed["verdict"] == certificate.decision.verdict
    assert [one["name"] for one in printed["measures"]] == [one.name for one in certificate.decision.measures]
    assert printed["stopped_by_time"] == []
    after = written()
    after[0]["flow"] = after[0]["flow"][-len(before[0]["flow"]) :]
    assert before == after


@pytest.mark.parametrize("steps", [3, 10, 15, 97, 2000])
def test_without_a_terminal_a_stage_has_ten_lines_at_most(steps, capsys):
    from rich.console import Console

    from statewise.cli.improve import _watched
    from statewise.cli.progress import Watch

    with Watch(Console(stderr=True)) as watch:
        show = _watched(watch)
        for name in ("learning", "choosing"):
            for done in range(1, steps + 1):
                show(Stage(name, done, steps))
    lines = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("learning") for line in lines) == min(steps, 10)
    assert lines[-1] == f"choosing: {steps:,} of {steps:,}"


def _toml(values) -> str:
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    tables = {name: value for name, value in values.items() if isinstance(value, dict)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items()]
    return "\n".join(lines + [f"{name} = {{{_toml(value)}}}" for name, value in tables.items()])


def test_the_command_takes_settings_from_the_preset():
    from statewise.cli.improve import _asked

    none = {"propensity_model": None}
    quick, plan = _asked({"preset": "quick"}, none | {"discount": 0.9})
    usual, _ = _asked({"settings": {"critic": {"trace": 0.5}}}, none)
    assert quick.updates < usual.updates
    assert quick.actor.learning_rate > usual.actor.learning_rate
    assert usual.critic.trace == 0.5
    assert plan.discount == 0.9
    assert plan.beside[0].updates == quick.updates
    with pytest.raises(click.UsageError, match="preset: expected one of default, quick, got 'paper-hiv'"):
        _asked({"preset": "paper-hiv"}, none)
