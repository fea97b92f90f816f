"""Reports for tests: invented numbers, but everything that a page can show."""

from dataclasses import replace
from functools import cache

import numpy as np

import statewise as sw
from statewise.data.readable import columns_of
from statewise.ope.examples import examples_of
from statewise.ope.measures import Measurement
from statewise.ope.subgroups import GroupGain
from statewise.ope.who_loses import Changes
from statewise.policies.network import Policy
from statewise.policies.rule import rule_of
from statewise.report.compare import action_map, agreement
from statewise.report.content import (
    Calibration,
    Carrier,
    Checkpoint,
    Curve,
    Histogram,
    NextLog,
    PathStep,
    Place,
    ReportContent,
    Situation,
    Worth,
)
from statewise.report.facts import FlowStep, LogFacts

NAMES = ("age", "cell_count", "viral_load", "visits")
ACTIONS = ("none", "drug A", "drug B", "both")


def log_and_policy() -> tuple[sw.Dataset, Policy]:
    """A log of random actions, and a policy that looks at columns 1 and 2 alone."""
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(40, 100, 4)) * [12, 180, 1.2, 3] + [45, 520, 4, 6]
    dataset = sw.Dataset.from_episodes(
        observations=list(observations),
        actions=list(rng.choice(4, p=[0.4, 0.3, 0.2, 0.1], size=(40, 100))),
        rewards=list(rng.normal(size=(40, 100))),
        propensities=list(np.full((40, 100), 0.25)),
        terminated=[False] * 40,
        observation_names=NAMES,
    )
    weight = np.zeros((4, 4))
    weight[1], weight[2] = [3, 1, -1, -3], [-2, 2, -2, 2]
    policy = Policy((weight,), (np.zeros(4),), np.array([45, 520, 4.0, 6]), np.array([12, 180, 1.2, 3]), NAMES, ACTIONS)
    return dataset, policy


