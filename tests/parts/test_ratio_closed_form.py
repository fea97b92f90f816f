"""w in closed form against exact ratios of finite problems, and its equations against plain sums."""

from dataclasses import fields, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from logs import make, stands_for
from statewise.algorithms import opposd
from statewise.algorithms.opposd import OPPOSD
from statewise.data.augment import smooth
from statewise.data.device import Rows, device_log
from statewise.domains.collect import collect_tabular
from statewise.domains.tabular import TabularMDP, softmax, with_absorbing
from statewise.ops.contrasts import contrasts_of
from statewise.ops.networks import Network
from statewise.parts import ratio, ratio_closed_form
from statewise.parts.chain import chain_of
from statewise.parts.policy import action_ratio
from statewise.parts.ratio import Ground
from statewise.parts.ratio_closed_form import FOLDS, Actions, Flow, draw_rows, make_flow
from statewise.parts.ratio_features import ClosedForm, make_basis, turned

STATES, ACTIONS = 6, 2
DISCOUNT = {"discounted": 0.9, "renewal": 1.0, "continuing": 1.0}
TERMINATION = {"discounted": 0.0, "renewal": 0.15, "continuing": 0.0}
NEARLY_FREE = ClosedForm(regularisation=(1e-6,), rows=10**9)  # as little as single precision can bear

# compiled whole: operation by operation it would be hundreds of programs
solve, draw = eqx.filter_jit(ratio_closed_form.solve), eqx.filter_jit(draw_rows)


def problem(seed, termination=0.0):
    """Transitions to a few states each, so that policies differ in where they go."""
    rng = np.random.default_rng(seed)
    transitions = (1 - termination) * rng.dirichlet(np.full(STATES, 0.3), size=(STATES, ACTIONS))
    mdp = TabularMDP(transitions, rng.random((STATES, ACTIONS)), rng.dirichlet(np.ones(STATES)))
    return mdp, rng.dirichlet([3.0, 3.0], size=STATES), rng.dirichlet([1.0, 1.0], size=STATES)


def linear(table):
    """The network that gives row s of the table for the one-hot state s."""
    table = np.asarray(table)
    return Network((jnp.asarray(table),), (jnp.zeros(table.shape[1]),))


# The population: every (s,a,s') once, with its probability as weight


def population(mdp, behaviour, chain, legal=None):
    """The equations' rows; what an unlimited log would hold."""
    discount = DISCOUNT[chain]
    visits = mdp.occupancy(behaviour, discount)
    entries = []
    for s, a, t in np.ndindex(STATES, ACTIONS, STATES + 1):
        ends = t == STATES
        chance = mdp.termination[s, a] if ends else mdp.transitions[s, a, t]
        entries.append((s, a, s if ends else t, 0.0 if ends else discount, visits[s] * behaviour[s, a] * chance))
    state, action, following, onward, weight = (np.array(column) for column in zip(*entries, strict=True))
    n, eye = len(entries), np.eye(STATES)
    basis = turned(NEARLY_FREE, None, np.sqrt(visits * STATES)[:, None] * eye)  # E_μ[φφᵀ] = I
    phi = jnp.asarray(eye) @ basis.turn
    flow = Flow(
        phi=jnp.concatenate([phi[state], phi[following]]),
        following=jnp.arange(n, 2 * n),
        onward=jnp.asarray(onward),
        weight=jnp.asarray(weight),
        fresh=jnp.asarray(mdp.initial) @ phi,
        folds=jnp.tile(jnp.arange(n), (FOLDS, 1)),
        sizes=jnp.full(FOLDS, n),
        importance=basis.importance,
        continuing=chain == "continuing",
    )
    needed = {
        "state": jnp.asarray(eye[state]),
        "next_state": jnp.asarray(eye[following]),
        "action": jnp.asarray(action),
        "propensity": jnp.asarray(np.where(behaviour > 0, behaviour, 1.0)[state, action]),  # 0 only where the weight is
        "legal": None if legal is None else jnp.asarray(legal[state]),
        "index": jnp.arange(n),
    }
    rows = Rows(**{field.name: jnp.zeros(n) for field in fields(Rows)} | needed)
    return flow, rows, phi


