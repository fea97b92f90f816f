"""How the server treats its connections: so many at once, none that dawdles, and an end within seconds."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS = 512


@dataclass(frozen=True)
class Limits:
    """What clients may take; times in seconds."""

    connections: int = CONNECTIONS
    request: float = 20.0  # until a request is complete, from its first byte or from the connection
    response: float = 20.0  # for which a client may leave an answer unread
    idle: float = 30.0  # between two requests
    ending: float = 8.0  # for requests in flight, once the server is asked to stop


def run(app: Any, listening: socket.socket, limits: Limits | None = None) -> None:
    """Serves until SIGINT or SIGTERM; requests in flight are answered first."""
    limits = Limits() if limits is None else limits
    _allow_files(limits.connections)
    config = uvicorn.Config(
        app,
        http=patient(limits),
        ws="none",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=limits.idle,  # pyright: ignore[reportArgumentType]
        timeout_graceful_shutdown=limits.ending,  # pyright: ignore[reportArgumentType]
    )
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(Seldom())
    uvicorn.Server(config).run(sockets=[listening])


def patient(limits: Limits) -> type[asyncio.Protocol]:
    """uvicorn's protocol, but it closes connections of clients that are too many, or too slow."""

    class Patient(H11Protocol):
        waiting: asyncio.TimerHandle | None = None  # for the rest of a request
        unread: asyncio.TimerHandle | None = None  # for the client to read

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                self._refuse(503, f"this server has {limits.connections:,} connections already; try again later")
            else:
                self.waiting = self.loop.call_later(limits.request, self._too_slow)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            self._watch()

        def handle_events(self) -> None:
            super().handle_events()
            self._watch()

        def _watch(self) -> None:
            """The clock runs while a request has begun and is not complete."""
            begun = self.conn.their_state is h11.SEND_BODY
            begun |= self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
            if not begun:
                self._stop("waiting")
            elif self.waiting is None:
                self.waiting = self.loop.call_later(limits.request, self._too_slow)

        def _too_slow(self) -> None:
            self.waiting = None
            self._refuse(408, f"the request was not complete after {limits.request:g} s")

        def _refuse(self, status: int, sentence: str) -> None:
            """Answers without the application, if no answer has begun, and closes."""
            if self.transport.is_closing():
                return
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                body = json.dumps({"error": sentence})
                head = f"HTTP/1.1 {status} {'Request Timeout' if status == 408 else 'Service Unavailable'}"
                fields = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
                self.transport.write(f"{head}\r\n{fields}\r\n\r\n{body}".encode())
            self.transport.close()

        def shutdown(self) -> None:
            if self.conn.their_state is h11.SEND_BODY:
                self._refuse(503, "this server is shutting down; the request was not complete")
            else:
                super().shutdown()

        def pause_writing(self) -> None:
            super().pause_writing()
            self.unread = self.loop.call_later(limits.response, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop("unread")

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop("waiting")
            self._stop("unread")
            super().connection_lost(exc)
            self._unset_keepalive_if_required()

        def _stop(self, timer: str) -> None:
            handle = getattr(self, timer)
            if handle is not None:
                handle.cancel()
                setattr(self, timer, None)

    return Patient


class Seldom(logging.Filter):
    """Lets a message through once a minute, with the number of those that were left out."""

    def __init__(self, every: float = 60.0, clock: Callable[[], float] = time.monotonic):
        super().__init__()
        self.every, self.clock = every, clock
        self.last: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return False  # the server ends, and someone does not read the answer
        kind, now = str(record.msg), self.clock()
        last, left_out = self.last.get(kind, (-self.every, 0))
        if now - last < self.every:
            self.last[kind] = last, left_out + 1
            return False
        if left_out:
            record.msg = f"{kind.strip()} (and {left_out:,} more times since this was last logged)"
        self.last[kind] = now, 0
        return True


def _allow_files(connections: int) -> None:
    """Raises the limit on open files to what the connections need, as far as the system lets us."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = connections + 100
        if soft < needed:
            wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
