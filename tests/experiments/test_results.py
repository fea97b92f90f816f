"""The numbers in the text of docs/results.md and docs/earlier-results.md are those of their tables."""

from pathlib import Path

import polars as pl
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "results.md"
TEXT = " ".join(PAGE.read_text(encoding="utf-8").split("<!-- hard-example -->")[0].split())
EARLIER_PAGE = PAGE.with_name("earlier-results.md").read_text(encoding="utf-8")
EARLIER = " ".join(EARLIER_PAGE.split("## CartPole from random actions")[0].split())


def words(study: str) -> str:
    """The page that speaks of a study's runs."""
    return EARLIER if study.startswith("earlier/") else TEXT


def of(column: str, digits: int, *methods: str) -> list[tuple[str, str, int]]:
    """Gaps that hold the same of several methods, in the order in which the sentence names them."""
    return [(method, column, digits) for method in methods]


# study, cell, a sentence of the page with gaps for its numbers, and of each gap: method, what of its summary, digits
SAID = [
    (
        "where-it-matters",
        "hard example, aliased",
        "OPPOSD comes to {} of 1 and Off-PAC to {};",
        of("last_mean", 2, "OPPOSD", "Off-PAC"),
    ),
    ("where-it-matters", "hard example, full network", "both come to {}.", of("last_mean", 2, "OPPOSD")),
    ("where-it-matters", "hard example, full network", "both come to {}.", of("last_mean", 2, "Off-PAC")),
    (
        "where-it-matters",
        "CartPole, linear",
        "learns to balance for {} of 200 steps by OPPOSD, in each of ten runs, and for {} by Off-PAC.",
        of("last_mean", 0, "OPPOSD", "Off-PAC"),
    ),
    (
        "where-it-matters",
        "CartPole, full network",
        "it is {} against {} from 500 episodes,",
        of("last_mean", 0, "OPPOSD", "Off-PAC"),
    ),
    (
        "where-it-matters",
        "CartPole, 150 episodes",
        "{} against {} from 150 and",
        of("last_mean", 0, "OPPOSD", "Off-PAC"),
    ),
    ("where-it-matters", "CartPole, 50 episodes", "{} against {} from 50,", of("last_mean", 0, "OPPOSD", "Off-PAC")),
    (
        "where-it-matters",
        "CartPole, behaviour farther",
        "From one that leans the other way it is {} against {}.",
        of("last_mean", 0, "OPPOSD", "Off-PAC"),
    ),
    (
        "earlier/cartpole",
        "cartpole",
        "The last policies of OPPOSD balance for {} steps (least {}), Off-PAC's for {} (least {});",
        [
            *of("last_mean", 1, "OPPOSD"),
            *of("last_least", 0, "OPPOSD"),
            *of("last_mean", 1, "Off-PAC"),
            *of("last_least", 0, "Off-PAC"),
        ],
    ),
    (
        "earlier/cartpole",
        "cartpole",
        "both learn fast and then fall back, to {} and {},",
        of("last_mean", 0, "OPPOSD (paper)", "Off-PAC (paper)"),
    ),
    (
        "suite",
        "CartPole",
        "OPPOSD balances CartPole for {} steps (least {}), Off-PAC for {} (least {}) and CQL for {}.",
        [
            *of("last_mean", 1, "OPPOSD"),
            *of("last_least", 1, "OPPOSD"),
            *of("last_mean", 1, "Off-PAC"),
            *of("last_least", 1, "Off-PAC"),
            *of("last_mean", 1, "CQL"),
        ],
    ),
    ("suite", "hiv", "On `hiv` it ends at {} against {} and {},", of("last_mean", 2, "OPPOSD", "Off-PAC", "CQL")),
    ("suite", "hiv-weak", "on `hiv-weak` at {} against {} and {},", of("last_mean", 2, "OPPOSD", "Off-PAC", "CQL")),
    ("suite", "random MDPs, 20 episodes", "CQL is ahead on those of 20 ({})", of("last_mean", 2, "CQL")),
    ("suite", "ICU-Sepsis", "and on ICU-Sepsis ({}), within chance", of("last_mean", 2, "CQL")),
    ("suite", "inventory", "{} in the inventory,", of("last_mean", 2, "OPPOSD")),
    ("suite", "ICU-Sepsis", "{} on ICU-Sepsis.", of("last_mean", 2, "OPPOSD")),
    ("earlier/cartpole", "cartpole", "CQL does as well ({});", of("last_mean", 1, "CQL")),
    ("earlier/cartpole", "cartpole", "SAC is fastest, and ends at {}.", of("last_mean", 1, "SAC")),
    (
        "earlier/hiv",
        "hiv",
        "OPPOSD ends at {} and Off-PAC at {}, about fifty times the behaviour's {},",
        [*of("last_mean", 2, "OPPOSD", "Off-PAC"), *of("behaviour", 3, "OPPOSD")],
    ),
    (
        "earlier/hiv",
        "hiv-weak",
        "Off-PAC wins at the default rate of the actor ({} against {})",
        of("last_mean", 2, "Off-PAC", "OPPOSD"),
    ),
    (
        "earlier/hiv",
        "hiv-weak",
        "and OPPOSD at a third of it ({} against {}, ten of ten runs):",
        of("last_mean", 2, "OPPOSD, slow actor", "Off-PAC, slow actor"),
    ),
    (
        "earlier/hiv",
        "hiv-weak",
        "OPPOSD climbs faster, is at its best ({} on average)",
        of("best_mean_of_the_curve", 1, "OPPOSD"),
    ),
    (
        "cartpole",
        "cartpole",
        "The last policies of OPPOSD balance for {} steps (least {}), Off-PAC's for {} (least {});",
        [
            *of("last_mean", 1, "OPPOSD"),
            *of("last_least", 0, "OPPOSD"),
            *of("last_mean", 1, "Off-PAC"),
            *of("last_least", 0, "Off-PAC"),
        ],
    ),
    (
        "cartpole",
        "cartpole",
        "both learn fast and then fall back, to {} and {},",
        of("last_mean", 0, "OPPOSD (paper)", "Off-PAC (paper)"),
    ),
    ("cartpole", "cartpole", "CQL does as well ({}),", of("last_mean", 1, "CQL")),
    ("cartpole", "cartpole", "fitted Q iteration ends at {}.", of("last_mean", 1, "Fitted Q")),
    (
        "hiv",
        "hiv",
        "On `hiv` OPPOSD ends at {} and Off-PAC at {}, about fifty times the behaviour's {}:",
        [*of("last_mean", 2, "OPPOSD", "Off-PAC"), *of("behaviour", 3, "OPPOSD")],
    ),
    ("hiv", "hiv-weak", "On `hiv-weak` it is {} against {}:", of("last_mean", 2, "OPPOSD", "Off-PAC")),
    (
        "hiv",
        "hiv-weak",
        "OPPOSD's last policies are nearly its best ({} on average);",
        of("best_mean_of_the_curve", 1, "OPPOSD"),
    ),
    (
        "hiv-variants",
        "hiv",
        "(`discounted-ratio`, our default) ends at {}, the gradient to the letter (`full`) at {}, `average` at {};",
        of("last_mean", 2, "discounted ratio", "full", "average"),
    ),
]
# study, cell, first, second, whether the interval of the last iterates' difference lies above 0, below, or around it,
# and what the page says of it, with gaps for the difference and its interval where it tells them
DECIDED = [
    ("cartpole", "cartpole", "OPPOSD", "Off-PAC", 1, "the paired difference is {} ({} to {})."),
    ("cartpole", "cartpole", "OPPOSD (paper)", "Off-PAC (paper)", 0, "to 151 and 157, and cannot be told apart."),
    ("cartpole", "cartpole", "SAC", "OPPOSD", 1, "better by {} steps ({} to {});"),
    ("hiv", "hiv", "OPPOSD", "Off-PAC", 1, "the behaviour's 0.153: {} more ({} to {}), in ten of ten runs."),
    ("hiv", "hiv-weak", "OPPOSD", "Off-PAC", 1, "5.73 against 3.38: {} more ({} to {})."),
    ("earlier/cartpole", "cartpole", "OPPOSD", "Off-PAC", 1, "the paired difference is {} ({} to {})."),
    (
        "earlier/cartpole",
        "cartpole",
        "OPPOSD (paper)",
        "Off-PAC (paper)",
        0,
        "to 180 and 187, and cannot be told apart.",
    ),
    (
        "earlier/hiv",
        "hiv",
        "OPPOSD",
        "Off-PAC",
        0,
        "about fifty times the behaviour's 0.153, and cannot be told apart.",
    ),
    ("earlier/hiv", "hiv-weak", "Off-PAC", "OPPOSD", 1, "On `hiv-weak` Off-PAC wins at the default rate"),
    ("earlier/hiv", "hiv-weak", "OPPOSD, slow actor", "Off-PAC, slow actor", 1, "and OPPOSD at a third of it"),
    (
        "earlier/hiv",
        "hiv",
        "OPPOSD, no anchor",
        "Off-PAC, no anchor",
        1,
        "the state correction then decides: {} more ({} to {}).",
    ),
    ("hiv-variants", "hiv", "discounted ratio", "full", 1, "ends at 7.55, the gradient to the letter (`full`) at 6.82"),
    ("hiv-variants", "hiv-weak", "discounted ratio", "full", 0, "on `hiv-weak` they cannot be told apart."),
    ("hiv-variants", "hiv-weak", "discounted ratio", "average", 0, "on `hiv-weak` they cannot be told apart."),
    ("where-it-matters", "hard example, aliased", "OPPOSD", "Off-PAC", 1, "OPPOSD comes to 0.98 of 1"),
    ("where-it-matters", "CartPole, linear", "OPPOSD", "Off-PAC", 1, "The state correction decides where the policy"),
    ("where-it-matters", "CartPole, full network", "OPPOSD", "Off-PAC", 1, "from 50, each beyond chance."),
    ("where-it-matters", "CartPole, 150 episodes", "OPPOSD", "Off-PAC", 1, "from 50, each beyond chance."),
    ("where-it-matters", "CartPole, 50 episodes", "OPPOSD", "Off-PAC", 1, "from 50, each beyond chance."),
    ("where-it-matters", "CartPole, sees the angle alone", "OPPOSD", "Off-PAC", 0, "there is no difference;"),
]


