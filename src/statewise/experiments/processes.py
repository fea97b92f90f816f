"""Parts of a study in several processes at once, each on a core of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

ONE_THREAD = {  # each: the processes share the cores among them
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
SHARED = {**ONE_THREAD, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # and an accelerator's memory


def side_by_side(compute: Callable[[Part], Result], parts: Iterable[Part], processes: int) -> Iterator[Result]:
    """What becomes of each part, as they are finished; what the environment says already is kept.

    Where one fails, those that were begun are finished, and no other is begun.
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in SHARED.items()})
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        try:
            for finished in as_completed([pool.submit(compute, part) for part in parts]):
                yield finished.result()
        finally:
            pool.shutdown(cancel_futures=True)
