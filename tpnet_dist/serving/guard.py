"""Who may ask, and how much: checked before a request is read, let alone understood."""

import asyncio
import contextlib
import hmac
import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN_PATHS = frozenset({"/health", "/docs", "/openapi.json"})
"""Need no token; they say nothing of anybody."""
_READING_SECONDS = 30.0
_LINGER_SECONDS, _SILENCE_SECONDS = 30.0, 5.0
"""How long the rest of a refused request is read and thrown away: altogether, and while nothing arrives. A
connection that is closed while data is still arriving is reset, and the client may lose the answer that says
why."""
_MEGABYTE = 1_000_000


class Refused(Exception):
    """A request that is not for the service to answer."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers

    @property
    def closes(self) -> bool:
        """Whether the connection ends with the answer, since the rest of the request is not wanted."""
        return self.headers.get("connection") == "close"


@dataclass(frozen=True)
class Rules:
    """Holds the rules of one server."""

    token: str | None
    """None: whoever can reach this address may ask."""
    posted: frozenset[str]
    """Paths that take JSON."""
    most_bytes: int
    names: frozenset[str]
    """What the server may be called where no token is asked for: a page in a browser that has another name
    led to this address does not get through."""

    def check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if self.token is not None:
            self._require_token(scope["path"], headers)
        elif name_of(headers.get("host", "")) not in self.names:
            raise Refused(403, f"this server is not called {headers.get('host', '')!r:.60}; ask localhost")
        if scope["method"] == "POST" and scope["path"] in self.posted:
            self._require_body(headers)

    def _require_token(self, path: str, headers: Headers) -> None:
        kind, _, given = headers.get("authorization", "").partition(" ")
        assert self.token is not None
        is_right = kind.lower() == "bearer" and hmac.compare_digest(
            given.strip().encode("latin-1"), self.token.encode()
        )
        if path not in OPEN_PATHS and not is_right:
            raise Refused(
                401,
                "no token, or not the right one; send the header Authorization: Bearer TOKEN",
                **{"www-authenticate": "Bearer"},
            )

    def _require_body(self, headers: Headers) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(415, f"content-type is {kind[:60]!r}, but must be application/json; send JSON")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()) or int(length[:20]) > self.most_bytes:
            raise self.too_large()

    def too_large(self) -> Refused:
        return Refused(
            413,
            f"the request is larger than {self.most_bytes / _MEGABYTE:,.0f} MB; send several smaller ones",
            connection="close",
        )


class Guard:
    """Guards an application. Bodies are read whole before they are handed on."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        rules: Rules,
        answered: Callable[[str, int, float], None],
        paths: frozenset[str],
    ) -> None:
        self.app, self.rules, self.answered, self.paths = app, rules, answered, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started, status = time.perf_counter(), 500

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self.rules.check(scope)
            body = await self._read(receive)
            await self.app(scope, _once(body, receive), send_on)
        except Refused as refused:
            answer = JSONResponse({"detail": refused.detail}, refused.status, refused.headers)
            if refused.closes:
                await _answer_and_linger(answer, scope, receive, send_on)
            else:
                await answer(scope, receive, send_on)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.answered(path, status, time.perf_counter() - started)

    async def _read(self, receive: Receive) -> bytes:
        parts, size = [], 0
        try:
            async with asyncio.timeout(_READING_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the request ended before its body did; send it whole")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self.rules.most_bytes:
                        raise self.rules.too_large()
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Refused(
                408, f"the request did not arrive within {_READING_SECONDS:.0f} seconds", connection="close"
            ) from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def name_of(host: str) -> str:
    """Return the name in a Host header, without the port."""
    return host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0].lower()


async def _answer_and_linger(answer: JSONResponse, scope: Scope, receive: Receive, send: Send) -> None:
    async def send_but_stay_open(message: Message) -> None:
        is_body = message["type"] == "http.response.body"
        await send({**message, "more_body": True} if is_body else message)

    await answer(scope, receive, send_but_stay_open)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while True:
                message = await asyncio.wait_for(receive(), _SILENCE_SECONDS)
                if message["type"] != "http.request" or not message.get("more_body", False):
                    break
    await send({"type": "http.response.body", "body": b""})


def _once(body: bytes, receive: Receive) -> Receive:
    is_given = False

    async def receive_on() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_on
