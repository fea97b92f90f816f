"""Where policies differ, against plain loops."""

from dataclasses import replace

import numpy as np

from reports import log_and_policy
from statewise.report.compare import action_map, agreement, influential_columns


def test_agreement_against_a_loop():
    dataset, policy = log_and_policy()
    compared = agreement(policy, dataset)
    sums, counts, same = np.zeros((4, 4)), np.zeros(4), 0.0
    for observation, action in zip(dataset.observations, dataset.actions, strict=True):
        chances = policy.probabilities(observation[None])[0]
        sums[action] += chances
        counts[action] += 1
        same += chances[action] / len(dataset)
    np.testing.assert_allclose(compared.probabilities, sums / counts[:, None], rtol=1e-10)
    assert compared.counts == tuple(counts)
    np.testing.assert_allclose(compared.same, same, rtol=1e-10)


def test_the_influential_columns_are_those_the_policy_looks_at():
    dataset, policy = log_and_policy()
    assert set(influential_columns(policy, dataset)) == {1, 2}
    weight = np.zeros((4, 4))
    weight[3, 0] = 1.0
    assert influential_columns(replace(policy, weights=(weight,)), dataset)[0] == 3


def test_the_map_against_a_loop():
    dataset, policy = log_and_policy()
    drawn = action_map(policy, dataset, (6, 5))
    columns = [dataset.observation_names.index(name) for name in (drawn.x, drawn.y)]
    assert np.shape(drawn.logged) == np.shape(drawn.proposed) == (5, 6)
    seen = 0
    for row in range(5):
        for column in range(6):
            x, y = dataset.observations[:, columns[0]], dataset.observations[:, columns[1]]
            inside = (x >= drawn.x_edges[column]) & (x < drawn.x_edges[column + 1])
            inside &= (y >= drawn.y_edges[row]) & (y < drawn.y_edges[row + 1])
            if inside.sum() < 5:
                assert drawn.logged[row][column] is None
                continue
            seen += 1
            assert drawn.logged[row][column] == np.bincount(dataset.actions[inside], minlength=4).argmax()
            mean = policy.probabilities(dataset.observations[inside]).mean(axis=0)
            assert drawn.proposed[row][column] == mean.argmax()
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
    drawn = action_map(alone, single)
    assert (drawn.x, drawn.y) == ("cell_count", "")
    assert len(drawn.logged) == 1
    assert drawn.proposed[0][0] == 3
    assert drawn.proposed[0][-1] == 0
