"""Jobs that learn together: an accelerator learns from the logs of all of them in one compiled program.

Each job goes its own way, in a thread. One of them works at a time, and hands over where it waits: for `learned`, until
every job that still runs waits for that too; and for `apart`, until a process of its own has done what an accelerator
is no good for. Without `together`, both do at once what they are asked.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeVar

import jax

from statewise.algorithms import Settings, algorithm_of
from statewise.data.dataset import Dataset
from statewise.experiments.processes import ONE_THREAD
from statewise.experiments.stack import stack_of, stacked
from statewise.learning.fit import fit, keys_of, prepare
from statewise.learning.program import check_finite, program, stretches

Part = TypeVar("Part")
Result = TypeVar("Result")
Notify = Callable[[str], None]

_current: ContextVar[Meeting | None] = ContextVar("meeting", default=None)


def learned(asked: Sequence[Asked]) -> list[Learned]:
    """What each leads to; together with what the other jobs ask for, where there are some."""
    meeting = _current.get()
    return learn_all(asked) if meeting is None else meeting.learned(asked)


def apart(compute: Callable[..., Result], *arguments: Any) -> Result:
    """`compute(…)`, in another process where jobs learn together."""
    return each_apart(compute, [arguments])[0]


def each_apart(compute: Callable[..., Result], arguments: Sequence[Sequence[Any]]) -> list[Result]:
    """`compute(…)` of each of the arguments; where jobs learn together, in several other processes at the same time."""
    meeting = _current.get()
    return [compute(*one) for one in arguments] if meeting is None else meeting.each_apart(compute, arguments)


def together(
    compute: Callable[[Part], Result], parts: Sequence[Part], processes: int, notify: Notify = lambda message: None
) -> Iterator[Result]:
    """What becomes of each part, as they are finished; `processes` share what is done apart."""
    with _on_cpu_cores(processes) as pool, ThreadPoolExecutor(max(len(parts), 1)) as threads:
        meeting = Meeting(pool, len(parts), notify)
        for finished in as_completed([threads.submit(meeting.attend, compute, part) for part in parts]):
            yield finished.result()


def in_this_process(compute: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """What becomes of each part, where nothing is done apart: a CPU too compiles for all of them only once."""
    with ThreadPoolExecutor(max(len(parts), 1)) as threads:
        meeting = Meeting(None, len(parts), lambda message: None)
        return [each.result() for each in [threads.submit(meeting.attend, compute, part) for part in parts]]


def accelerated() -> bool:
    """Whether there is an accelerator, on which logs are learned from side by side in hardly more time than one."""
    return jax.default_backend() != "cpu"


class Asked(NamedTuple):
    """What is to be learned, and from what."""

    log: Dataset
    config: Settings
    seed: int


class Learned(NamedTuple):
    """The last policy, and the seconds that it took; of several learned together, each one's share."""

    policy: Any
    seconds: float


class Meeting:
    """Where jobs wait for each other."""

    def __init__(self, pool: ProcessPoolExecutor | None, jobs: int, notify: Notify):
        self.pool, self.running, self.notify = pool, jobs, notify
        self.turn = threading.Lock()  # held by the job that works
        self.waiting: list[tuple[Sequence[Asked], Future[list[Learned]]]] = []

    def attend(self, compute: Callable[[Part], Result], part: Part) -> Result:
        """Runs a job."""
        _current.set(self)  # each thread has a context of its own
        with self.turn:
            try:
                return compute(part)
            finally:
                self.running -= 1
                self._learn_if_all_wait()

    def learned(self, asked: Sequence[Asked]) -> list[Learned]:
        found: Future[list[Learned]] = Future()
        self.waiting.append((asked, found))
        self._learn_if_all_wait()
        return self._awaited(found)[0]

    def each_apart(self, compute: Callable[..., Result], arguments: Sequence[Sequence[Any]]) -> list[Result]:
        if self.pool is None:
            return [compute(*one) for one in arguments]
        return self._awaited(*[self.pool.submit(compute, *one) for one in arguments])

    def _awaited(self, *found: Future[Result]) -> list[Result]:
        self.turn.release()
        try:
            return [one.result() for one in found]
        finally:
            self.turn.acquire()

    def _learn_if_all_wait(self) -> None:
        if not self.waiting or len(self.waiting) < self.running:
            return
        waiting, self.waiting = self.waiting, []
        try:
            everything = iter(learn_all([one for asked, _ in waiting for one in asked], self.notify))
        except BaseException as error:
            for _, found in waiting:
                found.set_exception(error)
            return
        for asked, found in waiting:
            found.set_result(list(islice(everything, len(asked))))


def learn_all(asked: Sequence[Asked], notify: Notify = lambda message: None) -> list[Learned]:
    """Each in its place: those whose settings are the same and whose logs can be stacked are one program."""
    prepared, found = {}, {}
    alike: dict[Any, list[int]] = defaultdict(list)
    for place, one in enumerate(asked):
        if algorithm_of(one.config).compiled:
            prepared[place] = prepare(one.config, one.log)
            alike[one.config, stack_of(prepared[place][0])].append(place)
        else:
            found[place] = _alone(one)
    groups = [[(place, asked[place].seed, *prepared.pop(place)) for place in places] for places in alike.values()]
    # an accelerator's programs take longer to compile than to run, and compile side by side
    with ThreadPoolExecutor(max(len(groups), 1) if accelerated() else 1) as threads:
        each = [threads.submit(_as_one, config, group) for (config, _), group in zip(alike, groups, strict=True)]
        for (config, _), finished in zip(alike, each, strict=True):
            by_place = finished.result()
            seconds = sum(one.seconds for one in by_place.values())
            notify(f"{type(config).__name__} learned from {len(by_place)} logs together, in {seconds:.0f} s")
            found |= by_place
    return [found[place] for place in range(len(asked))]


def _as_one(config: Settings, group: Sequence[tuple[int, int, Any, Any]]) -> dict[int, Learned]:
    """What is learned from prepared logs that can be stacked, each with its place, its seed and its policy's view."""
    began = time.perf_counter()
    places, seeds, data, views = zip(*group, strict=True)
    running = program(config, stacked(data), keys_of(seeds), apart=True)
    (last,) = stretches(running, running.begin(), 0, config.updates, config.updates)
    check_finite(last, seeds)
    policies = running.policies(last.states, views)
    seconds = (time.perf_counter() - began) / len(group)
    return {place: Learned(policy, seconds) for place, policy in zip(places, policies, strict=True)}


def _alone(asked: Asked) -> Learned:
    began = time.perf_counter()
    (policy,) = fit(asked.log, asked.config, seeds=[asked.seed]).policies
    return Learned(policy, time.perf_counter() - began)


@contextmanager
def _on_cpu_cores(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that leave the accelerator to this one."""
    with _environment({**ONE_THREAD, "JAX_PLATFORMS": "cpu"}):
        pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
        list(pool.map(abs, range(processes)))  # they start with what the environment says now
    with pool:
        yield pool


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
