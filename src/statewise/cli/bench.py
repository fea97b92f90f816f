"""`statewise bench`: how fast an update is, beside PyTorch, on this machine."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

import statewise

BENCHMARKS = Path(statewise.__file__).parents[2] / "benchmarks"


@click.command(epilog="Example: statewise bench --repeats 5")
@click.option("--repeats", type=click.IntRange(1, 1000), default=9, show_default=True, help="Contestants alternate.")
@click.option("--largest", type=click.IntRange(4, 7), default=7, show_default=True, help="Logs of 10⁴ to 10^N rows.")
@click.option("--check", is_flag=True, help="Only assert that both compute the same numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a machine.")
def command(repeats: int, largest: int, check: bool, as_json: bool) -> None:
    """Time one update of OPPOSD beside PyTorch eager, the closed form beside its network, and growing logs.

    It takes some minutes; nothing else should run meanwhile.
    """
    if not (BENCHMARKS / "update.py").is_file():
        raise click.ClickException("the benchmark comes with the source: run this in a checkout (pip install -e .)")
    if find_spec("torch") is None:
        raise click.ClickException("the benchmark needs PyTorch: pip install 'statewise[bench]'")
    sys.path.insert(0, str(BENCHMARKS))
    arguments = ["--repeats", str(repeats), "--largest", str(largest)]
    import_module("update").main(arguments + ["--check"] * check + ["--json"] * as_json)
