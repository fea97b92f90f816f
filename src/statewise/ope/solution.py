"""The state ratio of one policy: its equations solved, and what each episode adds to the solution.

    β = (MᵀM + λI)⁻¹ a,     w = max(βᵀφ, 0)

The equations hold for functions of state *and* action as well, which a chain of both obeys: with κ(s) = Σ_a π(a|s) c(a)
for any contrast c of actions, κφ takes the place of φ in every test (not in w). A contrast for each action but one is
added to the tests, so that w has a multiple of equations to meet, and noise in one set is not fitted. On CartPole this
takes the estimated length of a policy five times better than the log from a third too short to right.

λ is chosen on a third of the episodes. What it guards against, noise in M, has a variance in 1/episodes: with all of
them it is a third of that. A tenth of it is used: what is best for w itself shrinks it by as much as noise moves it,
but an interval holds noise alone. With a tenth the shrinking is little, and noise grows by next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from statewise.ope.balance import noise_of
from statewise.ope.equations import Equations
from statewise.ope.features import BLOCK
from statewise.ope.quotient import USUAL
from statewise.parts.ratio_closed_form import FOLDS

UNDER = 10  # times less is λ than what is best for w itself
CONTRASTS = 3  # of actions at most, beside the constant; as many as there are for four actions


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
        """The share by which w misses its equations on held-out episodes, beyond the noise of their number.

        As if there were `USUAL` equations: with more features there are more to miss, each by as little.
        """
        return float(np.sqrt(max(self.residual / FOLDS - self.noise, 0.0) * min(USUAL / len(self.beta), 1.0)))


def solve(
    equations: Equations, ratio: Float[np.ndarray, " steps"], probabilities: Float[np.ndarray, "steps actions"]
) -> Solved:
    """w for the policy whose ρ and probabilities on the log's rows are given."""
    rho = ratio[equations.order]
    states = equations.balance(rho)
    if equations.nothing_follows:
        return _unchanged(equations, states)
    contrasts = np.empty((len(rho), 0))
    if equations.chain != "continuing":  # where π in the states after the last rows would be needed
        contrasts = probabilities[equations.order] @ contrasts_of(probabilities.shape[1])
    sets = [states, *(_contrasted(equations, rho, one) for one in contrasts.T)]
    imbalance = FOLDS * np.concatenate(sets, axis=1)
    regularisation, residual = _choose(equations.settings.regularisation, imbalance, FOLDS * equations.mean)
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
        noise=noise_of(equations, rho, raw),
        signed=equations.in_log_order(raw),
    )


def _unchanged(equations: Equations, states: Float[np.ndarray, "folds rank rank"]) -> Solved:
    """w ≡ 1, exactly, where every episode is one decision: no policy changes the states it is made in."""
    rank, rows = equations.here.shape[1], len(equations.order)
    return Solved(
        beta=np.zeros(rank),
        scale=1.0,
        imbalance=np.zeros((rank, rank)),
        contrasts=np.empty((rows, 0)),
        states=states,
        regularisation=1.0,
        residual=0.0,
        noise=0.0,
        signed=np.ones(rows),
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
    if equations.nothing_follows:
        return np.zeros(len(starts))
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


def _choose(
    choices: Sequence[float], imbalance: Float[np.ndarray, "folds tests rank"], mean: Float[np.ndarray, "folds rank"]
) -> tuple[float, float]:
    """λ for a third of the episodes, and the loss that it leaves in the equations of states alone.

    `parts.ratio_closed_form.held_out_loss` for every λ at once: with MᵀM = U diag(e) Uᵀ, β = U (Uᵀa / (e + λ)).
    """
    rank, penalties = mean.shape[1], np.asarray(choices)
    losses, among_states = np.zeros(len(penalties)), np.zeros(len(penalties))
    for f in range(FOLDS):
        values, vectors = np.linalg.eigh(imbalance[f].T @ imbalance[f])
        betas = vectors @ ((vectors.T @ mean[f])[:, None] / (np.maximum(values, 0.0)[:, None] + penalties))
        others = [(f + 1) % FOLDS, (f + 2) % FOLDS]
        one, other = (imbalance[g] @ betas / (mean[g] @ betas) for g in others)
        losses += np.sum(one * other, axis=0)
        among_states += np.sum(one[:rank] * other[:rank], axis=0)
    best = int(np.argmin(losses))
    return float(penalties[best]), float(among_states[best])
