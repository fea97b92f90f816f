"""The record of a served policy: its decisions and their outcomes in a folder, and how they become a log.

A record is one SQLite file, `record.sqlite`. Every row carries a checksum, and `policies` says who decided. A decision
whose outcome was not reported has no reward: it cannot be learned from, but the state it was made in is where the
record of its episode ends.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from statewise.data.dataset import numbered
from statewise.data.findings import Findings
from statewise.data.formats import ACTIONS_KEY, write_frame
from statewise.data.frame import Opened
from statewise.data.rawlog import Columns

FILE = "record.sqlite"
VERSION = 1
SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE policies (number INTEGER PRIMARY KEY, fingerprint TEXT UNIQUE NOT NULL, card TEXT NOT NULL);
CREATE TABLE decisions (
  number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, episode TEXT NOT NULL, step INTEGER NOT NULL,
  action INTEGER NOT NULL, propensity REAL NOT NULL, distribution BLOB NOT NULL, observation BLOB NOT NULL,
  legal BLOB, policy INTEGER NOT NULL REFERENCES policies, decided REAL NOT NULL, checksum INTEGER NOT NULL,
  UNIQUE (episode, step)
);
CREATE TABLE outcomes (
  decision INTEGER PRIMARY KEY REFERENCES decisions, reward REAL NOT NULL, terminated INTEGER NOT NULL,
  truncated INTEGER NOT NULL, observation BLOB, reported REAL NOT NULL, checksum INTEGER NOT NULL
);
"""
DECISION = "id, episode, step, action, propensity, distribution, observation, legal, policy, decided"
OUTCOME = "decision, reward, terminated, truncated, observation, reported"


class Counts(NamedTuple):
    """What of a record became part of the log."""

    decisions: int
    outcomes: int
    episodes: int  # in the log


def is_record(folder: Path) -> bool:
    return (folder / FILE).is_file()


def checksum(row: tuple) -> int:
    """Of a row's other fields, in the order of their columns."""
    return zlib.crc32(b"|".join(field if isinstance(field, bytes) else repr(field).encode() for field in row))


def read(folder: Path, findings: Findings) -> tuple[Opened, Counts] | None:
    """The log in a record; None after a fault."""
    try:
        about, decisions, outcomes, policies = _rows(folder / FILE)
        damaged = sum(checksum(row[1:-1]) != row[-1] for row in decisions)
        damaged += sum(checksum(row[:-1]) != row[-1] for row in outcomes)
        if damaged:
            raise ValueError(f"{damaged:,} of its rows {'is' if damaged == 1 else 'are'} damaged")
        observations, names = json.loads(about["observations"]), tuple(json.loads(about["actions"]))
        frame = _frame(decisions, outcomes, policies, observations, len(names))
        words = names != numbered(len(names))
        if words:
            frame = frame.with_columns(action=pl.Series(names, dtype=pl.String).gather(frame["action"]))
    except (sqlite3.Error, pl.exceptions.PolarsError, LookupError, ValueError, TypeError) as error:
        findings.fault(str(folder), f"its {FILE} cannot be read ({error})", "Restore it from a backup")
        return None
    log = _completed(frame, findings)
    counts = Counts(len(decisions), len(outcomes), log[Columns().episode].n_unique())
    return Opened(log, actions=names if words else len(names)), counts


def write(opened: Opened, path: Path) -> None:
    """The log as a file, with `id`, `logger` (who decided) and `decided` (when, in UTC) besides its usual columns."""
    known = list(opened.actions) if isinstance(opened.actions, tuple) else opened.actions
    write_frame(opened.frame, path, {ACTIONS_KEY: json.dumps(known)})


def _rows(path: Path) -> tuple[dict[str, str], list[tuple], list[tuple], dict[int, str]]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            raise ValueError(f"it is of version {version}, expected {VERSION}")
        connection.execute("BEGIN")  # one view of it, although the server may be writing
        about = dict(connection.execute("SELECT key, value FROM about"))
        policies = dict(connection.execute("SELECT number, fingerprint FROM policies"))
        outcomes = connection.execute(f"SELECT {OUTCOME}, checksum FROM outcomes").fetchall()
        decisions = connection.execute(f"SELECT number, {DECISION}, checksum FROM decisions ORDER BY number").fetchall()
        return about, decisions, outcomes, policies


