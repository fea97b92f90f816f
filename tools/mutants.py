"""Would the tests notice? Makes one slip of the pen at a time in the mathematics, and runs the tests that should fail.

    python tools/mutants.py                 every slip of mutants.toml, and a table: caught or survived
    python tools/mutants.py returns γ       those whose file or description contains one of these words
    python tools/mutants.py --list          all there are

Each slip is made in a copy of the tree. The exit code is 1 if one of them survives. Compiled code is compiled anew for
each: in all it takes about an hour on two cores.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = ("src", "tests", "tools", "docs", "pyproject.toml", "README.md")
LIMIT = 900  # seconds: tests that a slip keeps from ending have noticed it


class Mutant(NamedTuple):
    file: str
    slip: str
    old: str
    new: str
    tests: tuple[str, ...]

    def text(self) -> str:
        """The file with the slip in it."""
        text = (ROOT / "src" / "statewise" / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise SystemExit(f"{self.file}: expected {self.old!r} once, got it {text.count(self.old)} times")
        return text.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    tables = tomllib.loads((ROOT / "tools" / "mutants.toml").read_text(encoding="utf-8"))
    return [
        Mutant(file, slip, old, new, tuple(table["tests"]))
        for file, table in tables.items()
        for slip, old, new in table["mutants"]
    ]


def outcome(mutant: Mutant) -> str:
    """The first test that failed; empty if none did."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
            copy(ROOT / name, tree / name)
        (tree / "src" / "statewise" / mutant.file).write_text(mutant.text(), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
        environment = os.environ | {"PYTHONPATH": str(tree / "src"), "JAX_COMPILATION_CACHE_DIR": cache}
        try:
            done = subprocess.run(
                [*command, *(f"tests/{test}" for test in mutant.tests)],
                cwd=tree,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return f"did not end in {LIMIT} s"
    if done.returncode not in (0, 1):
        raise SystemExit(f"{mutant.file}, {mutant.slip}: pytest could not run\n{done.stdout[-3000:]}{done.stderr}")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split("::")[-1] if failed else ""


def main(words: list[str]) -> int:
    chosen = [one for one in mutants() if not words or any(word in f"{one.file} {one.slip}" for word in words)]
    survived = 0
    for number, mutant in enumerate(chosen, 1):
        mutant.text()
        noticed = outcome(mutant)
        survived += not noticed
        said = f"caught by {noticed}" if noticed else "SURVIVED"
        print(f"{number:3} of {len(chosen)}  {mutant.file:30} {mutant.slip:45} {said}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} caught")
    return 1 if survived else 0


if __name__ == "__main__":
    if "--list" in sys.argv:
        print("\n".join(f"{one.file:30} {one.slip}" for one in mutants()))
    else:
        sys.exit(main(sys.argv[1:]))
