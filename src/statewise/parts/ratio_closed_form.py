"""w(s) = d^π(s)/d^μ(s) in closed form: the stationarity equations, solved over all rows in kernel features.

On the renewal chain (an episode that ends, or is discounted away, starts again) w satisfies, for every test function ψ,

    E_μ[w(s) ρ(s,a) (γc ψ(s') + (1 − γc) ψ̄₀)] = E_μ[w(s) ψ(s)],     E_μ[w(s)] = 1,

with c = 0 where the episode ends, ψ̄₀ the mean of ψ over initial states, and E_μ over rows weighted by γᵗ. On a
continuing chain c = 1, and w is balanced at the states that rows lead to. With w = βᵀφ this is Mβ = 0, aᵀβ = 1, where M
and a are sums over rows:

    β = argmin ‖Mβ‖² + λ‖β‖²  subject to  aᵀβ = 1,     β ∝ (MᵀM + λI)⁻¹a.

Features are random Fourier features of the RBF kernel, rotated and scaled so that E_μ[φφᵀ] = I: ‖β‖² is then the second
moment of w. They are the test functions too, with equal weights; `whiten=False` weights them by the kernel's spectrum
instead, which is exactly the kernel loss and shrinks w far more.

Where a limit cuts episodes off, w is a function of state and time together, w(s, t) = βᵀφ(s, t): the renewal chain of
pairs (s, t), in which the last step before the limit leads to a fresh start. Its features are products of those of the
state and of piecewise-linear functions of time (`ops.clock`), rotated and scaled together. With every state and every
step a feature of its own, w(s, t) = d^π_t(s)/d^μ_t(s) exactly, up to scale. What changes slowly with time is hard to
tell from what does not change, so that two things are different there. ρ, whose mean is 1 in every state, also stands
before ψ(s): the noise is then that of changes from one step to the next. And ‖Mβ‖² becomes Mβ · (BBᵀ + ε²I)⁻¹Mβ, with B
the M of the behaviour itself: an imbalance counts by how long the chain remembers it, up to about 1/ε steps.

`fit_ratio` adds tests of state *and* action, which obey a chain of both: with κ(s) = Σ_a π(a|s) c(a) for contrasts c of
actions, κφ takes the place of ψ, and ρ stands on both sides,

    E_μ[w ρ (γc κ(s')φ(s') + (1 − γc) mean(κφ)₀ − κ(s)φ(s))] = 0.

w then has more equations to meet, and noise in one set of them is not fitted.

A log of more than `MOST_ROWS` rows is represented by so many of them, drawn once and at random: what is solved in each
update is the same, and features of more rows would add memory, and hardly any precision, to what is solved for.

λ is chosen on the data. The log is cut into three folds by episode; w is solved on one, and its loss measured on the
other two as the product (Mβ)₂·(Mβ)₃: like the paper's two batches, this is free of the noise that a square would add.
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from statewise.base.column import parts_of
from statewise.data.clock import has_clock
from statewise.data.dataset import Dataset
from statewise.data.device import Rows, RowTable, after_last
from statewise.ops.clock import hats
from statewise.ops.placed import placed
from statewise.parts.chain import Chain
from statewise.parts.ratio_features import Basis, ClosedForm

FOLDS = 3
FORGETTING = 0.1  # ε
MOST_ROWS = 2**18  # whose features are kept
ROUNDING = 8  # times the precision and a matrix's trace: eigenvalues below that are unknown


class Flow(eqx.Module):
    """What the equations need from the log, whatever the policy."""

    phi: Float[Array, "states rank"]  # φ of every decision's state, then of the states in which episodes ended;
    # of a sample, then of where each of its rows leads, or restarts (with a clock, less φ of where it is)
    following: Int[Array, " steps"]  # which of them each row leads to …
    onward: Float[Array, " steps"]  # … with probability γc; otherwise the episode restarts
    weight: Float[Array, " steps"]  # γᵗ; 0 where the next state is unknown
    fresh: Float[Array, " rank"]  # φ̄₀
    folds: Int[Array, "folds rows"]  # the rows of each fold, padded …
    sizes: Int[Array, " folds"]  # … and how many of them are real
    importance: Float[Array, " rank"]
    continuing: bool = eqx.field(static=True)
    memory: Float[Array, "rank rank"] | None = None  # (BBᵀ + ε²I)^−½ where there is a limit
    sample: Sample | None = None  # None: of all rows


class Sample(eqx.Module):
    """Which rows of a long log a flow is of, and what it takes to have w on the others."""

    rows: Int[Array, " sampled"]
    time: Int[Array, " steps"] | None  # of every row of the log, where w has a clock …
    shares: Float[Array, "times knots"] | None  # … and the hats at every step
    inputs: int = eqx.field(static=True)  # how many columns of a row's state the features are of
    table: RowTable | None = None  # the rows themselves: in order, they are read much faster than from a long log


class Actions(eqx.Module):
    """What tests of state and action need of a policy: κ(s) = Σ_a π(a|s) c(a) for contrasts c of actions."""

    here: Float[Array, "steps contrasts"]  # in every state of the log …
    there: Float[Array, "steps contrasts"]  # … and in the one it leads to, where the episode goes on
    fresh: Float[Array, "contrasts rank"]  # the mean of κφ over first states


class Solution(eqx.Module):
    """w = βᵀφ, and how far to trust it."""

    beta: Float[Array, " rank"]
    regularisation: Float[Array, ""]
    residual: Float[Array, ""]  # held-out loss of the chosen λ: 0 for the true w, up to noise


def sampled(steps: int, seed: int = 0) -> Int[np.ndarray, " sampled"] | None:
    """The rows that stand for a long log, in order; None where all do."""
    if steps <= MOST_ROWS:
        return None
    return np.sort(np.random.default_rng(seed).choice(steps, MOST_ROWS, replace=False))


def make_flow(
    basis: Basis, dataset: Dataset, chain: Chain, rows: Int[np.ndarray, " sampled"] | None = None, seed: int = 0
) -> Flow:
    """Evaluates the features on every state, or on those of `rows`, once for all policies; folds are by episode."""
    if dataset.episodes < FOLDS:
        raise ValueError(f"a state ratio needs at least {FOLDS} episodes, the log has {dataset.episodes}")
    fold = np.random.default_rng(seed).permutation(dataset.episodes) % FOLDS
    flow = _whole(basis, dataset, chain, fold) if rows is None else _in_part(basis, dataset, chain, fold, rows, seed)
    return remembering(flow) if chain.timed else flow


def _whole(basis: Basis, dataset: Dataset, chain: Chain, fold: Int[np.ndarray, " episodes"]) -> Flow:
    steps, last = len(dataset), dataset.starts[1:] - 1
    states = np.concatenate([dataset.observations, after_last(dataset)])
    phi = _features(basis, dataset, states, np.concatenate([dataset.time, dataset.lengths]))
    following = np.arange(1, steps + 1)
    following[last] = steps + np.arange(dataset.episodes)
    return _flow(basis, chain, phi, phi[jnp.asarray(dataset.starts[:-1])], following, fold[dataset.episode_of_step])


def _in_part(
    basis: Basis,
    dataset: Dataset,
    chain: Chain,
    fold: Int[np.ndarray, " episodes"],
    rows: Int[np.ndarray, " sampled"],
    seed: int,
) -> Flow:
    """In an order of folds, and at random within them: a stretch of each is as good as a draw, and faster to read."""
    rng = np.random.default_rng(seed)
    episode = np.searchsorted(dataset.starts, rows, side="right") - 1
    order = np.lexsort([rng.random(len(rows)), fold[episode]])
    last, time = rows + 1 == dataset.starts[episode + 1], rows - dataset.starts[episode]
    following_states = dataset.observations[np.minimum(rows + 1, len(dataset) - 1)]
    following_states[last] = after_last(dataset)[episode[last]]
    here = _features(basis, dataset, dataset.observations[rows], time)
    there = _features(basis, dataset, following_states, time + 1)
    first = dataset.starts[:-1]
    first = first if len(first) <= len(rows) else np.sort(rng.choice(first, len(rows), replace=False))
    fresh = _features(basis, dataset, dataset.observations[first], np.zeros(len(first), np.int64))
    onward = jnp.asarray(chain.onward[rows], jnp.float32)[:, None]
    arrived = onward * there + (1 - onward) * fresh.mean(axis=0)[None, :]
    phi = jnp.concatenate([here[order], (arrived - here if chain.timed else arrived)[order]])
    following = len(rows) + np.arange(len(rows))
    flow = _flow(basis, chain, phi, fresh, following, fold[episode[order]], rows[order])
    shares = None
    if basis.knots is not None:
        shares = jnp.asarray(hats(np.arange(int(dataset.lengths.max()) + 1), np.asarray(basis.knots)), jnp.float32)
    times = None if shares is None else jnp.asarray(dataset.time, jnp.int32)
    inputs = dataset.observations.shape[1] - has_clock(dataset)
    return replace(flow, sample=Sample(jnp.asarray(rows[order], jnp.int32), times, shares, inputs))


def _flow(
    basis: Basis,
    chain: Chain,
    phi: Float[Array, "states rank"],
    fresh: Float[Array, "first rank"],
    following: Int[np.ndarray, " rows"],
    fold: Int[np.ndarray, " rows"],
    rows: Int[np.ndarray, " rows"] | slice = slice(None),
) -> Flow:
    folds = [np.flatnonzero(fold == f) for f in range(FOLDS)]
    longest = max(map(len, folds))
    return Flow(
        phi=phi,
        following=placed(following, jnp.int32),
        onward=placed(chain.onward[rows], jnp.float32),
        weight=placed(chain.weight[rows], jnp.float32),
        fresh=fresh.mean(axis=0),
        folds=placed(np.stack([np.resize(one, longest) for one in folds]), jnp.int32),
        sizes=placed([len(one) for one in folds], jnp.int32),
        importance=basis.importance,
        continuing=chain.kind == "continuing",
    )


def _features(
    basis: Basis, dataset: Dataset, states: Float[np.ndarray, "n features"], times: Int[np.ndarray, " n"]
) -> Float[Array, "n rank"]:
    """φ in blocks; of a log with a clock, its last column is left to the times."""
    timed = has_clock(dataset)
    seen = states[:, :-1] if timed else states
    each = ((jnp.asarray(seen[some], jnp.float32), times[some] if timed else None) for some in parts_of(len(seen)))
    return jnp.concatenate([basis(*one) for one in each])


def remembering(flow: Flow) -> Flow:
    """With imbalances weighted by how long the behaviour's chain of states and times remembers them."""
    rows, weight = draw_rows(flow, flow.folds.size, jax.random.key(0))
    here, arrived = _moves(flow, rows)
    own = np.asarray(_moment(_change(flow, here, arrived), weight, here).mean(axis=0), np.float64)
    variance, directions = np.linalg.eigh(own @ own.T)
    memory = directions / np.sqrt(np.maximum(variance, 0.0) + FORGETTING**2) @ directions.T
    return replace(flow, memory=placed(memory, flow.phi.dtype))


