"""Tables made to break a reader: each is read right or refused in a sentence.

What is right is said by another parser, Python's own, and by plain loops. `check(seed)` makes one table and tells what
became of it; an AssertionError, or any other exception, is a fault of the program.
"""

import csv
import io
import math
import warnings
from pathlib import Path

import numpy as np
import polars as pl

from logs import make
from statewise.data.findings import LogError
from statewise.data.formats import ACTIONS_KEY, HORIZON_KEY
from statewise.data.observations import read_observations
from statewise.data.rawlog import Columns
from statewise.data.table import read, save, to_frame

HEADER = ["episode", "step", "obs_a", "obs_b", "action", "reward", "propensity", "terminated", "unit", "note"]
EMPTY = {"", "NA", "N/A", "null", "NULL"}
TRUE = {"true", "t", "yes", "y", "1", "1.0"}
ODD = [
    "", " ", "NA", "nan", "NaN", "inf", "-inf", "1e400", "-1e400", "1e-400", "1.500", "1,500", "1,5", ".5", "5.", "+1",
    "007", "0x10", "1_000", "1e5", "9223372036854775807", "9223372036854775808", "99999999999999999999999", "-1",
    "true", "TRUE", "no", "None", "=1+1", "-B", "@x", "'=x", '""', '"', '"a', 'a"b', '"a""b"', '"a,b"', '"a\nb"',
    '"a\r\nb"', "a\rb", "\x00", "\x1b[31m", "é", "İ", "\u202e", "\ufeff", "½", "\u0661", "١", "1\xa0000", " 1", "1 ",
    "\t1", "2020-01-01", "12:30", "[1]", "{}", "0.1" * 50, "x" * 3000,
]  # fmt: skip


def rows_of(rng: np.random.Generator) -> list[list[str]]:
    """A log that is in order, as text."""
    rows = []
    for episode in range(rng.integers(1, 5)):
        length = int(rng.integers(1, 5))
        for step in range(length):
            action = int(rng.integers(3))
            numbers = [f"{rng.normal():.4g}", f"{rng.normal():.6g}", str(action), f"{rng.normal():.3g}", "0.25"]
            ended = str(step == length - 1).lower()
            rows.append([f"e{episode}", str(step), *numbers, ended, f"u{episode % 2}", "some, text"])
        if rng.random() < 0.2:
            rows[-1][7] = "false"
            rows.append([f"e{episode}", str(length), "0.5", "1", "", "", "", "", f"u{episode % 2}", ""])
    return rows


