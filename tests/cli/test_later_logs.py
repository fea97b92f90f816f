"""Of several logs, the later ones have probabilities of their own, also where the first has none."""

import pytest
from rich.console import Console

import statewise as sw
from awkward import email
from statewise.cli.improve import _read, command

FLAGS = ("--propensity", "estimate", "--ends", "truncated")


def read(*logs, flags=FLAGS):
    """The logs as `improve` reads them."""
    options = command.make_context("improve", ["log.csv", *flags]).params
    return _read(logs, options, Console(quiet=True))


@pytest.fixture
def logs(tmp_path):
    """The second has propensities, the first has them in `whole.csv` alone."""
    whole, first, second = (tmp_path / name for name in ("whole.csv", "first.csv", "second.csv"))
    whole.write_text(email(30))
    rows = [line.split(",") for line in email(30).strip().split("\n")]
    place = rows[0].index("p_offer")
    first.write_text("\n".join(",".join(cells[:place] + cells[place + 1 :]) for cells in rows) + "\n")
    second.write_text(email(30, seed=1))
    return whole, first, second


def test_a_later_log_keeps_its_propensities(logs):
    _, first, second = logs
    unknown, known = read(first, second)
    assert unknown.propensities is None
    with pytest.warns(sw.LogWarning, match="guessed"):
        assert (known.propensities == sw.load(second, ends="truncated").propensities).all()


def test_where_logged_ones_are_to_be_ignored_they_are_in_every_log(logs):
    whole, _, second = logs
    both = read(whole, second, flags=(*FLAGS, "--propensity-column", "p_offer"))
    assert [log.propensities for log in both] == [None, None]