@eqx.filter_jit
def solved(settings, flow, rows, phi, policy):
    where, weight = draw(flow, settings.rows, jax.random.key(0))
    solution = solve(settings, flow, where, weight, action_ratio(policy, rows)[where])
    return phi @ solution.beta, solution.residual


@pytest.mark.parametrize("seed", [17, 25, 37])
@pytest.mark.parametrize("chain", ["discounted", "renewal", "continuing"])
def test_population_gives_the_exact_ratio(chain, seed):
    mdp, behaviour, policy = problem(seed, TERMINATION[chain])
    w, residual = solved(NEARLY_FREE, *population(mdp, behaviour, chain), linear(np.log(policy)))
    exact = mdp.ratio(policy, behaviour, DISCOUNT[chain])
    assert np.ptp(exact) > 0.5
    np.testing.assert_allclose(w, exact, rtol=1e-4)
    assert abs(residual) < 1e-9


@pytest.mark.parametrize("seed", [17, 25, 37])
@pytest.mark.parametrize("chain", ["discounted", "renewal"])
def test_tests_of_state_and_action_hold_for_the_exact_ratio_and_for_no_other(chain, seed):
    """By themselves too, without those of states: κφ takes the place of φ for any function κ of the state."""
    mdp, behaviour, policy = problem(seed, TERMINATION[chain])
    flow, rows, phi = population(mdp, behaviour, chain)
    exact = mdp.ratio(policy, behaviour, DISCOUNT[chain])
    kappa = policy @ contrasts_of(ACTIONS)
    state, following = (np.asarray(one).argmax(axis=1) for one in (rows.state, rows.next_state))
    fresh = jnp.asarray((mdp.initial[:, None] * kappa).T, jnp.float32) @ phi
    actions = Actions(jnp.asarray(kappa[state], jnp.float32), jnp.asarray(kappa[following], jnp.float32), fresh)
    where, weight = draw(flow, NEARLY_FREE.rows, jax.random.key(0))
    rho = action_ratio(linear(np.log(policy)), rows)[where]
    solution = solve(NEARLY_FREE, flow, where, weight, rho, actions)
    np.testing.assert_allclose(phi @ solution.beta, exact, rtol=1e-4)
    pairs = ratio_closed_form._of_pairs(flow, where, weight * rho, actions)[0]
    assert pairs.shape == (2 * len(flow.fresh), len(flow.fresh))
    beta = np.linalg.lstsq(np.asarray(phi), exact, rcond=None)[0]
    np.testing.assert_allclose(pairs @ beta, 0, atol=1e-5)
    wrong = np.linalg.lstsq(np.asarray(phi), np.ones(STATES), rcond=None)[0]
    assert np.abs(np.asarray(pairs)[len(flow.fresh) :] @ wrong).max() > 1e-3


@pytest.mark.parametrize("chain", ["discounted", "continuing"])
def test_population_in_double_precision_is_as_exact_as_regularisation_lets_it(chain):
    mdp, behaviour, policy = problem(17, TERMINATION[chain])
    with jax.enable_x64(True):
        settings = replace(NEARLY_FREE, regularisation=(1e-11,))
        w, _ = solved(settings, *population(mdp, behaviour, chain), linear(np.log(policy)))
    np.testing.assert_allclose(w, mdp.ratio(policy, behaviour, DISCOUNT[chain]), rtol=1e-8)


@pytest.mark.parametrize("chain", ["discounted", "renewal"])
def test_population_with_illegal_actions_gives_the_exact_ratio(chain):
    """The policy's softmax runs over what is legal in each state alone."""
    mdp, behaviour, _ = problem(1, TERMINATION[chain])
    legal = np.array([[True, True], [True, False], [True, True], [False, True], [True, True], [True, True]])
    behaviour = np.where(legal, behaviour, 0) / np.where(legal, behaviour, 0).sum(axis=1, keepdims=True)
    logits = np.random.default_rng(0).normal(size=(STATES, ACTIONS))
    policy = softmax(np.where(legal, logits, -np.inf))
    w, _ = solved(NEARLY_FREE, *population(mdp, behaviour, chain, legal), linear(logits))
    exact = mdp.ratio(policy, behaviour, DISCOUNT[chain])
    ignored = mdp.ratio(softmax(logits), behaviour, DISCOUNT[chain])
    assert np.abs(exact - ignored).max() > 0.05
    np.testing.assert_allclose(w, exact, rtol=1e-4)


