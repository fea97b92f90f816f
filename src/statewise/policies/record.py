"""The record of a served policy: every decision is on the disk before it is answered, and takes its outcome later.

One thread writes. While it waits for the disk, further requests arrive, and all of them share the next wait (group
commit): the time of an answer hardly depends on the number of clients.
"""

from __future__ import annotations

import asyncio
import json
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from statewise.base.files import make_folder, sync_folder
from statewise.base.lock import locked
from statewise.data.recorded import DECISION, FILE, OUTCOME, SCHEMA, VERSION, checksum
from statewise.policies.files import StoredPolicy, fingerprint

MOST_AT_ONCE = 1000  # requests that share one wait for the disk


class RecordError(ValueError):
    """What was asked does not fit the record; `status` is the answer's."""

    def __init__(self, sentence: str, status: int = 409):
        super().__init__(sentence)
        self.status = status


class Asked(NamedTuple):
    """A decision to be recorded: what was seen, what was chosen, and the probabilities it was drawn with."""

    observation: np.ndarray
    legal: np.ndarray | None
    action: int
    distribution: np.ndarray
    episode: str | None = None  # None: one of its own
    step: int | None = None  # None: the episode's next


class Recorded(NamedTuple):
    """A decision as the record has it."""

    id: str
    action: int
    propensity: float
    own: np.ndarray | None = None  # the probabilities it was drawn with, if that was on another occasion


@dataclass(frozen=True)
class Outcome:
    """What followed a decision; `observation` is the state after an episode's last one, where it is known."""

    id: str
    reward: float
    terminated: bool = False
    truncated: bool = False
    observation: np.ndarray | None = None


class _Job(NamedTuple):
    work: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future
    loop: asyncio.AbstractEventLoop


class Recorder:
    """Writes the record of one policy to a folder, which no other process may write to meanwhile."""

    def __init__(self, folder: str | Path, policy: StoredPolicy):
        self.folder = Path(folder)
        self._open = ExitStack()
        make_folder(folder)
        self._open.enter_context(locked(folder))
        try:
            self._connection = _connect(self.folder / FILE)
            self._open.callback(_disconnect, self._connection)
            with self._connection:
                self._policy = _introduce(self._connection, policy, self.folder)
            sync_folder(self.folder)
        except BaseException:
            self._open.close()
            raise
        self._closed = False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="record", daemon=True)
        self._thread.start()

    async def decide(self, asked: Sequence[Asked]) -> list[Recorded]:
        """Records decisions; one that was recorded before, with the same episode and step, is returned as it was."""
        return await self._do(lambda connection: [_decide(connection, each, self._policy) for each in asked])

    async def report(self, outcomes: Sequence[Outcome]) -> int:
        """Records what followed; the same outcome may be reported again, another one is refused."""
        return await self._do(lambda connection: sum(_report(connection, each) for each in outcomes))

    def close(self) -> None:
        """Finishes what was asked before, and gives up the folder."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            self._thread.join()
            self._open.close()

    async def _do(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        if self._closed:
            raise RecordError("it could not be recorded (the record is closed), so nothing was decided", 503)
        loop = asyncio.get_running_loop()
        job = _Job(work, loop.create_future(), loop)
        self._jobs.put(job)
        return await job.future

    def _write(self) -> None:
        closing = False
        while not closing:
            jobs = [self._jobs.get()]
            while len(jobs) < MOST_AT_ONCE and not self._jobs.empty():
                jobs.append(self._jobs.get())
            closing = None in jobs
            self._commit([job for job in jobs if job is not None])

    def _commit(self, jobs: list[_Job]) -> None:
        """All jobs in one transaction; what is wrong with one of them concerns no other."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            results = [_alone(self._connection, job.work) for job in jobs]
            self._connection.execute("COMMIT")  # returns when it is on the disk
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            results = [RecordError(f"it could not be recorded ({error}), so nothing was decided", 503)] * len(jobs)
        for loop in {job.loop for job in jobs}:
            here = [(job.future, result) for job, result in zip(jobs, results, strict=True) if job.loop is loop]
            loop.call_soon_threadsafe(_settle, here)


def _settle(results: list[tuple[asyncio.Future, Any]]) -> None:
    for future, result in results:
        if future.done():  # the client is gone
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


def _alone(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Any]) -> Any:
    """The result of one job, or why it is refused; a refused one leaves nothing behind."""
    connection.execute("SAVEPOINT job")
    try:
        result = work(connection)
    except RecordError as error:
        connection.execute("ROLLBACK TO job")
        result = error
    connection.execute("RELEASE job")
    return result


# The file


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # in this mode a commit otherwise does not wait for the disk
        connection.execute("PRAGMA trusted_schema = OFF")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise RecordError(f"{path}: it is a record of version {version}, expected {VERSION}; choose another folder")
    except sqlite3.Error as error:
        connection.close()
        raise RecordError(f"{path}: it is not a record, or it is damaged ({error}); choose another folder") from error
    except RecordError:
        connection.close()
        raise
    return connection