def table(study: str, name: str) -> pl.DataFrame:
    return pl.read_parquet(PAGE.parent / "results" / study / f"{name}.parquet")


def exchanged(method: str) -> str:
    """OPPOSD for Off-PAC and Off-PAC for OPPOSD, whatever else its name says."""
    other = {"OPPOSD": "Off-PAC", "Off-PAC": "OPPOSD"}
    begins = next((name for name in other if method.startswith(name)), None)
    return method if begins is None else other[begins] + method.removeprefix(begins)


def filled(study, cell, sentence, gaps, named=lambda method: method) -> str:
    """The sentence with the table's numbers in its gaps; `named` tells whose row to take for a method's."""
    summary = table(study, "summary")

    def number(method, column, digits):
        row = summary.row(by_predicate=(pl.col("cell") == cell) & (pl.col("method") == named(method)), named=True)
        return f"{row[column]:.{digits}f}"

    return sentence.format(*(number(*gap) for gap in gaps))


@pytest.mark.parametrize(("study", "cell", "sentence", "gaps"), SAID)
def test_a_sentence_has_the_numbers_of_the_methods_it_names(study, cell, sentence, gaps):
    assert filled(study, cell, sentence, gaps) in words(study)


COMPARED = [said for said in SAID if len({method for method, _, _ in said[3]}) > 1 and said[0] != "hiv-variants"]


