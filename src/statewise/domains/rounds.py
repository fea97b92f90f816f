"""Rounds in a world: log what is done, decide by all logs so far, do what was decided, and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from statewise.data.concat import concat
from statewise.data.dataset import Dataset
from statewise.domains.behaviours import as_act
from statewise.domains.source import Earned, Exact, Family

APART = 10_000  # between the seeds of two runs: their rounds have seeds of their own
TRUTH = 7 * APART  # and from here on those by which the truth is known


@runtime_checkable
class Decided(Protocol):
    """What the logs of a round lead to, such as a `Certificate`."""

    @property
    def policy(self) -> Any: ...  # to deploy; None: as before

    @property
    def goal_policy(self) -> Any: ...


@runtime_checkable
class World(Protocol):
    """What rounds need of a `Source`."""

    def collect(self, episodes: int, seed: int, *, act: Any) -> Dataset: ...

    def play(self, policies: Sequence[Any], episodes: int, seed: int) -> Earned: ...


@dataclass(frozen=True, eq=False)
class Turn:
    """A round, and what was done in it, is done from now on, and was learned are worth in truth."""

    number: int
    log: Dataset  # of what was done in this round
    decided: Any
    today: float
    value: float
    goal: float


# the round's number, all logs (the newest last), and the policy that wrote the newest (None: the world's own behaviour)
Decide = Callable[[int, tuple[Dataset, ...], Any], Decided]


def turns(
    source: World, decide: Decide, *, rounds: int, episodes: int, seed: int, played: int, done: Sequence[Any] = ()
) -> Iterator[Turn]:
    """The rounds one after the other; where one deploys nothing, the next adds to its log.

    The truth is that of `played` episodes with the same random numbers for all policies of a run, or exact. `done` are
    the policies that earlier rounds of the same run deployed (None: nothing), which are then logged but not decided
    again.
    """
    source = source.problem(seed) if isinstance(source, Family) else source

    def worth(*policies: Any) -> list[float]:
        return source.play(policies, played, TRUTH + seed).discounted.mean(axis=1).tolist()

    logs: list[Dataset] = []
    today = value = None
    unchanged = False
    for number in range(1, rounds + 1):
        log = source.collect(episodes, APART * seed + number, act=_acting(source, today))
        logs.append(concat([logs.pop(), log]) if unchanged else log)
        if number <= len(done):
            deployed = done[number - 1]
        else:
            decided = decide(number, tuple(logs), today)
            deployed = decided.policy
            # today's worth is known from the round before, but for the first
            goal, *others = worth(decided.goal_policy, *[deployed][: deployed is not None], *[today][: value is None])
            before = others.pop() if value is None else value
            value = before if deployed is None else others.pop()
            yield Turn(number, logs[-1], decided, before, value, goal)
        unchanged = deployed is None
        today = today if unchanged else deployed


def _acting(source: World, policy: Any) -> Any:
    """The policy as the world takes it; None stays the world's own behaviour."""
    return policy if policy is None or isinstance(source, Exact) else as_act(policy)
