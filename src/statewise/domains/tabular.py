"""Finite decision problems in which every quantity is known exactly, to check estimates against."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

Policy = Float[np.ndarray, "states actions"]  # probability of each action in each state

ROUNDING = 1e-12  # by how much the sum of probabilities may be off


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """Transitions P(s'|s,a), expected rewards r(s,a) and initial distribution p₀, in float64.

    A row of `transitions` may sum to less than 1: with the missing probability the episode ends. Where the reward
    depends on where a step leads, `arriving` says what each state pays on arrival, and at last what the end pays. Where
    only an end pays, and either 1 or nothing, `won_or_lost` draws which: r(s,a) is the chance of an end that pays 1.
    """

    transitions: Float[np.ndarray, "states actions states"]
    rewards: Float[np.ndarray, "states actions"]
    initial: Float[np.ndarray, "states"]
    arriving: Float[np.ndarray, "states+1"] | None = None
    won_or_lost: bool = False

    def __post_init__(self):
        totals = self.transitions.sum(axis=2)
        if self.transitions.min() < 0 or totals.max() > 1 + ROUNDING:
            raise ValueError("TabularMDP: each row transitions[s, a] must be non-negative and sum to at most 1")
        if self.initial.min() < 0 or abs(self.initial.sum() - 1) > ROUNDING:
            raise ValueError("TabularMDP: initial must be non-negative and sum to 1")
        if self.won_or_lost and not ((self.rewards >= 0) & (self.rewards <= self.termination + ROUNDING)).all():
            raise ValueError("TabularMDP: won_or_lost needs rewards[s, a] between 0 and the chance of an end")

    @classmethod
    def random(cls, states: int, actions: int, seed: int, termination: float = 0.0) -> "TabularMDP":
        """Dirichlet transitions and start, rewards uniform on [0, 1]; each step ends with probability `termination`."""
        generator = np.random.default_rng(seed)
        transitions = (1 - termination) * generator.dirichlet(np.ones(states), size=(states, actions))
        return cls(transitions, generator.random((states, actions)), generator.dirichlet(np.ones(states)))

    @classmethod
    def paid_on_arrival(
        cls,
        transitions: Float[np.ndarray, "states actions states"],
        arriving: Float[np.ndarray, "states+1"],
        initial: Float[np.ndarray, "states"],
    ) -> "TabularMDP":
        """r(s,a) = Σ_s' P(s'|s,a) r(s') + P(end|s,a) r(end): what is paid depends on where a step leads."""
        ending = np.clip(1 - transitions.sum(axis=2), 0.0, 1.0)
        return cls(transitions, transitions @ arriving[:-1] + ending * arriving[-1], initial, arriving)

    @property
    def termination(self) -> Float[np.ndarray, "states actions"]:
        """Probability that an action in a state ends the episode."""
        missing = 1 - self.transitions.sum(axis=2)
        return np.where(missing > ROUNDING, missing, 0.0)

    def chain(self, policy: Policy) -> Float[np.ndarray, "states states"]:
        """P_π(s, s') = Σ_a π(a|s) P(s'|s,a)."""
        return np.einsum("sa,sat->st", policy, self.transitions)

    def reached(self, policy: Policy) -> Bool[np.ndarray, "states"]:
        """The states that an episode under the policy can visit."""
        return _reachable(self.chain(policy) > 0, self.initial > 0)

    def visits(self, policy: Policy, discount: float) -> Float[np.ndarray, "states"]:
        """Expected discounted visits per episode, v = (I − γ P_πᵀ)⁻¹ p₀."""
        # Exactly 0 in states that the policy never reaches: the matrix is diagonally dominant, so the solver swaps no
        # rows, and the numbers of reached states do not mix with the others.
        return np.linalg.solve(self._resolvent(policy, discount).T, self.initial)

    def occupancy(self, policy: Policy, discount: float) -> Float[np.ndarray, "states"]:
        """d_π = v / Σv; the stationary distribution of P_π if γ = 1 and the policy never ends an episode."""
        if discount < 1 or self._can_end(policy).any():
            visits = self.visits(policy, discount)
            return visits / visits.sum()
        states = len(self.initial)
        balance = np.vstack([np.eye(states) - self.chain(policy).T, np.ones(states)])
        if np.linalg.matrix_rank(balance) < states:
            raise ValueError("occupancy: the policy has several stationary distributions; use a discount below 1")
        stationary = np.linalg.lstsq(balance, np.eye(states + 1)[states], rcond=None)[0]
        return np.where(stationary > ROUNDING, stationary, 0.0)

    def ratio(self, policy: Policy, behaviour: Policy, discount: float) -> Float[np.ndarray, "states"]:
        """w(s) = d_π(s) / d_μ(s); 0 where neither goes, infinite where only the behaviour never goes."""
        return _quotient(self.occupancy(policy, discount), self.occupancy(behaviour, discount))

    def visit_ratio(self, policy: Policy, behaviour: Policy, discount: float = 1.0) -> Float[np.ndarray, "states"]:
        """v_π(s) / v_μ(s), the ratio of visits per episode: `ratio` times Σv_π / Σv_μ."""
        return _quotient(self.visits(policy, discount), self.visits(behaviour, discount))

    def state_values(self, policy: Policy, discount: float) -> Float[np.ndarray, "states"]:
        """V = (I − γ P_π)⁻¹ r_π, the discounted sum of rewards from each state."""
        return np.linalg.solve(self._resolvent(policy, discount), (policy * self.rewards).sum(axis=1))

    def action_values(self, policy: Policy, discount: float) -> Float[np.ndarray, "states actions"]:
        """Q(s,a) = r(s,a) + γ Σ_s' P(s'|s,a) V(s')."""
        return self.rewards + discount * self.transitions @ self.state_values(policy, discount)

    def value(self, policy: Policy, discount: float) -> float:
        """Expected discounted sum of an episode's rewards, p₀·V."""
        return float(self.initial @ self.state_values(policy, discount))

    def value_within(self, policy: Policy, discount: float, horizon: int) -> float:
        """Expected discounted sum of the rewards of at most `horizon` steps, V_k = r_π + γ P_π V_{k−1}."""
        values, chain, rewards = np.zeros(len(self.initial)), self.chain(policy), (policy * self.rewards).sum(axis=1)
        for _ in range(horizon):
            values = rewards + discount * chain @ values
        return float(self.initial @ values)

    def optimal(self, discount: float) -> Policy:
        """A policy of the greatest value in every state, by policy iteration."""
        best = np.zeros(len(self.initial), int)
        for _ in range(1000):
            action_values = self.action_values(np.eye(self.rewards.shape[1])[best], discount)
            gain = action_values.max(axis=1) - np.take_along_axis(action_values, best[:, None], axis=1)[:, 0]
            better = np.where(gain > ROUNDING, action_values.argmax(axis=1), best)
            if (better == best).all():
                break
            best = better
        return np.eye(self.rewards.shape[1])[best]

    def policy_gradient(
        self, logits: Float[np.ndarray, "states actions"], discount: float
    ) -> Float[np.ndarray, "states actions"]:
        """∂(p₀·V)/∂θ(s,a) = v(s) π(a|s) (Q(s,a) − V(s)) for π = softmax θ. Sutton et al. (2000)."""
        policy = softmax(logits)
        values = self.state_values(policy, discount)
        advantages = self.action_values(policy, discount) - values[:, None]
        return self.visits(policy, discount)[:, None] * policy * advantages

    def augmented(self, behaviour: Policy) -> "TabularMDP":
        """M_μ: what the behaviour never does or sees leads to a new last state that pays 0 forever.

        Liu et al. (2019), section 3. States that the behaviour cannot reach keep their rows, though nothing leads
        there, so that states have the same numbers in both problems; `with_absorbing` extends a policy.
        """
        states, actions = self.rewards.shape
        seen = self.reached(behaviour)
        supported = seen[:, None] & (behaviour > 0)
        transitions = np.zeros((states + 1, actions, states + 1))
        transitions[:states, :, :states] = np.where(supported[:, :, None] & seen, self.transitions, 0.0)
        lost = (self.transitions * ~seen).sum(axis=2)
        transitions[:states, :, states] = np.where(supported, lost, 1.0)
        transitions[states, :, states] = 1.0
        rewards = np.vstack([np.where(supported, self.rewards, 0.0), np.zeros(actions)])
        return TabularMDP(transitions, rewards, np.append(self.initial, 0.0))

    def sample(self, policy: Policy, episodes: int, horizon: int, seed: int) -> dict[str, np.ndarray]:
        """Decisions drawn under the policy, one per row, by episode and step.

        The next state of a step that ends the episode repeats its state; `probabilities` is π(·|s).
        """
        generator = np.random.default_rng(seed)
        cumulative, termination = self.transitions.cumsum(axis=2), self.termination
        state = _draw(np.tile(self.initial.cumsum(), (episodes, 1)), generator)
        alive, columns = np.ones(episodes, bool), []
        for _ in range(horizon):
            if not alive.any():
                break
            action = _draw(policy.cumsum(axis=1)[state], generator)
            terminated = generator.random(episodes) < termination[state, action]
            next_state = np.where(terminated, state, _draw(cumulative[state, action], generator))
            columns.append((state, action, next_state, terminated, alive))
            state, alive = next_state, alive & ~terminated
        *rows, valid = (np.stack(column, axis=1) for column in zip(*columns, strict=True))
        state, action, next_state, terminated = (row[valid] for row in rows)
        episode, step = np.nonzero(valid)
        return {
            "episode": episode,
            "step": step,
            "state": state,
            "action": action,
            "reward": self._paid(state, action, next_state, terminated, generator),
            "next_state": next_state,
            "propensity": policy[state, action],
            "probabilities": policy[state],
            "terminated": terminated,
        }

    def _paid(
        self,
        state: np.ndarray,
        action: np.ndarray,
        next_state: np.ndarray,
        terminated: np.ndarray,
        generator: np.random.Generator,
    ) -> Float[np.ndarray, "n"]:
        if self.won_or_lost:
            ends = self.termination[state, action]
            return (terminated & (generator.random(len(state)) * ends < self.rewards[state, action])).astype(np.float64)
        if self.arriving is None:
            return self.rewards[state, action]
        return self.arriving[np.where(terminated, len(self.initial), next_state)]

    def _can_end(self, policy: Policy) -> Bool[np.ndarray, "states"]:
        """The states from which an episode under the policy can end."""
        ends_here = (policy * self.termination).sum(axis=1) > 0
        return _reachable(self.chain(policy).T > 0, ends_here)

    def _resolvent(self, policy: Policy, discount: float) -> Float[np.ndarray, "states states"]:
        if discount == 1 and not self._can_end(policy).all():
            stuck = np.flatnonzero(~self._can_end(policy)).tolist()
            raise ValueError(f"discount=1, but from states {stuck} the episode never ends; use a discount below 1")
        return np.eye(len(self.initial)) - discount * self.chain(policy)


def softmax(logits: Float[np.ndarray, "states actions"]) -> Policy:
    """π(a|s) = exp θ(s,a) / Σ_b exp θ(s,b)."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def with_absorbing(policy: Policy) -> Float[np.ndarray, "states+1 actions"]:
    """The policy on the states of `augmented`: uniform in the absorbing one, where it makes no difference."""
    actions = policy.shape[1]
    return np.vstack([policy, np.full(actions, 1 / actions)])


def _reachable(
    edges: Bool[np.ndarray, "states states"], start: Bool[np.ndarray, "states"]
) -> Bool[np.ndarray, "states"]:
    reached = start
    for _ in range(len(start)):
        further = reached | (reached @ edges)
        if (further == reached).all():
            break
        reached = further
    return reached


def _quotient(above: Float[np.ndarray, "n"], below: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above > 0, above / below, 0.0)


def _draw(cumulative: Float[np.ndarray, "n outcomes"], generator: np.random.Generator) -> np.ndarray:
    """One outcome per row, by its cumulative weights; an outcome of weight 0 is never drawn."""
    points = generator.random(len(cumulative)) * cumulative[:, -1]
    return (cumulative <= points[:, None]).sum(axis=1)
