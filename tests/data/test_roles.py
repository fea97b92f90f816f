"""Which column is what: guessed from names and contents, never against the owner, never what would leak the outcome."""

import numpy as np
import polars as pl
import pytest

import statewise as sw
from statewise.data.findings import LogWarning
from statewise.data.table import read


def sheet(**changes) -> pl.DataFrame:
    """Twenty patients of three visits each."""
    rng, rows = np.random.default_rng(0), 60
    columns = {
        "Patient ID": np.repeat(np.arange(20), 3),
        "Visit": np.tile([1, 2, 3], 20),
        "Weight": rng.normal(70, 5, rows),
        "Treatment given": rng.choice(["none", "drug"], rows),
        "Outcome": rng.normal(size=rows),
        "Done": np.tile([0, 0, 1], 20),
    }
    return pl.DataFrame({name: column for name, column in (columns | changes).items() if column is not None})


def roles(frame, **options) -> dict[str, str]:
    log, findings = read(frame, **{"propensity": "estimate"} | options)
    assert findings.faults == [], findings.faults
    columns = log.schema.columns
    return {role: getattr(columns, role) for role in log.schema.present} | {"observations": columns.observations}


def test_roles_by_name_whatever_the_spelling():
    assert roles(sheet()) == {
        "episode": "Patient ID",
        "step": "Visit",
        "action": "Treatment given",
        "reward": "Outcome",
        "terminated": "Done",
        "observations": ("Weight",),
    }


def test_guesses_are_told_once_with_what_changes_each():
    with pytest.warns(LogWarning) as told:
        sw.load(sheet(), propensity="estimate")
    (guessed,) = [str(one.message) for one in told if "guessed" in str(one.message)]
    for part in ("episode is 'Patient ID' (`Columns(episode=...)`)", "observations are Weight (`Columns(observations="):
        assert part in guessed


def test_what_the_owner_says_counts():
    frame = sheet(Response=np.arange(60.0), Ward=np.tile([1.0, 2.0], 30))
    found = roles(frame, columns=sw.Columns(reward="Response", observations=("Ward",)))
    assert (found["reward"], found["observations"]) == ("Response", ("Ward",))
    _, findings = read(frame, columns=sw.Columns(reward="Gain"), propensity="estimate")
    assert "Gain" in [fault.column for fault in findings.faults]


