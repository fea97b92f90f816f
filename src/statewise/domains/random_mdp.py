"""Random MDPs: 50 states with four actions of four successors each; 1 is paid in the farthest state, which ends it.

Every seed is another problem. Its start is state 0 and its goal the state that an optimal policy reaches latest, of
those it reaches within about 50 steps. The behaviour is half-way between uniform and optimal in value: a softmax of the
optimal action values with three quarters of that way, in which ever more states are made worse. As in Laroche,
Trichelair, Tachet des Combes (2019).
"""

from functools import lru_cache

import numpy as np
from jaxtyping import Float

from statewise.domains.source import Exact, Family
from statewise.domains.tabular import Policy, TabularMDP, softmax

STATES, ACTIONS, SUCCESSORS = 50, 4, 4
DISCOUNT = 0.95
HORIZON = 50
SOFTMAX_SHARE, BEHAVIOUR_SHARE = 0.75, 0.5  # of the way from the uniform policy's value to the optimum
SHARPEST = 1e5  # the softmax's factor at first: greedy, to all intents
STEP = 0.9  # by which the factor and an action's probability shrink, until the value is low enough
# The goal ends the episode and so is never observed: 49 states remain, in the order of their numbers.
OBSERVATION_NAMES = tuple(f"state_{s}" for s in range(STATES - 1))


@lru_cache(maxsize=64)
def problem(seed: int) -> Exact:
    """The problem with that seed, and its behaviour."""
    generator = np.random.default_rng([seed, STATES])  # not the log's own random numbers
    mdp = _farthest(_transitions(generator))
    seen = np.eye(STATES - 1, dtype=np.float32)
    return Exact(mdp, _behaviour(mdp, generator), seen, OBSERVATION_NAMES, HORIZON, DISCOUNT)


def _transitions(generator: np.random.Generator) -> Float[np.ndarray, "states actions states"]:
    transitions = np.zeros((STATES, ACTIONS, STATES))
    for state, action in np.ndindex(STATES, ACTIONS):
        successors = generator.choice(STATES, SUCCESSORS, replace=False)
        transitions[state, action, successors] = generator.dirichlet(np.ones(SUCCESSORS))
    return transitions


def _with_goal(transitions: Float[np.ndarray, "states actions states"], goal: int) -> TabularMDP:
    others = np.delete(np.arange(STATES), goal)
    pays = np.append(np.zeros(STATES - 1), 1.0)
    return TabularMDP.paid_on_arrival(transitions[others][:, :, others], pays, np.eye(STATES - 1)[0])


def _farthest(transitions: Float[np.ndarray, "states actions states"]) -> TabularMDP:
    """The problem with the goal of the least optimal value, but above that of reaching it after the last step."""
    problems = [_with_goal(transitions, goal) for goal in range(1, STATES)]
    values = np.array([one.value(one.optimal(DISCOUNT), DISCOUNT) for one in problems])
    return problems[int(np.argmin(np.where(values > DISCOUNT**HORIZON, values, np.inf)))]


def _behaviour(mdp: TabularMDP, generator: np.random.Generator) -> Policy:
    optimal = mdp.optimal(DISCOUNT)
    action_values = mdp.action_values(optimal, DISCOUNT)
    uniform = mdp.value(np.full_like(optimal, 1 / ACTIONS), DISCOUNT)
    possible = mdp.value(optimal, DISCOUNT) - uniform
    factor = SHARPEST
    policy = softmax(factor * action_values)
    while mdp.value(policy, DISCOUNT) > uniform + SOFTMAX_SHARE * possible:
        factor *= STEP
        policy = softmax(factor * action_values)
    while mdp.value(policy, DISCOUNT) > uniform + BEHAVIOUR_SHARE * possible:
        state = generator.integers(STATES - 1)
        policy[state, action_values[state].argmax()] *= STEP
        policy[state] /= policy[state].sum()
    return policy


SOURCE = Family(problem, OBSERVATION_NAMES, tuple(map(str, range(ACTIONS))), DISCOUNT)