def draw_rows(
    flow: Flow, most: int, key: Key[Array, ""]
) -> tuple[Int[Array, "folds rows"], Float[Array, "folds rows"]]:
    """All rows by fold, or a fresh draw of `most` of them, and their weights, which sum to 1 in each fold."""
    longest = flow.folds.shape[1]
    if longest * FOLDS <= most + FOLDS:
        rows = flow.folds
        real = jnp.arange(longest)[None, :] < flow.sizes[:, None]
        weight = flow.weight[rows] * real
    else:
        shape = (FOLDS, most // FOLDS) if flow.sample is None else (FOLDS, 1)
        place = jax.random.randint(key, shape, 0, flow.sizes[:, None])
        if flow.sample is not None:
            place = (place + jnp.arange(most // FOLDS)[None, :]) % flow.sizes[:, None]
        rows = jnp.take_along_axis(flow.folds, place, axis=1)
        weight = flow.weight[rows]
    return rows, weight / jnp.sum(weight, axis=1, keepdims=True)


def solve(
    settings: ClosedForm,
    flow: Flow,
    rows: Int[Array, "folds rows"],
    weight: Float[Array, "folds rows"],
    ratio: Float[Array, "folds rows"],
    actions: Actions | None = None,
) -> Solution:
    """β for the policy with these values of ρ (`ratio`) on those rows; with `actions`, by their tests too."""
    here, arrived = _moves(flow, rows)
    mean = jnp.einsum("fn,fnr->fr", weight, here)
    if actions is not None and not flow.continuing:  # where π would be needed in states after the last rows
        return choose(settings, _of_pairs(flow, rows, weight * ratio, actions), mean)
    if flow.memory is not None:
        imbalance = flow.memory @ _moment(_change(flow, here, arrived), weight * ratio, here)
    elif flow.continuing:  # balanced where rows lead: a truncated trajectory need not end where it began
        imbalance = _moment(arrived, weight * ratio, here) - _moment(arrived, weight, arrived)
    else:
        imbalance = _moment(ratio[..., None] * arrived - here, weight, here)
    imbalance = imbalance * flow.importance[None, :, None]
    return choose(settings, imbalance, mean)


def _of_pairs(
    flow: Flow, rows: Int[Array, "folds rows"], carried: Float[Array, "folds rows"], actions: Actions
) -> Float[Array, "folds tests rank"]:
    """Σ ωρ (x'ₖ − κφ) φᵀ for κ = 1 and each contrast, one below another, with x'ₖ of κφ."""
    here, arrived = _moves(flow, rows)
    if flow.sample is not None and flow.memory is not None:
        arrived = arrived + here
    ends = 1 - flow.onward[rows][..., None]
    moved, right = arrived - ends * flow.fresh[None, None, :], carried[..., None] * here
    sets = [jnp.einsum("fnr,fns->frs", arrived - here, right)]
    of_log = rows if flow.sample is None else flow.sample.rows[rows]
    for j, fresh in enumerate(actions.fresh):
        now, then = actions.here[of_log, j][..., None], actions.there[of_log, j][..., None]
        change = then * moved + ends * fresh[None, None, :] - now * here
        sets.append(jnp.einsum("fnr,fns->frs", change, right))
    if flow.memory is not None:
        sets = [flow.memory @ one for one in sets]
    return jnp.concatenate([one * flow.importance[None, :, None] for one in sets], axis=1)


def on_rows(basis: Basis, sample: Sample, solution: Solution, dataset: Dataset) -> Float[np.ndarray, " steps"]:
    """w on all rows of a long log, before negative values become 0."""
    values = np.empty(len(dataset))
    for some in parts_of(len(dataset)):
        states = jnp.asarray(dataset.observations[some, : sample.inputs], jnp.float32)
        shares = None if sample.shares is None else sample.shares[jnp.asarray(dataset.time[some])]
        values[some] = basis.combined(solution.beta, states, shares)
    return values


def beyond_sample(basis: Basis, sample: Sample, solution: Solution, rows: Rows) -> Float[Array, "*batch"]:
    """w at any rows of a long log, before negative values become 0."""
    shares = None
    if sample.time is not None and sample.shares is not None:
        shares = sample.shares[sample.time[rows.index]]
    return basis.combined(solution.beta, rows.state[..., : sample.inputs], shares)


def _moves(
    flow: Flow, rows: Int[Array, "folds rows"]
) -> tuple[Float[Array, "folds rows rank"], Float[Array, "folds rows rank"]]:
    """φ of where rows are, and of where they lead."""
    here, there = flow.phi[rows], flow.phi[flow.following[rows]]
    if flow.sample is not None:
        return here, there
    onward = flow.onward[rows][..., None]
    return here, onward * there + (1 - onward) * flow.fresh[None, None, :]


def _change(
    flow: Flow, here: Float[Array, "folds rows rank"], arrived: Float[Array, "folds rows rank"]
) -> Float[Array, "folds rows rank"]:
    """By how much φ changes with the move, where w has a clock; of a sample it was computed before."""
    return arrived - here if flow.sample is None else arrived


def _moment(
    left: Float[Array, "folds rows rank"], weight: Float[Array, "folds rows"], right: Float[Array, "folds rows rank"]
) -> Float[Array, "folds rank rank"]:
    return jnp.einsum("fnr,fns->frs", left, weight[..., None] * right)


def choose(
    settings: ClosedForm, imbalance: Float[Array, "folds tests rank"], mean: Float[Array, "folds rank"]
) -> Solution:
    """The solution on all folds, with the λ that does best on held-out folds."""
    choices = jnp.asarray(settings.regularisation)
    losses = jax.vmap(lambda choice: held_out_loss(imbalance, mean, choice))(choices)
    best = jnp.argmin(jnp.where(jnp.isnan(losses), jnp.inf, losses))  # to `argmin`, NaN is the least
    beta = constrained(imbalance.mean(axis=0), mean.mean(axis=0), choices[best])
    rank = mean.shape[1]  # the tests of states alone are the first
    residual = losses[best] if imbalance.shape[1] == rank else held_out_loss(imbalance, mean, choices[best], rank)
    return Solution(beta, choices[best], residual)


def constrained(
    imbalance: Float[Array, "tests rank"], mean: Float[Array, " rank"], regularisation: Float[Array, ""]
) -> Float[Array, " rank"]:
    """β = argmin ‖Mβ‖² + λ‖β‖² subject to aᵀβ = 1."""
    normal = imbalance.T @ imbalance
    ridge = jnp.maximum(regularisation, ROUNDING * jnp.finfo(normal.dtype).eps * jnp.trace(normal))
    beta = jax.scipy.linalg.solve(normal + ridge * jnp.eye(len(normal)), mean, assume_a="pos")
    return beta / (mean @ beta)


def held_out_loss(
    imbalance: Float[Array, "folds tests rank"],
    mean: Float[Array, "folds rank"],
    regularisation: Float[Array, ""],
    tests: int | None = None,
) -> Float[Array, ""]:
    """Σ_f (M_g β_f)·(M_h β_f) over the folds f, with g and h the other two; only of the first `tests` rows of M."""

    def tested(f: Int[Array, ""]) -> Float[Array, ""]:
        beta = constrained(imbalance[f], mean[f], regularisation)
        one, other = (f + 1) % FOLDS, (f + 2) % FOLDS
        left = imbalance[one, :tests] @ beta / (mean[one] @ beta)
        return left @ (imbalance[other, :tests] @ beta) / (mean[other] @ beta)

    return jnp.sum(jax.vmap(tested)(jnp.arange(FOLDS)))
