"""A studio in a process of its own, and one within this process that needs no browser."""

import re
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

from statewise.cli.config import write_config
from statewise.studio.app import application
from statewise.studio.folder import StudioFolder

ADDRESS = "http://127.0.0.1:8008"
OWN = {"origin": ADDRESS}  # as our own page says
FAST = 'algorithm = "behaviour-cloning"\nbeside = []\nupdates = 3\n'


def client(folder: StudioFolder, **options):
    """Asks the studio's pages as a browser that was given the key."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from fastapi.testclient import TestClient

        made = TestClient(application(folder, write_config, options), base_url=ADDRESS, headers=OWN)
    assert made.get(f"/?key={folder.key()}").status_code == 200
    return made


def given(pages, name: str, text: str | bytes) -> str:
    """Gives a file, and returns the address of its page."""
    answer = pages.put("/logs", params={"name": name}, content=text)
    assert answer.status_code == 200, answer.text
    return answer.json()["page"]


@contextmanager
def studio(folder: Path, config: Path):
    """The process, and the link that it prints."""
    command = [sys.executable, "-m", "statewise", "studio", "--folder", str(folder), "--port", "0", "--no-open"]
    process = subprocess.Popen([*command, "--config", str(config)], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        yield process, re.search(r"http://127\.0\.0\.1:\d+/\?key=\S+", line)[0]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate()
