"""The command line."""

from statewise.cli.commands import COMMANDS, Entry
from statewise.cli.main import main

__all__ = ["COMMANDS", "Entry", "main"]
