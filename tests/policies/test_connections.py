"""A real server and clients that are rude: too long, too slow, too many, without a token, in the way of its end."""

import asyncio
import json
import logging
import os
import signal
import socket
import time
from contextlib import suppress

import httpx
import pytest

from serving import answer, ask, request, served, small_policy, start
from statewise.policies.connections import Limits, Seldom, run
from statewise.policies.guard import BODY, Guard
from statewise.policies.serve import application

QUESTION = {"observations": [[1, 2]]}
# other tests may have started JAX, whose threads a fork leaves behind; the server in the child does not use it
pytestmark = pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")


@pytest.fixture(scope="module")
def policy_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "p.safetensors"
    small_policy().save(path)
    return path


@pytest.fixture
def impatient():
    """Starts servers with limits of their own, each in a child of this process; gives port and process."""
    children = []

    def begin(app=None, **limits):
        listening = socket.create_server(("127.0.0.1", 0))
        child = os.fork()
        if child == 0:
            try:
                run(app or application(small_policy()), listening, Limits(**limits))
            finally:
                os._exit(0)
        children.append(child)
        port = listening.getsockname()[1]
        listening.close()
        assert asyncio.run(ask(port, request("/", {})))[0]  # it is up
        time.sleep(0.1)  # and has seen us leave
        return port, child

    yield begin
    for child in children:
        with suppress(ProcessLookupError, ChildProcessError):  # it has ended
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def error(body):
    return json.loads(body)["error"]


# Bodies


def test_a_long_body_is_refused_before_it_is_read(policy_path):
    with served(policy_path) as server:
        status, body = asyncio.run(ask(server.port, request("/act", b"[" * (BODY + 1))))
        assert (status, error(body)[:52]) == (413, "the request body: expected at most 16,777,216 bytes;")
        # a length that no one could keep is refused at once, without a byte of the body
        message = request("/act", b"").replace(b"content-length: 0", b"content-length: 99999999999999")
        status, body = asyncio.run(ask(server.port, message))
        assert status == 413
        pieces = iter([b"[" * 2**20] * 20)
        with httpx.Client(base_url=server.url) as client:
            try:
                assert client.post("/act", content=pieces).status_code == 413  # in pieces, of unknown length
            except httpx.WriteError:  # the server has hung up, which it may
                assert next(pieces, None) is not None
            assert client.post("/act", json=QUESTION).status_code == 200
        with open(f"/proc/{server.process.pid}/status") as lines:
            peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
        assert peak < 400 * 1024  # KiB


def guarded(chunks, headers=(), **limits):
    """What the guard answers to such a request, and the bodies that the application got."""
    sent, got = [], []

    async def app(scope, receive, send):
        got.append((await receive())["body"])

    async def receive():
        return next(messages)

    async def send(message):
        sent.append(message)

    messages = iter({"type": "http.request", "body": each, "more_body": True} for each in chunks[:-1])
    messages = iter([*messages, {"type": "http.request", "body": chunks[-1]}, {"type": "http.disconnect"}])
    guard = Guard(app, **limits)
    asyncio.run(guard({"type": "http", "headers": [(b"transfer-encoding", b"chunked"), *headers]}, receive, send))
    assert guard.held == 0
    return [message["status"] for message in sent if "status" in message], got


def test_the_guard_counts_what_comes():
    assert guarded([b"abc", b"de"], body=5) == ([], [b"abcde"])
    assert guarded([b"abc", b"def"], body=5) == ([413], [])
    assert guarded([b"abc", b"de"], body=5, bodies=4) == ([503], [])
    assert guarded([b"a"], token="x" * 16) == ([401], [])
    assert guarded([b"a"], [(b"authorization", b"Bearer " + b"x" * 15)], token="x" * 16) == ([401], [])
    assert guarded([b"a"], [(b"authorization", b"Bearer " + b"x" * 16)], token="x" * 16) == ([], [b"a"])


# Slow and many clients


