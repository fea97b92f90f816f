"""An inventory: how many boxes to order each day, of which the shelf holds 20.

Orders of 0, 5, 10 or 15 boxes arrive at once; demand is Poisson with a mean of 6 on quiet days and 10 on busy ones,
which come in turns at random. A box sold earns 1, a box kept overnight costs .1, an order costs 2. The behaviour orders
10 where fewer than 6 are left and nothing otherwise, but anything at all three times in ten: an ε-soft rule of thumb.
"""

import math

import numpy as np

from statewise.domains.source import Exact
from statewise.domains.tabular import TabularMDP

SHELF, ORDERS = 20, (0, 5, 10, 15)
DEMANDS = (6.0, 10.0)  # on quiet and on busy days
STAYS = 0.8  # the chance that tomorrow is like today
PRICE, KEEPING, ORDERING = 1.0, 0.1, 2.0
EPSILON, LOW = 0.3, 6
DISCOUNT, DAYS = 0.95, 50


def problem() -> TabularMDP:
    """States are (boxes left, busy or not), numbered by 2 · boxes + busy; rewards are expected ones."""
    states = 2 * (SHELF + 1)
    transitions, rewards = np.zeros((states, len(ORDERS), states)), np.zeros((states, len(ORDERS)))
    for left, busy, action in np.ndindex(SHELF + 1, 2, len(ORDERS)):
        here, stock = 2 * left + busy, min(left + ORDERS[action], SHELF)
        mean = DEMANDS[busy]
        chances = np.array([math.exp(-mean) * mean**k / math.factorial(k) for k in range(stock)])
        for sold, chance in enumerate(np.append(chances, 1 - chances.sum())):
            remaining = stock - sold
            rewards[here, action] += chance * (PRICE * sold - KEEPING * remaining)
            for tomorrow in (0, 1):
                transitions[here, action, 2 * remaining + tomorrow] += chance * (
                    STAYS if tomorrow == busy else 1 - STAYS
                )
        rewards[here, action] -= ORDERING * (ORDERS[action] > 0)
    return TabularMDP(transitions / transitions.sum(axis=2, keepdims=True), rewards, np.full(states, 1 / states))


def rule_of_thumb() -> np.ndarray:
    left = np.repeat(np.arange(SHELF + 1), 2)
    return (1 - EPSILON) * np.eye(len(ORDERS))[np.where(left < LOW, 2, 0)] + EPSILON / len(ORDERS)


SEEN = np.stack([np.repeat(np.arange(SHELF + 1), 2), np.tile([0, 1], SHELF + 1)], axis=1).astype(np.float32)
SOURCE = Exact(problem(), rule_of_thumb(), SEEN, ("boxes", "busy"), DAYS, DISCOUNT)
