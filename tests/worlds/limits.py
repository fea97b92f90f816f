"""Episodes that are cut off by a time limit: the time left decides, and no observation shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from statewise.data.horizon import Horizon
from worlds.tabular import Tabular, tabular_world
from worlds.world import Played, World

TRUTHS = Path(__file__).with_name("truths.json")  # by `python benchmarks/worlds.py --truths`
WIDTH, LIMIT = 5, 60  # of the walk: it falls beyond ±WIDTH
# how often the walk steps inwards: worth about 25, 45, 65, 85 and 95 % of the limit, and a better one
WALKS = {25: (0.31, 0.40), 45: (0.463, 0.52), 65: (0.56, 0.61), 85: (0.667, 0.72), 95: (0.76, 0.85)}
# how CartPole's behaviour leans (share, sharpness), a policy that leans more, and one that leans less
POLES = {
    25: ((0.3, 50.0), (0.38, 50.0), (0.22, 50.0)),
    45: ((0.5, 5.0), (0.58, 5.0), (0.43, 5.0)),
    65: ((0.5, 50.0), (0.56, 50.0), (0.45, 50.0)),
    85: ((0.6, 50.0), (0.67, 50.0), (0.55, 50.0)),
    95: ((0.7, 50.0), (0.79, 50.0), (0.65, 50.0)),
}


def walk(limit: int = LIMIT) -> Tabular:
    """A walk on −WIDTH … WIDTH that earns 1 a step until it falls off either end; its steps slip one time in ten."""
    states = 2 * WIDTH + 1
    transitions = np.zeros((states, 2, states))
    for s in range(states):
        for a, step in enumerate((-1, 1)):
            for chance, to in ((0.9, s + step), (0.1, s - step)):
                if 0 <= to < states:
                    transitions[s, a, to] += chance
    places = np.arange(-WIDTH, WIDTH + 1.0)
    return Tabular(transitions, np.ones((states, 2)), np.eye(states)[WIDTH], limit, places[:, None] / WIDTH)


def inwards(chance: float) -> np.ndarray:
    """Steps towards the middle of the walk with that chance."""
    places = np.arange(-WIDTH, WIDTH + 1)
    right = np.where(places < 0, chance, np.where(places > 0, 1 - chance, 0.5))
    return np.stack([1 - right, right], axis=1)


def to_goal() -> Tabular:
    """Costs 1 a step until the goal at the end of a line of nine; cut off after 30 steps."""
    states = 9
    transitions = np.zeros((states, 2, states))
    for s in range(states):
        for a, step in enumerate((-1, 1)):
            to = max(s + step, 0)
            if to < states:
                transitions[s, a, to] += 0.8
            transitions[s, a, s] += 0.2
    return Tabular(transitions, -np.ones((states, 2)), np.eye(states)[3], 30, np.arange(states)[:, None] / states)


@dataclass(frozen=True)
class Lean:
    """Pushes to the side where the pole leans in `share` of decisions, otherwise at random."""

    share: float
    sharpness: float

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        lean = self.sharpness * (observations[:, 2] + 0.5 * observations[:, 3])
        right = self.share / (1 + np.exp(-2 * np.clip(lean, -300, 300))) + (1 - self.share) / 2
        return np.stack([1 - right, right], axis=1)


def pole_step(state: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CartPole's step for many poles at once, and which of them fell. Barto, Sutton, Anderson (1983)."""
    _, velocity, angle, turning = state.T
    sine, cosine = np.sin(angle), np.cos(angle)
    push = (np.where(action == 1, 10.0, -10.0) + 0.05 * turning**2 * sine) / 1.1
    turns = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    moves = push - 0.05 * turns * cosine / 1.1
    after = state + 0.02 * np.stack([velocity, moves, turning, turns], axis=1)
    return after, (np.abs(after[:, 0]) > 2.4) | (np.abs(after[:, 2]) > np.radians(12))


def play_pole(act: Lean, episodes: int, rng: np.random.Generator, limit: int = 200) -> Played:
    state = rng.uniform(-0.05, 0.05, size=(episodes, 4))
    lengths, fallen = np.full(episodes, limit), np.zeros(episodes, bool)
    seen, taken = np.zeros((episodes, limit + 1, 4)), np.zeros((episodes, limit), np.int64)
    chances = np.full((episodes, limit, 2), 0.5)
    for t in range(limit):
        up = ~fallen
        seen[up, t] = state[up]
        chances[up, t] = act(state[up])
        taken[up, t] = rng.random(up.sum()) < chances[up, t, 1]
        state[up], falls = pole_step(state[up], taken[up, t])
        ends = np.flatnonzero(up)[falls]
        lengths[ends], fallen[ends] = t + 1, True
    seen[:, limit] = state
    return Played(seen, taken, np.ones((episodes, limit)), chances, lengths, fallen)


def pole_world(name: str, trap: str, behaviour: Lean, target: Lean, episodes: int) -> World:
    known = json.loads(TRUTHS.read_text()) if TRUTHS.exists() else {}
    truth, today, error = known.get(name, (np.nan, np.nan, np.nan))

    def play(new: bool, count: int, rng: np.random.Generator) -> Played:
        return play_pole(target if new else behaviour, count, rng)

    def log(seed: int, count: int):
        return play(False, count, np.random.default_rng(seed)).log()

    return World(name, trap, log, target, truth, today, episodes, play, error=error)


def worlds() -> Iterator[World]:
    line = walk()
    for percent, (now, better) in WALKS.items():
        yield tabular_world(
            f"walk-{percent}",
            f"A walk cut off after {LIMIT} steps; the behaviour earns about {percent} % of the limit.",
            line,
            inwards(now),
            inwards(better),
            episodes=300,
            # few of the first come that far, and a better policy does: only the owner can know of the limit
            ends=Horizon("limit", LIMIT) if percent == 25 else None,
        )
    for percent, shift in ((45, -0.06), (85, -0.05)):
        yield tabular_world(
            f"walk-{percent}-worse",
            "The same walk, and a policy that falls sooner than today's.",
            line.scaled(0.001),
            inwards(WALKS[percent][0]),
            inwards(WALKS[percent][0] + shift),
            episodes=300,
        )
    right = np.full((9, 2), 0.5)
    for name, chance in (("better", 0.62), ("worse", 0.42)):
        yield tabular_world(
            f"goal-{name}",
            "A cost of 20 a step until the goal is reached, or for 30 steps.",
            to_goal().scaled(20.0),
            right,
            np.tile([1 - chance, chance], (9, 1)),
            episodes=300,
        )
    for percent, (now, better, worse) in POLES.items():
        trap = f"CartPole at 200 steps; the behaviour earns about {percent} % of the limit."
        yield pole_world(f"cartpole-{percent}", trap, Lean(*now), Lean(*better), 200)
        if percent in (45, 85):
            trap = "The same pole, and a policy that drops it sooner than today's."
            yield pole_world(f"cartpole-{percent}-worse", trap, Lean(*now), Lean(*worse), 200)
