"""Settings out of range are refused by name and range, for every algorithm; every number among them has a range."""

import re
from dataclasses import fields, is_dataclass, replace

import pytest

import statewise as sw
from logs import make
from statewise.algorithms import ALGORITHMS
from statewise.base.decode import DecodeError, changed
from statewise.base.ranges import RANGES, Range, check_ranges
from statewise.learning.fit import fit, settled
from statewise.learning.presets import PRESETS, preset
from statewise.parts.ratio_network import RatioNetwork

LOG = make([4] * 6)


def numbers(settings, place=()):
    """Every numeric setting and where it is."""
    for each in fields(settings):
        value = getattr(settings, each.name)
        if is_dataclass(value):
            yield from numbers(value, (*place, each.name))
        elif not isinstance(value, bool | str) and re.search("int|float", str(each.type)):
            yield (*place, each.name), value


EVERY = [(name, algorithm.settings()) for name, algorithm in ALGORITHMS.items()]
EVERY.append(("with a network's ratio", sw.OPPOSD(ratio=RatioNetwork())))
CASES = [(settings, place, value) for _, settings in EVERY for place, value in numbers(settings)]


def put(settings, place, value):
    inner = value if len(place) == 1 else put(getattr(settings, place[0]), place[1:], value)
    return replace(settings, **{place[0]: inner})


def test_every_number_has_a_range_and_every_default_lies_in_it():
    missing = {place[-1] for _, place, _ in CASES} - set(RANGES)
    assert not missing
    for _, settings in EVERY:
        check_ranges(settings)
    for name in PRESETS:
        for algorithm in PRESETS[name]:
            check_ranges(preset(name, algorithm))


WHOLE = ("hidden", "features", "batch", "clone_batch", "members", "updates", "horizon", "trees", "leaf", "rows", "rank")
WHOLE += ("timed_rank", "knots", "steps", "warm_steps", "clone_steps")


@pytest.mark.parametrize("bad", [-4.0, float("nan"), float("inf"), -1e-9])
def test_what_is_out_of_range_is_refused_by_name(bad):
    for settings, place, value in CASES:
        if place[-1] in WHOLE and bad != -4:
            continue
        number = int(bad) if place[-1] in WHOLE else bad
        several = isinstance(value, tuple) or place[-2:] == ("actor", "features")
        with pytest.raises(ValueError, match=": expected") as caught:  # some settings check themselves when made
            settled(put(settings, place, (number,) if several else number), LOG)
        assert str(caught.value).startswith(f"{'.'.join(place)}: expected"), caught.value


def test_the_sentence():
    for change, sentence in (
        ({"actor": {"learning_rate": -1.0}}, "actor.learning_rate: expected 0 or more, got -1.0"),
        ({"critic": {"batch": 0}}, "critic.batch: expected 1 to 1,000,000,000, got 0"),
        ({"actor": {"hidden": [32, -4]}}, "actor.hidden: expected 1 to 65,536, got -4"),
        ({"critic": {"target_rate": 0}}, "critic.target_rate: expected a number above 0, at most 1, got 0"),
        ({"actor": {"clip": 0}}, "actor.clip: expected a number above 0, got 0"),
    ):
        with pytest.raises(DecodeError) as caught:
            fit(LOG, changed(sw.OPPOSD(), change))
        assert str(caught.value).replace("0.0", "0") == sentence.replace("0.0", "0")
    assert [str(Range(*one)) for one in ((0, 1), (2,), (0, 1, True))] == [
        "0 to 1",
        "2 or more",
        "a number above 0, at most 1",
    ]


def test_the_arguments_of_fit_are_checked():
    for arguments, name in (
        ({"seeds": 0}, "seeds"),
        ({"seeds": (1, 1)}, "seeds"),
        ({"checkpoint_every": 0}, "checkpoint_every"),
        ({"updates": 0}, "updates"),
        ({"updates": -5}, "updates"),
    ):
        with pytest.raises(ValueError, match=f"{name}: expected"):
            fit(LOG, "behaviour-cloning", **arguments)
