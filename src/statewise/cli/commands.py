"""The commands by name. Each is imported when it is called, so that `--help` and `inspect` do not wait for JAX."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal

import click

from statewise.base.registry import Registry

Section = Literal["everyday", "research"]


@dataclass(frozen=True)
class Entry:
    """A command: a click command, or the module whose `command` is one."""

    summary: str
    command: click.Command | str
    section: Section = "everyday"

    def load(self, name: str) -> click.Command:
        command = self.command
        if isinstance(command, str):
            command = import_module(command).command
        command.name = name  # every module calls its own `command`
        return command


COMMANDS: Registry[Entry] = Registry("command")


def _add(section: Section, **summaries: str) -> None:
    for name, summary in summaries.items():
        COMMANDS.add(name, Entry(summary, f"statewise.cli.{name}", section))


_add(
    "everyday",
    inspect="Check a log and show what it contains.",
    improve="From a log to a decision: learn, certify, report.",
    studio="Do all of this on a page in the browser.",
    evaluate="Estimate what a policy is worth, and whether to deploy it.",
    certify="Find the best step towards a policy that a log vouches for.",
    fit="Learn policies from a log.",
    act="Apply a policy to each row of a table.",
    serve="Serve a policy over HTTP.",
    record="Turn what a served policy recorded into a log.",
    export="Write a policy for other programs: ONNX, or plain Python.",
    report="Write a run's report: one page, the answer first.",
)
_add(
    "research",
    collect="Write a log of simulated decisions.",
    rounds="Log, improve and deploy in a simulator, again and again.",
    score="Play a run's policies in a simulator.",
    reproduce="Run the paper's experiments again.",
)
