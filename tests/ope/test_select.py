"""Choosing a checkpoint: by lower bound where the log can tell, the last one where it cannot, and an honest report."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import statewise as sw
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.ope.select import DRAWS, best_of

STATES, ACTIONS = 4, 2
MDP = TabularMDP.random(STATES, ACTIONS, seed=3, termination=0.3)
BEHAVIOUR = np.random.default_rng(0).dirichlet([4.0, 4.0], size=STATES)
GREEDY = np.eye(ACTIONS)[MDP.action_values(BEHAVIOUR, 1.0).argmax(axis=1)]


def of(table):
    return lambda seen: seen @ table


def towards(share, table=GREEDY):
    return (1 - share) * BEHAVIOUR + share * table


@pytest.fixture(scope="module")
def log():
    return collect_tabular(MDP, BEHAVIOUR, 600, 40, seed=0)


@pytest.fixture(scope="module")
def rise_and_fall():
    """Checkpoints that get better until update 3, and then fall back and below where they began."""
    shares = {1: 0.15, 2: 0.3, 3: 0.45, 4: 0.1}
    tables = {(0, update): towards(share) for update, share in shares.items()}
    tables[0, 5] = towards(0.4, 1 - GREEDY)
    return tables


# The rule, on estimates made up


@pytest.fixture(scope="module")
def example(log):
    return sw.evaluate(of(BEHAVIOUR), log, "per-decision")


def made(example, value, error=0.1, shared=1.0, verdict="supported", seed=0):
    """An estimate whose influences are `shared` with others of the same example but for noise."""
    n = len(example.influence)
    common = np.random.default_rng(0).normal(size=n)
    own = np.random.default_rng(seed + 1).normal(size=n)
    influence = error * np.sqrt(n) * (np.sqrt(shared) * common + np.sqrt(1 - shared) * own)
    return replace(
        example,
        value=value,
        low=value - 2 * error,
        high=value + 2 * error,
        standard_error=error,
        influence=influence - influence.mean(),
        verdict=verdict,
        reason="because",
    )


def test_a_clear_winner_is_chosen(example, log):
    scores = {(0, 1): made(example, 1.0), (0, 2): made(example, 2.0), (0, 3): made(example, 1.2)}
    place, decisive, reason = best_of(scores, log, 0.95)
    assert place == (0, 2)
    assert decisive
    assert "better than the last iterate by 0.8" in reason


def test_the_bound_counts_and_not_the_value(example, log):
    scores = {(0, 1): made(example, 2.0, error=0.6), (0, 2): made(example, 1.5, error=0.1)}
    assert best_of(scores, log, 0.95)[0] == (0, 2)


def test_noise_is_not_chosen_over_the_last_iterate(example, log):
    """The same lead is noise where errors are the checkpoints' own, and plain where they are shared."""
    lead = {1: 1.0, 2: 1.15, 3: 1.0}
    noisy = {(0, u): made(example, value, shared=0.0, seed=u) for u, value in lead.items()}
    place, decisive, reason = best_of(noisy, log, 0.95)
    assert place == (0, 3)
    assert not decisive
    assert "may be so by chance" in reason
    paired = {(0, u): made(example, value, shared=0.99, seed=u) for u, value in lead.items()}
    assert best_of(paired, log, 0.95)[:2] == ((0, 2), True)


def test_the_more_are_tried_the_more_the_best_must_show(example, log):
    def tried(count):
        scores = {(0, u): made(example, 1.0, shared=0.5, seed=u) for u in range(2, count)}
        return scores | {(0, 1): made(example, 1.25, shared=0.5, seed=1), (0, count): made(example, 1.0, shared=0.5)}

    assert best_of(tried(3), log, 0.95)[1]
    assert not best_of(tried(300), log, 0.95)[1]


def test_what_is_not_identified_is_not_chosen(example, log):
    scores = {
        (0, 1): made(example, 9.0, verdict="not identified"),
        (0, 2): made(example, 1.0),
        (0, 3): made(example, 0.9),
    }
    assert best_of(scores, log, 0.95)[0] != (0, 1)


def test_last_iterates_beyond_the_log_are_taken_on_trust_and_that_is_said(example, log):
    scores = {
        (0, 1): made(example, 1.0),
        (0, 2): made(example, 5.0, verdict="not identified"),
        (1, 1): made(example, 1.1, verdict="weak"),
        (1, 2): made(example, 5.0, verdict="not identified"),
    }
    place, decisive, reason = best_of(scores, log, 0.95)
    assert place == (0, 2)
    assert not decisive
    assert "does not identify what the last iterates are worth, only of 2 earlier ones (because)" in reason


def test_among_seeds_the_greatest_lower_bound_of_the_last_iterates_counts(example, log):
    scores = {(s, u): made(example, 1.0 + 0.1 * s, shared=0.0, seed=s) for s in range(3) for u in (1, 2)}
    scores[0, 1] = made(example, 1.25, shared=0.0, seed=7)
    assert best_of(scores, log, 0.95)[0] == (2, 2)


# Whole selections


