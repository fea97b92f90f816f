"""Single decisions and the inventory: logs follow their behaviours, and scores are exact."""

import numpy as np

from statewise.domains import DOMAINS
from statewise.domains.inventory import DISCOUNT, SHELF, problem, rule_of_thumb
from statewise.experiments.logs import play
from statewise.experiments.study import Cell


def test_a_shop_logs_what_it_does():
    family = DOMAINS["decisions-5"]
    log, shop = family.collect(4000, 7), family.problem(7)  # pyright: ignore
    np.testing.assert_allclose(log.distributions, shop.behaviour(np.asarray(log.observations)), atol=1e-6)
    chance = shop.acceptance(np.asarray(log.observations))[np.arange(4000), log.actions]
    assert abs(log.rewards.mean() - chance.mean()) < 4 * np.sqrt(chance.mean() / 4000)
    assert (family.collect(10, 7).rewards == family.collect(10, 7).rewards).all()
    assert not (family.collect(10, 7).observations == family.collect(10, 8).observations).all()


def test_gains_are_0_for_the_behaviour_and_1_for_the_best():
    for domain, episodes in (("decisions-50", 5), ("inventory", 5)):
        cell = Cell("c", domain, episodes, gain=True)
        best = problem().optimal(DISCOUNT) if domain == "inventory" else DOMAINS[domain].problem(3).best  # pyright: ignore
        np.testing.assert_allclose(play(cell, [None, best], 5, 3).discounted[:, 0], [0, 1], atol=1e-9)


def test_an_inventory_neither_loses_nor_makes_boxes():
    """Whatever is sold or kept was there: from an empty shelf, 5 boxes leave 0 to 5; rewards are at most the sales."""
    mdp = problem()
    left = np.repeat(np.arange(SHELF + 1), 2)
    reached = mdp.transitions[0, 1] > 0
    assert left[reached].max() == 5
    assert set(left[reached]) == set(range(6))
    np.testing.assert_allclose(mdp.transitions.sum(axis=2), 1)
    assert mdp.rewards[0, 0] == 0
    assert (mdp.rewards <= SHELF).all()
    assert np.allclose(rule_of_thumb().sum(axis=1), 1)
