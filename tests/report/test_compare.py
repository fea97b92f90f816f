"""Where policies differ, against plain loops."""

from dataclasses import replace

import numpy as np

from reports import log_and_policy
from statewise.report.compare import action_map, agreement, telling_columns


def test_agreement_against_a_loop():
    dataset, policy = log_and_policy()
    found = agreement(policy, dataset)
    sums, counts, same = np.zeros((4, 4)), np.zeros(4), 0.0
    for observation, action in zip(dataset.observations, dataset.actions, strict=True):
        chances = policy.probabilities(observation[None])[0]
        sums[action] += chances
        counts[action] += 1
        same += chances[action] / len(dataset)
    np.testing.assert_allclose(found.probabilities, sums / counts[:, None], rtol=1e-10)
    assert found.counts == tuple(counts)
    np.testing.assert_allclose(found.same, same, rtol=1e-10)


def test_the_telling_columns_are_those_the_policy_looks_at():
    dataset, policy = log_and_policy()
    assert set(telling_columns(policy, dataset)) == {1, 2}
    weight = np.zeros((4, 4))
    weight[3, 0] = 1.0
    assert telling_columns(replace(policy, weights=(weight,)), dataset)[0] == 3


def test_the_map_against_a_loop():
    dataset, policy = log_and_policy()
    found = action_map(policy, dataset, (6, 5))
    columns = [dataset.observation_names.index(name) for name in (found.x, found.y)]
    assert np.shape(found.logged) == np.shape(found.proposed) == (5, 6)
    seen = 0
    for row in range(5):
        for column in range(6):
            x, y = dataset.observations[:, columns[0]], dataset.observations[:, columns[1]]
            inside = (x >= found.x_edges[column]) & (x < found.x_edges[column + 1])
            inside &= (y >= found.y_edges[row]) & (y < found.y_edges[row + 1])
            if inside.sum() < 5:
                assert found.logged[row][column] is None
                continue
            seen += 1
            assert found.logged[row][column] == np.bincount(dataset.actions[inside], minlength=4).argmax()
            mean = policy.probabilities(dataset.observations[inside]).mean(axis=0)
            assert found.proposed[row][column] == mean.argmax()
    assert seen > 15


def test_one_column_makes_a_map_of_one_row():
    dataset, policy = log_and_policy()
    single = replace(
        dataset,
        observations=dataset.observations[:, 1:2],
        final_observations=dataset.final_observations[:, 1:2],
        observation_names=("cell_count",),
    )
    alone = replace(
        policy,
        weights=(policy.weights[0][1:2],),
        mean=policy.mean[1:2],
        std=policy.std[1:2],
        observation_names=("cell_count",),
    )
    found = action_map(alone, single)
    assert (found.x, found.y) == ("cell_count", "")
    assert len(found.logged) == 1
    assert found.proposed[0][0] == 3
    assert found.proposed[0][-1] == 0