@cache
def example() -> ReportContent:
    rng = np.random.default_rng(1)
    dataset, policy = log_and_policy()
    updates = np.arange(1, 2001)
    curves = [
        Curve(metric, "OPPOSD", seed, tuple(updates.tolist()), tuple(values.tolist()))
        for seed in range(5)
        for metric, values in {
            "value": 20 + (8 + seed) * (1 - np.exp(-updates / 400)) + rng.normal(size=2000),
            "ratio_ess": np.clip(0.35 + 0.6 * np.exp(-updates / 500) + 0.02 * rng.normal(size=2000), 0, 1),
            "entropy": 0.3 + np.exp(-updates / 600) + 0.02 * rng.normal(size=2000),
        }.items()
    ]
    checkpoints = [
        Checkpoint("OPPOSD", seed, update, "supported", value, value - 2.2 - update / 900, value + 2.2 + update / 900)
        if not (seed == 3 and update > 1400)
        else Checkpoint("OPPOSD", seed, update, "not identified")
        for seed in range(5)
        for update in range(200, 2001, 200)
        for value in [20 + seed / 2 + 9 * float(np.exp(-(((update - 1100) / 700) ** 2))) + float(rng.normal())]
    ]
    shares = np.sort(rng.exponential(size=150) ** 2)[::-1]
    shares /= shares.sum()
    heights = np.exp(-(np.linspace(-2.5, 1.5, 24) ** 2))
    predicted = np.linspace(0.05, 0.95, 10)
    return ReportContent(
        answer="deploy",
        because="On 150 held-out episodes the new policy earns 27.9 an episode, current practice 21.4; even the lower "
        "end of its interval, 24.1, is above the upper end of current practice, 22.6.",
        hidden_reason=2.18,
        title="Treatment log, 500 patients: should the new policy be used?",
        value_name="discounted return of an episode",
        counted="Episodes are cut off at step 100, the limit: the value counts up to it.",
        worths=(
            Worth("current practice", "current", "supported", "mean of logged returns", 21.4, 20.2, 22.6, 150.0),
            Worth("the new policy", "chosen", "supported", "state-ratio, doubly robust", 27.9, 24.1, 31.7, 84.3),
            Worth("the goal (OPPOSD)", "goal", "weak", "state-ratio, doubly robust", 33.9, 19.6, 48.2, 21.0),
            Worth("gain over current practice", "gain", "supported", "paired bootstrap", 6.5, 2.6, 10.4),
            Worth("Off-PAC, best checkpoint", "other", "weak", "state-ratio, doubly robust", 25.1, 19.0, 31.9, 31.2,
                  "few episodes carry most of the weight"),
            Worth("behaviour cloning", "other", "supported", "state-ratio, doubly robust", 21.9, 20.1, 23.8, 141.0),
            Worth("fitted Q", "other", "not identified", "state-ratio, doubly robust", effective_sample_size=4.2,
                  reason="it acts where the log has hardly been: 61 % of its weight lies on 3 episodes"),
        ),
        measures=(
            Measurement("even-weights", "No single episode decides", "doubtful", "the heaviest episode carries 4.8 %",
                        "If one episode decides, another log could have said the opposite.", 0.08, (0.05, 0.5)),
            Measurement("tried-actions", "Actions that were tried", "not made", "whole distributions were not logged",
                        "Where the log never did what is proposed, it cannot tell what would have happened.", None,
                        (0.01, 0.05)),
            Measurement("enough-episodes", "Enough episodes", "good", "84 of 150 episodes carry it",
                        "How many episodes really carry the estimate.", 84.0, (30.0, 10.0)),
            Measurement("estimated-propensities", "Propensities", "good", "largest gap 3 %",
                        "They were estimated; estimated probabilities and real frequencies agree.", 0.4, (1.0, None)),
        ),
        path=(PathStep(0.1, "supported", 1.4, 0.9, passed=True), PathStep(0.44, "supported", 6.5, 2.6, True, True),
              PathStep(0.6, "weak", 8.1, -1.2), PathStep(0.7, "not identified")),
        next_log=NextLog("Log about 500 episodes of the policy to deploy.", 500, 0.83,
                         (Situation("cell_count ≤ 340", 0.21, "both", 0.1, 0.48),)),
        facts=LogFacts(("treatment.csv",), 4000, 500, 0.98, "most episodes were cut off", "outcome", "visit_id",
                       "patient", 480, "2019-03-01", "2023-11-30"),
        step=0.44,
        goal_name="OPPOSD",
        rule=rule_of(policy, dataset, dataset),
        subgroups=(GroupGain("age ≤ 61", "age", 80, 9.1, 3.2, 15.0), GroupGain("age > 61", "age", 70, 3.5, -2.0, 9.0),
                   GroupGain("ward: ICU", "ward", 40, -8.0, -14.5, -1.5)),
        changes=Changes(0.12, 5.9, (-3.0, 0.0, 3.0, 6.0, 9.0), (0.12, 0.2, 0.4, 0.28),
                        (GroupGain("the lower half", "", 75, 2.0, -3.0, 7.0),
                         GroupGain("the upper half", "", 75, 11.0, 4.0, 1018.0))),
        periods=(GroupGain("first quarter", "", 38, 6.0, 1.0, 11.0), GroupGain("last quarter", "", 37, 7.0, 2.0, 12.0)),
        estimators=(Worth("doubly-robust-state-ratio", "other", "supported", "x", 27.9, 24.1, 31.7, 84.3),
                    Worth("importance", "other", "not identified", "x", reason="too few episodes carry it")),
        examples=examples_of(dataset, policy.probabilities(dataset.observations), np.full((len(dataset), 4), 0.25),
                             columns_of(dataset)),
        flow=(FlowStep("4,040", "rows in the log"), FlowStep("4,000", "decisions", "40 more say where episodes ended"),
              FlowStep("150", "episodes to judge by, kept out of every choice")),
        overlap=Histogram(tuple(np.geomspace(0.01, 20, 25).tolist()), tuple((heights / heights.sum()).tolist())),
        weight_shares=tuple(shares.tolist()),
        calibration=Calibration(tuple(predicted.tolist()),
                                tuple((predicted + rng.normal(size=10) * 0.015).tolist()),
                                tuple(rng.integers(50, 900, size=10).tolist())),
        checkpoints=tuple(checkpoints),
        chosen=Place("OPPOSD", 4, 1000),
        action_map=action_map(policy, dataset),
        agreement=agreement(policy, dataset),
        carriers=tuple(Carrier(f"patient-{1000 + 37 * i}", float(share), float(rng.normal(25, 6)))
                       for i, share in enumerate(shares[:10])),
        notes=("Log: treatment.csv, 500 episodes of 480 patients: 250 to learn from, 100 to choose by, 150 to judge "
               "by; no patient is in two of them.",),
        settings={"discount": 0.98, "algorithm": "OPPOSD", "actor": {"hidden": [32, 32], "learning_rate": 0.001}},
        curves=tuple(curves),
        manifest={"algorithm": "OPPOSD", "seeds": [0, 1, 2, 3, 4], "data": "9f2c" * 16,
                  "versions": {"statewise": "0.1.0", "jax": "0.10.2", "numpy": "2.4.6", "python": "3.11.9"}},
        folder="runs/treatment",
    )  # fmt: skip


def refused() -> ReportContent:
    """Nothing is identified: no number may stand for the new policy."""
    content = example()
    worths = (
        content.worths[0],
        Worth("the goal (OPPOSD)", "goal", "not identified", "state-ratio, doubly robust", effective_sample_size=2.1,
              reason="two episodes carry 93 % of the weight"),
    )  # fmt: skip
    return replace(
        content,
        answer="collect more data",
        because="The log holds too little of what the new policy would do to say what it is worth.",
        worths=worths,
        path=(PathStep(0.02, "not identified"),),
        next_log=NextLog("More episodes of what is done today would not help."),
    )
