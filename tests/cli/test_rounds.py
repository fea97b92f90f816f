"""`statewise rounds`: what it asks for, and what it shows. The rounds themselves are tested in `test_loop`."""

import json
from dataclasses import asdict

import pytest

from statewise.domains import DOMAINS
from statewise.learning.presets import preset
from statewise.loop import Round

DONE = (
    Round(
        1, 40, today=1.0, deployed=True, step=0.2, least=1.6, gain_at_least=0.5, value=1.8, goal=3.0, algorithm="cql"
    ),
    Round(2, 40, today=1.8, deployed=False, step=0.0, least=1.8, gain_at_least=0.0, value=1.8, goal=3.5, algorithm="a"),
)


@pytest.fixture
def asked(monkeypatch):
    """What the loop was asked for."""
    asked = []

    def rounds(source, **options):
        asked.append((source, options))
        return DONE

    monkeypatch.setattr("statewise.cli.rounds.rounds", rounds)
    return asked


def test_it_asks_for_what_the_flags_say(asked, statewise, tmp_path):
    (tmp_path / "out").mkdir()  # as the rounds would
    flags = ("--rounds", 2, "--episodes", 40, "--seed", 3, "--preset", "quick")
    code, out, _ = statewise("rounds", "--domain", "hiv", *flags, "--out", tmp_path / "out", "--json")
    assert code == 0
    ((source, options),) = asked
    assert source is DOMAINS["hiv"]
    assert (options["rounds"], options["episodes"], options["seed"]) == (2, 40, 3)
    assert options["config"] == preset("quick", "opposd")
    assert options["plan"].beside == (preset("quick", "offpac"), preset("quick", "cql"))
    assert options["plan"].discount == source.discount
    figure = tmp_path / "out" / "rounds.svg"
    assert json.loads(out) == {"domain": "hiv", "rounds": [asdict(one) for one in DONE], "figure": str(figure)}
    assert figure.is_file()


def test_a_person_reads_the_truth_beside_what_was_certified(asked, statewise):
    code, out, _ = statewise("rounds", "--domain", "hiv")
    assert code == 0
    scale = DOMAINS["hiv"].reward_scale
    first, second = (" ".join(line.split()) for line in out.splitlines()[1:3])
    of = {value: f"{scale * value:.4g}" for value in (1.0, 1.5, 1.8, 3.0, 3.5)}
    assert first == f"1 40 {of[1.0]} 20 % ≥ {of[1.5]} {of[1.8]} {of[3.0]} cql"
    assert second == f"2 40 {of[1.8]} – – {of[1.8]} {of[3.5]} a"
    assert "figure" not in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "Missing option '--domain'"),
        (("--domain", "mars"), "there is no domain 'mars'"),
        (("--domain", "hiv", "--rounds", "0"), "'--rounds'"),
        (("--domain", "hiv", "--episodes", "14"), "'--episodes'"),
    ],
)
def test_what_cannot_be_is_refused(asked, statewise, flags, message):
    code, _, err = statewise("rounds", *flags)
    assert code == 2
    assert message in err
    assert asked == []