def test_the_peak_is_found_and_its_value_reported(rise_and_fall, log):
    policies = {place: of(table) for place, table in rise_and_fall.items()}
    seen = []
    chosen = sw.select(policies, log, progress=seen.append)
    truth = {place: MDP.value(table, 1.0) for place, table in rise_and_fall.items()}
    assert truth[chosen.seed, chosen.update] > max(truth[0, 4], truth[0, 5])
    assert chosen.decisive
    assert seen == [1, 2, 3, 4, 5]
    assert set(chosen.scores) == set(policies)
    assert abs(chosen.estimate.value - truth[chosen.seed, chosen.update]) < 3.5 * chosen.estimate.standard_error
    # the report's episodes are others: half of the log, of which the scores hold the other half
    assert len(chosen.estimate.influence) == len(chosen.scores[0, 1].influence) == 300
    assert chosen.policy is policies[chosen.seed, chosen.update]


def bandit(seed, episodes=60, actions=20):
    """One decision an episode; what it earns has nothing to do with it, and so all policies are worth 0."""
    rng = np.random.default_rng(seed)
    return sw.Dataset.from_episodes(
        observations=[[[0.0]]] * episodes,
        actions=[[a] for a in rng.integers(actions, size=episodes)],
        rewards=[[r] for r in rng.normal(size=episodes)],
        distributions=[[np.full(actions, 1 / actions)]] * episodes,
        terminated=[True] * episodes,
    )


def test_the_report_is_free_of_the_winners_curse():
    """Of 20 policies of equal worth the best score is far too good; what is reported is right on average."""
    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.ones(20), size=20)
    policies = {(0, u): (lambda seen, u=u: np.tile(tables[u], (len(seen), 1))) for u in range(20)}
    best, reported, decisive = [], [], []
    for seed in range(40):
        data = bandit(seed)
        chosen = sw.select(policies, data, estimator="importance", seed=seed)
        top = max(chosen.scores, key=lambda place: chosen.scores[place].low)
        best.append(max(one.value for one in chosen.scores.values()))
        other = data.split(0.5, seed=seed)[1]
        reported.append(sw.evaluate(policies[top], other, "importance", draws=2).value)
        decisive.append(chosen.decisive and chosen.update != 19)
        if top == (chosen.seed, chosen.update):
            assert chosen.estimate.value == pytest.approx(reported[-1])
    error = np.std(reported) / np.sqrt(len(reported))
    assert np.mean(best) > 5 * error
    assert abs(np.mean(reported)) < 3 * error
    assert np.mean(decisive) < 0.1  # noise seldom wins over the last iterate


def test_estimated_propensities_widen_the_report_and_not_the_scores(rise_and_fall, log):
    policies = {place: of(table) for place, table in rise_and_fall.items()}
    bare = replace(log, propensities=None, distributions=None)
    held_out, report = (sw.estimate_propensities(part, "logistic") for part in bare.split(0.5))
    chosen = sw.select(policies, held_out, report, estimator="per-decision")
    fixed = sw.evaluate(chosen.policy, replace(report, estimated=None), "per-decision")
    assert chosen.estimate.value == fixed.value
    again = [sw.evaluate(chosen.policy, refit, "per-decision").value for refit in report.refits]
    between = np.sqrt(np.sum((np.array(again) - fixed.value) ** 2) / (len(again) - 1))
    assert chosen.estimate.standard_error == pytest.approx(np.hypot(fixed.standard_error, between))
    score = chosen.scores[chosen.seed, chosen.update]
    known = sw.evaluate(chosen.policy, replace(held_out, estimated=None), "per-decision", draws=DRAWS)
    assert (score.value, score.low) == (known.value, known.low)


def test_an_estimated_log_is_halved_like_any_other(rise_and_fall, log):
    policies = {place: of(table) for place, table in rise_and_fall.items()}
    whole = sw.estimate_propensities(replace(log, propensities=None, distributions=None), "logistic")
    chosen = sw.select(policies, whole, estimator="per-decision", seed=3)
    expected = sw.select(policies, *whole.split(0.5, seed=3), estimator="per-decision", seed=3)
    assert (chosen.seed, chosen.update) == (expected.seed, expected.update)
    assert (chosen.estimate.low, chosen.estimate.high) == (expected.estimate.low, expected.estimate.high)


def test_what_fit_returns_brings_its_discount(log, rise_and_fall):
    result = SimpleNamespace(
        checkpoints={place: of(table) for place, table in rise_and_fall.items()}, config=SimpleNamespace(discount=0.9)
    )
    chosen = sw.select(result, log, estimator="per-decision")
    assert chosen.estimate.discount == 0.9
    truth = MDP.value(rise_and_fall[chosen.seed, chosen.update], 0.9)
    assert abs(chosen.estimate.value - truth) < 3.5 * chosen.estimate.standard_error


def test_what_cannot_be_chosen_from_is_refused(log, tmp_path):
    with pytest.raises(ValueError, match="no checkpoints"):
        sw.select({}, log)
    with pytest.raises(ValueError, match="not a run folder"):
        sw.select(tmp_path, log)
    with pytest.raises(ValueError, match="checkpoints: expected what fit returns"):
        sw.select(3, log)
