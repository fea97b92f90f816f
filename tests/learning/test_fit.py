"""Whole runs: what they learn, what two algorithms share, what a seed fixes, and what an interruption leaves."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from logs import make
from statewise.algorithms.offpac import OffPAC
from statewise.algorithms.opposd import OPPOSD
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP
from statewise.learning import program as programs
from statewise.learning.fit import fit, keys_of, prepare
from statewise.learning.program import NotFinite
from statewise.learning.runs import RunError, RunFolder
from statewise.ops.networks import members
from statewise.parts.actor import Actor
from statewise.parts.critic import Critic
from statewise.parts.ratio import ClosedForm, RatioNetwork

MDP = TabularMDP.random(states=4, actions=2, seed=2, termination=0.05)
BEHAVIOUR = np.full((4, 2), 0.5)
SHARED = {
    "discount": 0.9,
    "critic": Critic(hidden=(), batch=200, steps=4, warm_steps=100, learning_rate=2e-2, trace=0.3, closed_form=False),
    "actor": Actor(hidden=(), batch=400, clone_steps=30, clone_batch=100, learning_rate=0.1),
    "updates": 60,
}
CONFIG = OPPOSD(**SHARED, ratio=ClosedForm(features=16, rank=8))
RUN = {"config": CONFIG, "seeds": [3, 5], "checkpoint_every": 20}


@pytest.fixture(scope="module")
def data():
    """Ragged episodes, terminated or cut off; what a terminated one ended in is not logged."""
    log = collect_tabular(MDP, BEHAVIOUR, episodes=200, horizon=20, seed=0)
    assert 20 < log.terminated.sum() < 180
    return log


@pytest.fixture(scope="module")
def whole(data):
    """A run of two seeds that nothing disturbed."""
    return fit(data, **RUN)


def leaves(policy):
    return [*policy.weights, *policy.biases]


def assert_same(one, other):
    """Policies and metrics bit for bit."""
    for left, right in zip(one.policies, other.policies, strict=True):
        for a, b in zip(leaves(left), leaves(right), strict=True):
            np.testing.assert_array_equal(a, b)
    for name, values in one.metrics.items():
        np.testing.assert_array_equal(values, other.metrics[name])


def distance(one, other):
    return max(np.abs(a - b).max() for a, b in zip(leaves(one), leaves(other), strict=True))


# Learning


def shares_of_the_best(result):
    """How far each policy came from the behaviour's value, 0, to the best of all policies', 1."""
    best = max(MDP.value(np.eye(2)[[(code >> s) & 1 for s in range(4)]], 0.9) for code in range(16))
    start = MDP.value(BEHAVIOUR, 0.9)
    reached = [MDP.value(policy.probabilities(np.eye(4)), 0.9) for policy in result.policies]
    return (np.array(reached) - start) / (best - start)


def test_policies_become_nearly_as_good_as_the_best(whole):
    assert (shares_of_the_best(whole) > 0.9).all()


def test_with_the_networks_ratio_too(data):
    config = OPPOSD(**SHARED, ratio=RatioNetwork(hidden=(), batch=40, steps=4, warm_steps=20, learning_rate=1e-2))
    assert (shares_of_the_best(fit(data, **RUN | {"config": config})) > 0.9).all()


# What the algorithms share


@pytest.fixture(scope="module")
def offpac(data):
    """Off-PAC's run of each seed."""
    return {seed: fit(data, OffPAC(**SHARED), seeds=[seed], checkpoint_every=30) for seed in RUN["seeds"]}


def test_the_ratio_makes_another_policy(whole, offpac):
    """With a ratio of one it is the same, bit for bit: tests/algorithms/test_options.py."""
    for i, seed in enumerate(offpac):
        assert distance(whole.policies[i], offpac[seed].policies[0]) > 0.01


def test_effective_share_is_one_without_a_ratio_and_less_with_one(whole, offpac):
    for run in offpac.values():
        np.testing.assert_allclose(run.metrics["ratio_ess"], 1, rtol=1e-5)
    assert (whole.metrics["ratio_ess"] < 1 + 1e-5).all()


# Seeds


def test_same_seed_gives_the_same_policies_bit_for_bit(data, whole):
    assert_same(whole, fit(data, **RUN))