def _disconnect(connection: sqlite3.Connection) -> None:
    """Leaves one plain file, which can be read where nothing can be written, unless someone is reading it now."""
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def _introduce(connection: sqlite3.Connection, policy: StoredPolicy, folder: Path) -> int:
    """The number of the policy in this record, which may hold decisions of others with the same names."""
    for key, names in (("observations", policy.observation_names), ("actions", policy.action_names)):
        connection.execute("INSERT OR IGNORE INTO about VALUES (?, ?)", (key, json.dumps(list(names))))
        known = json.loads(connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()[0])
        if known != list(names):
            raise RecordError(f"{folder}: it records a policy with other {key}; choose another folder")
    mark = fingerprint(policy)
    card = json.dumps(policy.full_card(), default=str)
    connection.execute("INSERT OR IGNORE INTO policies (fingerprint, card) VALUES (?, ?)", (mark, card))
    return connection.execute("SELECT number FROM policies WHERE fingerprint = ?", (mark,)).fetchone()[0]


# One decision, one outcome


def _decide(connection: sqlite3.Connection, asked: Asked, policy: int) -> Recorded:
    now = time.time()
    # sorted by time, and not to be guessed
    identifier = f"{int(now * 1e6):x}-{secrets.token_hex(8)}"
    observation = asked.observation.astype("<f8").tobytes()
    episode, step = identifier, 0
    if asked.episode is not None:
        episode = asked.episode
        known = _known(connection, asked, observation)
        if known is not None:
            return known
        step = _next_step(connection, asked)
    propensity = float(asked.distribution[asked.action])
    distribution = asked.distribution.astype("<f8").tobytes()
    legal = None if asked.legal is None else asked.legal.astype("u1").tobytes()
    row = (identifier, episode, step, asked.action, propensity, distribution, observation, legal, policy, now)
    _insert(connection, "decisions", DECISION, row)
    return Recorded(identifier, asked.action, propensity)


def _known(connection: sqlite3.Connection, asked: Asked, observation: bytes) -> Recorded | None:
    """What was decided at this very step before: the answer may have been lost on its way."""
    if asked.step is None:
        return None
    found = connection.execute(
        "SELECT id, action, propensity, distribution, observation FROM decisions WHERE episode = ? AND step = ?",
        (asked.episode, asked.step),
    ).fetchone()
    if found is None:
        return None
    if found[4] != observation:
        raise RecordError(f"episode '{asked.episode}': step {asked.step} was decided before, for another observation")
    identifier, action, propensity, distribution, _ = found
    return Recorded(identifier, action, propensity, np.frombuffer(distribution, "<f8"))


def _next_step(connection: sqlite3.Connection, asked: Asked) -> int:
    last = connection.execute(
        "SELECT step, terminated OR truncated FROM decisions LEFT JOIN outcomes ON decision = number "
        "WHERE episode = ? ORDER BY step DESC LIMIT 1",
        (asked.episode,),
    ).fetchone()
    step, ended = (-1, False) if last is None else last
    if ended:
        raise RecordError(f"episode '{asked.episode}': it ended with step {step}")
    if asked.step not in (None, step + 1):
        raise RecordError(f"episode '{asked.episode}': expected step {step + 1}, got {asked.step}")
    return step + 1


def _report(connection: sqlite3.Connection, outcome: Outcome) -> int:
    """1 if it was not known before."""
    decision = connection.execute("SELECT number, episode, step FROM decisions WHERE id = ?", (outcome.id,)).fetchone()
    if decision is None:
        raise RecordError(f"id '{outcome.id}': there is no such decision", 404)
    number, episode, step = decision
    after = None if outcome.observation is None else outcome.observation.astype("<f8").tobytes()
    terminated = outcome.terminated or (episode == outcome.id and not outcome.truncated)  # an episode of its own
    # SQLite has no −0
    content = (outcome.reward + 0.0, int(terminated), int(outcome.truncated), after)
    known = connection.execute(
        "SELECT reward, terminated, truncated, observation FROM outcomes WHERE decision = ?", (number,)
    ).fetchone()
    if known is not None:
        if known != content:
            raise RecordError(f"id '{outcome.id}': another outcome was reported before")
        return 0
    if terminated or outcome.truncated:
        later = "SELECT 1 FROM decisions WHERE episode = ? AND step > ?"
        if connection.execute(later, (episode, step)).fetchone():
            raise RecordError(f"id '{outcome.id}': its episode cannot end here, since it has later decisions")
    _insert(connection, "outcomes", OUTCOME, (number, *content, time.time()))
    return 1


def _insert(connection: sqlite3.Connection, table: str, columns: str, row: tuple) -> None:
    marks = ", ".join("?" * (len(row) + 1))
    connection.execute(f"INSERT INTO {table} ({columns}, checksum) VALUES ({marks})", (*row, checksum(row)))
