"""The gain over what is done today, group by group, with intervals that hold for all groups together.

The judge's gain is the mean of one number an episode, difference + influence. A group's gain is the mean over its own:

    Dg = Σ_{e∈g} (D + influence_e) / |g|,

so that the groups' gains, weighted by their sizes, sum up to the gain. Groups are fixed before any decision is made: by
the first state, or by when an episode was logged. Each of k intervals has level 1 − (1 − level)/k (Bonferroni).

What an episode adds to the gain has the group's own mean where the judge's critic is right; the state ratio, which
corrects a wrong critic on the whole, does so for all groups together and not for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from statewise.data.dataset import Dataset
from statewise.data.readable import ANY, Column, columns_of
from statewise.ope.gate import Decision
from statewise.ope.intervals import bootstrap, cautious
from statewise.ope.quotient import Quotient

FEWEST = 20  # units (or episodes) that a group needs, so that its error is known
MOST_COLUMNS = 4  # by which groups are made where nobody says by which …
OF_EACH_KIND = 2  # … words and numbers, where there are enough of both
MOST_WORDS = 5  # of a column of words that makes groups
DRAWS = 2000
PERIODS = 4

Members = Bool[np.ndarray, " episodes"]


@dataclass(frozen=True)
class GroupGain:
    """What a policy gains over today in one group."""

    name: str  # "age ≤ 61"
    column: str  # "age"; "" where it is of no column
    episodes: int
    gain: float
    low: float
    high: float


def gains_of(decision: Decision, log: Dataset, groups: Mapping[tuple[str, str], Members]) -> tuple[GroupGain, ...]:
    """The gain in each group, by column and name; those with too few units are left out."""
    units = {key: len(np.unique(log.groups[members])) for key, members in groups.items()}
    kept = {key: members for key, members in groups.items() if units[key] >= FEWEST}
    if not kept or not np.isfinite(decision.influence).all():
        return ()
    each = decision.difference + decision.influence
    doubted = any(one.outcome == "doubtful" and not one.allowed_for for one in decision.measures)
    level = 1 - (1 - decision.level) / len(kept)
    quotients = [_mean_over(members, each) for members in kept.values()]
    found = []
    bounds = bootstrap(quotients, log.groups, level, DRAWS, seed=0)
    for (column, name), members, one, bound in zip(kept, kept.values(), quotients, bounds, strict=True):
        if doubted:
            bound = cautious(bound, one, log.groups, level)
        # as the whole interval is, where propensities or critics were estimated
        ends = zip(decision.widened, bound, strict=True)
        low, high = (float(one.value + wider * (end - one.value)) for wider, end in ends)
        if np.isfinite([low, high]).all():
            found.append(GroupGain(name, column, int(members.sum()), one.value, low, high))
    return tuple(found)


def _mean_over(members: Members, values: Float[np.ndarray, " episodes"]) -> Quotient:
    """Σ values / number, over the members; the others still count as units that could have been in it."""
    inside = members.astype(np.float64)
    return Quotient(values * inside, inside, inside, inside)


def by_first_state(log: Dataset, columns: Sequence[Column]) -> dict[tuple[str, str], Members]:
    """Episodes by the raw value of each column in their first state: its words, or below and above its median."""
    first = log.observations[log.starts[:-1]]
    groups: dict[tuple[str, str], Members] = {}
    for column in columns:
        missing = column.missing(first)
        if column.has_words:
            values = np.array(column.values(first))
            for word in _in_order(column, values):
                groups[column.name, f"{column.name}: {word}"] = values == word
        elif not missing.all():
            known = first[~missing, column.first]
            middle = float(np.median(known))
            if (known <= middle).all():  # most lie at the median: those below are the other half
                middle = float(known[known < middle].max(initial=-np.inf))
            upper = first[:, column.first] > middle
            for bounds, inside in (((ANY[0], middle), ~upper), ((middle, ANY[1]), upper)):
                groups[column.name, column.condition({column.first: bounds})] = inside & ~missing
            if missing.any():
                groups[column.name, f"{column.name}: missing"] = missing
    return {key: members for key, members in groups.items() if 0 < members.sum() < log.episodes}


def _in_order(column: Column, values: np.ndarray) -> list[str]:
    """The words that occur, in the order of the log's code."""
    present = list(dict.fromkeys(values.tolist()))
    order = column.code.words or ("false", "true")
    return sorted(present, key=lambda word: order.index(word) if word in order else len(order))


def sensible_columns(log: Dataset, importance: Mapping[str, float]) -> tuple[Column, ...]:
    """Columns of few words, then of numbers, of each those on which the policy depends most; if first states differ."""
    first = log.observations[log.starts[:-1]]

    def differs(column: Column) -> bool:
        values = column.values(first) if column.has_words else first[:, column.first].tolist()
        return len(set(values)) > 1 and (not column.has_words or len(set(values)) <= MOST_WORDS)

    useful = sorted(
        filter(differs, columns_of(log)), key=lambda column: (not column.has_words, -importance.get(column.name, 0.0))
    )
    kinds = [[column for column in useful if column.has_words == worded] for worded in (True, False)]
    wanted = [column for kind in kinds for column in kind[:OF_EACH_KIND]]
    others = [column for column in useful if column not in wanted]
    chosen = [*wanted, *others][:MOST_COLUMNS]
    return tuple(column for column in useful if column in chosen)


def named_columns(log: Dataset, names: Sequence[str]) -> tuple[Column, ...]:
    """The columns with these names; a ValueError where one is not in the log."""
    columns = {column.name: column for column in columns_of(log)}
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise ValueError(f"subgroups: there is no column '{unknown[0]}'; choose from {', '.join(columns)}")
    return tuple(columns[name] for name in names)


def by_period(log: Dataset) -> dict[tuple[str, str], Members]:
    """Episodes by when they were logged: quarters in the log's order, whole units."""
    order = np.unique(log.groups, return_index=True)[1].argsort().argsort()  # of units, by their first episode
    period = order[log.groups] * PERIODS // len(order)
    names = ("first quarter", "second quarter", "third quarter", "last quarter")
    return {("", name): period == number for number, name in enumerate(names)}
