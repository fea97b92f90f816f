"""Where the records of a delimited text begin, on which lines, and of how many fields they are.

Parsers differ in what they make of a row with too few fields or a quotation mark out of place; here such rows are
found, before any parser could fill or shift them. One pass over the bytes, a block at a time.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import NamedTuple

import numpy as np

BLOCK = 1 << 24
QUOTE, LINE_FEED, RETURN = (ord(mark) for mark in '"\n\r')
SEPARATORS = ",;\t"


class Records(NamedTuple):
    """The records of a text, blank ones included; the header is the first that is not blank."""

    header: bytes
    separator: str
    end_of_line: str  # a line feed, or in files of old spreadsheets a carriage return
    line: np.ndarray  # on which each record after the header begins, from 1
    fields: np.ndarray  # of each of them; 0: a blank line
    last_is_whole: bool  # the text ends with the end of a line
    open_quote: int | None  # the line of a record whose quotation mark is never closed
    stray_quote: int | None  # the line of a quotation mark that closes a text, and after which the cell goes on
    stray_return: int | None  # the line of a carriage return that ends no line
    commas: bool  # there are commas below the header
    nul: bool  # there are NUL bytes, which no text has

    @property
    def width(self) -> int:
        """Fields of the header."""
        return 1 + _outside(self.header, self.separator.encode())


def scan(path: Path) -> Records | None:
    """The records of a file; None if it holds nothing but blank lines."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return _scan(text)


def _scan(text: mmap.mmap) -> Records | None:
    end = "\n" if text.find(b"\n") >= 0 or text.find(b"\r") < 0 else "\r"
    seen = np.frombuffer(text, np.uint8)
    try:
        found = _ends(seen, ord(end))
        ends, lines = found.places, found.lines
        begins = np.concatenate([[0], ends[:-1] + 1])
        first = next((i for i, (a, b) in enumerate(zip(begins, ends, strict=True)) if text[a:b].strip()), None)
        if first is None:
            return None
        header = text[begins[first] : ends[first]]
        separator = max(SEPARATORS, key=lambda mark: _outside(header, mark.encode()))
        counts = _separators(seen, ord(separator), ends)[first + 1 :]
        begins, ends, lines = begins[first + 1 :], ends[first + 1 :], lines[first + 1 :]
        length = ends - begins
        blank = (length == 0) | ((length == 1) & (seen[np.minimum(begins, len(seen) - 1)] == RETURN))
        return Records(
            header=header,
            separator=separator,
            end_of_line=end,
            line=lines,
            fields=np.where(blank, 0, counts + 1),
            last_is_whole=int(seen[-1]) == ord(end),
            open_quote=int(found.lines[-1]) if found.open_quote else None,
            stray_quote=_stray_quote(seen, {QUOTE, RETURN, ord(separator), ord(end)}, found),
            stray_return=found.stray_return,
            commas=text.find(b",", int(begins[0])) >= 0 if len(begins) else False,
            nul=text.find(b"\0") >= 0,
        )
    finally:
        del seen  # the map cannot be closed while an array looks at it


class _Ends(NamedTuple):
    """Where each record ends and on which line it begins; and the marks that are out of place."""

    places: np.ndarray
    lines: np.ndarray
    open_quote: bool
    stray_return: int | None


def _ends(seen: np.ndarray, end: int) -> _Ends:
    places, breaks_before, quotes, breaks, stray = [], [], 0, 0, None
    for place in range(0, len(seen), BLOCK):
        block = seen[place : place + BLOCK]
        marks = np.flatnonzero(block == end)
        quoted = np.flatnonzero(block == QUOTE)
        outside = (np.searchsorted(quoted, marks) + quotes) % 2 == 0
        places.append(marks[outside] + place)
        breaks_before.append(breaks + np.flatnonzero(outside) + 1)
        if end == LINE_FEED and stray is None:
            returns = np.flatnonzero(block == RETURN)
            returns = returns[(np.searchsorted(quoted, returns) + quotes) % 2 == 0]
            alone = returns[seen[np.minimum(place + returns + 1, len(seen) - 1)] != LINE_FEED]
            stray = 1 + breaks + int(np.searchsorted(marks, alone[0])) if len(alone) else None
        quotes, breaks = quotes + len(quoted), breaks + len(marks)
    found, lines = np.concatenate(places), np.concatenate([[0], *breaks_before]) + 1
    if not len(found) or found[-1] != len(seen) - 1:
        found = np.append(found, len(seen))
    return _Ends(found, lines[: len(found)], quotes % 2 == 1, stray)


def _stray_quote(seen: np.ndarray, may_follow: set[int], ends: _Ends) -> int | None:
    """The first line on which a closing mark is followed by anything else: parsers differ in what such a cell is."""
    follows, quotes = np.isin(np.arange(256), list(may_follow)), 0
    for place in range(0, len(seen), BLOCK):
        quoted = np.flatnonzero(seen[place : place + BLOCK] == QUOTE)
        after = quoted[(np.arange(len(quoted)) + quotes) % 2 == 1] + place + 1
        after = after[after < len(seen)]
        stray = after[~follows[seen[after]]]
        if len(stray):
            return int(ends.lines[np.searchsorted(ends.places, stray[0])])
        quotes += len(quoted)
    return None


def _separators(seen: np.ndarray, separator: int, ends: np.ndarray) -> np.ndarray:
    """How many separators outside quotation marks each record has."""
    counts, quotes = np.zeros(len(ends), np.int64), 0
    for place in range(0, len(seen), BLOCK):
        block = seen[place : place + BLOCK]
        marks = np.flatnonzero(block == separator)
        quoted = np.flatnonzero(block == QUOTE)
        if len(quoted) or quotes % 2:
            marks = marks[(np.searchsorted(quoted, marks) + quotes) % 2 == 0]
        first, last = np.searchsorted(ends, (place, place + len(block)))
        bounds = np.searchsorted(marks, ends[first:last] - place)
        within = np.diff(np.concatenate([[0], bounds, [len(marks)]]))
        counts[first : first + len(within)] += within[: len(counts) - first]
        quotes += len(quoted)
    return counts


def _outside(record: bytes, mark: bytes) -> int:
    """How often `mark` stands outside quotation marks."""
    return sum(part.count(mark) for part in record.split(b'"')[::2])
