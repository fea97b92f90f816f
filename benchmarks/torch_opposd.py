"""One OPPOSD update in eager PyTorch, the yardstick of benchmarks/update.py.

    python benchmarks/update.py --check     # compares it with the update of statewise, number for number

It is idiomatic PyTorch: modules and optimisers from torch.nn and torch.optim, batches by index tensors, no gradients
where none are needed, no loops over rows, no torch.compile. As in statewise, whatever does not depend on the network
being learned (rows, ρ, kernels) is computed once before each inner loop, which is faster here too, by about a tenth.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

RATIO_STEPS, RATIO_BATCH = 50, 200
CRITIC_STEPS, CRITIC_BATCH = 10, 5000
ACTOR_BATCH = 5000
ENTROPY = 0.01


@dataclass
class Log:
    """Every decision of the log, one row each."""

    state: Tensor
    next_state: Tensor
    action: Tensor
    reward: Tensor
    propensity: Tensor
    onward: Tensor  # 1 where the next state's value counts
    usable: Tensor
    live: Tensor
    last: Tensor  # whether an episode ends here
    starts: Tensor  # the first row of each episode
    bandwidth: float
    discount: float
    scale: float  # of the log's returns, the unit of the critic
    bounds: tuple[float, float]  # between which every return lies


@dataclass
class Draws:
    """The random part of one update."""

    ratio_rows: Tensor  # [steps, 2, batch]
    fresh: Tensor  # [steps, 2, batch, features]: initial states, from which to restart where an episode ends
    critic_rows: Tensor  # [steps, batch]
    actor_rows: Tensor  # [batch]


class Agent:
    """Three networks and their optimisers."""

    def __init__(self, features: int = 4, actions: int = 2, hidden: int = 32, fused: bool = False):
        self.ratio = mlp(features, hidden, 1)
        self.critic = mlp(features, hidden, 1)
        self.actor = mlp(features, hidden, actions)
        settings = {"lr": 1e-3, "fused": fused or None}
        self.ratio_optimiser = torch.optim.AdamW(self.ratio.parameters(), weight_decay=1e-5, **settings)
        self.critic_optimiser = torch.optim.Adam(self.critic.parameters(), **settings)
        self.actor_optimiser = torch.optim.Adam(self.actor.parameters(), **settings)


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def draw(log: Log) -> Draws:
    def rows(*shape: int) -> Tensor:
        return torch.randint(len(log.action), shape)

    episodes = torch.randint(len(log.starts), (RATIO_STEPS, 2, RATIO_BATCH))
    return Draws(
        ratio_rows=rows(RATIO_STEPS, 2, RATIO_BATCH),
        fresh=log.state[log.starts[episodes]],
        critic_rows=rows(CRITIC_STEPS, CRITIC_BATCH),
        actor_rows=rows(ACTOR_BATCH),
    )


def update(agent: Agent, log: Log, draws: Draws) -> Tensor:
    """Returns the critic's last loss."""
    fit_ratio(agent, log, draws.ratio_rows, draws.fresh)
    loss = fit_critic(agent, log, draws.critic_rows)
    descend(agent.actor_optimiser, actor_loss(agent, log, draws.actor_rows))
    return loss


def fit_ratio(agent: Agent, log: Log, rows: Tensor, fresh: Tensor) -> None:
    with torch.no_grad():
        state, rho = log.state[rows], action_ratio(agent.actor, log, rows)
        following = torch.where(log.last[rows].unsqueeze(-1), fresh, log.next_state[rows])
        kernel = rbf(following[:, 0], following[:, 1], log.bandwidth)
        kernel = kernel / kernel.mean(dim=(1, 2), keepdim=True)
    for batch in zip(state, following, rho, kernel, strict=True):
        descend(agent.ratio_optimiser, ratio_loss(agent.ratio, *batch))


def fit_critic(agent: Agent, log: Log, rows: Tensor) -> Tensor:
    """Returns the last loss."""
    with torch.no_grad():
        rho = action_ratio(agent.actor, log, rows)
    columns = [column[rows] for column in (log.state, log.next_state, log.reward, log.onward, log.usable)]
    loss = torch.zeros(())
    for batch in zip(*columns, rho, strict=True):
        loss = critic_loss(agent.critic, log, *batch)
        descend(agent.critic_optimiser, loss)
    return loss.detach()


def ratio_loss(network: nn.Module, state: Tensor, following: Tensor, rho: Tensor, kernel: Tensor) -> Tensor:
    """δ_A K δ_B / n² with δ = (w(s)ρ − w(s')) / mean w, for the two batches of one step."""
    here, there = state_ratio(network, torch.stack([state, following]))
    delta = (here * rho - there) / here.mean(dim=-1, keepdim=True)
    return delta[0] @ kernel @ delta[1] / delta.shape[-1] ** 2


def critic_loss(
    network: nn.Module,
    log: Log,
    state: Tensor,
    next_state: Tensor,
    reward: Tensor,
    onward: Tensor,
    usable: Tensor,
    rho: Tensor,
) -> Tensor:
    """mean ρ (r + γV(s') − V(s))², in units of the returns' scale."""
    with torch.no_grad():
        target = reward + log.discount * onward * value(network, log, next_state).clamp(*log.bounds)
    errors = (target - value(network, log, state)) / log.scale
    return (usable * rho * errors**2).sum() / usable.sum()


def actor_loss(agent: Agent, log: Log, rows: Tensor) -> Tensor:
    """−mean w (ρA + entropy), with A relative to its deviation and w to its mean."""
    state = log.state[rows]
    with torch.no_grad():
        weight = log.usable[rows] * state_ratio(agent.ratio, state)
        weight = weight / weight.mean()
        following = value(agent.critic, log, log.next_state[rows]).clamp(*log.bounds)
        onward = log.discount * log.onward[rows] * following
        advantage = log.live[rows] * (log.reward[rows] + onward - value(agent.critic, log, state))
        advantage = advantage / (weight * advantage**2).mean().sqrt().clamp(min=1e-8)
    log_policy = F.log_softmax(agent.actor(state), dim=-1)
    policy = log_policy.exp()
    rho = policy.gather(-1, log.action[rows].unsqueeze(-1)).squeeze(-1) / log.propensity[rows]
    entropy = -(policy * log_policy).sum(dim=-1)
    return -(weight * rho * advantage).mean() - ENTROPY * (weight * entropy).mean()


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def action_ratio(actor: nn.Module, log: Log, rows: Tensor) -> Tensor:
    chances = F.softmax(actor(log.state[rows]), dim=-1)
    return chances.gather(-1, log.action[rows].unsqueeze(-1)).squeeze(-1) / log.propensity[rows]


def state_ratio(network: nn.Module, states: Tensor) -> Tensor:
    return F.softplus(network(states)).squeeze(-1)


def value(network: nn.Module, log: Log, states: Tensor) -> Tensor:
    return log.scale * network(states).squeeze(-1)


def rbf(left: Tensor, right: Tensor, bandwidth: float) -> Tensor:
    """k(x,y) = exp(−‖x − y‖² / 2h²), for a batch of pairs of sets of points."""
    squared = left.square().sum(-1).unsqueeze(-1) + right.square().sum(-1).unsqueeze(-2) - 2 * left @ right.mT
    return torch.exp(squared.clamp(min=0) / (-2 * bandwidth**2))
