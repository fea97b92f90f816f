"""A served policy in a process of its own, and clients that ask it by hand: many, slow, or gone."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np

from statewise.policies.network import Policy

OBSERVATIONS, ACTIONS = ("blood pressure", "age"), ("wait", "treat", "refer")


def small_policy(seed: int = 0) -> Policy:
    rng = np.random.default_rng(seed)
    return Policy(
        weights=(rng.normal(size=(2, 3)),),
        biases=(np.zeros(3),),
        mean=np.array([1.0, 2.0]),
        std=np.array([1.0, 0.5]),
        observation_names=OBSERVATIONS,
        action_names=ACTIONS,
        card={"algorithm": "OPPOSD", "data": "abc", "estimate": {"verdict": "weak"}},
    )


class Served:
    """The process, and where it listens."""

    def __init__(self, process: subprocess.Popen, port: int):
        self.process, self.port = process, port
        self.url = f"http://127.0.0.1:{port}"

    def end(self, how: int = signal.SIGTERM, wait: float | None = None) -> tuple[str, str]:
        self.process.send_signal(how)
        return self.process.communicate(timeout=wait)


def start(policy_path, *options, port: int = 0, env=None) -> Served:
    command = [sys.executable, "-m", "statewise", "serve", str(policy_path), "--port", str(port), *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    line = process.stdout.readline()
    address = re.search(r"http://127\.0\.0\.1:(\d+)", line)
    if address is None:
        raise AssertionError(line + process.communicate()[1])
    return Served(process, int(address[1]))


@contextmanager
def served(policy_path, *options, **more):
    server = start(policy_path, *options, **more)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


def request(path: str, body, *headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "host: policy", "content-type: application/json"]
    return "\r\n".join([*lines, f"content-length: {len(content)}", *headers, "", ""]).encode() + content


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status and body of the next answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(re.search(rb"content-length: (\d+)", head)[1])
    return int(head.split()[1]), await reader.readexactly(length)


async def ask(port: int, message: bytes) -> tuple[int, bytes]:
    """On a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(message)
        return await answer(reader)
    finally:
        writer.close()
