"""What each round answered, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from statewise.report.content import ReportContent, from_json
from statewise.studio.folder import StudioFolder
from statewise.studio.runs import RUN


@dataclass(frozen=True)
class Round:
    """One run of a chain of rounds, and its answer once it has one."""

    id: str
    number: int
    log: str
    content: ReportContent | None


def content_of(folder: StudioFolder, id: str) -> ReportContent | None:
    """What a run answered; None before it has."""
    path: Path = folder.run_path(id) / RUN / "decision.json"
    return from_json(path.read_text(encoding="utf-8")) if path.is_file() else None


def rounds_up_to(folder: StudioFolder, id: str) -> list[Round]:
    """The run and those of the rounds before it, the first round first."""
    chain, at = [], id
    while at is not None and at not in chain and at in folder.runs():
        chain.append(at)
        at = folder.run(at).after
    return [
        Round(each, number, folder.log_name(folder.run(each).logs[-1]), content_of(folder, each))
        for number, each in enumerate(reversed(chain), start=1)
    ]
