"""`improve`, on a problem of two steps whose every value is known exactly."""

import io
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import click
import numpy as np
import polars as pl
import pytest
from rich.console import Console

import statewise as sw
import statewise.cli
from statewise import improvement
from statewise.base.decode import changed
from statewise.cli.decision import hidden_reason
from statewise.cli.evaluate import _warn_of_training_data
from statewise.data.horizon import sentence
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.improvement import Plan, Stage, improve
from statewise.learning.runs import RunFolder
from statewise.policies.network import Policy
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


def log(behaviour=UNIFORM, units=True) -> sw.Dataset:
    made = collect_tabular(MDP, behaviour, EPISODES, 2, seed=0)
    return replace(made, units=np.arange(EPISODES) // 2) if units else made


@pytest.fixture(scope="module")
def seen():
    """The data that learning, choosing and evaluation received, and the stages that were reported."""
    return SimpleNamespace(learned=[], chosen=[], judged=[], parts=[], stages=[])


@pytest.fixture(scope="module")
def improved(tmp_path_factory, seen):
    def spied(function, *lists):
        def call(*arguments, **named):
            for place, into in lists:
                into.append(named[place] if isinstance(place, str) else arguments[place])
            return function(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(improvement, "fit", spied(improvement.fit, (0, seen.learned)))
        patch.setattr(improvement, "choose", spied(improvement.choose, (1, seen.chosen)))
        patch.setattr(improvement, "gate", spied(improvement.gate, (1, seen.judged), ("part", seen.parts)))
        return improve(
            log(), CONFIG, plan=PLAN, out=tmp_path_factory.mktemp("improved") / "run", progress=seen.stages.append
        )


def test_a_better_policy_that_the_log_supports_is_to_be_deployed(improved):
    assert improved.decision.answer == "deploy"
    assert improved.algorithm == "opposd"
    exact = MDP.value(improved.policy.probabilities(np.eye(4)), 1.0)
    assert exact > MDP.value(UNIFORM, 1.0) + 0.3
    estimate = improved.decision.estimate
    assert estimate.verdict == "supported"
    assert abs(estimate.value - exact) < 3.5 * estimate.standard_error
    assert "deploy" in str(improved)
    assert str(improved.report) in str(improved)


def test_the_three_parts_share_no_unit(improved, seen):
    learn, choose, judge = ([set(part.units) for part in parts] for parts in (seen.learned, seen.chosen, seen.judged))
    for parts in (learn, choose, judge):
        assert all(part == parts[0] for part in parts)  # of every algorithm
    assert not learn[0] & choose[0]
    assert not learn[0] & judge[0]
    assert not choose[0] & judge[0]
    assert learn[0] | choose[0] | judge[0] == set(range(EPISODES // 2))


def test_the_policy_file_says_what_it_is_worth(improved):
    kept = Policy.load(improved.policy_file)
    card, estimate = kept.full_card()["estimate"], improved.decision.estimate
    assert (card["answer"], card["verdict"], card["estimator"]) == ("deploy", "supported", "doubly-robust-state-ratio")
    assert (card["value"], card["low"], card["high"]) == pytest.approx((estimate.value, estimate.low, estimate.high))
    np.testing.assert_array_equal(kept.probabilities(np.eye(4)), improved.policy.probabilities(np.eye(4)))
    assert RunFolder.open(improved.folder).policy()[1] == "the policy that was chosen for this run"


def test_metrics_are_kept_as_parquet(improved):
    for folder in (improved.folder, improved.folder / "beside" / "behaviour-cloning"):
        metrics = pl.read_parquet(folder / "metrics.parquet")
        assert metrics["update"].to_list() == list(range(1, 61))
    kept = RunFolder.open(improved.folder).metrics()
    np.testing.assert_array_equal(pl.read_parquet(improved.folder / "metrics.parquet")["value"], kept["value"][0])


def test_judging_on_the_log_that_taught_is_warned_of(improved):
    run, policy = RunFolder.open(improved.folder), Policy.load(improved.policy_file)
    for data, warned in ((log(), True), (log(STUBBORN), False)):
        for folder, judged in ((run, run.policy()[0]), (None, policy)):
            console = Console(file=io.StringIO(), width=200)
            _warn_of_training_data(data, folder, judged, console)
            assert ("trained on these very episodes" in console.file.getvalue()) == warned


def test_the_decision_can_be_read_back(improved):
    text = (improved.folder / "decision.json").read_text()
    read = from_json(text)
    assert read == from_json(to_json(read))
    assert replace(read, settings={}) == replace(improved.content, settings={})
    assert from_run(RunFolder.open(improved.folder)).answer == "deploy"
    assert {curve.run for curve in read.curves} == {"opposd", "behaviour-cloning"}
    assert not any(curve.metric == "value" for curve in read.curves if curve.run == "behaviour-cloning")


def test_the_report_says_how_far_the_value_counts(improved):
    judging = log().split(0.6, 0.2, seed=0)[2]
    assert improved.content.counted == sentence(judging, 1.0)
    assert improved.content.counted in improved.report.read_text()


def test_the_report_says_what_would_turn_the_answer_over(improved):
    assert improved.content.hidden_reason == improved.decision.hidden_reason > 1
    assert hidden_reason(improved.decision) in improved.report.read_text()


def test_how_many_episodes_would_settle_it_counts_the_whole_log(improved, seen):
    assert seen.parts == [pytest.approx(0.2)] * 2  # of two algorithms


def test_the_report_shows_how_evenly_episodes_count(improved):
    shares = improved.content.weight_shares
    assert len(shares) == EPISODES // 5
    assert sum(shares) == pytest.approx(1)
    of_episode = improved.decision.estimate.shares
    np.testing.assert_allclose(shares, sorted(of_episode, reverse=True))
    of_unit = np.bincount(log().split(0.6, 0.2, seed=0)[2].groups, of_episode)
    effective = 1 / np.sum(of_unit**2)  # every episode has two decisions, so this is the estimate's own
    assert effective == pytest.approx(improved.decision.estimate.effective_sample_size, rel=1e-3)
    assert "How evenly episodes count" in improved.report.read_text()


def test_progress_tells_every_stage_and_no_nan(improved, seen):
    names = list(dict.fromkeys(stage.name for stage in seen.stages))
    assert names == [
        "learning with opposd",
        "learning with behaviour-cloning",
        "choosing from opposd",
        "choosing from behaviour-cloning",
        "evaluating",
    ]
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
    stopped = improve(log(), CONFIG, plan=replace(PLAN, time_budget=1e-3), out=tmp_path / "run", progress=stages.append)
    assert stopped.stopped == ("opposd", "behaviour-cloning")
    assert sum(stage.note == "stopped by the time budget" for stage in stages) == 2
    assert "The time budget stopped learning with opposd after 6 of 60 updates." in stopped.report.read_text()
    folder = RunFolder.open(tmp_path / "run")
    assert folder.metrics()["value"].shape == (1, 6)  # a tenth, the first checkpoint
    folder.write_metrics({name: np.concatenate([v, v], axis=1) for name, v in folder.metrics().items()})
    resumed = improve(log(), CONFIG, plan=PLAN, out=tmp_path / "run")
    assert resumed.stopped == ()
    assert to_json(resumed.content) == to_json(improved.content)


def test_what_the_log_cannot_tell_is_never_deployed(tmp_path):
    """The good actions are so rare that the few episodes which hold them cannot say what they are worth."""
    unclear = improve(log(STUBBORN), CONFIG, plan=PLAN, out=tmp_path / "run")
    assert unclear.policy.probabilities(np.eye(4))[2, 0] > 0.5  # what was learned is indeed something else
    assert unclear.decision.estimate.verdict == "not identified"
    assert unclear.decision.answer == "collect more data"
    card = Policy.load(unclear.policy_file).full_card()["estimate"]
    assert card["answer"] == unclear.decision.answer
    assert card["value"] is card["low"] is None
    assert unclear.content.worth("chosen").value is None
    assert not any(worth.role == "gain" for worth in unclear.content.worths)


def test_a_log_from_which_nothing_can_come_is_refused_before_anything_is_written(tmp_path):
    few = log(units=False).take(np.arange(14))
    with pytest.raises(
        ValueError, match="the log has 14 episodes: it needs at least 15, so that training, selection and evaluation"
    ):
        improve(few, CONFIG, plan=PLAN, out=tmp_path / "run")
    with pytest.raises(ValueError, match="the log has 14 units"):
        improve(log().take(np.arange(28)), CONFIG, plan=PLAN, out=tmp_path / "run")
    made = log()
    ones = {"actions": np.zeros_like(made.actions), "action_count": 1, "action_names": (), "distributions": None}
    with pytest.raises(ValueError, match="a single action"):
        improve(replace(made, **ones), CONFIG, plan=PLAN, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_propensities_that_were_not_logged_are_estimated_on_each_part(tmp_path):
    bare = replace(log(), propensities=None, distributions=None)
    plan = replace(PLAN, propensities="logistic")
    improvement = improve(bare, CONFIG, plan=plan, out=tmp_path / "run")
    assert improvement.content.calibration is not None
    assert "estimated-propensities" in {measure.name for measure in improvement.content.measures}
    assert improvement.content.measures == improvement.decision.measures
    # report and card show the same interval, widened because propensities were estimated
    card = Policy.load(improvement.policy_file).full_card()["estimate"]
    assert (card["low"], card["high"]) == pytest.approx(
        (improvement.decision.estimate.low, improvement.decision.estimate.high)
    )


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
        ({"level": 1.0}, "level: expected a number between 0 and 1, got 1.0"),
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
    assert hidden_reason(improved.decision) in shown
    assert f"gain {improved.decision.difference:.4g} ({improved.decision.low:.4g} to " in shown
    for measure in improved.decision.measures:
        assert f"{measure.outcome} {measure.title}: {measure.sentence}." in shown
    assert "learning by x: 1 of 2" in out.stderr
    monkeypatch.undo()
    # called again, with the same log and plan, it learns nothing and says the same
    before = [(improved.folder / name).read_text() for name in ("decision.json", "manifest.json", "report.html")]
    monkeypatch.setattr("statewise.learning.program.Compiled.advance", None)
    again = run(path, "--config", tmp_path / "plan.toml", "--out", improved.folder, "--json")
    assert again.stderr == ""
    printed = json.loads(again.stdout)
    assert printed["answer"] == "deploy"
    assert printed["policy"]["value"] == pytest.approx(improved.decision.estimate.value)
    assert printed["hidden_reason"] == pytest.approx(improved.decision.hidden_reason)
    assert printed["verdict"] == improved.decision.verdict
    assert [one["name"] for one in printed["measures"]] == [one.name for one in improved.decision.measures]
    assert printed["stopped_by_time"] == []
    assert before == [
        (improved.folder / name).read_text() for name in ("decision.json", "manifest.json", "report.html")
    ]
    assert math.isfinite(printed["gain"]["low"])


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
