"""What stands before the application: who may ask, and how much may be sent. Nothing is parsed here."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

BODY = 16 * 2**20  # bytes of one request
BODIES = 16 * BODY  # of all requests that are being received or answered


class Guard:
    """Refuses requests without the token (401), too long (413), or too many at once (503), before they are read."""

    def __init__(self, app: App, token: str | None = None, body: int = BODY, bodies: int = BODIES):
        self.app, self.body, self.bodies = app, body, bodies
        self.token = None if token is None else f"Bearer {token}".encode()
        self.held = 0  # bytes, of all requests together

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = dict(scope["headers"])
        if self.token is not None and not hmac.compare_digest(headers.get(b"authorization", b""), self.token):
            return await _refuse(send, 401, "this server needs a token: send it as 'Authorization: Bearer TOKEN'")
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            return await self.app(scope, receive, send)
        if _length(headers) > self.body:
            await _discard(receive, _length(headers), 4 * self.body)
            return await _refuse(send, 413, self._too_long())
        return await self._with_body(scope, receive, send)

    async def _with_body(self, scope: Message, receive: Receive, send: Send) -> None:
        chunks, length = [], 0
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None  # the client is gone
                chunk = message.get("body", b"")
                length += len(chunk)
                self.held += len(chunk)
                if length > self.body:
                    return await _refuse(send, 413, self._too_long())
                if self.held > self.bodies:
                    return await _refuse(send, 503, "too much is being sent at once; try again later")
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return await self.app(scope, _replayed(b"".join(chunks), receive), send)
        finally:
            self.held -= length

    def _too_long(self) -> str:
        return f"the request body: expected at most {self.body:,} bytes; send fewer observations at once"


def _length(headers: dict[bytes, bytes]) -> int:
    try:
        return int(headers.get(b"content-length", b"0"))
    except ValueError:
        return 0  # counted as it comes


async def _discard(receive: Receive, length: int, most: int) -> None:
    """Lets a client finish, which otherwise would not see the answer; but not one that goes on for too long."""
    while length <= most:
        message = await receive()
        if not message.get("more_body", False):
            return


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")] if status != 401 else [(b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
