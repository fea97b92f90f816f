"""A file format of a user's own: one JSON object a line."""

import polars as pl

import statewise as sw
from statewise.data.findings import RowNames
from statewise.data.frame import Opened


def read(path, columns, findings):
    return Opened(pl.read_ndjson(path), RowNames("line", 1), shared=False)


def write(frame, path, metadata):
    frame.write_ndjson(path)


sw.FORMATS.add(".jsonl", sw.Format(read=read, write=write))
