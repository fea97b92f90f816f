"""How long a study will take, estimated before it starts."""

from __future__ import annotations

from pathlib import Path

import jax

from statewise.experiments.runner import pending
from statewise.experiments.study import Study

COMPILING = 30.0  # seconds for each method and shape of log, the first time
# Seconds to play 64 episodes on two cores, and 4,096 on an H200
PLAYING = {"cartpole": (0.1, 0.2), "hiv": (8.0, 7.0), "hiv-weak": (8.0, 7.0), "hard-example": (0.0, 0.0)}
UNMEASURED = (1.0, 1.0)  # a domain that is not listed


def seconds_left(study: Study, out: Path) -> float:
    """The sum of measured times for what is not done yet, on a machine that is otherwise idle."""
    cpu = jax.default_backend() == "cpu"
    width, place = (64, 0) if cpu else (4096, 1)
    total, compiled = 0.0, set()
    for cell in study.cells:
        playing = PLAYING.get(cell.domain, UNMEASURED)[place]
        left = [(method, pending(out, study, cell, method)) for method in study.methods]
        left = [(method, seeds) for method, seeds in left if seeds]
        if left:
            total += len(study.datasets) * playing * -(-cell.episodes // width)
        for method, seeds in left:
            updates = study.config(cell, method).updates
            alone = cpu or method.algorithm == "fitted-q"
            ms = method.ms[0] if alone else method.ms[1]
            program = (method.name, cell.domain.split("-")[0], cell.episodes, repr(cell.settings))
            total += 0.0 if program in compiled else COMPILING
            compiled.add(program)
            total += updates * ms / 1000 * (len(seeds) if alone else 1)
            checkpoints = 1 + -(-updates // study.stride(method))
            calls = len(seeds) * -(-checkpoints * study.score_episodes // width)
            total += playing * (calls if alone else -(-len(seeds) * checkpoints * study.score_episodes // width))
    return total


def duration_message(study: Study, out: Path) -> str:
    """One line for the terminal."""
    seconds = seconds_left(study, out)
    if seconds == 0:
        return f"{study.name}: nothing left to run"
    kind = "quick run" if study.quick else "full run"
    if seconds < 120:
        duration = f"{seconds:.0f} seconds"
    elif seconds < 7200:
        duration = f"{seconds / 60:.0f} minutes"
    else:
        duration = f"{seconds / 3600:.1f} hours"
    return f"{study.name}, {kind}: about {duration} on this machine, if it is otherwise idle"
