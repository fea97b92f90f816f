"""The state ratio w(s) = d^π(s)/d^μ(s) of a fixed policy: one interface to its three estimators.

On a log with a clock it is w(s, t): networks see the clock as an observation, the closed form has features of both.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from statewise.data.augment import ABSORBED
from statewise.data.clock import has_clock, up_to, with_clock
from statewise.data.dataset import Dataset
from statewise.data.device import DeviceLog, Rows, RowTable
from statewise.ops.kernels import median_distance
from statewise.ops.keys import key_for
from statewise.ops.networks import Network
from statewise.ops.placed import placed
from statewise.parts import ratio_closed_form, ratio_cop_td, ratio_features, ratio_network
from statewise.parts.chain import Chain, Kind
from statewise.parts.critic import Batch
from statewise.parts.learned import Learned
from statewise.parts.policy import action_ratio
from statewise.parts.ratio_closed_form import Flow, Solution
from statewise.parts.ratio_cop_td import COPTD, Moves
from statewise.parts.ratio_features import Basis, ClosedForm
from statewise.parts.ratio_network import ActionRatio, RatioNetwork
from statewise.parts.tracked import Tracked

Settings = ClosedForm | RatioNetwork | COPTD
State = Solution | Learned | Tracked


class Ground(eqx.Module):
    """What an estimator needs from the log, computed once."""

    bandwidth: Float[Array, ""]
    basis: Basis | None
    flow: Flow | None
    moves: Moves | None = None


def clocked(settings: Settings, dataset: Dataset, limit: int | None) -> tuple[Dataset, Dataset]:
    """The log as the ratio sees it, with a clock where there is a limit, and the log that rows are drawn from.

    That has a clock only for networks, which read it from the rows; what is expected of them after the limit does not
    change.
    """
    if limit is None or not settings.clock:
        return dataset, dataset
    timed = with_clock(dataset, limit, ends=False)
    return timed, up_to(dataset, limit) if isinstance(settings, ClosedForm) else timed


def prepare(settings: Settings, dataset: Dataset, chain: Chain, key: Key[Array, ""]) -> Ground:
    """Everything that does not depend on the policy; observations must be scaled."""
    if isinstance(settings, COPTD):
        return Ground(jnp.ones(()), None, None, ratio_cop_td.moves_of(chain))
    observed, times, limit = dataset.observations, None, None
    if isinstance(settings, ClosedForm) and has_clock(dataset):
        observed, times, limit = observed[:, :-1], dataset.time, dataset.horizon.steps
    states = np.asarray(observed)
    if ABSORBED in dataset.observation_names:  # not a real state, and far from those that are
        states = states[dataset.live]
    bandwidth = settings.bandwidth or median_distance(states)
    if isinstance(settings, RatioNetwork):
        return Ground(placed(bandwidth, jnp.float32), None, None)
    visits, rows = chain.visits, ratio_closed_form.sampled(len(dataset))
    if rows is not None:
        observed, times = observed[rows], None if times is None else times[rows]
        visits = None if visits is None else visits[rows]
    basis = ratio_features.make_basis(settings, observed, bandwidth, key, visits, times, limit, quick=rows is not None)
    flow = ratio_closed_form.make_flow(basis, dataset, chain, rows)
    return Ground(placed(bandwidth, jnp.float32), basis, flow)


def beside(ground: Ground, rows: RowTable) -> Ground:
    """With the rows of a long log's sample in a table of their own."""
    flow = ground.flow
    if flow is None or flow.sample is None:
        return ground
    table = replace(rows, table=rows.table[flow.sample.rows])
    return replace(ground, flow=replace(flow, sample=replace(flow.sample, table=table)))


def initial(settings: Settings, ground: Ground, features: int, key: Key[Array, ""]) -> State:
    """w before anything is fitted; w ≡ 1 for the closed form, which has no warm start."""
    if isinstance(settings, RatioNetwork):
        return ratio_network.initial(settings, features, key)
    if isinstance(settings, COPTD):
        return ratio_cop_td.initial(settings, features, key)
    assert ground.flow is not None
    flow = ground.flow
    # E[φ·1]: the projection of w ≡ 1, since E[φφᵀ] = I
    ones = flow.weight @ flow.phi[: flow.following.shape[0]] / flow.weight.sum()
    return Solution(ones, jnp.asarray(0.0), jnp.asarray(0.0))


