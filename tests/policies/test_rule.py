"""The rule is right about a policy that is a rule, honest about one that is not, and its words hold where it counts."""

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.policies.rule import rule_of

COUNT = 600


def frame(seed=0):
    rng = np.random.default_rng(seed)
    ward = rng.choice(["ICU", "North", "South"], COUNT)
    return pl.DataFrame({
        "episode": range(COUNT), "step": [0] * COUNT, "action": rng.choice(["none", "drug A", "drug B"], COUNT),
        "reward": rng.normal(size=COUNT), "propensity": [1 / 3] * COUNT, "terminated": [True] * COUNT,
        "obs_age": np.round(rng.uniform(20, 90, COUNT)), "obs_ward": ward, "obs_noise": rng.normal(size=COUNT),
    })  # fmt: skip


def drugs(observations):
    """Drug A up to 60 years of age; beyond, drug B in the ICU and none elsewhere. Names sort as A, B, none."""
    age, icu = observations[:, 0], observations[:, 1] == 1
    return np.where(age <= 60, 0, np.where(icu, 1, 2))


@pytest.fixture(scope="module")
def parts():
    return sw.load(frame()).split(0.5, seed=0)


def test_a_rule_is_found_again(parts):
    learning, held_out = parts
    rule = rule_of(drugs, learning, held_out)
    assert {branch.conditions: branch.action for branch in rule.branches} == {
        ("age ≤ 60",): "drug A",
        ("age > 60", "ward is ICU"): "drug B",
        ("age > 60", "ward is not ICU"): "none",
    }
    assert rule.fidelity == 1.0
    assert rule.decisions == len(held_out)
    chosen = np.bincount(drugs(held_out.observations))
    assert rule.commonest == pytest.approx(chosen.max() / len(held_out))
    assert sum(branch.share for branch in rule.branches) == pytest.approx(1)
    first = next(branch for branch in rule.branches if branch.action == "drug A")
    young = held_out.observations[:, 0] <= 60
    assert first.share == pytest.approx(young.mean())
    assert first.log == pytest.approx((held_out.actions[young] == 0).mean())
    assert first.policy == 1.0


def test_its_fidelity_is_counted_on_other_decisions(parts):
    learning, held_out = parts
    noise = np.random.default_rng(5).integers(3, size=COUNT)
    by_id = dict(zip(range(COUNT), noise, strict=True))

    class Arbitrary:  # what it does depends on nothing in the log
        def on(self, dataset):
            return np.array([by_id[int(episode)] for episode in dataset.episode_ids])

    rule = rule_of(Arbitrary(), learning, held_out)
    assert rule.fidelity < 0.45  # a third by chance


def test_an_undecided_policy_is_said_to_be(parts):
    learning, held_out = parts
    rule = rule_of(lambda observations: np.tile([0.4, 0.35, 0.25], (len(observations), 1)), learning, held_out)
    (branch,) = rule.branches
    assert (branch.conditions, branch.action) == ((), "drug A")
    assert branch.policy == pytest.approx(0.4)
    assert (rule.fidelity, rule.commonest) == (1.0, 1.0)


def test_thresholds_are_rounded_as_shown_and_still_counted_exactly(parts):
    learning, held_out = parts

    def fine(observations):  # the boundary lies between what three digits can say
        return (observations[:, 3 + 1] > 0.12345).astype(int)

    rule = rule_of(fine, learning, held_out)
    above = next(branch for branch in rule.branches if branch.action == "drug B")
    (condition,) = above.conditions
    threshold = float(condition.removeprefix("noise > "))
    inside = held_out.observations[:, 4] > threshold
    assert above.share == pytest.approx(inside.mean())
    assert rule.fidelity == pytest.approx((inside == (held_out.observations[:, 4] > 0.12345)).mean())
    assert rule.fidelity > 0.98
