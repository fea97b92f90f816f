"""`statewise serve` under load, beside a bare FastAPI echo on the same machine.

    python benchmarks/serve.py [--clients 1 20 200] [--seconds 10]

Each server is a process of its own, and so are its clients, who keep their connection and ask again as soon as they are
answered: one observation of four numbers a time. Everything is on loopback; with two cores, clients and server share
them. The echo takes a list of numbers by pydantic and returns it, with uvicorn as it comes. The last column is the
server's own processor time, which depends less on what else the machine does.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ECHO = """
import socket, sys, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()

class Question(BaseModel):
    observations: list[list[float]]

@app.post("/act")
async def act(question: Question) -> Question:
    return question

listening = socket.create_server(("127.0.0.1", 0))
listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, http="h11")).run(sockets=[listening])
"""
BODY = json.dumps({"observations": [[0.1, -0.2, 0.3, 0.4]]}).encode()
HEAD = b"POST /act HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY)


async def client(port: int, until: float, took: list[float], errors: list[bytes]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(HEAD + BODY)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", head.lower())[1]))  # pyright: ignore
        took.append(time.perf_counter() - began)
        if b" 200 " not in head[:20]:
            errors.append(head)
    writer.close()


async def everyone(port: int, clients: int, seconds: float) -> tuple[list[float], list[bytes]]:
    took, errors = [], []
    until = time.perf_counter() + seconds
    await asyncio.gather(*(client(port, until, took, errors) for _ in range(clients)))
    return took, errors


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def policy_file(folder: Path) -> Path:
    from statewise.policies.network import Policy

    rng = np.random.default_rng(0)
    Policy(
        weights=(rng.normal(size=(4, 32)), rng.normal(size=(32, 2))),
        biases=(np.zeros(32), np.zeros(2)),
        mean=np.zeros(4),
        std=np.ones(4),
        observation_names=("x", "v", "angle", "spin"),
        action_names=("left", "right"),
        card={},
    ).save(folder / "policy.safetensors")
    return folder / "policy.safetensors"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 20, 200])
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    print(
        f"{'server':16s} {'clients':>7s} {'answers/s':>10s} {'p50 ms':>8s} {'p99 ms':>8s} {'errors':>7s} {'cpu ms':>7s}"
    )
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        serve = [sys.executable, "-m", "statewise", "serve", str(policy_file(folder)), "--port", "0"]
        servers = {
            "echo": [sys.executable, "-c", ECHO],
            "serve": serve,
            "serve --record": [*serve, "--record", str(folder / "record")],
        }
        for server, command in servers.items():
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                port = int(process.stdout.readline().split("127.0.0.1:")[1].split()[0].rstrip(";/"))  # pyright: ignore
                asyncio.run(everyone(port, 10, 1.0))  # to warm it up
                for clients in options.clients:
                    before = processor_seconds(process.pid)
                    took, errors = asyncio.run(everyone(port, clients, options.seconds))
                    low, high = np.quantile(took, [0.5, 0.99]) * 1e3
                    own = (processor_seconds(process.pid) - before) / len(took) * 1e3
                    rate = len(took) / options.seconds
                    shown = f"{server:16s} {clients:7d} {rate:10.0f} {low:8.1f} {high:8.1f} {len(errors):7d} {own:7.2f}"
                    print(shown, flush=True)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()


if __name__ == "__main__":
    main()
