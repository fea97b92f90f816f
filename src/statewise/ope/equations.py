"""The state ratio's linear equations over all rows of a log, in double precision, and what each episode adds to them.

`parts.ratio_closed_form` has the equations. They are summed here once for each policy from matrices that do not depend
on it, so that a hundred policies share the features of one log:

    M = Σᵢ ωᵢ ρᵢ (x'ᵢ − φᵢ) φᵢᵀ,     a = Σᵢ ωᵢ φᵢ,     β = (MᵀM + λI)⁻¹ a,     w = max(βᵀφ, 0),

with x' = γc φ(s') + (1 − γc) φ̄₀ and ω ∝ γᵗ. On a continuing chain x' = φ(s'), and x'x'ᵀ stands for ρφφᵀ.

ρ has mean 1 in every state, so that it may stand before φ as it does before x'. What is noise in the equations is then
that of changes from one step to the next, and not of ρ − 1 times all of φ, which for what changes slowly is far more.

Elsewhere the equations hold for functions of state *and* action as well, which a chain of both obeys: with κ(s) =
Σ_a π(a|s) c(a) for any contrast c of actions, κφ takes the place of φ in every test (not in w). A contrast for each
action but one is added to the tests, so that w has a multiple of equations to meet, and noise in one set is not fitted.
On CartPole this takes the estimated length of a policy five times better than the log from a third too short to right.

λ is chosen on a third of the episodes. What it guards against, noise in M, has a variance in 1/episodes: with all of
them it is a third of that. A tenth of it is used: what is best for w itself shrinks it by as much as noise moves it,
but an interval holds noise alone. With a tenth the shrinking is little, and noise grows by next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from statewise.data.augment import Scaler
from statewise.data.dataset import Dataset
from statewise.data.device import after_last
from statewise.ops.kernels import median_distance
from statewise.ops.keys import key_for
from statewise.parts import ratio_closed_form
from statewise.parts.ratio_closed_form import FOLDS, Basis, ClosedForm
from statewise.parts.ratio_network import Chain

UNDER = 10  # times less is λ than what is best for w itself
SPREAD = 1.28  # standard deviations: noise alone leaves more one time in ten
CONTRASTS = 3  # of actions at most, beside the constant; as many as there are for four actions
BLOCK = 8192  # rows that features are computed on at a time, so that logs of all sizes share one compiled program


@dataclass(frozen=True, eq=False)
class Equations:
    """What the equations need of the log. Rows stand in order of their fold, so that a fold is one block."""

    settings: ClosedForm
    chain: Chain
    order: Int[np.ndarray, " steps"]
    edges: tuple[int, ...]  # fold f owns rows edges[f] to edges[f + 1]
    here: Float[np.ndarray, "steps rank"]  # φ, single precision
    arrived: Float[np.ndarray, "steps rank"]  # x'
    weight: Float[np.ndarray, " steps"]  # ω
    restart: Float[np.ndarray, " steps"]  # 1 − γc: with this chance the chain begins anew
    first: tuple[Int[np.ndarray, " _"], ...]  # of each fold's episodes, the first row within the fold
    begins: Int[np.ndarray, " episodes"]  # each episode's first row, in the log's order
    initial: Float[np.ndarray, "episodes rank"]  # φ of the first states
    fixed: Float[np.ndarray, "folds rank rank"]  # Σ ω x'x'ᵀ on a continuing chain, 0 elsewhere
    mean: Float[np.ndarray, "folds rank"]  # Σ ω φ

    def in_log_order(self, values: Float[np.ndarray, "steps *columns"]) -> Float[np.ndarray, "steps *columns"]:
        out = np.empty(values.shape)
        out[self.order] = values
        return out

    def balance(self, rho: Float[np.ndarray, " steps"]) -> Float[np.ndarray, "folds rank rank"]:
        """M of the tests of states alone: what each fold adds to it."""
        carried = self.weight * rho
        left = [self.changes(a, b) for a, b in self.folds]
        sums = [_moment(x, carried[a:b], self.here[a:b]) for x, (a, b) in zip(left, self.folds, strict=True)]
        return np.stack(sums) - self.fixed

    def changes(self, first: int, last: int) -> Float[np.ndarray, "rows rank"]:
        """x' − φ, or x' on a continuing chain."""
        arrived = self.arrived[first:last]
        return arrived if self.chain == "continuing" else arrived - self.here[first:last]

    @property
    def fold_of_episode(self) -> Int[np.ndarray, " episodes"]:
        rows = np.empty(len(self.order), np.int64)
        rows[self.order] = np.repeat(np.arange(FOLDS), np.diff(self.edges))
        return rows[self.begins]

    @property
    def folds(self) -> list[tuple[int, int]]:
        return list(pairwise(self.edges))


@dataclass(frozen=True, eq=False)
class Solved:
    """The solution for one policy. M and a are means over all folds."""

    beta: Float[np.ndarray, " rank"]  # scaled so that w has mean 1 …
    scale: float  # … from the solution of the equations as they stand
    imbalance: Float[np.ndarray, "tests rank"]  # M; the first `rank` tests are those of states alone
    contrasts: Float[np.ndarray, "steps contrasts"]  # κ of each further set of tests, rows in order of their fold
    states: Float[np.ndarray, "folds rank rank"]  # what each fold adds to the tests of states alone
    regularisation: float
    residual: float  # the closed form's held-out loss, a sum over folds
    noise: float  # of the equations in a fold: what an exact w would leave when fitted to another, or little more
    signed: Float[np.ndarray, " steps"]  # βᵀφ in the log's order, before it is cut off at 0

    @property
    def ratio(self) -> Float[np.ndarray, " steps"]:
        return np.maximum(self.signed, 0.0)

    @property
    def negative(self) -> float:
        """Σ max(−w, 0) / Σ max(w, 0): the share of w's mass that is cut off."""
        return float(np.sum(self.ratio - self.signed) / np.sum(self.ratio))

    @property
    def excess(self) -> float:
        """The share by which w misses its equations on held-out episodes, beyond the noise of their number."""
        return float(np.sqrt(max(self.residual / FOLDS - self.noise, 0.0)))


