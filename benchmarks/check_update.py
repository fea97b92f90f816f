"""Checks that the PyTorch update equals that of statewise: losses and gradients on a batch, weights after updates.

    python benchmarks/update.py --check

Run it again whenever `statewise.algorithms.opposd` changes what it computes or draws, or in which order.
"""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import numpy as np
import torch
import torch_opposd
from torch import Tensor, nn
from update import NETWORK, begun, seed_of, tensor, torch_agent, torch_log, torch_order

from statewise.algorithms import opposd
from statewise.data.dataset import Dataset
from statewise.learning.fit import prepare
from statewise.ops.keys import key_for
from statewise.ops.networks import Network
from statewise.parts import ratio, ratio_network
from statewise.parts.ratio_network import ActionRatio


def check(dataset: Dataset) -> None:
    data = prepare(NETWORK, dataset)[0]
    state = seed_of(begun(NETWORK, data, 1), 0)
    # the log's policy is uniform, and so is its clone; one that is not tests ρ and the entropy better
    state = eqx.tree_at(lambda state: state.actor.network.weights[-1], state, replace_fn=lambda weight: 20 * weight)
    log, key = torch_log(data), jax.random.key(1)
    check_ratio_loss(data, state, log, key)
    check_updates(data, state, log, key, count=3)
    print("The PyTorch update equals that of statewise: losses, gradients, and all weights after each of 3 updates")


def check_ratio_loss(data: opposd.Prepared, state: opposd.State, log: torch_opposd.Log, key: jax.Array) -> None:
    rho: ActionRatio = partial(ratio.action_ratio, state.actor.network)
    drawn = ratio_network.draw(NETWORK.ratio, data.log, data.chain, 1, key)
    pairs = ratio_network.pairs_of(rho, data.log, data.chain, data.ground.bandwidth, drawn)
    pairs = jax.tree.map(lambda leaf: leaf[0], pairs)
    loss, gradient = jax.value_and_grad(ratio_network.average_loss)(state.ratio.network, pairs)

    network = torch_agent(state).ratio
    following = tensor(pairs.following)
    kernel = torch_opposd.rbf(following[:1], following[1:], log.bandwidth)[0]
    theirs = torch_opposd.ratio_loss(
        network, tensor(pairs.state), following, tensor(pairs.ratio), kernel / kernel.mean()
    )
    theirs.backward()
    torch.testing.assert_close(theirs.detach(), tensor(loss), rtol=1e-3, atol=1e-8)
    for parameter, expected in zip(network.parameters(), torch_order(gradient), strict=True):
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-3, atol=1e-6)


def check_updates(
    data: opposd.Prepared, state: opposd.State, log: torch_opposd.Log, key: jax.Array, count: int
) -> None:
    """Whole updates on the same draws: their losses, and every network after them."""
    agent = torch_agent(state)
    update = eqx.filter_jit(opposd.update)
    for number in range(count):
        own, before = jax.random.fold_in(key, number), state
        state, metrics = update(NETWORK, data, before, own)
        loss = torch_opposd.update(agent, log, draws_of(data, own))
        torch.testing.assert_close(loss, tensor(metrics.critic_loss), rtol=1e-3, atol=0)
        gradient = torch.stack([parameter.grad.norm() for parameter in agent.actor.parameters()]).norm()
        torch.testing.assert_close(gradient, tensor(metrics.gradient_norm), rtol=1e-3, atol=0)
        check_weights(agent.ratio, state.ratio.network, before.ratio.network)
        check_weights(agent.critic, state.critic.network, before.critic.network)
        check_weights(agent.actor, state.actor.network, before.actor.network)


def check_weights(module: nn.Sequential, after: Network, before: Network) -> None:
    for parameter, expected, was in zip(module.parameters(), torch_order(after), torch_order(before), strict=True):
        # relative to how far the update went: rounding adds up over 50 steps of Adam, which amplifies gradients near 0
        apart, moved = (parameter.detach() - expected).norm(), (expected - was).norm()
        assert apart < 0.03 * moved, f"weights are {apart:.2g} apart after an update of {moved:.2g}"


def draws_of(data: opposd.Prepared, key: jax.Array) -> torch_opposd.Draws:
    """What `opposd.update` draws with this key."""

    def rows(part: jax.Array, *shape: int) -> Tensor:
        return tensor(data.log.draw(part, int(np.prod(shape))).index).long().reshape(shape)

    of_ratio, of_critic, of_actor = (key_for(key, name) for name in ("ratio", "critic", "actor"))
    pairs = (torch_opposd.RATIO_STEPS, 2, torch_opposd.RATIO_BATCH)
    fresh = tensor(data.log.draw_initial(key_for(of_ratio, "renewal"), int(np.prod(pairs))))
    return torch_opposd.Draws(
        ratio_rows=rows(key_for(of_ratio, "rows"), *pairs),
        fresh=fresh.reshape(*pairs, -1),
        critic_rows=rows(key_for(of_critic, "rows"), torch_opposd.CRITIC_STEPS, torch_opposd.CRITIC_BATCH),
        actor_rows=rows(of_actor, torch_opposd.ACTOR_BATCH),
    )