def quoted(cell: str, separator: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if separator in cell or "\n" in cell else cell


def text_of(rng: np.random.Generator) -> bytes:
    """A table, with up to three things wrong with it."""
    rows, header = rows_of(rng), list(HEADER)
    separator = str(rng.choice([",", ";", "\t"], p=[0.6, 0.25, 0.15]))
    if separator == ";" and rng.random() < 0.7:
        rows = [[cell.replace(".", ",") if cell[-1:].isdigit() else cell for cell in row] for row in rows]
    lines = [[quoted(cell, separator) for cell in row] for row in [header, *rows]]
    changes = rng.integers(0, 4)
    for _ in range(changes):
        row = lines[int(rng.integers(len(lines)))]
        place = int(rng.integers(len(row))) if row else 0
        kind = rng.integers(8)
        if kind <= 2 and row:
            row[place] = str(rng.choice(ODD))
        elif kind == 3 and row:
            del row[place]
        elif kind == 4:
            row.insert(place, str(rng.choice(ODD)))
        elif kind == 5:
            lines.insert(int(rng.integers(len(lines) + 1)), list(row))
        elif kind == 6:
            lines.insert(int(rng.integers(len(lines) + 1)), [])
        elif len(lines) > 2:
            one, other = rng.integers(1, len(lines), size=2)
            lines[one], lines[other] = lines[other], lines[one]
    end = str(rng.choice(["\n", "\r\n", "\r"], p=[0.75, 0.2, 0.05]))
    text = end.join(separator.join(row) for row in lines) + (end if rng.random() < 0.8 else "")
    contents = text.encode(
        str(rng.choice(["utf-8", "utf-8-sig", "utf-16", "latin-1"], p=[0.85, 0.09, 0.03, 0.03])), "replace"
    )
    if rng.random() < 0.25:  # and now without regard for rows and cells
        place = int(rng.integers(len(contents) + 1))
        kind = rng.integers(4)
        if kind == 0:
            contents = contents[:place]
        elif kind == 1:
            contents = contents[:place] + bytes(rng.integers(256, size=rng.integers(1, 4)).tolist()) + contents[place:]
        elif kind == 2:
            contents = contents[:place] + contents[place + int(rng.integers(1, 30)) :]
        else:
            contents = contents[:place] + str(rng.choice(ODD)).encode() + contents[place:]
    return contents


def number(cell: str, separator: str) -> float:
    """As a person reads it: NaN for an empty cell."""
    cell = cell.strip()
    if cell in EMPTY or cell.lower() == "nan":
        return math.nan
    if separator == ";" and "," in cell:
        cell = cell.replace(",", ".")
    if not cell.isascii() or "_" in cell:
        raise ValueError(cell)
    if cell.lower() in ("true", "false"):  # a column of nothing else is one of 0 and 1
        return float(cell.lower() == "true")
    return float(cell)


def understood(contents: bytes, guessed: Columns | None = None) -> dict[str, np.ndarray] | None:
    """What an accepted table says, by Python's own parser and plain loops; faults are exceptions.

    `guessed` are the columns that the program took for others: a reward called r, observations without their prefix.

    A gap among a column's numbers is their median, with a column more that tells where the gaps are. None where an
    observation is no number, since then words, or dates, are read by other rules.
    """
    text = contents.decode("utf-8-sig")
    if "\n" not in text:
        text = text.replace("\r", "\n")
    first = next(csv.reader(io.StringIO(text.lstrip("\r\n"), newline=""), delimiter="\x00"), [""])[0]
    separator = max(",;\t", key=lambda mark: sum(part.count(mark) for part in first.split('"')[::2]))
    table = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True) if row]
    header = [name.strip() for name in table[0]]
    if any(len(row) != len(header) for row in table):
        raise ValueError("a row with another number of fields")
    rows = [dict(zip(header, row, strict=True)) for row in table[1:]]
    rows = [row for row in rows if any(cell not in EMPTY for cell in row.values())]
    names = {name.lower(): name for name in header}
    names |= {name: name for name in header}
    columns = [name for name in header if name.lower().startswith("obs_")]
    if guessed is not None:
        columns = columns or list(guessed.observations or ())
        for role in ("action", "reward", "propensity"):
            names.setdefault(role, getattr(guessed, role))

    def cell(row, name):
        return row[names[name]]

    try:
        numbers_of = {name: [number(row[name], separator) for row in rows] for name in columns}
    except ValueError:
        return None
    middle = {name: np.nanmedian(values) for name, values in numbers_of.items() if np.isnan(values).any()}

    def features(row, name):
        value = number(row[name], separator)
        gap = math.isnan(value)
        return [value] if name not in middle else [middle[name] if gap else value, float(gap)]

    order: dict[str, list] = {}
    for row in rows:
        order.setdefault(cell(row, "episode"), []).append(row)
    read_rows = {"observations": [], "action": [], "reward": [], "propensity": [], "length": []}
    for episode in order.values():
        if "step" in names:
            episode = sorted(episode, key=lambda row: number(cell(row, "step"), separator))
        numbers = [
            [number(cell(row, name), separator) for name in ("action", "reward", "propensity")] for row in episode
        ]
        if len(episode) > 1 and all(math.isnan(value) for value in numbers[-1]):
            episode, numbers = episode[:-1], numbers[:-1]
        read_rows["length"].append(len(episode))
        read_rows["observations"] += [[one for name in columns for one in features(row, name)] for row in episode]
        for place, name in enumerate(("action", "reward", "propensity")):
            read_rows[name] += [row[place] for row in numbers]
    return {name: np.array(values, np.float64) for name, values in read_rows.items()}


def same(dataset, told: dict[str, np.ndarray]) -> bool:
    pairs = (
        (dataset.lengths, told["length"]),
        (dataset.observations, told["observations"]),
        (dataset.actions, told["action"]),
        (dataset.rewards, told["reward"]),
        (dataset.propensities, told["propensity"]),
    )
    return all(np.array_equal(np.asarray(one, np.float64), other) for one, other in pairs)


