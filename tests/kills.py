"""Processes that are killed at any moment, and begun again, until they have been killed often enough."""

import random
import shutil
import signal
import subprocess
import time

KILLS = 20


def contents(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def different(one, other):
    """The files that only one folder holds, or that differ."""
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


def ended(command):
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def survives(command, whole, out, kept=contents):
    """Whether `command(out)` writes what `command(whole)` does, though it is killed `KILLS` times on the way.

    Each time after a random part of the time that it takes. What was finished before it was killed is checked, and
    deleted, so that all parts of the work are hit.
    """
    longest = ended(command(whole))
    expected, luck, killed = kept(whole), random.Random(0), 0
    while killed < KILLS:
        began = time.perf_counter()
        process = subprocess.Popen(command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(luck.uniform(0.1, 1.0) * longest)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
            continue
        assert process.returncode == 0
        assert not different(kept(out), expected), different(kept(out), expected)
        shutil.rmtree(out)
        longest = min(longest, time.perf_counter() - began)  # the first time may have compiled
    ended(command(out))
    assert not different(kept(out), expected), different(kept(out), expected)
