"""ICU-Sepsis against its package's own tables, followed by hand."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from statewise.domains import DOMAINS, icu_sepsis
from statewise.domains.behaviours import Uniform
from statewise.domains.icu_sepsis import problem

installed = pytest.mark.skipif(find_spec("icu_sepsis") is None, reason="needs icu-sepsis")


@pytest.fixture(scope="module")
def tables():
    folder = Path(find_spec("icu_sepsis").origin).parent / "envs" / "assets"  # pyright: ignore
    lines = (folder / "admissible_actions.txt").read_text().splitlines()[1:]
    with np.load(folder / "dynamics.npz") as file:
        return dict(file), [[int(action) for action in line.split()] for line in lines]


def survival(tables, choose, steps=500):
    """The expected sum of the package's own rewards r(s, a, s'), by following the chances of all 716 states."""
    arrays, admissible = tables
    chain, pays = np.zeros((716, 716)), np.zeros(716)
    for state in range(713):  # from the last three, which end an episode, nothing is paid
        for action, chance in choose(arrays["expert_policy"][state], admissible[state]).items():
            row = arrays["tx_mat"][state, action]
            chain[state] += chance * row
            pays[state] += chance * sum(row[s] * arrays["r_mat"][state, action, s] for s in np.flatnonzero(row))
    now, total = arrays["d_0"], 0.0
    for _ in range(steps):
        total += now @ pays
        now = now @ chain
    return total


def as_documented(doctors, admissible):
    total = sum(doctors[action] for action in admissible)
    return {action: 0.7 * doctors[action] / total + 0.3 / len(admissible) for action in admissible}


@installed
def test_the_behaviour_is_worth_what_the_packages_tables_say(tables):
    (earned,) = DOMAINS["icu-sepsis"].play([None], 1).discounted[0]
    assert earned == pytest.approx(survival(tables, as_documented), abs=1e-12)
    assert 0.77 < earned < 0.79  # as many of the recorded patients survived, about


@installed
def test_any_policy_is_kept_to_admissible_actions(tables):
    (uniform,) = DOMAINS["icu-sepsis"].play([Uniform(25)], 1).discounted[0]
    evenly = survival(tables, lambda doctors, admissible: dict.fromkeys(admissible, 1 / len(admissible)))
    assert uniform == pytest.approx(evenly, abs=1e-6)  # the policy is in single precision
    first = survival(tables, lambda doctors, admissible: {admissible[0]: 1.0})
    table = np.zeros((713, 25))
    for state, actions in enumerate(tables[1][:713]):
        table[state, actions[0]] = 1.0
    assert problem().play([table], 1).discounted.item() == pytest.approx(first, abs=1e-12)
    best = problem().table(problem().problem.optimal(1.0))
    assert (best[~problem().legal] == 0).all()
    assert problem().best > 0.87  # the package's authors: 0.88


@installed
def test_a_log_says_what_was_admissible_and_who_survived(tables):
    log = DOMAINS["icu-sepsis"].collect(2000, seed=300)
    assert log.legal is not None
    assert log.distributions is not None
    legal = {tuple(row) for row in np.unique(np.column_stack([log.observations, log.legal]), axis=0)}
    centres = tables[0]["state_cluster_centers"][:713].astype(np.float32)
    possible = {tuple([*seen, *np.isin(np.arange(25), own)]) for seen, own in zip(centres, tables[1], strict=False)}
    assert legal <= possible
    assert len(legal) > 650
    assert (log.distributions[~log.legal] == 0).all()
    assert set(log.rewards) == {0.0, 1.0}
    assert log.rewards[np.setdiff1d(np.arange(len(log)), log.starts[1:] - 1)].max() == 0
    assert log.terminated.all()
    expected = survival(tables, as_documented)
    assert abs(log.returns().mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / 2000)


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(icu_sepsis, "find_spec", lambda name: None)
    problem.cache_clear()
    source = DOMAINS["icu-sepsis"]  # listing domains does not need it
    assert (len(source.observation_names), len(source.action_names), source.discount) == (47, 25, 1.0)
    with pytest.raises(
        ImportError, match=r"^the domain icu-sepsis needs the package icu-sepsis, .*: pip install icu-sepsis$"
    ):
        source.collect(1)