# Sampled logs


def ground_of(data, chain, settings=NEARLY_FREE):
    """One-hot observations as features."""
    basis = turned(settings, None, np.asarray(data.observations, np.float64))
    return Ground(jnp.asarray(1.0), basis, make_flow(basis, data, chained(data, chain)))


@eqx.filter_jit
def fitted(settings, ground, policy, log, chain, states):
    state = ratio.initial(settings, ground, log.rows.features, jax.random.key(0))
    state = ratio.fit(settings, ground, state, policy, log, chain, jax.random.key(1))
    return ratio.of_states(ground, state, states), ratio.of_rows(ground, state, log.rows.take(log.starts))


def chained(data, kind):
    """The log's chain, of that kind whatever its episodes ended by."""
    chain = chain_of(data, DISCOUNT[kind], stationary=kind == "continuing")
    assert chain.kind == kind
    return chain


def from_log(data, chain, policy, states=None):
    log = device_log(data, DISCOUNT[chain])
    states = jnp.eye(STATES) if states is None else jnp.asarray(states, jnp.float32)
    w, at_starts = fitted(NEARLY_FREE, ground_of(data, chain), policy, log, chain, states)
    return np.asarray(w, np.float64), np.asarray(at_starts)


@pytest.mark.parametrize(
    ("chain", "sizes", "seeds"),
    [("discounted", (60, 600, 6000), 4), ("continuing", (60, 6000), 4), ("renewal", (300, 10_000), 2)],
)
def test_error_falls_with_the_root_of_the_episodes(chain, sizes, seeds):
    mdp, behaviour, policy = problem(17, TERMINATION[chain])
    if chain == "continuing":  # from anywhere else a log would be off by something in 1/60
        mdp = replace(mdp, initial=mdp.occupancy(behaviour, 1.0))
    exact, visits = mdp.ratio(policy, behaviour, DISCOUNT[chain]), mdp.occupancy(behaviour, DISCOUNT[chain])
    errors = []
    for size in sizes:
        squares = []
        for seed in range(seeds):
            data = collect_tabular(mdp, behaviour, episodes=size, horizon=60, seed=seed)
            w, _ = from_log(data, chain, linear(np.log(policy)))
            squares.append(visits @ (w / exact - 1) ** 2)
        errors.append(np.sqrt(np.mean(squares)))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.7 < slope < -0.35
    assert errors[-1] < 0.02


def test_smoothed_log_gives_the_ratio_of_the_augmented_problem():
    """What the behaviour never does leads to the absorbing state, whose ratio is fitted like any other's."""
    mdp, behaviour, policy = problem(17)
    epsilon = 0.2
    behaviour[0], behaviour[3] = [1, 0], [0, 1]
    data = smooth(collect_tabular(mdp, behaviour, episodes=6000, horizon=60, seed=0), epsilon).dataset
    smoothed = np.where(behaviour == 0, epsilon, behaviour * np.where(behaviour == 1, 1 - epsilon, 1.0))
    augmented = mdp.augmented(behaviour)
    exact = augmented.ratio(with_absorbing(policy), with_absorbing(smoothed), 0.9)
    states = np.vstack([np.eye(STATES, STATES + 1), data.observations[~data.live][0]])
    logits = np.vstack([np.log(policy), np.zeros(ACTIONS)])
    w, at_starts = from_log(data, "discounted", linear(logits), states)
    assert np.ptp(exact) > 1
    np.testing.assert_allclose(w, exact, rtol=0.03)
    np.testing.assert_allclose(at_starts, w[data.observations[data.starts[:-1]].argmax(axis=1)], rtol=1e-4)


