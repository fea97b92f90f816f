"""Wet Chicken: a canoe on a river of 5 × 5 fields; the nearer to the waterfall, the more is paid, and below it nothing.

    x' = round(x + push + v + τ u)    v = 3y/5, the current    τ = 3.5 − v, the turbulence    u uniform on ±1
    y' = y + steer, between the banks

x counts towards the waterfall and is what a step pays where it leads; from x' > 4 the canoe falls and starts again at
(0, 0). Tresp (1994), Hans & Udluft (2009); discrete, and with this behaviour, as in Scholl et al. (2022).
"""

import numpy as np

from statewise.domains.source import Exact
from statewise.domains.tabular import Policy, TabularMDP

SIDE = 5
ACTIONS = ("drift", "hold", "paddle_back", "left", "right")
PUSH = (0, -1, -2, 0, 0)
STEER = (0, 0, 0, -1, 1)
TURBULENCE, CURRENT = 3.5, 3.0
DISCOUNT = 0.95
HORIZON = 100  # γ¹⁰⁰ < .006: what lies beyond hardly counts
CHANCE = 0.1  # the behaviour's share of random actions


def problem() -> TabularMDP:
    """Fields (x, y), numbered 5x + y; probabilities are overlaps of intervals, since u is uniform."""
    transitions = np.zeros((SIDE * SIDE, len(ACTIONS), SIDE * SIDE))
    edges = np.append(-np.inf, np.append(np.arange(SIDE) + 0.5, np.inf))  # of x' = 0 (the land too), 1, … and the fall
    for x, y, action in np.ndindex(SIDE, SIDE, len(ACTIONS)):
        current = CURRENT * y / SIDE
        reach, centre = TURBULENCE - current, x + PUSH[action] + current
        shares = np.diff(np.clip((edges - centre + reach) / (2 * reach), 0.0, 1.0))
        column = min(max(y + STEER[action], 0), SIDE - 1)
        transitions[SIDE * x + y, action, column::SIDE] = shares[:SIDE]
        transitions[SIDE * x + y, action, 0] += shares[SIDE]
    pays = np.append(np.repeat(np.arange(SIDE, dtype=np.float64), SIDE), 0.0)
    return TabularMDP.paid_on_arrival(transitions, pays, np.eye(SIDE * SIDE)[0])


def behaviour() -> Policy:
    """Steers to the middle and holds there, with a share of random actions."""
    rule = np.zeros((SIDE * SIDE, len(ACTIONS)))
    middle = SIDE // 2
    for x, y in np.ndindex(SIDE, SIDE):
        in_the_middle = ("drift", "hold", "paddle_back")[x] if x <= middle else "paddle_back"
        steering = "right" if y < middle else "left" if y > middle else in_the_middle
        rule[SIDE * x + y, ACTIONS.index(steering if x <= middle else "paddle_back")] = 1.0
    return (1 - CHANCE) * rule + CHANCE / len(ACTIONS)


SOURCE = Exact(
    problem(),
    behaviour(),
    np.eye(SIDE * SIDE, dtype=np.float32),
    tuple(f"field_{x}_{y}" for x in range(SIDE) for y in range(SIDE)),
    HORIZON,
    DISCOUNT,
    action_words=ACTIONS,
)