@pytest.mark.parametrize(("study", "cell", "sentence", "gaps"), COMPARED)
def test_no_sentence_would_hold_with_the_two_methods_exchanged(study, cell, sentence, gaps):
    """Else the test above could not tell which of them is ahead."""
    assert filled(study, cell, sentence, gaps, exchanged) not in words(study)


@pytest.mark.parametrize(("study", "cell", "first", "second", "sign", "sentence"), DECIDED)
def test_what_is_said_to_be_decided_is(study, cell, first, second, sign, sentence):
    pairs = table(study, "pairs").filter(of="last iterate", cell=cell)
    swapped = pairs.filter(first=first, second=second).is_empty()
    row = pairs.filter(first=second if swapped else first, second=first if swapped else second).row(0, named=True)
    numbers = row["difference"], row["low"], row["high"]
    difference, low, high = (-numbers[0], -numbers[2], -numbers[1]) if swapped else numbers
    assert (low > 0) - (high < 0) == sign
    assert sentence.format(*(f"{number:.1f}" for number in (difference, low, high))) in words(study)


def test_runs_that_end_below_the_behaviour_are_those_that_are_named():
    below = table("earlier/hiv", "summary").filter(pl.col("runs_below_behaviour") > 0)
    assert set(below.select("cell", "method", "runs_below_behaviour").rows()) == {
        ("hiv-weak", "OPPOSD (paper)", 10),
        ("hiv-weak", "Off-PAC (paper)", 10),
        ("hiv", "CQL", 2),
    }


