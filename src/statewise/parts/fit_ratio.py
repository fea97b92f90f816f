"""`fit_ratio`: the state ratio of any policy on a log, with diagnostics of how far to trust it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from statewise.base.ranges import check_ranges
from statewise.data.augment import Scaler
from statewise.data.clock import clock, has_clock, limit_of, with_clock
from statewise.data.dataset import Dataset
from statewise.data.device import device_log, propensities_of
from statewise.data.discount import discount_of
from statewise.ops.contrasts import contrasts_of
from statewise.ops.keys import key_for
from statewise.parts import ratio, ratio_closed_form, ratio_network
from statewise.parts.chain import chain_of
from statewise.parts.ratio import Ground, State
from statewise.parts.ratio_closed_form import Actions, Solution
from statewise.parts.ratio_cop_td import COPTD
from statewise.parts.ratio_features import ClosedForm
from statewise.parts.ratio_network import RatioNetwork
from statewise.policies.probabilities import probabilities_of

MOST_FIRST = 2**16  # first states of episodes whose features are averaged
TAIL = 0.01  # the share of rows that counts as the tail


@dataclass(frozen=True)
class Diagnostics:
    """How far a ratio can be trusted."""

    mean: float  # of w over the rows before it is scaled to 1: far from 1 where the equations are not met
    effective_share: float  # (Σwρ)² / n Σ(wρ)²: the share of the rows that carry an estimate
    tail: float  # the share of all weight on the heaviest 1 % of rows
    negative: float  # the share of rows where the closed form was negative, and set to 0
    unsupported: float  # the share of the policy's probability on actions that the behaviour never takes there
    residual: float  # held-out loss: near 0 where w meets the equations on rows that it was not fitted to
    regularisation: float


@dataclass(frozen=True, eq=False)
class Ratio:
    """w(s) = d^π(s)/d^μ(s): call it with observations. `of_rows` is w on the log it was fitted to, with mean 1.

    Where a `limit` cuts episodes off, it is w(s, t) = d^π_t(s)/d^μ_t(s), up to scale: call it with observations and the
    step t of each. `of_rows` is 0 beyond the limit.
    """

    of_rows: Float[np.ndarray, " steps"]
    action_ratio: Float[np.ndarray, " steps"]  # ρ(s,a) of the logged actions
    diagnostics: Diagnostics
    scaler: Scaler
    ground: Ground
    state: State
    scale: float
    limit: int | None = None

    def __call__(
        self, observations: Float[np.ndarray, "n features"], time: Int[np.ndarray, " n"] | int | None = None
    ) -> Float[np.ndarray, " n"]:
        scaled = self.scaler(np.asarray(observations))
        steps = None
        if self.limit is not None:
            steps = _steps(time, len(scaled), self.limit)
            if not isinstance(self.state, Solution):  # a network sees the clock as an observation
                scaled = np.column_stack([scaled, clock(steps, self.limit)])
        w = ratio.of_states(self.ground, self.state, jnp.asarray(scaled, jnp.float32), steps)
        return np.asarray(w, np.float64) / self.scale


def fit_ratio(
    policy: Any,
    dataset: Dataset,
    *,
    discount: float | None = None,
    method: Literal["closed-form", "network", "cop-td"] | ratio.Settings = "closed-form",
    steps: int = 5000,
    seed: int = 0,
) -> Ratio:
    """Fits w(s) = d^π(s)/d^μ(s) to all rows of a log, or to 262,144 of a longer one.

    `policy` has `.probabilities(observations)`, or is a function of observations that returns probabilities
    [n, actions]. `discount` defaults to the log's own; with 1, w is the ratio of visits per episode where episodes
    terminate, and of stationary distributions where they continue. Where a limit cuts episodes off, w also depends on
    the step within the episode. `steps` is for methods that learn a network.

    >>> w = fit_ratio(policy, train, discount=0.98)  # doctest: +SKIP
    >>> w(observations), w.diagnostics.effective_share  # doctest: +SKIP
    >>> w(observations, time)  # where there is a limit  # doctest: +SKIP
    """
    settings = _methods()[method] if isinstance(method, str) else method
    check_ranges(settings)
    discount = discount_of(dataset, discount)
    propensities = propensities_of(dataset)
    probabilities = probabilities_of(policy, dataset)
    scaler = Scaler.of(dataset)
    limit = limit_of(dataset, discount) if settings.clock else None
    scaled, counts = scaler.scale(dataset), np.ones(len(dataset), bool)
    if limit is not None:
        scaled, counts = with_clock(scaled, limit), dataset.time < limit
    chain = chain_of(scaled, discount)
    key = jax.random.key(seed)
    ground = ratio.prepare(settings, scaled, chain, key_for(key, "features"))
    rho = np.take_along_axis(probabilities, dataset.actions[:, None].astype(np.int64), axis=1)[:, 0]
    rho = rho / propensities
    rho = np.minimum(rho, settings.clip) if settings.clip else rho
    if isinstance(settings, ClosedForm):
        assert ground.flow is not None
        actions = _actions(ground, scaled, probabilities[counts])
        state: State = _solve(settings, ground.flow, jnp.asarray(rho[counts], jnp.float32), actions)
    else:
        log = device_log(scaled, discount)
        state = ratio.initial(settings, ground, scaled.observations.shape[1], key_for(key, "ratio"))
        state = _learn(settings, ground, state, jnp.asarray(rho[counts], jnp.float32), log, chain.kind, steps, key)
    raw, weight = np.zeros(len(dataset)), np.zeros(len(dataset))
    raw[counts] = _signed(ground, state, scaled)
    weight[counts] = 1.0 if chain.visits is None else chain.visits
    positive = np.maximum(raw, 0)
    scale = float(np.average(positive, weights=weight))
    scale = scale if scale > 0 else 1.0
    w = positive / scale
    return Ratio(
        of_rows=w,
        action_ratio=rho,
        diagnostics=_diagnose(dataset, probabilities, w * rho * weight, raw, scale, state),
        scaler=scaler,
        ground=ground,
        state=state,
        scale=scale,
        limit=limit,
    )


def _methods() -> dict[str, ratio.Settings]:
    return {"closed-form": ClosedForm(), "network": RatioNetwork(), "cop-td": COPTD()}


def _steps(time: Int[np.ndarray, " n"] | int | None, count: int, limit: int) -> Int[np.ndarray, " n"]:
    """The step of each observation, checked."""
    if time is None:
        raise ValueError(f"time: episodes end at step {limit}, so that w depends on the step: give each observation's")
    steps = np.broadcast_to(np.asarray(time), count)
    if count and (steps.min() < 0 or steps.max() >= limit):
        raise ValueError(f"time: expected steps from 0 to {limit - 1}, got {steps.min()} to {steps.max()}")
    return steps


@eqx.filter_jit
def _solve(settings: ClosedForm, flow: ratio_closed_form.Flow, rho: jax.Array, actions: Actions) -> Solution:
    rows, weight = ratio_closed_form.draw_rows(flow, rho.shape[0] + flow.folds.size, jax.random.key(0))
    of_log = rows if flow.sample is None else flow.sample.rows[rows]
    return ratio_closed_form.solve(settings, flow, rows, weight, rho[of_log], actions)


def _actions(ground: Ground, scaled: Dataset, probabilities: Float[np.ndarray, "steps actions"]) -> Actions:
    """κ of every contrast of actions, and φ where episodes begin."""
    assert ground.basis is not None
    kinds = np.asarray(probabilities @ contrasts_of(scaled.action_count), np.float32)
    first = scaled.starts[:-1][:MOST_FIRST]
    states = scaled.observations[first]
    states = states[:, :-1] if has_clock(scaled) else states
    phi = ground.basis(jnp.asarray(states, jnp.float32), np.zeros(len(first), np.int64))
    following = np.concatenate([kinds[1:], np.zeros_like(kinds[:1])])
    return Actions(jnp.asarray(kinds), jnp.asarray(following), jnp.asarray(kinds[first].T) @ phi / len(first))


@eqx.filter_jit
def _learn(settings: RatioNetwork | COPTD, ground: Ground, state: State, rho, log, chain, steps: int, key) -> State:
    return ratio.fit_network(settings, ground, state, lambda rows: rho[rows.index], log, chain, steps, key)


def _signed(ground: Ground, state: State, scaled: Dataset) -> Float[np.ndarray, " steps"]:
    """w on the log's rows before negative values are set to 0."""
    if isinstance(state, Solution):
        assert ground.flow is not None
        if ground.flow.sample is None:
            return np.asarray(ground.flow.phi[: len(scaled)] @ state.beta, np.float64)
        assert ground.basis is not None
        return ratio_closed_form.on_rows(ground.basis, ground.flow.sample, state, scaled)
    states = jnp.asarray(scaled.observations, jnp.float32)
    return np.asarray(ratio_network.state_ratio(ratio.network_of(state), states), np.float64)


def _diagnose(
    dataset: Dataset,
    probabilities: Float[np.ndarray, "steps actions"],
    weight: Float[np.ndarray, " steps"],
    raw: Float[np.ndarray, " steps"],
    scale: float,
    state: State,
) -> Diagnostics:
    heaviest = np.sort(weight)[-max(1, round(TAIL * len(weight))) :]
    never = np.zeros_like(probabilities, dtype=bool)
    if dataset.distributions is not None:
        never = dataset.distributions <= 0
    total = weight.sum()
    return Diagnostics(
        mean=scale,
        effective_share=float(total**2 / (len(weight) * np.sum(weight**2))),
        tail=float(heaviest.sum() / total),
        negative=float((raw < 0).mean()),
        unsupported=float(np.average((probabilities * never).sum(axis=1), weights=weight)),
        residual=float(state.residual) if isinstance(state, Solution) else float("nan"),
        regularisation=float(state.regularisation) if isinstance(state, Solution) else float("nan"),
    )