def test_nothing_is_guessed_where_the_usual_names_are_there():
    frame = sheet().rename(
        {"Patient ID": "episode", "Visit": "step", "Weight": "obs_weight", "Treatment given": "action"}
    )
    frame = frame.rename({"Outcome": "reward", "Done": "terminated"}).with_columns(patient=pl.col("episode") // 2)
    log = sw.load(frame, propensity="estimate")
    assert log.schema.guessed == ()
    assert log.units is None
    assert log.schema.left_out == (("patient", "not used"),)


def test_a_patient_is_the_unit_where_there_are_stays():
    found = roles(sheet(**{"Stay": np.repeat(np.arange(100, 120), 3), "Patient ID": np.repeat(np.arange(10), 6)}))
    assert (found["episode"], found["unit"]) == ("Stay", "Patient ID")


@pytest.mark.parametrize(
    ("name", "column", "reason"),
    [
        ("Reward next", np.random.default_rng(1).normal(size=60), "its name suggests something after the decision"),
        (
            "clicked",
            np.tile([True, False], 30),
            "its name suggests an outcome, which is not known before the decision",
        ),
        ("propensity_score", np.full(60, 2.0) + np.arange(60) % 2, "its name suggests a probability"),
        ("Ward ID", np.tile([1, 2], 30), "its name is that of an identifier"),
        ("row", np.arange(60), "every row has a different value, as identifiers do"),
        ("Country", ["NL"] * 60, "every row is the same"),
        ("Points", None, "it moves with the reward"),
        ("Note", [f"note {i // 2}" for i in range(60)], "there are 30 different words, and none of them is frequent"),
    ],
)
def test_what_is_no_observation_says_why(name, column, reason):
    frame = sheet()
    frame = frame.with_columns(pl.Series(name, frame["Outcome"] * -3 + 1 if column is None else column))
    if name == "Note":  # words on fewer than 1 % of the rows
        parts = [frame.with_columns(pl.col("Patient ID") + 100 * i, pl.col("Note") + str(i)) for i in range(9)]
        frame = pl.concat(parts)
        reason = "there are 270 different words, and none of them is frequent"
    log, findings = read(frame, propensity="estimate")
    assert findings.faults == []
    assert log.observation_names == ("Weight",)
    ((left, why),) = log.schema.left_out
    assert left == name
    assert why.startswith(reason)


def test_times_order_the_rows_of_an_episode():
    days = np.tile(["09.01.2024", "02.02.2024", "31.12.2023"], 20)
    log, findings = read(sheet(Visit=None, Date=days, Done=np.tile([0, 1, 0], 20)), propensity="estimate")
    assert findings.faults == []
    weights = sheet()["Weight"].to_numpy().reshape(20, 3)
    np.testing.assert_array_equal(log.observations[:, 0].reshape(20, 3), weights[:, [2, 0, 1]])
    # the same time twice is a fault of the column that the log has
    twice = sheet(Visit=None, Date=np.tile(["2024-01-01", "2024-01-01", "2024-01-02"], 20))
    _, findings = read(twice, columns=sw.Columns(time="Date"), propensity="estimate")
    assert [(fault.column, fault.problem) for fault in findings.faults] == [
        ("Date", "20 rows repeat a step of their episode")
    ]


def test_a_likely_propensity_is_named_and_one_called_so_is_taken():
    chances = np.full(60, 0.5)
    assert roles(sheet(prob=chances), propensity="logged")["propensity"] == "prob"
    assert roles(sheet(**{"P Treatment given": chances}), propensity="logged")["propensity"] == "P Treatment given"
    _, findings = read(sheet(p_drug=chances))
    (fault,) = findings.faults
    assert "Perhaps 'p_drug' holds them: `Columns(propensity='p_drug')`" in fault.advice
    # numbers above 1 are no probabilities, whatever their name
    _, findings = read(sheet(prob=chances * 4))
    assert [fault.column for fault in findings.faults] == ["propensity"]


def test_hints_never_offer_reward_identifiers_or_probabilities():
    others = {"p_drug": np.full(60, 0.5), "mrn": np.arange(60)}
    _, findings = read(sheet(**others | {"Patient ID": None}))
    (fault,) = [fault for fault in findings.faults if fault.column == "obs_*"]
    assert "Columns(observations=('Visit', 'Weight'))" in fault.advice


@pytest.mark.parametrize(("column", "role"), [("Treatment given", "action"), ("Outcome", "reward")])
def test_observations_are_not_asked_for_where_they_will_be_guessed(column, role):
    _, findings = read(sheet(**{column: None, "Given": np.arange(60) % 2.5}), propensity="estimate")
    assert [fault.column for fault in findings.faults] == [role]
    named = roles(sheet(**{column: None, "Given": np.arange(60) % 3}), columns=sw.Columns(**{role: "Given"}))
    assert named[role] == "Given"
    assert named["observations"] == ("Weight",)


def test_the_action_is_what_a_probability_is_of():
    frame = sheet(Colour=np.tile(["red", "blue"], 30), p_colour=np.full(60, 0.5), **{"Treatment given": None})
    found = roles(frame, propensity="logged")
    assert (found["action"], found["propensity"]) == ("Colour", "p_colour")


def test_a_name_of_episodes_that_spans_units_describes_the_state():
    stores = {
        "Store": np.repeat([f"S{i}" for i in range(20)], 3),
        "Season": np.tile(["spring", "summer", "autumn"], 20),
    }
    found = roles(sheet(**stores | {"Patient ID": None}))
    assert found["episode"] == "Store"
    assert found["observations"] == ("Weight", "Season")
    within = roles(sheet(Season=np.arange(60) // 3 + 100))
    assert (within["episode"], within["unit"]) == ("Season", "Patient ID")


def test_episodes_of_one_decision_end_by_themselves_and_others_are_asked_about():
    single = sheet(**{"Patient ID": np.arange(60), "Done": None, "Visit": None})
    log, _ = read(single, propensity="estimate")
    assert log.terminated.all()
    assert "ends" in log.schema.guessed
    _, findings = read(sheet(Done=None), propensity="estimate")
    assert [fault.column for fault in findings.faults] == ["terminated"]


def test_an_end_that_holds_for_all_rows_of_an_episode():
    died = np.repeat(np.arange(20) % 2 == 0, 3)
    log, findings = read(sheet(Done=None, Died=died), propensity="estimate")
    assert findings.faults == []
    assert log.terminated.tolist() == [True, False] * 10
    assert log.observation_names == ("Weight",)


def test_amounts_are_names_of_actions_and_stay_so():
    frame = sheet(**{"Treatment given": np.tile([0, 20, 40], 20)})
    log = sw.load(frame, propensity="estimate")
    assert log.action_names == ("0", "20", "40")
    assert log.actions.tolist() == [0, 1, 2] * 20
    later = frame.filter(pl.col("Treatment given") > 0).with_columns(Visit=pl.col("Visit") - 1)
    again = sw.load(later, schema=log.schema)
    assert again.actions.tolist() == [1, 2] * 20
    _, findings = read(frame.with_columns(pl.col("Treatment given") + 5), schema=log.schema)
    assert "5 is not one of the actions" in findings.faults[0].problem


def test_propensities_that_were_set_aside_stay_so_and_new_ones_are_used():
    logged = sheet(propensity=np.full(60, 0.5))
    aside = sw.load(logged, propensity="estimate").schema
    assert aside.propensity == "ignored"
    assert sw.load(logged, schema=aside).propensities is None
    none = sw.load(sheet(), propensity="estimate").schema
    assert sw.load(sheet(), schema=none).propensities is None
    assert sw.load(logged, schema=none).propensities.tolist() == [0.5] * 60


def test_identifiers_that_look_like_numbers_stay_apart(tmp_path):
    """007 and 7 are two patients, also where nobody said that they are patients."""
    rows = [f"{patient},{t},{t + 0.5},{t},1,{t}" for patient in ("7", "007", "8") for t in (0, 1)]
    (tmp_path / "log.csv").write_text("\n".join(["Patient,Visit,Weight,drug,Outcome,done", *rows]))
    log = sw.load(tmp_path / "log.csv", propensity="estimate")
    assert log.episode_ids.tolist() == ["7", "007", "8"]


def test_a_column_is_not_two_things_at_once():
    frame = sheet(Visit=np.tile([0, 1, 2], 20))
    for columns, problem in (
        (sw.Columns(action="Done", reward="Done"), "it is given as action and reward"),
        (sw.Columns(propensity="Outcome", reward="Outcome"), "it is given as reward and propensity"),
    ):
        _, findings = read(frame, columns=columns, propensity="estimate")
        assert problem in [fault.problem for fault in findings.faults]
    found = roles(frame, columns=sw.Columns(episode="Patient ID", unit="Patient ID", reward="Done", terminated="Done"))
    assert (found["unit"], found["terminated"]) == (found["episode"], found["reward"])  # those may be


def test_words_and_orders_are_of_observations():
    frame = sheet(obs_ward=np.tile([1, 2], 30), Weight=None)
    for columns, advice in (
        (sw.Columns(words=("ward",)), "Did you mean 'obs_ward'? Check `Columns(words=...)`"),
        (sw.Columns(orders=(("pain", ("low", "high")),)), "The observations are obs_ward. Check `Columns(orders=...)`"),
    ):
        _, findings = read(frame, columns=columns, propensity="estimate")
        (fault,) = findings.faults
        assert (fault.problem, fault.advice) == ("it is not an observation", advice)
    assert read(frame, columns=sw.Columns(words=("obs_ward",)), propensity="estimate")[1].faults == []
