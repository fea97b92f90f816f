"""A process that learns some of a run's seeds: `python -m statewise.learning.worker`, started by `side_by_side`.

What it is asked comes through its standard input, and answers go through its standard output. It ends when that input
does, however the process that asks has ended. Both are pickled, by processes of the same code that one user runs.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    asked: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(sys.stdin.buffer, asked), daemon=True).start()
    settings, job = pickle.loads(asked.get())
    import jax

    for name, value in settings.items():
        jax.config.update(name, value)
    program = None
    while True:
        try:
            if program is None:
                program, answer = _program(*pickle.loads(job)), None
            else:
                method, arguments = pickle.loads(asked.get())
                answer = jax.device_get(getattr(program, method)(*arguments))
            packed = pickle.dumps((True, answer))
        except Exception as error:
            packed = pickle.dumps((False, _portable(error)))
        answers.write(packed)
        answers.flush()


def _listen(questions: BinaryIO, asked: SimpleQueue[bytes]) -> None:
    """In a thread of its own, which sees the end of the input while an update is computed."""
    try:
        while True:
            size = int.from_bytes(_exactly(questions, 8), "little")
            asked.put(_exactly(questions, size))
    finally:
        os._exit(0)


def _exactly(questions: BinaryIO, size: int) -> bytes:
    taken = questions.read(size)
    if len(taken) < size:
        raise EOFError
    return taken


def _program(config: Any, data: Any, seeds: list[int]) -> Any:
    import jax

    from statewise.learning.fit import keys_of
    from statewise.learning.program import Compiled

    return Compiled(config, jax.device_put(data), keys_of(seeds), False)


def _portable(error: Exception) -> Exception:
    """The error itself, where it can be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


if __name__ == "__main__":
    main()
