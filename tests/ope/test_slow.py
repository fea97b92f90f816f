"""Where states change slowly, what w leaves of its equations is little of all tests and much of the estimate."""

import numpy as np
import pytest

from statewise.data.dataset import Dataset
from statewise.domains.tabular import TabularMDP
from statewise.ope.critic import state_values
from statewise.ope.evaluate import evaluate_all, prepare
from statewise.ope.prepared import Case

STATES, DISCOUNT, HORIZON, EPISODES = 12, 0.98, 150, 100
SEEDS = (500, 501, 502, 503)
NAMES = ("state-ratio", "doubly-robust-state-ratio")


def walk():
    """From the left end, a step right or left; the reward grows with the square of the distance."""
    transitions = np.zeros((STATES, 2, STATES))
    for s in range(STATES):
        transitions[s, 0, max(s - 1, 0)] = 1
        transitions[s, 1, min(s + 1, STATES - 1)] = 1
    rewards = np.repeat((np.arange(STATES) / STATES)[:, None] ** 2, 2, axis=1)
    return TabularMDP(transitions, rewards, np.eye(STATES)[0])


def right(chance):
    return np.tile([1 - chance, chance], (STATES, 1))


def logged_value(mdp, policy):
    states, total = mdp.initial, 0.0
    for t in range(HORIZON):
        total += DISCOUNT**t * states @ (policy * mdp.rewards).sum(axis=1)
        states = states @ mdp.chain(policy)
    return total


def collected(mdp, policy, seed):
    """Its observation is where the walk stands, as one number."""
    rows = mdp.sample(policy, EPISODES, HORIZON, seed)
    shape = (EPISODES, HORIZON)
    place = np.append(rows["state"].reshape(shape), rows["next_state"].reshape(shape)[:, -1:], axis=1)
    return Dataset.from_episodes(
        observations=list(place[..., None] / STATES),
        actions=list(rows["action"].reshape(shape)),
        rewards=list(rows["reward"].reshape(shape)),
        distributions=list(rows["probabilities"].reshape(*shape, 2)),
        terminated=[False] * EPISODES,
    )


def to_the_right(observations):
    return np.tile([0.44, 0.56], (len(observations), 1))


@pytest.fixture(scope="module")
def logs():
    return [prepare(collected(walk(), right(0.5), seed), discount=DISCOUNT) for seed in SEEDS]


def test_the_critic_follows_what_changes_slowly(logs):
    """Its penalty is its own: the ratio's, which is larger, leaves twice the error."""
    truth = logged_value(walk(), right(0.56))
    assert truth > 1.3 * logged_value(walk(), right(0.5))
    errors = {name: [] for name in NAMES}
    for log in logs:
        for name, one in evaluate_all(to_the_right, log, NAMES, draws=2).items():
            errors[name].append(one.value / truth - 1)
    root = {name: np.sqrt(np.mean(np.square(values))) for name, values in errors.items()}
    assert root["doubly-robust-state-ratio"] < 0.03 < root["state-ratio"]


def test_what_the_critic_finds_missing_against_a_plain_loop(logs):
    log = logs[0]
    data, rewards = log.dataset, log.dataset.rewards
    case = Case(log, to_the_right(data.observations))
    found = evaluate_all(to_the_right, log, NAMES, draws=2)
    values, _ = state_values(case, rewards)
    left, begun = 0.0, 0.0
    for e in range(data.episodes):
        for t, i in enumerate(range(data.starts[e], data.starts[e + 1])):
            last = i + 1 == data.starts[e + 1]
            rho = (0.56 if data.actions[i] else 0.44) / 0.5
            weight = DISCOUNT**t * case.solved.ratio[i]
            left += weight * ((0.0 if last else rho * DISCOUNT * values[i + 1]) - values[i])
            begun += weight * rho * (1.0 if last else 1 - DISCOUNT)
    missing = abs(np.mean([values[i] for i in data.starts[:-1]]) + left / begun)
    expected = missing / found["state-ratio"].standard_error
    assert expected > 0.5
    assert found["state-ratio"].diagnostics.missed == pytest.approx(expected, rel=1e-3)
    assert found["doubly-robust-state-ratio"].diagnostics.leaning == pytest.approx(expected, rel=1e-3)
