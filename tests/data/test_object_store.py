"""Logs in an object store, on a real server; what is read is right when connections break in the middle."""

import socket
import socketserver
import threading
from pathlib import Path

import boto3
import polars as pl
import pytest
from moto.server import ThreadedMotoServer
from rich.console import Console

import statewise as sw
from logs import simulated
from statewise.cli.scanned import is_scanned, read_any
from statewise.data import buckets
from statewise.data import scan as scanning

CUT = 3000  # bytes of an answer, after which the connection breaks …
BREAKS = 3  # … so many times


class Proxy(socketserver.ThreadingTCPServer):
    """Hands on what is asked and answered; breaks off a number of long answers."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, server: tuple[str, int], breaks: int):
        super().__init__(("127.0.0.1", 0), Handler)
        self.server, self.left, self.broken, self.guard = server, breaks, 0, threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def may_break(self) -> bool:
        with self.guard:
            self.left -= 1
            self.broken += self.left >= 0
            return self.left >= 0


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        assert isinstance(self.server, Proxy)
        with socket.create_connection(self.server.server) as onward:
            threading.Thread(target=self.ask, args=(onward,), daemon=True).start()
            passed = 0
            while data := onward.recv(1000):
                passed += len(data)
                if passed > CUT and self.server.may_break():
                    return
                self.request.sendall(data)

    def ask(self, onward):
        try:
            while data := self.request.recv(1000):
                onward.sendall(data)
        except OSError:
            pass


@pytest.fixture(scope="module")
def store():
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield server.get_host_and_port()
    server.stop()


@pytest.fixture
def address(store, monkeypatch, tmp_path):
    """A log in three files of a bucket; through a proxy whose connections break."""
    proxy = Proxy(store, BREAKS)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": "http://{}:{}".format(*proxy.server_address),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(scanning, "FEWEST", 300)
    monkeypatch.setattr(scanning, "MOST", 300)
    monkeypatch.setattr(buckets, "PAUSE", 0.01)
    client = boto3.client("s3", endpoint_url="http://{}:{}".format(*store))
    client.create_bucket(Bucket="logs")
    simulated(80, 12).save(tmp_path / "log.parquet")
    frame = pl.read_parquet(tmp_path / "log.parquet")
    for i in range(3):
        frame[i * 320 : (i + 1) * 320].write_parquet(tmp_path / "part.parquet")
        client.upload_file(tmp_path / "part.parquet", "logs", f"visits/{i}.parquet")
    yield "s3://logs/visits", proxy, sw.load(frame)
    proxy.shutdown()
    proxy.server_close()


@pytest.mark.parametrize("source", ["/", "/*.parquet"])
def test_a_log_in_an_object_store(source, address, tmp_path):
    folder, proxy, loaded = address
    scanned = sw.scan(folder + source, scratch=tmp_path / "scratch")
    assert scanned.fingerprint == loaded.fingerprint
    assert proxy.broken == BREAKS


def test_an_address_given_to_a_command(address, tmp_path):
    folder, _, loaded = address
    path = Path(folder)  # as the command line has it
    assert is_scanned(path)
    scanned, findings = read_any(path, {}, {"scratch": tmp_path / "scratch"}, Console(quiet=True))
    assert scanned is not None, findings.items
    assert scanned.fingerprint == loaded.fingerprint


@pytest.mark.long
def test_a_connection_that_never_holds_is_an_error(address, tmp_path):
    folder, proxy, loaded = address
    proxy.left = 10**6
    with pytest.raises((OSError, pl.exceptions.PolarsError)):
        sw.scan(folder, scratch=tmp_path / "scratch")
    proxy.left = 0
    assert sw.scan(folder, scratch=tmp_path / "scratch").fingerprint == loaded.fingerprint
