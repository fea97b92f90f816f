"""The command line."""

from statewise.cli.main import main

__all__ = ["main"]