def test_estimates_follow_the_truth_where_they_are_said_to():
    found = table("hiv-selection", "selection").sort("cell", "evaluation_log")
    paper, ours = found.filter(method="OPPOSD (paper)"), found.filter(method="OPPOSD")

    def two(frame, cell, column):
        return [f"{number:.2f}" for number in frame.filter(cell=cell)[column]]

    hiv, weak = (two(paper, cell, "correlation") for cell in ("hiv", "hiv-weak"))
    assert f"{hiv[0]} and {hiv[1]} on `hiv` (the paper: .80 and .71) and of {weak[0]} and {weak[1]} on" in TEXT
    alone = two(paper, "hiv", "correlation_by_ratio")
    assert f"the paper's estimator, it is {alone[0]} and {alone[1]} on `hiv`" in TEXT
    assert ours["identified"].to_list() == [0] * 4
    assert "every one of them is *not identified*" in TEXT
    (hiv,), (weak,) = (set(two(ours, cell, "select_truth")) for cell in ("hiv", "hiv-weak"))
    times = (ours["select_truth"] / ours["behaviour"]).round().cast(int).to_list()
    assert times[0] == times[1]
    assert times[2] == times[3]
    assert f"earns {hiv} on `hiv` and {weak} on `hiv-weak`, {times[0]} and {times[2]} times the behaviour." in TEXT


def last_scores(study, cell, method):
    runs = table(study, "runs").filter(cell=cell, method=method).sort("update")
    return runs.group_by("dataset").agg(pl.col("score").last())["score"]


@pytest.mark.parametrize(
    ("method", "top", "reach", "sentence"),
    [
        (
            "OPPOSD, no anchor",
            9,
            7,
            "seven of ten runs of OPPOSD on `hiv` reach about 10, more than with it, and three",
        ),
        ("Off-PAC, no anchor", 9, 2, "of Off-PAC two reach 10 and eight fall to .4."),
        ("SAC", 9.95, 3, "SAC ends at 10 or more in three runs of `hiv` and at .4 in seven;"),
    ],
)
def test_runs_reach_the_top_or_fall(method, top, reach, sentence):
    scores = last_scores("earlier/hiv", "hiv", method)
    assert (scores > top).sum() == reach
    assert (scores < 0.5).sum() == 10 - reach
    assert sentence in EARLIER