def check_text(rng: np.random.Generator, folder: Path) -> str:
    path = folder / str(rng.choice(["log.csv", "p [1].csv", "a*.tsv", "LOG?.CSV"]))
    contents = text_of(rng)
    path.write_bytes(contents)
    dataset, findings = read(path)
    assert (dataset is None) == bool(findings.faults), contents
    for finding in findings.items:
        assert str(finding), contents
    try:
        read_observations(path)
    except ValueError as error:
        if not str(error):
            raise AssertionError("refused without a sentence") from error
    if dataset is None:
        return "refused"
    if dataset.has_action_words:
        return "read"  # by other rules; `tests/data/test_words.py`
    told = understood(contents, dataset.schema.columns)
    if told is None:
        assert any(code.kind != "number" for code in dataset.schema.codes), contents
        return "read"  # by other rules, too
    assert same(dataset, told), contents
    return "read"


KINDS = [
    pl.Series([[1]]), pl.Series([{"a": 1}]), pl.Series([b"x"]), pl.Series([None]), pl.Series([1.5]), pl.Series(["x"]),
    pl.Series([True]), pl.Series([2**100], dtype=pl.Int128), pl.Series([2**64 - 1], dtype=pl.UInt64),
    pl.Series([float("nan")]), pl.Series([float("inf")]), pl.Series([0], dtype=pl.Duration),
    pl.Series([0], dtype=pl.Time), pl.Series([0], dtype=pl.Datetime),
    pl.Series(["a"], dtype=pl.Categorical), pl.Series([1], dtype=pl.Decimal(10, 2)),
    pl.Series([[1, 2]], dtype=pl.Array(pl.Int8, 2)), pl.Series([-(2**63)]), pl.Series([2**63 - 1]),
]  # fmt: skip
METADATA = [
    "50000000",
    "-1",
    "[]",
    '["a"]',
    "[" * 2000,
    "null",
    "x",
    '{"a": 1}',
    "[null, 1e300]",
    '["limit", 5]',
    "1.5",
]


def check_parquet(rng: np.random.Generator, folder: Path) -> str:
    """A log of ours with its bytes changed, which must be noticed; or a frame of another's, of odd columns."""
    path = folder / "log.parquet"
    log = _good(rng)
    if rng.random() < 0.5:
        save(log, path)
        contents = bytearray(path.read_bytes())
        kind = rng.integers(3)
        place = int(rng.integers(len(contents)))
        if kind == 0:
            contents[place] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            contents = contents[:place]
        else:
            width = int(rng.integers(1, 64))
            contents[place : place + width] = bytes(rng.integers(256, size=width).tolist())
        path.write_bytes(contents)
        dataset, findings = read(path)
        assert (dataset is None) == bool(findings.faults)
        rewritten = any("checksum is that of another file" in warning.problem for warning in findings.warnings)
        assert dataset is None or rewritten or dataset.fingerprint == log.fingerprint
        return "refused" if dataset is None else "read"
    frame = to_frame(log)
    for _ in range(rng.integers(1, 3)):
        name = str(rng.choice(frame.columns))
        odd = KINDS[int(rng.integers(len(KINDS)))]
        column = odd.gather([0] * frame.height).alias(name)
        frame = frame.drop(name) if rng.random() < 0.15 else frame.with_columns(column)
    metadata = {str(rng.choice([ACTIONS_KEY, HORIZON_KEY])): str(rng.choice(METADATA))} if rng.random() < 0.4 else {}
    frame.write_parquet(path, metadata=metadata)
    dataset, findings = read(path)
    assert (dataset is None) == bool(findings.faults)
    return "refused" if dataset is None else "read"


def _good(rng: np.random.Generator):
    return make([int(n) for n in rng.integers(1, 4, size=rng.integers(1, 5))], seed=int(rng.integers(1000)))


def check(seed: int, folder: Path) -> str:
    """One table: `read` or `refused`."""
    rng = np.random.default_rng([1, seed])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return check_text(rng, folder) if rng.random() < 0.8 else check_parquet(rng, folder)
        except LogError:
            return "refused"