def test_average_variant_is_the_average_case_where_episodes_end():
    mdp, behaviour, _ = problem(17, 0.15)
    data = collect_tabular(mdp, behaviour, episodes=30, horizon=100, seed=0)
    config = OPPOSD(discount=0.9, variant="average", ratio=ClosedForm(features=8))
    flow = opposd.prepare(config, data, jax.random.key(0))[0].ground.flow
    assert set(np.asarray(flow.onward).tolist()) == {0.0, 1.0}
    assert set(np.asarray(flow.weight).tolist()) == {1.0}


# The equations, in plain sums


def plain_sums(data, chain, phi_of, rho, rows):
    """M and a over those rows, from the definition; and the mean of φφᵀ over all."""
    discount = DISCOUNT[chain]
    phi, last = phi_of(data.observations), set((data.starts[1:] - 1).tolist())
    fresh = np.mean([phi[start] for start in data.starts[:-1]], axis=0)
    total, mean, weights = np.zeros((phi.shape[1],) * 2), np.zeros(phi.shape[1]), 0.0
    standing, horizon = (np.ones(len(data)), np.inf) if chain == "continuing" else stands_for(data)
    for i in rows:
        episode = data.episode_of_step[i]
        weight = discount ** data.time[i] * standing[i]
        if i not in last:
            arrived, cut = phi[i + 1], False
        else:
            cut = np.isnan(data.final_observations[episode]).any()
            arrived = phi[i] if cut else phi_of(data.final_observations[episode : episode + 1])[0]
        if chain == "continuing":
            if cut:
                continue
            total += weight * (rho[i] * np.outer(arrived, phi[i]) - np.outer(arrived, arrived))
        else:
            onward = 0.0 if i in last or data.time[i] + 1 >= horizon else discount
            target = onward * arrived + (1 - onward) * fresh
            total += weight * np.outer(rho[i] * target - phi[i], phi[i])
        mean += weight * phi[i]
        weights += weight
    return total / weights, mean / weights, phi.T @ phi / len(phi)


def best(imbalance, mean, penalty):
    """argmin ‖Mb‖² + bᵀPb subject to aᵀb = 1, from the conditions of Karush, Kuhn and Tucker."""
    n = len(mean)
    conditions = np.block([[2 * imbalance.T @ imbalance + 2 * penalty, mean[:, None]], [mean[None], np.zeros((1, 1))]])
    return np.linalg.solve(conditions, np.append(np.zeros(n), 1.0))[:n]


@pytest.fixture(scope="module", params=["discounted", "renewal", "continuing"])
def ragged(request):
    """A log with every kind of end, features of it, and ρ of some policy."""
    final = [e % 3 > 0 for e in range(40)]
    data = make([1 + e % 7 for e in range(40)], final=final)
    data = replace(
        data, observations=data.observations / [80.0, 1.0], final_observations=data.final_observations / [80.0, 1.0]
    )
    if request.param == "continuing":  # which no episode that ends is
        data = replace(data, terminated=np.zeros(40, bool))
    rho = np.random.default_rng(5).gamma(2.0, 0.5, size=len(data))
    return request.param, data, rho


def solve_on(settings, data, chain, rho):
    basis = make_basis(settings, data.observations, 1.0, jax.random.key(4))
    flow = make_flow(basis, data, chained(data, chain))
    rows, weight = draw(flow, 10**6, jax.random.key(0))
    solution = solve(settings, flow, rows, weight, jnp.asarray(rho, jnp.float32)[rows])

    def raw(states):
        return np.asarray(basis.features(jnp.asarray(states, jnp.float32)), np.float64)

    return np.asarray(flow.phi[: len(data)] @ solution.beta, np.float64), solution, raw, folds_of(flow)


def folds_of(flow):
    return [np.asarray(flow.folds[f])[: int(flow.sizes[f])] for f in range(FOLDS)]


def test_folds_part_the_log_by_episode():
    data = make([1 + e % 7 for e in range(40)])
    folds = folds_of(make_flow(turned(ClosedForm(), None, data.observations), data, chained(data, "renewal")))
    assert sorted(np.concatenate(folds).tolist()) == list(range(len(data)))
    episodes = [set(data.episode_of_step[fold].tolist()) for fold in folds]
    assert sum(map(len, episodes)) == 40
    assert max(map(len, episodes)) - min(map(len, episodes)) <= 1