# what the page says of a method, with gaps for a column of 20, 100 and 500 episodes, or of some of these
SAFE = [
    (
        "Basic RL",
        "random MDPs",
        "mean",
        2,
        (20, 100, 500),
        "planning in a counted model (Basic RL) reaches {}, {} and {}",
    ),
    (
        "Basic RL",
        "random MDPs",
        "cvar_1_percent",
        2,
        (20,),
        "but {} in the worst hundredth of the logs of 20 episodes;",
    ),
    ("DUIPI", "random MDPs", "mean", 2, (20, 100, 500), "DUIPI does best, with {}, {} and {}"),
    ("DUIPI", "random MDPs", "cvar_1_percent", 2, (20, 100, 500), "({}, {} and {} in the worst hundredth)."),
    ("SPIBB", "random MDPs", "mean", 2, (20, 100, 500), "SPIBB waits for eight trials of an action: {}, {} and {}."),
    ("HCPI", "random MDPs", "mean", 2, (20, 100, 500), "it passes hardly anything: {}, {} and {} on random MDPs,"),
    ("HCPI", "Wet Chicken", "mean", 2, (20, 100, 500), "and {}, {} and {} on Wet Chicken."),
    ("HCPI, doubly robust", "random MDPs", "mean", 2, (20, 100, 500), "would reach {}, {} and {} on random MDPs,"),
    (
        "HCPI, doubly robust",
        "Wet Chicken",
        "worse_than_today",
        2,
        (20, 100, 500),
        "in a share of {}, {} and {} of all logs",
    ),
    ("Basic RL", "Wet Chicken", "worse_than_today", 2, (500,), "ends below the behaviour in a share of {} of the logs"),
]


@pytest.mark.parametrize(("method", "domain", "column", "digits", "episodes", "sentence"), SAFE)
def test_the_page_says_of_safe_improvement_what_its_table_says(method, domain, column, digits, episodes, sentence):
    summary = table("safe-improvement", "summary").filter(method=method)
    values = [summary.filter(cell=f"{domain}, {count} episodes")[column].item() for count in episodes]
    assert sentence.format(*(f"{value:.{digits}f}".replace("-", "−") for value in values)) in TEXT


def test_the_page_says_of_certificates_what_their_table_says():
    found = {row["cell"]: row for row in table("certified", "summary").iter_rows(named=True)}
    cart, hiv, weak = (found[name]["times_today"] for name in ("CartPole", "hiv", "hiv-weak"))
    assert (
        f"On all {found['CartPole']['certified']} logs of CartPole a policy is certified, worth {cart:.1f} times"
        in TEXT
    )
    assert f"on all {found['hiv']['certified']} of `hiv` one worth {hiv:.1f} times today's," in TEXT
    assert f"on all {found['hiv-weak']['certified']} of `hiv-weak` one worth {weak:.1f} times;" in TEXT
    icu = found["ICU-Sepsis"]
    assert f"on {icu['certified']} of {icu['logs']} logs of ICU-Sepsis" in TEXT
    mdps = [row for name, row in found.items() if name.startswith("random MDPs")]
    assert f"Of {sum(row['logs'] for row in mdps)} random MDPs {sum(row['certified'] for row in mdps)} certify:" in TEXT
    first, second, third = (row["share_of_the_possible_gain"] for row in mdps)
    assert f"They reach {first:.2f}, {second:.2f} and {third:.2f} of what is possible." in TEXT
    certified, held = (sum(row[name] for row in found.values()) for name in ("certified", "bound_held"))
    assert f"Of these {certified} bounds {held} held, and no certified policy is worse than today's." in TEXT
    runs = table("certified", "runs").filter(pl.col("low").is_not_null())
    assert (runs["value"] > runs["today"]).all()


def test_the_page_says_of_rounds_what_their_table_says():
    found = {(row["cell"], row["round"]): row for row in table("rounds", "summary").iter_rows(named=True)}
    for cell, rounds in (("hiv", (1, 2, 5)), ("hiv-weak", (2, 4, 6))):
        a, b, c = (found[cell, number]["times_the_first_behaviour"] for number in rounds)
        after = "after {}, {} and {} rounds".format(*rounds)
        assert f"`{cell}` to {a:.0f}, {b:.0f} and {c:.0f} times the first behaviour {after}" in TEXT
    deployed, held, worse = (
        sum(row[name] for row in found.values()) for name in ("deployed", "bound_held", "worse_than_before")
    )
    assert f"Of {deployed} bounds {held} held, and " in TEXT
    assert worse == 0
    assert "no policy was worse than the one before" in TEXT
