"""Who may use the studio: this machine alone, by the link that the terminal printed, and never another web page.

A page elsewhere could send a browser here, under a name of its own that leads to this machine (DNS rebinding) or by a
form. So the address in the request must be one of ours, what changes something must come from our own page, and the
browser must have been given the key, which other people on this machine do not have.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

HOSTS = ("127.0.0.1", "localhost", "[::1]")
SAFE = ("GET", "HEAD")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with none at all, a form would not say where it comes from
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
Next = Callable[[Request], Awaitable[Response]]


class Guard:
    """Lets requests through to the pages, or refuses them in a sentence."""

    def __init__(self, key: str):
        self.key = key

    async def __call__(self, request: Request, call_next: Next) -> Response:
        answer = self._refused(request) or await call_next(request)
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    def _refused(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if host.rpartition(":")[0] not in HOSTS and host not in HOSTS:
            return PlainTextResponse("This studio answers only to its own machine: open it at 127.0.0.1.\n", 421)
        if request.method not in SAFE and request.headers.get("origin") != f"http://{host}":
            return PlainTextResponse("This was not sent by a page of the studio.\n", 403)
        query = parse_qsl(request.url.query, keep_blank_values=True)
        shown = dict(query).get("key")
        cookie = f"statewise-studio-{host.rpartition(':')[2]}"
        if shown is not None and request.method in SAFE and self._right(shown):
            rest = urlencode([(name, value) for name, value in query if name != "key"])
            answer = RedirectResponse("/" + request.url.path.lstrip("/") + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(cookie, self.key, httponly=True, samesite="lax", max_age=10**8)
            return answer
        if not self._right(request.cookies.get(cookie, "")):
            return PlainTextResponse("Open the studio with the link that its terminal shows: it holds the key.\n", 401)
        return None

    def _right(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode(), self.key.encode())