def test_seeds_together_learn_what_each_learns_alone(data, whole):
    """And however often they stop for a checkpoint: an update's random numbers are its seed's and number's alone."""
    assert distance(*whole.policies) > 0.01
    for i, seed in enumerate([3, 5]):
        alone = fit(data, **RUN | {"seeds": [seed], "checkpoint_every": 60})
        for got, expected in zip(leaves(alone.policies[0]), leaves(whole.policies[i]), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(alone.metrics["value"][0], whole.metrics["value"][i], rtol=1e-4)


def test_mapped_seeds_learn_what_seeds_in_turn_learn(data, monkeypatch):
    """Whichever way the device asks for; other stretches, so that each way is compiled."""
    in_turn = fit(data, **RUN | {"checkpoint_every": 5}, updates=10)
    monkeypatch.setattr(programs.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(programs.jax.lax, "map", lambda *arguments: pytest.fail("runs went in turn"))
    mapped = fit(data, **RUN | {"checkpoint_every": 10}, updates=10)
    for one, other in zip(in_turn.policies, mapped.policies, strict=True):
        for got, expected in zip(leaves(one), leaves(other), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_seeds_draw_different_rows(offpac):
    """Without a ratio the heaviest row's share of the weight shows how many rows were drawn, and nothing else."""
    one, other = (run.metrics["ratio_largest"] for run in offpac.values())
    assert (one != other).mean() > 0.5


# Interruptions


class Stop(Exception):
    pass


def interrupted(data, folder, after):
    def stop(progress):
        if progress.update == after:
            raise Stop

    with pytest.raises(Stop):
        fit(data, **RUN, out=folder, progress=stop)


def no_warm_start(monkeypatch):
    """From now on only the shapes of a fresh state may be asked for."""
    monkeypatch.setattr(programs.Compiled, "begin", lambda self: pytest.fail("the warm start was run"))


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("after", [20, 40])
def test_resumed_run_ends_like_one_that_was_never_interrupted(data, whole, tmp_path, monkeypatch, after):
    """And without a second warm start: what is in the folder comes after it."""
    interrupted(data, tmp_path, after)
    no_warm_start(monkeypatch)
    steps = []
    resumed = fit(data, **RUN, out=tmp_path, progress=steps.append)
    assert [progress.update for progress in steps] == list(range(after + 20, 61, 20))
    assert_same(whole, resumed)
    assert resumed.checkpoints.keys() == whole.checkpoints.keys() == {(s, u) for s in (3, 5) for u in (20, 40, 60)}
    for key, policy in whole.checkpoints.items():
        assert distance(policy, resumed.checkpoints[key]) == 0
    before = contents(tmp_path)
    assert_same(whole, fit(data, **RUN, out=tmp_path, progress=lambda progress: pytest.fail("it was finished")))
    assert contents(tmp_path) == before


def test_a_run_that_is_resumed_on_other_cores_says_that_digits_differ(data, tmp_path, monkeypatch):
    interrupted(data, tmp_path, 40)
    known = RunFolder.open(tmp_path).manifest()["threads"]
    monkeypatch.setattr("statewise.learning.fit.threads", lambda: known + 1)
    with pytest.warns(
        UserWarning, match=f"begun on {known} cores and resumed on {known + 1}; sums are added in a different"
    ):
        fit(data, **RUN, out=tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"config": replace(CONFIG, discount=0.94)}, "config"),
        ({"config": OffPAC(**SHARED)}, "algorithm, config"),
        ({"seeds": [3, 6]}, "seeds"),
        ({"dataset": make([3, 6, 1, 5])}, "data"),
    ],
)
def test_folder_of_another_run_is_refused(data, tmp_path, monkeypatch, change, named):
    interrupted(data, tmp_path, 20)
    before = contents(tmp_path)
    no_warm_start(monkeypatch)
    with pytest.raises(RunError, match=f"it holds a run with a different {named}; choose another folder"):
        fit(**{"dataset": data} | RUN | change, out=tmp_path)
    assert contents(tmp_path) == before


def test_folder_with_other_files_is_refused(data, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="it holds other files; choose an empty folder"):
        fit(data, **RUN, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


# Numbers that are not


def huge_critic(state):
    return eqx.tree_at(
        lambda s: members(s.critic.learned.network)[0].weights[0], state, replace_fn=lambda leaf: leaf * 1e30
    )


def huge_momentum(state):
    momentum = optax.tree_utils.tree_get(state.actor.optimiser, "mu")
    huge = jax.tree.map(lambda leaf: jnp.full_like(leaf, 3e38), momentum)
    return eqx.tree_at(lambda s: s.actor.optimiser, state, optax.tree_utils.tree_set(state.actor.optimiser, mu=huge))


@pytest.mark.parametrize(("part", "spoil"), [("critic", huge_critic), ("actor", huge_momentum)])
def test_part_that_is_not_finite_is_named_and_the_last_checkpoint_kept(data, tmp_path, part, spoil):
    """The checkpoint itself is fine in every number; the second seed's next update is not."""
    interrupted(data, tmp_path, 20)
    folder = RunFolder.open(tmp_path)
    running = programs.program(CONFIG, prepare(CONFIG, data)[0], keys_of([0, 1]))
    state = running.restored(folder.read_state().leaves)
    folder.write_state(20, jax.tree.map(lambda old, new: jnp.stack([old[0], new[1]]), state, spoil(state)))
    before = contents(tmp_path)
    with pytest.raises(NotFinite) as caught:
        fit(data, **RUN, out=tmp_path)
    expected = f"the {part} became infinite or not a number at update 21 of seed 5; the checkpoint of update 20 is kept"
    assert str(caught.value).startswith(expected)
    assert str(tmp_path) in str(caught.value)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("config", [CONFIG, OffPAC(**SHARED)])
def test_actor_that_runs_away_is_named_and_not_what_it_spoils(data, config):
    """Its weights are still finite when they no longer give probabilities, and then nothing else can be computed."""
    runaway = replace(config, actor=replace(config.actor, hidden=(4,), learning_rate=1e38))
    with pytest.raises(NotFinite, match=r"^the actor became infinite or not a number at update [23] of seed 0"):
        fit(data, runaway, updates=4)