def make_equations(
    dataset: Dataset, scaler: Scaler, chain: Chain, discount: float, seed: int, settings: ClosedForm
) -> Equations:
    """Features of every state, rows in order of their fold, and the sums that no policy changes."""
    if dataset.episodes < FOLDS:
        raise ValueError(f"a state ratio needs {FOLDS} episodes at least, the log has {dataset.episodes}")
    generator = np.random.default_rng(seed)
    states = scaler(np.asarray(dataset.observations, np.float64))
    sample = np.resize(generator.permutation(len(states)), BLOCK)
    bandwidth = settings.bandwidth or median_distance(states)
    weight = discount ** dataset.time[sample] if chain == "discounted" else None
    key = key_for(jax.random.key(seed), "features")
    basis = ratio_closed_form.make_basis(settings, states[sample], bandwidth, key, weight)
    steps, last = len(dataset), dataset.starts[1:] - 1
    phi = features(basis, states)
    following = np.append(phi[1:], phi[:1], axis=0)
    usable, onward = np.ones(steps), np.full(steps, discount if chain == "discounted" else 1.0)
    initial = phi[dataset.starts[:-1]]
    if chain == "continuing":
        following[last] = features(basis, scaler(np.asarray(after_last(dataset), np.float64)))
        usable[last] = dataset.has_final_observation
        arrived = following
    else:
        onward[last] = 0.0
        fresh = initial.mean(axis=0)
        arrived = following
        arrived *= onward[:, None].astype(np.float32)
        arrived += (1 - onward)[:, None].astype(np.float32) * fresh
    fold = (generator.permutation(dataset.episodes) % FOLDS)[dataset.episode_of_step]
    order = np.argsort(fold, kind="stable")
    edges = tuple(np.searchsorted(fold[order], np.arange(FOLDS + 1)).tolist())
    weight = ((discount if chain == "discounted" else 1.0) ** dataset.time * usable)[order]
    here, arrived = phi[order], arrived[order]
    parts = list(pairwise(edges))
    for a, b in parts:
        weight[a:b] /= FOLDS * weight[a:b].sum()
    fixed = np.zeros((FOLDS, here.shape[1], here.shape[1]))
    if chain == "continuing":
        fixed = np.stack([_moment(arrived[a:b], weight[a:b], arrived[a:b]) for a, b in parts])
    return Equations(
        settings=settings,
        chain=chain,
        order=order,
        edges=edges,
        here=here,
        arrived=arrived,
        weight=weight,
        restart=(1 - onward)[order],
        first=tuple(np.flatnonzero(np.diff(dataset.episode_of_step[order[a:b]], prepend=-1)) for a, b in parts),
        begins=dataset.starts[:-1],
        initial=np.asarray(initial, np.float64),
        fixed=fixed,
        mean=np.stack([weight[a:b] @ here[a:b] for a, b in parts]),
    )


def features(basis: Basis, states: Float[np.ndarray, "n inputs"]) -> Float[np.ndarray, "n rank"]:
    """φ of any number of states, in blocks of one size."""
    out = np.empty((len(states), basis.turn.shape[1]), np.float32)
    for first in range(0, len(states), BLOCK):
        block = np.zeros((BLOCK, states.shape[1]), np.float32)
        part = states[first : first + BLOCK]
        block[: len(part)] = part
        out[first : first + len(part)] = np.asarray(_evaluate(basis, jnp.asarray(block)))[: len(part)]
    return out