def test_slow_clients_are_sent_away_and_others_served(impatient):
    """In the head, in the body, or without a word."""
    port, _ = impatient(request=0.5)
    message = request("/act", QUESTION)

    async def dawdle(begin):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begin)
        began = time.monotonic()
        status, body = await answer(reader)
        assert await reader.read() == b""  # closed
        writer.close()
        return status, error(body), time.monotonic() - began

    async def drip():
        """A byte now and then does not help."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.monotonic()
        for byte in message:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)
            if reader.at_eof() or reader._buffer:
                break
        try:
            status, _ = await answer(reader)
        except ConnectionResetError:  # the system drops an answer that a byte written after it has crossed
            status = 408
        writer.close()
        return status, "", time.monotonic() - began

    async def everyone():
        slow = [dawdle(begin) for begin in (b"", message[:20], message[:-1])]
        slow = asyncio.gather(*slow, drip())
        quick = [(await ask(port, message))[0] for _ in range(5)]
        return await slow, quick

    slow, quick = asyncio.run(everyone())
    assert quick == [200] * 5
    for status, sentence, seconds in slow:
        assert status == 408
        assert sentence in ("", "the request was not complete after 0.5 s")
        assert seconds < 5


async def thirty_megabytes(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"31457280")]})
    for _ in range(30):
        await send({"type": "http.response.body", "body": bytes(2**20), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def test_a_client_that_does_not_read_is_dropped(impatient):
    port, _ = impatient(thirty_megabytes, response=0.5)

    async def read_after(seconds):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.transport.pause_reading()
        writer.write(request("/", {}))
        await asyncio.sleep(seconds)
        writer.transport.resume_reading()
        try:
            return len((await answer(reader))[1])
        except (ConnectionError, asyncio.IncompleteReadError):
            return None
        finally:
            writer.close()

    assert asyncio.run(read_after(0)) == 30 * 2**20
    assert asyncio.run(read_after(2)) is None


def test_the_number_of_connections_is_bounded(impatient):
    port, _ = impatient(connections=5, request=60.0)

    async def everyone():
        first = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        await asyncio.sleep(0.2)
        refused = [await ask(port, b"") for _ in range(3)]
        for reader, writer in first:
            writer.write(request("/act", QUESTION))
            assert (await answer(reader))[0] == 200
            writer.close()
        await asyncio.sleep(0.2)
        return refused, await ask(port, request("/act", QUESTION))

    refused, later = asyncio.run(everyone())
    assert {(status, error(body)) for status, body in refused} == {
        (503, "this server has 5 connections already; try again later")
    }
    assert later[0] == 200


# The end


def test_requests_in_flight_are_answered_when_it_ends(impatient):
    """Also with idle and slow clients about; all within ten seconds."""

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        await asyncio.sleep(1)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    port, child = impatient(app, ending=3.0)

    async def everyone():
        idle = await asyncio.open_connection("127.0.0.1", port)
        slow = await asyncio.open_connection("127.0.0.1", port)
        slow[1].write(request("/act", QUESTION)[:40])
        asked = asyncio.gather(*(ask(port, request("/act", QUESTION)) for _ in range(20)))
        await asyncio.sleep(0.4)
        began = time.monotonic()
        os.kill(child, signal.SIGTERM)
        answers = await asked
        await asyncio.to_thread(os.waitpid, child, 0)
        for _, writer in (idle, slow):
            writer.close()
        return answers, time.monotonic() - began

    answers, seconds = asyncio.run(everyone())
    assert answers == [(200, b"ok")] * 20
    assert seconds < 10


def test_it_ends_in_time_although_someone_dawdles(policy_path, tmp_path):
    with served(policy_path, "--record", tmp_path / "record") as server:

        async def everyone():
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request("/act", QUESTION)[:-1])
            await asyncio.sleep(0.3)
            began = time.monotonic()
            _, err = await asyncio.to_thread(server.end, signal.SIGTERM)
            seconds = time.monotonic() - began
            status, body = await answer(reader)
            writer.close()
            return seconds, err, status, error(body)

        seconds, err, *refused = asyncio.run(everyone())
        assert refused == [503, "this server is shutting down; the request was not complete"]
        assert seconds < 10
        assert err == ""
    assert sorted(path.name for path in (tmp_path / "record").iterdir()) == ["record.sqlite"]


# Words


def test_nonsense_does_not_flood_the_log(policy_path):
    with served(policy_path) as server:

        async def everyone():
            for _ in range(200):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"\x16\x03\x01 nonsense\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 400")
                writer.close()

        asyncio.run(everyone())
        _, err = server.end()
    assert err.count("\n") == 1
    assert "Invalid HTTP request received." in err


def test_a_message_comes_once_a_minute_with_the_number_left_out():
    now = [0.0]
    seldom = Seldom(clock=lambda: now[0])

    def say(text):
        record = logging.LogRecord("x", logging.WARNING, "", 0, text, (), None)
        return record.getMessage() if seldom.filter(record) else None

    assert [say("a"), say("a"), say("b"), say("a")] == ["a", None, "b", None]
    now[0] = 60.0
    assert [say("a"), say("b")] == ["a (and 2 more times since this was last logged)", "b"]


# The token


@pytest.mark.parametrize("by", ["file", "environment"])
def test_only_those_with_the_token_are_answered(policy_path, tmp_path, by):
    token = "correct-horse-battery"
    (tmp_path / "token").write_text(token + "\n")
    options = ("--token-file", tmp_path / "token") if by == "file" else ()
    environment = dict(os.environ) | ({} if by == "file" else {"STATEWISE_TOKEN": token})
    with served(policy_path, *options, env=environment) as server, httpx.Client(base_url=server.url) as client:
        for path in ("/card", "/health", "/docs", "/openapi.json", "/nowhere"):
            refused = client.get(path)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        for sent in (f"Bearer {token}x", "Bearer", token, f"Basic {token}"):
            assert client.post("/act", json=QUESTION, headers={"authorization": sent}).status_code == 401
        given = client.post("/act", json=QUESTION, headers={"authorization": f"Bearer {token}"})
        assert given.status_code == 200


@pytest.mark.parametrize("token", ["", "short", "with blanks in it, many", "nön-ascii-token-which-is-long"])
def test_a_poor_token_is_refused(policy_path, tmp_path, token):
    (tmp_path / "token").write_text(token)
    with pytest.raises(AssertionError, match="expected a token of at least 16 letters, digits and signs"):
        start(policy_path, "--token-file", tmp_path / "token")
