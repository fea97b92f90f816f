"""Why a column does not describe the state before the decision, where nobody said which columns do."""

from __future__ import annotations

import numpy as np
import polars as pl

from statewise.data.learn_codes import Unreadable, learn_code
from statewise.data.likely import SYNONYMS, normal
from statewise.data.rawlog import Columns

AFTER = ("next", "after", "later", "future")
IDENTIFIERS = ("id", "uuid", "guid", "name", "email", "phone", "mrn")
FEW = 12  # values; a column called `season` or `store` that has no more describes, rather than identifies
FOLLOWS = 0.999  # a correlation that leaves no doubt


def why_left_out(frame: pl.DataFrame, name: str, columns: Columns) -> str | None:
    """The reason in a few words; None where the column may describe the state."""
    series, parts = frame[name], normal(name).split("_")
    if series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object):
        return f"it holds {series.dtype}"
    if series.n_unique() == 1:
        return "every row is the same"
    if set(parts) & set(AFTER):
        return "its name suggests something after the decision"
    for role, what in (("reward", "an outcome"), ("terminated", "the end"), ("propensity", "a probability")):
        if normal(name) in SYNONYMS[role]:
            return f"its name suggests {what}, which is not known before the decision"
    called = normal(name) in (*SYNONYMS["episode"], *SYNONYMS["unit"]) and series.n_unique() > FEW
    if set(parts) & set(IDENTIFIERS) or called:
        return "its name is that of an identifier"
    if series.n_unique() == len(series) and not series.dtype.is_float() and not series.dtype.is_temporal():
        return "every row has a different value, as identifiers do"
    if columns.reward in frame.columns and _follows(series, frame[columns.reward]):
        return "it moves with the reward"
    try:
        learn_code(series, name, dict(columns.orders).get(name, ()), name in columns.words)
    except Unreadable as error:
        # a column of numbers with a few wrong cells is a mistake to be reported, not one to be passed over
        return None if error.rows is not None and series.dtype == pl.String else error.problem
    return None


def _follows(series: pl.Series, reward: pl.Series) -> bool:
    if not series.dtype.is_numeric() or not reward.dtype.is_numeric():
        return False
    both = pl.DataFrame({"x": series.cast(pl.Float64), "r": reward.cast(pl.Float64)}).drop_nulls().drop_nans()
    both = both.to_numpy()
    if len(both) < 3 or not np.isfinite(both).all() or (both.std(axis=0) == 0).any():
        return False
    return bool(abs(np.corrcoef(both.T)[0, 1]) > FOLLOWS)