def solve(
    equations: Equations, ratio: Float[np.ndarray, " steps"], probabilities: Float[np.ndarray, "steps actions"]
) -> Solved:
    """w for the policy whose ρ and probabilities on the log's rows are given."""
    rho = ratio[equations.order]
    states = equations.balance(rho)
    contrasts = np.empty((len(rho), 0))
    if equations.chain != "continuing":  # where π in the states after the last rows would be needed
        contrasts = probabilities[equations.order] @ contrasts_of(probabilities.shape[1])
    sets = [states, *(_contrasted(equations, rho, one) for one in contrasts.T)]
    imbalance = FOLDS * np.concatenate(sets, axis=1)
    with jax.enable_x64(True):
        chosen = _choose(equations.settings, jnp.asarray(imbalance), jnp.asarray(FOLDS * equations.mean))
        regularisation, residual = map(float, chosen)
    regularisation /= FOLDS * UNDER
    mean, total = equations.mean.sum(axis=0), imbalance.mean(axis=0)
    beta = np.linalg.solve(total.T @ total + regularisation * np.eye(len(mean)), mean)
    scale = float(mean @ beta)
    beta = beta / scale
    raw = equations.here @ beta.astype(np.float32)
    return Solved(
        beta=beta,
        scale=scale,
        imbalance=total,
        contrasts=contrasts,
        states=states,
        regularisation=regularisation,
        residual=residual,
        noise=_noise(equations, rho, raw),
        signed=equations.in_log_order(raw),
    )


def contrasts_of(actions: int) -> Float[np.ndarray, "actions contrasts"]:
    """Functions of the action that sum to 0, orthogonal and of mean square 1; with many actions a few at random.

    All of them together are the same tests whatever their directions.
    """
    columns = min(actions, 1 + CONTRASTS)
    drawn = np.random.default_rng(0).normal(size=(actions, columns))
    drawn[:, 0] = 1.0
    return np.sqrt(actions) * np.linalg.qr(drawn)[0][:, 1:]


def _contrasted(
    equations: Equations, rho: Float[np.ndarray, " steps"], contrast: Float[np.ndarray, " steps"]
) -> Float[np.ndarray, "folds rank rank"]:
    """Σᵢ ωᵢ ρᵢ (x'ᵢ − κφᵢ) φᵢᵀ in each fold, with x' of κφ."""
    carried = equations.weight * rho
    arrives = carried * (1 - equations.restart) * np.roll(contrast, -1)
    stays, begins = carried * contrast, carried * equations.restart
    fresh = _fresh(equations, contrast).mean(axis=0)
    out = []
    for a, b in equations.folds:
        total = np.outer(fresh, begins[a:b].astype(np.float32) @ equations.here[a:b])
        for first in range(a, b, BLOCK):
            part = slice(first, min(first + BLOCK, b))
            scale = np.float32(len(rho))
            left = (scale * arrives[part]).astype(np.float32)[:, None] * _after(equations.here, part)
            left -= (scale * stays[part]).astype(np.float32)[:, None] * equations.here[part]
            total += (left.T @ equations.here[part]) / float(scale)
        out.append(total)
    return np.stack(out)


def pull(
    equations: Equations,
    solved: Solved,
    ratio: Float[np.ndarray, " steps"],
    slope: Float[np.ndarray, " rank"],
    starts: Int[np.ndarray, " episodes"],
) -> Float[np.ndarray, " episodes"]:
    """What each episode moves slopeᵀβ by through the equations, to first order; `slope` must be orthogonal to β.

    With A = MᵀM + λI, g = A⁻¹slope, u = Mg and v = Mβ: slopeᵀdβ = gᵀda − (dM g)ᵀv − uᵀ(dM β), dM and da being what the
    episode adds to M and a, by itself and through φ̄₀.
    """
    rho, matrix = ratio[equations.order], solved.imbalance
    g = np.linalg.solve(matrix.T @ matrix + solved.regularisation * np.eye(len(slope)), slope)
    u, v = matrix @ g, matrix @ solved.beta
    b, h = (equations.here @ np.stack([solved.beta, g], axis=1).astype(np.float32)).astype(np.float64).T
    rows = equations.weight * h / solved.scale
    anew = equations.weight * rho * equations.restart
    begun = np.zeros(len(starts))
    for k, (uk, vk) in enumerate(zip(u.reshape(-1, len(g)), v.reshape(-1, len(g)), strict=True)):
        pair = np.stack([uk, vk], axis=1).astype(np.float32)
        contrast = solved.contrasts[:, k - 1] if k else None
        stays, arrives = _tested(equations, contrast, pair)
        flow = rho * arrives - (stays if equations.chain == "continuing" else rho * stays)
        rows -= equations.weight * (h * flow[1] + b * flow[0])
        if equations.chain != "continuing":
            begun -= _fresh(equations, contrast) @ (vk * (anew @ h) + uk * (anew @ b))
    moved = len(starts) * np.add.reduceat(equations.in_log_order(rows), starts) + begun
    return moved - moved.mean()


