"""Drives a real browser: Chromium by its own protocol, without a network."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import websocket

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WHY_NOT = "no Chromium on this machine: apt-get install chromium"
PATIENCE = 600  # seconds; only a browser that hangs takes so long, however busy the machine is


def until(happened: Callable[[], Any]) -> Any:
    """Waits for something to become true, and gives it back."""
    end = time.monotonic() + PATIENCE
    while not (what := happened()):
        assert time.monotonic() < end, "the browser hangs"
        time.sleep(0.05)
    return what


class Browser:
    """One headless browser with one page; remembers every request and complaint."""

    def __init__(self):
        assert CHROMIUM is not None, WHY_NOT
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"]
        flags += [f"--user-data-dir={self.profile.name}", "--no-first-run", "--disable-background-networking"]
        self.process = subprocess.Popen(
            [CHROMIUM, *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.numbers = itertools.count(1)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.socket = websocket.create_connection(self._address(), timeout=PATIENCE, suppress_origin=True)
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def _address(self) -> str:
        port_file = Path(self.profile.name) / "DevToolsActivePort"
        port, _ = until(lambda: port_file.is_file() and len(lines := port_file.read_text().splitlines()) == 2 and lines)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            pages = [page for page in json.load(answer) if page["type"] == "page"]
        return pages[0]["webSocketDebuggerUrl"]

    def send(self, method: str, **parameters):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            self._heard(message)
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def _heard(self, message: dict) -> bool:
        parameters = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters))
        if message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        if message.get("method") == "Runtime.consoleAPICalled":
            self.complaints.append(str(parameters["args"]))
        return message.get("method") == "Page.loadEventFired"

    def open(self, path: Path) -> None:
        self.requests.clear()
        self.complaints.clear()
        address = path.resolve().as_uri()
        self.send("Page.navigate", url=address)
        self.arrive(f"location.href == {json.dumps(address)}")

    def go(self, address: str) -> None:
        """To a page of a server, wherever that leads to."""
        self.send("Page.navigate", url=address)
        self.arrive("true")

    def arrive(self, condition: str) -> None:
        """Waits for a whole page of which the condition holds."""
        until(lambda: self.ask(f"document.readyState == 'complete' && Boolean({condition})"))

    def give(self, selector: str, path: Path) -> None:
        """A file to a field for files, as if it had been chosen."""
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(path.resolve())])

    def click(self, selector: str) -> None:
        self.ask(f"document.querySelector({json.dumps(selector)}).click()")

    def follow(self, selector: str) -> None:
        """Clicks, and waits for the page that it leads to."""
        self.ask("window.left = true")
        self.click(selector)
        self.arrive("!window.left")

    def ask(self, expression: str):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def width(self, width: int, height: int = 800) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def media(self, kind: str = "screen", scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", media=kind, features=features)

    def screenshot(self, path: Path) -> None:
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        self.socket.close()
        self.process.terminate()
        self.process.wait()
        self.profile.cleanup()
