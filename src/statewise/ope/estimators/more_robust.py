"""MRDR: doubly robust, with the critic that leaves the estimate the least variance instead of the best-fitting one.

    θ = argmin Σ_e Σₜ γ²ᵗ (ρ₀…ρₜ₋₁)² ρₜ qᵀ Ω q,     q(b) = π(b|sₜ) Q̂_θ(sₜ,b) − 1{b = aₜ} Rₜ,     Ω = diag(1/μ) − 11ᵀ
    Rₜ = rₜ + γc ρₜ₊₁ Rₜ₊₁

In expectation qᵀΩq is, up to a constant, the variance of ρ (Q^π − Q̂) over the behaviour's actions, which is what a step
adds to that of the doubly robust estimate. Q̂ is linear in the state ratio's features, so that θ solves one linear
system. As with the other critics, each fold of episodes is judged by that of the others. Products of ρ leave few rows
that count, and so θ is held to that of the usual critic by a penalty, which is chosen by the objective on held-out
episodes.

Where only the taken actions' propensities are logged, Ω is not known. Then the second moment is minimised in place of
the variance: Σ γ²ᵗ (ρ₀…ρₜ)² (Q̂(sₜ,aₜ) − Rₜ)².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.ope.estimators.per_decision import carried_by_decisions, per_decision
from statewise.ope.linear_critic import cross_fitted, moved_by
from statewise.ope.prepared import Case
from statewise.ope.quotient import Quotient
from statewise.parts.ratio_closed_form import FOLDS

# To choose from, for features with second moment 1 and weights that sum to 1; the last leaves the usual critic
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, np.inf)
System = tuple[np.ndarray, np.ndarray]
CHUNK = 20_000  # rows at a time, which bounds memory


@dataclass(frozen=True, eq=False)
class Objective:
    """Σ weight · qᵀΩq over rows, with q = D Q̂ − R."""

    features: Float[np.ndarray, "steps rank"]
    policy: Float[np.ndarray, "steps actions"]  # the diagonal of D
    spread: Float[np.ndarray, "steps actions"]  # that of Ω …
    joint: float  # … and 1 if 11ᵀ is taken from it, else 0
    returns: Float[np.ndarray, "steps actions"]  # R
    weight: Float[np.ndarray, " steps"]

    def pull(self, q: Float[np.ndarray, "steps actions"]) -> Float[np.ndarray, "steps actions"]:
        """weight · DΩq: half the gradient by Q̂(s,·) of each row."""
        turned = self.spread * q - self.joint * q.sum(axis=1, keepdims=True)
        return self.weight[:, None] * self.policy * turned

    def system(self, rows: Int[np.ndarray, " some"]) -> System:
        """H and h of some rows, where the gradient is Hθ − h; θ is flattened from [rank, actions]."""
        rank, actions = self.features.shape[1], self.policy.shape[1]
        normal, target = np.zeros((rank, actions, rank, actions)), np.zeros((rank, actions))
        pulled = self.pull(self.returns)
        for first in range(0, len(rows), CHUNK):
            some = rows[first : first + CHUNK]
            phi, policy, weight = self.features[some], self.policy[some], self.weight[some]
            both = (phi[:, :, None] * policy[:, None, :]).reshape(len(some), -1)
            normal -= self.joint * (both.T @ (weight[:, None] * both)).reshape(normal.shape)
            for a in range(actions):
                own = weight * policy[:, a] ** 2 * self.spread[some, a]
                normal[:, a, :, a] += phi.T @ (own[:, None] * phi)
            target += phi.T @ pulled[some]
        return normal.reshape(target.size, -1), target.ravel()


def more_robust_doubly_robust(case: Case, rewards: Float[np.ndarray, " steps"]) -> Quotient:
    """Farajtabar, Chow, Ghavamzadeh (2018)."""
    log, data, usual = case.prepared, case.prepared.dataset, cross_fitted(case, rewards)
    objective, carried = objective_of(case, rewards), carried_by_decisions(case)
    fold = log.horizon_equations.fold_of_episode[data.episode_of_step]
    change, moved = np.empty_like(case.probabilities), moved_by(case, rewards, usual, carried)
    systems = [objective.system(np.flatnonzero(fold == f)) for f in range(FOLDS)]
    ridge = best_ridge(systems, [fit.weights for fit in usual.fits])
    for held_out, fit in enumerate(usual.fits):
        inside, slope = fold == held_out, _slope(case, objective.features, fold == held_out)
        others = [systems[f] for f in range(FOLDS) if f != held_out]
        delta, back = corrected(others, fit.weights, ridge, slope)
        change[inside] = objective.features[inside] @ delta
        moved += _moved_by(case, objective, fit.weights + delta, back, ~inside)
    values = (change * case.probabilities).sum(axis=1)
    chosen = np.take_along_axis(change, data.actions[:, None].astype(np.int64), axis=1)[:, 0]
    left = per_decision(case, usual.errors + log.to_follow(values) - chosen)
    return replace(left, numerator=usual.first + values[data.starts[:-1]] + left.numerator + moved)


def best_ridge(systems: Sequence[System], usual: Sequence[Float[np.ndarray, "rank actions"]]) -> float:
    """The penalty whose critics do best on the episodes that they were not fitted to."""
    losses = []
    for ridge in RIDGES:
        loss = 0.0
        for f, (normal, target) in enumerate(systems):
            others = [system for g, system in enumerate(systems) if g != f]
            theta = (usual[f] + corrected(others, usual[f], ridge)[0]).ravel()
            loss += theta @ normal @ theta - 2 * target @ theta
        losses.append(loss)
    return RIDGES[int(np.argmin(losses))]


def corrected(
    systems: Sequence[System],
    usual: Float[np.ndarray, "rank actions"],
    ridge: float,
    slope: Float[np.ndarray, "rank actions"] | None = None,
) -> tuple[Float[np.ndarray, "rank actions"], Float[np.ndarray, "rank actions"]]:
    """Δ = argmin of the objective at θ̂ + Δ, plus ridge ‖Δ‖², with θ̂ the usual critic; and (H + ridge)⁻¹ slope."""
    slope = np.zeros_like(usual) if slope is None else slope
    if ridge == np.inf:
        return np.zeros_like(usual), np.zeros_like(usual)
    normal, target = (np.sum([system[i] for system in systems], axis=0) for i in range(2))
    sides = np.column_stack([target - normal @ usual.ravel(), slope.ravel()])
    delta, back = np.linalg.solve(normal + ridge * np.eye(len(target)), sides).T.reshape(2, *usual.shape)
    return delta, back


def objective_of(case: Case, rewards: Float[np.ndarray, " steps"]) -> Objective:
    """For a policy on a log; its weights sum to 1."""
    log, data, equations = case.prepared, case.prepared.dataset, case.prepared.horizon_equations
    taken = np.eye(data.action_count)[data.actions]
    before = np.append(1.0, case.cumulative[:-1])
    before[data.starts[:-1]] = 1.0
    weight = log.growth * log.discount**data.time * (before / before.max()) ** 2 * case.ratio
    policy, spread = taken, taken
    if data.distributions is None:
        weight = weight * case.ratio
    else:
        tried = data.distributions > 0
        policy = np.where(tried, case.probabilities, 0.0)
        spread = np.divide(1.0, data.distributions, out=np.zeros_like(policy), where=tried)
    return Objective(
        features=equations.in_log_order(equations.rows.times(np.eye(equations.rows.rank))),
        policy=policy,
        spread=spread,
        joint=0.0 if data.distributions is None else 1.0,
        returns=taken * weighted_returns(case, rewards)[:, None],
        weight=weight / (weight.sum() or 1.0),
    )


def weighted_returns(case: Case, rewards: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """Rₜ: what followed each row, as if the policy had acted from the next step on."""
    log, data = case.prepared, case.prepared.dataset
    returns = np.array(rewards, dtype=np.float64)
    order = np.argsort(data.time, kind="stable")
    edges = np.searchsorted(data.time[order], np.arange(int(data.lengths.max()) + 1))
    for t in range(len(edges) - 2, -1, -1):  # backwards in time, all episodes at once
        rows = order[edges[t] : edges[t + 1]]
        rows = rows[log.onward[rows] > 0]
        returns[rows] += log.onward[rows] * case.ratio[rows + 1] * returns[rows + 1]
    return returns


def _slope(
    case: Case, features: Float[np.ndarray, "steps rank"], inside: Bool[np.ndarray, " steps"]
) -> Float[np.ndarray, "rank actions"]:
    """dV/dθ, with θ the critic of these rows."""
    log, data = case.prepared, case.prepared.dataset
    carried = np.where(inside, carried_by_decisions(case), 0.0)[:, None]
    start = data.starts[:-1][inside[data.starts[:-1]]]
    slope = features[start].T @ case.probabilities[start] / data.episodes
    onward = log.onward[:-1, None]
    slope += features[1:].T @ (carried[:-1] * onward * case.probabilities[1:])
    return slope - features.T @ (carried * np.eye(data.action_count)[data.actions])


def _moved_by(
    case: Case,
    objective: Objective,
    theta: Float[np.ndarray, "rank actions"],
    back: Float[np.ndarray, "rank actions"],
    outside: Bool[np.ndarray, " steps"],
) -> Float[np.ndarray, " episodes"]:
    """What each episode moves V by through θ, to first order: (dV/dθ)ᵀ H⁻¹ (h_e − H_e θ)."""
    log, data = case.prepared, case.prepared.dataset
    left = objective.pull(objective.returns - objective.policy * (objective.features @ theta))
    added = log.by_episode(np.where(outside, (left * (objective.features @ back)).sum(axis=1), 0.0))
    seen = outside[data.starts[:-1]]
    return data.episodes * np.where(seen, added - added[seen].mean(), 0.0)