def _tested(
    equations: Equations, contrast: Float[np.ndarray, " steps"] | None, vectors: Float[np.ndarray, "rank two"]
) -> tuple[Float[np.ndarray, "two steps"], Float[np.ndarray, "two steps"]]:
    """Tests of the state that a row is in and of the one it arrives at, times vectors; `None`: of states alone."""
    here = (equations.here @ vectors).astype(np.float64).T
    if contrast is None:
        arrived = (equations.arrived @ vectors).astype(np.float64).T
        return (arrived if equations.chain == "continuing" else here), arrived
    here *= contrast
    fresh = _fresh(equations, contrast).mean(axis=0) @ vectors
    return here, (1 - equations.restart) * np.roll(here, -1, axis=1) + np.outer(fresh, equations.restart)


def _fresh(equations: Equations, contrast: Float[np.ndarray, " steps"] | None) -> Float[np.ndarray, "episodes rank"]:
    """κφ of the first states."""
    if contrast is None:
        return equations.initial
    return equations.in_log_order(contrast)[equations.begins][:, None] * equations.initial


def _after(values: Float[np.ndarray, "steps rank"], part: slice) -> Float[np.ndarray, "rows rank"]:
    """The rows after those of `part`; within a fold, rows of an episode follow one another."""
    following = values[part.start + 1 : part.stop + 1]
    return following if part.stop < len(values) else np.append(following, values[:1], axis=0)


def held_out_imbalance(
    equations: Equations, ratio: Float[np.ndarray, " steps"], w: Float[np.ndarray, " steps"]
) -> float:
    """The same share for any w: the root of the product of what is left in two folds, averaged over pairs of folds."""
    rho, visited = ratio[equations.order], equations.weight * w[equations.order]
    left = []
    for a, b in equations.folds:
        flow = (visited[a:b] * rho[a:b]) @ equations.changes(a, b)
        if equations.chain == "continuing":
            flow -= visited[a:b] @ equations.arrived[a:b]
        left.append(flow / visited[a:b].sum())
    products = [left[f] @ left[(f + 1) % FOLDS] for f in range(FOLDS)]
    return float(np.sqrt(max(np.mean(products), 0.0)))


def _noise(equations: Equations, rho: Float[np.ndarray, " steps"], w: Float[np.ndarray, " steps"]) -> float:
    """tr N + `SPREAD` √tr N² with N = Σ_e uuᵀ, u = Σᵢ∈e ω w ρ(x' − φ), weights summing to 1 in a fold; the folds' mean.

    A fold's noise ε has covariance N, and an exact w, fitted to fold f, leaves about (ε_g − ε_f)·(ε_h − ε_f): over the
    three folds tr N in the mean, with variance tr N².
    """
    total = 0.0
    for (a, b), first in zip(equations.folds, equations.first, strict=True):
        kept = 1.0 if equations.chain == "continuing" else 0.0  # there x' is compared with x' itself
        visited = FOLDS * equations.weight[a:b] * w[a:b] * (rho[a:b] - kept)
        flow = equations.changes(a, b) * visited.astype(np.float32)[:, None]
        sums = np.add.reduceat(flow, first, axis=0).astype(np.float64)
        sums -= sums.mean(axis=0)
        noise = sums.T @ sums
        total += float(np.trace(noise) + SPREAD * np.sqrt(np.sum(noise**2)))
    return total / FOLDS


def _moment(left: np.ndarray, weight: np.ndarray, right: np.ndarray) -> Float[np.ndarray, "rank rank"]:
    """Σᵢ weightᵢ leftᵢ rightᵢᵀ, in single precision block by block and summed in double."""
    total = np.zeros((left.shape[1], right.shape[1]))
    for first in range(0, len(left), BLOCK):
        part = slice(first, first + BLOCK)
        scaled = left[part] * (weight[part] * len(left)).astype(np.float32)[:, None]
        total += scaled.T @ right[part]
    return total / len(left)


@eqx.filter_jit
def _evaluate(basis: Basis, states: Float[Array, "n inputs"]) -> Float[Array, "n rank"]:
    return basis(states)


@eqx.filter_jit
def _choose(settings: ClosedForm, imbalance: Array, mean: Array) -> tuple[Array, Array]:
    """λ for a third of the episodes, and the loss that it leaves in the equations of states alone."""
    chosen = ratio_closed_form.choose(settings, imbalance, mean).regularisation
    return chosen, ratio_closed_form.held_out_loss(imbalance, mean, chosen, tests=mean.shape[1])