def test_unwhitened_minimises_the_kernel_loss(ragged):
    """‖E[δ φ]‖² + λE[w²] with φ the raw features, whose products are the kernel."""
    chain, data, rho = ragged
    settings = ClosedForm(features=8, whiten=False, regularisation=(0.01,), smallest=1e-9)
    w, _, raw, folds = solve_on(settings, data, chain, rho)
    sums = [plain_sums(data, chain, raw, rho, fold) for fold in folds]
    imbalance, mean = np.mean([s[0] for s in sums], axis=0), np.mean([s[1] for s in sums], axis=0)
    expected = raw(data.observations) @ best(imbalance, mean, 0.01 * sums[0][2])
    np.testing.assert_allclose(w, expected, rtol=2e-3, atol=2e-3)
    whitened, *_ = solve_on(replace(settings, whiten=True), data, chain, rho)
    assert np.abs(whitened - expected).max() > 0.02


def test_whitened_counts_every_direction_alike_and_chooses_its_penalty_on_other_folds(ragged):
    chain, data, rho = ragged
    choices = (1e-3, 1e-2, 1e-1, 1.0)
    settings = ClosedForm(features=8, regularisation=choices, smallest=1e-9)
    w, solution, raw, folds = solve_on(settings, data, chain, rho)
    moment = plain_sums(data, chain, raw, rho, range(len(data)))[2]
    values, vectors = np.linalg.eigh(moment)
    root = vectors / np.sqrt(values)  # E[φφᵀ] = I

    def white(states):
        return raw(states) @ root

    sums = [plain_sums(data, chain, white, rho, fold) for fold in folds]
    losses = []
    for choice in choices:
        loss = 0.0
        for f in range(3):
            (m, a, _), (m1, a1, _), (m2, a2, _) = sums[f], sums[(f + 1) % 3], sums[(f + 2) % 3]
            b = best(m, a, choice * np.eye(9))
            loss += (m1 @ b / (a1 @ b)) @ (m2 @ b / (a2 @ b))
        losses.append(loss)
    chosen = choices[int(np.argmin(losses))]
    assert float(solution.regularisation) == pytest.approx(chosen)
    assert float(solution.residual) == pytest.approx(min(losses), rel=1e-2, abs=1e-5)
    imbalance, mean = np.mean([s[0] for s in sums], axis=0), np.mean([s[1] for s in sums], axis=0)
    expected = white(data.observations) @ best(imbalance, mean, chosen * np.eye(9))
    np.testing.assert_allclose(w, expected, rtol=2e-3, atol=2e-3)


def test_equations_of_too_large_numbers_for_single_precision_are_solved_as_far_as_it_goes():
    rng, rank, tests = np.random.default_rng(0), 64, 256
    turns = [np.linalg.qr(rng.normal(size=(tests, rank)))[0] for _ in range(FOLDS)]
    imbalance = np.stack([turn * np.geomspace(1000.0, 1e-3, rank) @ turns[0][:rank] for turn in turns])
    mean = rng.normal(size=(FOLDS, rank)) + 5.0
    for fold in range(FOLDS):
        normal = imbalance[fold].T @ imbalance[fold]
        known = 8 * np.finfo(np.float32).eps * np.trace(normal)
        exact = np.linalg.solve(normal + known * np.eye(rank), mean[fold])
        found = ratio_closed_form.constrained(
            jnp.asarray(imbalance[fold], jnp.float32), jnp.asarray(mean[fold], jnp.float32), jnp.asarray(1e-3)
        )
        np.testing.assert_allclose(found, exact / (mean[fold] @ exact), rtol=0.02, atol=1e-4)


def test_a_loss_that_is_no_number_is_not_the_least(monkeypatch):
    def loss(imbalance, mean, choice, tests=None):
        return jnp.where(choice < 0.02, jnp.nan, choice)

    monkeypatch.setattr(ratio_closed_form, "held_out_loss", loss)
    found = ratio_closed_form.choose(ClosedForm(), jnp.ones((FOLDS, 2, 2)), jnp.ones((FOLDS, 2)))
    assert float(found.regularisation) == pytest.approx(0.03)
