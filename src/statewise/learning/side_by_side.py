"""Seeds that are learned side by side on a CPU, each share of them by a process of one thread.

XLA gains little from several threads in updates of small networks, and cannot run two of them at a time in one process.
The processes are started as commands, not by `multiprocessing`, which would run the user's script again in each.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np

from statewise.algorithms import Settings, algorithm_of
from statewise.base.memory import memory_of_machine
from statewise.base.tasks import elsewhere
from statewise.learning.program import Compiled, Program
from statewise.learning.runs import threads
from statewise.parts.metrics import Metrics

# NPROC: of XLA's threads; those of its flags only bound what a matrix product uses
ONE_THREAD = {"NPROC": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
# of JAX's settings, those on which numbers depend, and where compiled programs are kept
ALIKE = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)
# What an update takes is not known yet, so that both are bounds. With one thread it takes .9 times as long as with two
# (the paper's networks) to 1.6 times (the default's). To start a process, and to compile on one core what is otherwise
# compiled on all, takes 4 to 10 s, the time of so many updates of the default's networks.
SLOWER = 1.6
PAYS = 400
EACH = 600_000_000  # bytes of a process without its log
COPIES = 3  # of the prepared log in each process: as it arrives, as it is unpacked, and as XLA keeps it
SHARE = 0.25  # of the machine's memory that all of them may take
# settings that hold what was defined in the user's own script, where other processes do not find it
NOT_SENT = (pickle.PicklingError, AttributeError, TypeError, ImportError)


class WorkerEnded(ChildProcessError):
    """A process that learned some of the seeds has ended before them."""


def processes_for(config: Settings, data: Any, seeds: int, asked: int | None) -> int:
    """How many processes learn so many seeds: as many as were asked for, or as many as pay and fit into memory."""
    if asked == 1 or seeds == 1 or not algorithm_of(config).compiled or jax.default_backend() != "cpu":
        return 1
    if asked is not None:
        return min(asked, seeds)
    if not _own_machine() or not type(config).__module__.startswith("statewise."):  # others may not be found there
        return 1
    leaves = (leaf for leaf in jax.tree.leaves(data) if isinstance(leaf, jax.Array))
    needed = EACH + COPIES * sum(leaf.nbytes for leaf in leaves)
    count = min(seeds, _cores(), int(SHARE * memory_of_machine() // needed))
    if count < 2:
        return 1
    longest = -(-seeds // count)  # in turn, by one of them
    return -(-seeds // longest) if (seeds - SLOWER * longest) * config.updates >= PAYS else 1


def _own_machine() -> bool:
    """Whether nobody else spreads work over the cores, and this process can start others of its kind."""
    in_pool = elsewhere() or multiprocessing.parent_process() is not None
    return not in_pool and Path(sys.executable or "").name.lower().startswith(("python", "pypy"))


def _cores() -> int:
    """What this process may use; pools, such as joblib's, Dask's and Ray's, say by this variable what is left to it."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return min(threads(), int(said)) if said.isdecimal() else threads()


@contextmanager
def spread(alone: Program, seeds: Sequence[int], processes: int) -> Iterator[Program]:
    """The same program, by that many processes if they are more than one; they end with the block."""
    if processes == 1 or not isinstance(alone, Compiled):
        yield alone
        return
    program = SideBySide(alone, seeds, processes)
    try:
        yield program
    finally:
        program.close()


class SideBySide:
    """A program of all runs by several processes, which start with the first thing to compute.

    States travel with every stretch: they are small, and a process then holds nothing that could be lost with it.
    """

    def __init__(self, alone: Compiled, seeds: Sequence[int], processes: int):
        self.alone, self.seeds = alone, seeds
        bounds = np.linspace(0, len(seeds), processes + 1).round().astype(int)
        self.shares = [slice(int(first), int(last)) for first, last in pairwise(bounds)]
        self.workers: list[_Worker] = []
        self.failed = False

    def begin(self) -> Any:
        if not self._started():
            return self.alone.begin()
        return _together(self._each("begin", [()] * len(self.shares)))

    def restored(self, leaves: list[np.ndarray]) -> Any:
        return self.alone.restored(leaves)

    def advance(self, states: Any, done: int, count: int) -> tuple[Any, Metrics]:
        if not self._started():
            return self.alone.advance(states, done, count)
        states = jax.device_get(states)
        own = (jax.tree.map(lambda leaf, share=share: leaf[share], states) for share in self.shares)
        return _together(self._each("advance", [(part, done, count) for part in own]))

    def policies(self, states: Any, views: Sequence[Any]) -> list[Any]:
        return self.alone.policies(states, views)

    def close(self) -> None:
        """Ends all processes, whatever they are doing."""
        for worker in self.workers:
            worker.end()
        self.workers = []

    def _each(self, method: str, arguments: Sequence[tuple]) -> list[Any]:
        for worker, own in zip(self.workers, arguments, strict=True):
            worker.ask(pickle.dumps((method, own)))
        return [worker.answer() for worker in self.workers]

    def _started(self) -> bool:
        """Whether there are processes; where there cannot be any, seeds are learned in turn after all."""
        if not self.workers and not self.failed:
            try:
                self._start()
            except (OSError, WorkerEnded, *NOT_SENT) as error:
                self.close()
                self.failed = True
                warnings.warn(
                    f"seeds are learned in turn, since other processes cannot be started: {error}", stacklevel=2
                )
        return not self.failed

    def _start(self) -> None:
        settings = {name: getattr(jax.config, name) for name in ALIKE if hasattr(jax.config, name)}
        data = jax.tree.map(lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, self.alone.data)
        for share in self.shares:
            self.workers.append(_Worker(self.seeds[share]))
        for worker in self.workers:
            worker.ask(pickle.dumps((settings, pickle.dumps((self.alone.config, data, list(worker.seeds))))))
        for worker in self.workers:
            worker.answer()


class _Worker:
    """A process, and the seeds that it learns."""

    def __init__(self, seeds: Sequence[int]):
        self.seeds = seeds
        own = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "JAX_PLATFORMS": "cpu", **ONE_THREAD}
        self.process = subprocess.Popen(
            # -P: no module of the folder that this happens in takes the place of an installed one
            [sys.executable, "-P", "-m", "statewise.learning.worker"],
            env=os.environ | own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C in the terminal is not sent to it
        )

    def ask(self, question: bytes) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(len(question).to_bytes(8, "little") + question)
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error

    def answer(self) -> Any:
        assert self.process.stdout is not None
        try:
            good, answer = pickle.load(self.process.stdout)
        except (EOFError, pickle.UnpicklingError) as error:
            raise self._ended() from error
        if not good:
            raise answer
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # of what was still to be sent
                pipe.close()

    def _ended(self) -> WorkerEnded:
        which = f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"
        return WorkerEnded(
            f"the process that learned {which} has ended with code {self.process.wait()}, perhaps for lack of memory; "
            "with processes=1 seeds are learned in turn"
        )


def _together(parts: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
