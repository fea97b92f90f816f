"""Parts of the work as tasks of a Ray cluster: `with on_ray(): …`. Nothing else in the package knows of Ray.

A function is sent once, and so is every long array that it holds: those lie in Ray's object store, where all workers of
a machine read them without a copy. An array that was sent must not change, and is read-only until the block ends. What
a worker that dies was doing is given to another.
"""

from __future__ import annotations

import io
import pickle
import socket
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from statewise.base.tasks import Part, Result, using

LONG = 100_000  # bytes from which on an array is sent once, and not with every function
AHEAD = 3  # tasks in flight for each core, so that results that wait for their turn take little memory
RETRIES = 10  # of a task whose worker died


@contextmanager
def on_ray(address: str | None = None) -> Iterator[None]:
    """Lets a Ray cluster compute sums over rows, candidates and the jobs of studies; results are the same.

    `address` is that of a running cluster, as `ray start` prints it, or "auto" for the one of this machine. Without it,
    a cluster of this machine's cores is started, and ends with the block. Other machines need the same versions of
    Python and of the packages.

    >>> with sw.on_ray():  # doctest: +SKIP
    ...     estimate = sw.evaluate(policy, log)
    """
    if find_spec("ray") is None:
        raise ModuleNotFoundError("this needs ray: pip install 'statewise[ray]'")
    ray = import_module("ray")
    begun_here = not ray.is_initialized()
    if begun_here:
        _connect(ray, address)
    cluster = _Cluster(ray)
    try:
        with using(cluster):
            yield
    finally:
        cluster.forget()
        if begun_here:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    begin: dict[str, Any] = {} if address else {"include_dashboard": False}
    _check_answers(address)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that JAX has threads while a server is started, and what Ray plans to change
        try:
            ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **begin)
        except ConnectionError as error:
            raise ConnectionError(f"address: no Ray cluster answers at '{address}'") from error


def _check_answers(address: str | None) -> None:
    """Ray itself waits for minutes, and then ends the process."""
    host, colon, port = (address or "").rpartition("://")[2].rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(f"address: no Ray cluster answers at '{address}'") from error


@dataclass(frozen=True)
class _Sent:
    """An array in the object store."""

    place: Any
    array: weakref.ref[np.ndarray]
    writeable: bool


class _Cluster:
    """The cluster that this process is connected to."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.task = ray.remote(max_retries=RETRIES)(_computed)
        self.ahead = AHEAD * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        self.sent: dict[int, _Sent] = {}  # by identity

    def mapped(self, compute: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        packed, arrays = self._packed(compute)
        function, waiting = self.ray.put(packed), deque()
        for part in parts:
            if len(waiting) >= self.ahead:
                yield self.ray.get(waiting.popleft())
            waiting.append(self.task.remote(function, part, *arrays))
        while waiting:
            yield self.ray.get(waiting.popleft())

    def _packed(self, compute: Callable[..., Any]) -> tuple[bytes, list[Any]]:
        """The function as bytes, without its long arrays; and where those lie in the object store."""
        arrays: list[Any] = []

        def persistent_id(obj: Any) -> int | None:
            if not isinstance(obj, np.ndarray) or obj.nbytes < LONG or obj.dtype.hasobject:
                return None
            arrays.append(self._place_of(obj))
            return len(arrays) - 1

        file = io.BytesIO()
        packer = self.ray.cloudpickle.CloudPickler(file, protocol=5)
        packer.persistent_id = persistent_id
        packer.dump(compute)
        return file.getvalue(), arrays

    def _place_of(self, array: np.ndarray) -> Any:
        known = id(array)
        if known not in self.sent:
            place = self.ray.put(array.view(np.ndarray))
            gone = weakref.ref(array, lambda _: self.sent.pop(known, None))
            self.sent[known] = _Sent(place, gone, array.flags.writeable)
            array.flags.writeable = False
        return self.sent[known].place

    def forget(self) -> None:
        """Lets what was sent be changed again."""
        for one in list(self.sent.values()):
            array = one.array()
            if array is not None and one.writeable:
                array.flags.writeable = True
        self.sent.clear()


def _computed(function: bytes, part: Any, *arrays: np.ndarray) -> Any:
    """By a worker."""
    unpacker = pickle.Unpickler(io.BytesIO(function))
    unpacker.persistent_load = arrays.__getitem__  # pyright: ignore[reportAttributeAccessIssue]
    return unpacker.load()(part)