def _frame(
    decisions: list[tuple], outcomes: list[tuple], policies: dict[int, str], observations: list[str], actions: int
) -> pl.DataFrame:
    """One row per decision, with its outcome where there is one; episodes in the order in which they began."""
    names = Columns()
    number, id_, episode, step, action, propensity, distribution, observation, legal, policy, decided, _ = (
        list(zip(*decisions, strict=True)) or [()] * 12
    )
    columns: dict[str, object] = {
        "number": pl.Series(number, dtype=pl.Int64),
        "id": pl.Series(id_, dtype=pl.String),
        names.episode: pl.Series(episode, dtype=pl.String),
        names.step: pl.Series(step, dtype=pl.Int64),
        names.action: pl.Series(action, dtype=pl.Int64),
        names.propensity: pl.Series(propensity, dtype=pl.Float64),
        "logger": pl.Series([policies[each][:12] for each in policy], dtype=pl.String),
        "decided": pl.from_epoch(pl.Series([int(each * 1e6) for each in decided], dtype=pl.Int64), time_unit="us"),
    }
    columns |= _spread(names.observation_prefix, observations, _matrix(observation, len(observations)))
    columns |= _spread(names.distribution_prefix, range(actions), _matrix(distribution, actions))
    if any(each is not None for each in legal):
        masks = np.array([[True] * actions if each is None else list(each) for each in legal], dtype=bool)
        columns |= _spread(names.legal_prefix, range(actions), masks.reshape(-1, actions))
    kept = [row for row in outcomes if row[4] is not None]
    after = _matrix([row[4] for row in kept], len(observations))
    reported = pl.DataFrame(
        {
            "number": pl.Series([row[0] for row in outcomes], dtype=pl.Int64),
            names.reward: pl.Series([row[1] for row in outcomes], dtype=pl.Float64),
            names.terminated: pl.Series([bool(row[2]) for row in outcomes], dtype=pl.Boolean),
            names.truncated: pl.Series([bool(row[3]) for row in outcomes], dtype=pl.Boolean),
        }
    )
    seen = {"number": pl.Series([row[0] for row in kept], dtype=pl.Int64)} | _spread("after_", observations, after)
    frame = (
        pl.DataFrame(columns).join(reported, on="number", how="left").join(pl.DataFrame(seen), on="number", how="left")
    )
    began = pl.col("number").min().over(names.episode)
    return frame.sort(began, names.step)


def _completed(frame: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    """The log: every episode up to its first decision without an outcome, whose state is then its final state."""
    names = Columns()
    open_ = pl.col(names.reward).is_null()
    first_open = pl.when(open_).then(names.step).min().over(names.episode)
    place = pl.col(names.step) - first_open  # null where all have an outcome
    _report(frame.select(pl.col(names.step), open=open_, late=place > 0), findings)
    later = [names.action, names.reward, names.propensity, names.terminated, names.truncated, "id", "logger", "decided"]
    later += [name for name in frame.columns if name.startswith((names.distribution_prefix, names.legal_prefix))]
    after = [name for name in frame.columns if name.startswith("after_")]
    rows = frame.filter(place.is_null() | (place < 0) | ((place == 0) & (pl.col(names.step) > 0)))
    decided = rows.with_columns(pl.when(~open_).then(pl.col(name)).alias(name) for name in later)
    last = pl.col(names.step) == pl.col(names.step).max().over(names.episode)
    final = decided.filter(last & ~open_ & pl.col(after[0]).is_not_null()).select(
        pl.col("number"),
        pl.col(names.episode),
        pl.col(names.step) + 1,
        *(pl.col(name).alias(names.observation_prefix + name.removeprefix("after_")) for name in after),
    )
    began = pl.col("number").min().over(names.episode)
    log = pl.concat([decided.drop(after), final], how="diagonal")
    return log.sort(began, names.step).drop("number")


def _report(rows: pl.DataFrame, findings: Findings) -> None:
    """Says which decisions the log leaves out, and why."""
    waiting, late = rows["open"].sum(), rows["late"].fill_null(False).sum()
    if waiting:
        have = "1 decision has no outcome" if waiting == 1 else f"{waiting:,} decisions have no outcome"
        left_out = f", without {late:,} later decision{'' if late == 1 else 's'}" if late else ""
        problem = f"{have}, so {'its episode ends' if waiting == 1 else 'their episodes end'} there{left_out}"
        findings.warn(Columns().reward, problem, "Report every outcome, and make the log again once they are known")


def _matrix(blobs: list[bytes] | tuple[bytes, ...], width: int) -> np.ndarray:
    return np.frombuffer(b"".join(blobs), dtype="<f8").reshape(len(blobs), width)


def _spread(prefix: str, names, matrix: np.ndarray) -> dict[str, pl.Series]:
    return {f"{prefix}{name}": pl.Series(matrix[:, j]) for j, name in enumerate(names)}