def fit(
    settings: Settings,
    ground: Ground,
    state: State,
    policy: Network,
    log: DeviceLog,
    chain: Kind,
    key: Key[Array, ""],
    steps: int | None = None,
) -> State:
    """w for this policy: a few more steps of the network, or one exact solution."""
    if not isinstance(settings, ClosedForm):
        steps = settings.steps if steps is None else steps
        return fit_network(
            settings, ground, state, partial(action_ratio, policy, clip=settings.clip), log, chain, steps, key
        )
    assert ground.flow is not None
    if log.horizon == 1 and chain != "continuing":
        return state  # w ≡ 1: every episode begins in the same states, whatever the policy
    rows, weight = ratio_closed_form.draw_rows(ground.flow, settings.rows, key_for(key, "rows"))
    sample, table = ground.flow.sample, log.rows
    taken = rows
    if sample is not None:
        table, taken = (log.rows, sample.rows[rows]) if sample.table is None else (sample.table, rows)
    ratio = action_ratio(policy, table.take(taken), settings.clip)
    return ratio_closed_form.solve(settings, ground.flow, rows, weight, ratio)


def fit_network(
    settings: RatioNetwork | COPTD,
    ground: Ground,
    state: State,
    rho: ActionRatio,
    log: DeviceLog,
    chain: Kind,
    steps: int,
    key: Key[Array, ""],
) -> State:
    """`steps` more of the network's, for the policy with these action ratios."""
    if isinstance(settings, COPTD):
        assert isinstance(state, Tracked)
        assert ground.moves is not None
        return ratio_cop_td.fit(settings, state, rho, log, ground.moves, chain, steps, key)
    assert isinstance(state, Learned)
    return ratio_network.fit(settings, state, rho, log, chain, ground.bandwidth, steps, key)


def warm(
    settings: Settings,
    ground: Ground,
    state: State,
    policy: Network,
    log: DeviceLog,
    chain: Kind,
    key: Key[Array, ""],
) -> State:
    """The first w, for the cloned policy: many steps of the network. The closed form needs no warm start."""
    if isinstance(settings, ClosedForm):
        return state
    return fit(settings, ground, state, policy, log, chain, key, settings.warm_steps)


def of_rows(ground: Ground, state: State, rows: Rows) -> Float[Array, "*batch"]:
    """w at logged rows; negative values of the closed form become 0."""
    if not isinstance(state, Solution):
        return ratio_network.state_ratio(network_of(state), rows.state)
    assert ground.flow is not None
    if ground.flow.sample is None:
        return jnp.maximum(ground.flow.phi[rows.index] @ state.beta, 0.0)
    assert ground.basis is not None
    return jnp.maximum(ratio_closed_form.beyond_sample(ground.basis, ground.flow.sample, state, rows), 0.0)


def of_states(
    ground: Ground, state: State, states: Float[Array, "n features"], times: Int[np.ndarray, " n"] | None = None
) -> Float[Array, " n"]:
    """w at any states; with a clock, the closed form's has `times` and states without it."""
    if not isinstance(state, Solution):
        return ratio_network.state_ratio(network_of(state), states)
    assert ground.basis is not None
    return jnp.maximum(ground.basis(states, times) @ state.beta, 0.0)


def network_of(state: Learned | Tracked) -> Network:
    """The network that w is read from: of COP-TD's two the slow one, in which the noise of single steps is averaged."""
    return state.target if isinstance(state, Tracked) else state.network


def brake(least: float, batch: Batch, weight: Float[Array, "*batch"]) -> Float[Array, ""] | None:
    """By how much a step is shortened: 1 while wρ has an effective share of `least` of the rows, 0 from half of it on.

    Where few rows stand for all that the policy does, the log no longer says where to go; what a policy has learned
    up to there stays. `weight` is w of each row times the row's own.
    """
    if least == 0:
        return None
    together = weight * batch.ratio
    share = jnp.sum(together) ** 2 / (jnp.sum(batch.weight) * jnp.maximum(jnp.sum(together**2), 1e-12))
    return jnp.clip(2 * share / least - 1, 0.0, 1.0)
