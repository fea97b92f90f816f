"""What columns are usually called, and what they then must hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import polars as pl

from statewise.data.encoding import FALSE, TRUE
from statewise.data.learn_codes import Unreadable, learn_code

SYNONYMS = {
    role: tuple(names.split())
    for role, names in {
        "episode": "episode_id episodeid trajectory trajectory_id traj traj_id stay stay_id icustay_id admission "
        "admission_id hadm_id encounter encounter_id session session_id case case_id course course_id run run_id "
        "season",
        "unit": "unit_id patient patient_id patientid patient_no subject subject_id person person_id user user_id "
        "userid customer customer_id client client_id member member_id student student_id household store store_id "
        "sku product product_id",
        "step": "step_no timestep time_step t visit visit_no visit_number turn round period hour day week month stage "
        "seq sequence",
        "time": "timestamp datetime date charttime event_time sent_at sent visit_date date_of_visit hour day week "
        "month visit",
        "action": "action_taken chosen_action treatment decision arm drug drugs therapy medication intervention offer "
        "variant choice dose order order_quantity order_qty ordered template campaign banner a",
        "reward": "rewards r profit revenue margin payoff utility gain benefit outcome score click clicked conversion "
        "converted purchase purchased response sales well_being wellbeing quality_of_life",
        "propensity": "propensity_score pscore p_score prob probability action_prob action_probability p_action p "
        "chance logging_prob logging_probability behavior_prob behaviour_prob",
        "terminated": "done terminal terminals is_terminal ended end end_of_episode final is_last died dead death "
        "deceased discharged churned unsubscribed",
        "truncated": "timeout timeouts truncation censored cut_off lost_to_follow_up",
    }.items()
}
MOST = 50  # different actions
LIKELY_P = ("p", "prob", "probability", "propensity", "pscore", "chance")


def normal(name: str) -> str:
    """`Patient ID` and `patient-id` as `patient_id`."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def fits(role: str, frame: pl.DataFrame, name: str, episode: str) -> bool:
    """Whether the cells of a column are what the role needs."""
    series = frame[name]
    known = series.drop_nulls()
    if len(known) == 0:
        return False
    if role in ("episode", "unit"):
        whole = not series.dtype.is_float() or bool((known == known.floor()).all())
        return whole and not series.null_count() and not series.dtype.is_nested()
    if role in ("terminated", "truncated"):
        words = set(known.cast(pl.String, strict=False).str.to_lowercase().str.strip_chars())
        return words <= {*TRUE, *FALSE}
    if role == "action":
        return 2 <= known.n_unique() <= MOST and not (series.dtype.is_float() and bool((known != known.floor()).any()))
    if role == "reward":
        return series.dtype.is_numeric() or series.dtype == pl.Boolean
    if role == "propensity":
        return _probabilities(known)
    return episode in frame.columns and _orders(role, frame, name, episode)


def identifiers(names: Sequence[str]) -> list[str]:
    """Columns that may name episodes or units."""
    return [name for name in names if normal(name) in (*SYNONYMS["episode"], *SYNONYMS["unit"])]


def likely_propensities(frame: pl.DataFrame) -> list[str]:
    """Columns that hold probabilities and are called so."""
    called = [name for name in frame.columns if set(normal(name).split("_")) & set(LIKELY_P)]
    return [name for name in called if _probabilities(frame[name].drop_nulls())]


def _probabilities(known: pl.Series) -> bool:
    return known.dtype.is_numeric() and len(known) > 0 and bool(((known > 0) & (known <= 1)).all())


def _orders(role: str, frame: pl.DataFrame, name: str, episode: str) -> bool:
    """Whether the column tells the rows of every episode apart and, for steps, numbers them without gaps."""
    series = frame[name]
    if series.null_count() or frame.select(episode, name).is_duplicated().any():
        return False
    if role == "time":
        try:
            return learn_code(series, name).kind in ("number", "date")
        except Unreadable:
            return False
    if not series.dtype.is_integer():
        return False
    each = frame.group_by(episode).agg(first=pl.col(name).min(), last=pl.col(name).max(), rows=pl.len())
    numbered = (each["last"] - each["first"] + 1 == each["rows"]).all() and each["first"].n_unique() == 1
    return bool(numbered) and int(np.asarray(each["first"])[0]) in (0, 1)
