"""What a number was computed with: machine, versions and commit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import jax

from statewise.learning import runs

HERE = Path(__file__).parent


def machine() -> dict[str, Any]:
    """Device, machine and versions; a CPU is described by its cores, since JAX calls every one `cpu`."""
    made_with = runs.provenance()
    return made_with if jax.default_backend() != "cpu" else {**made_with, "device": f"CPU, {os.cpu_count()} cores"}


def commit() -> str | None:
    """The source's commit; None outside of a git checkout."""
    head, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--", str(HERE.parent))
    return head if head is None or not changes else f"{head} with changes"


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
