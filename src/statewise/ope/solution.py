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

from statewise.base.column import like
from statewise.ope.balance import Noise
from statewise.ope.equations import Equations
from statewise.ope.order import Block
from statewise.ope.quotient import USUAL
from statewise.ope.rows import Weights
from statewise.ops.contrasts import contrasts_of
from statewise.parts.ratio_closed_form import FOLDS

UNDER = 10  # times less is λ than what is best for w itself


@dataclass(frozen=True, eq=False)
class Solved:
    """The solution for one policy. M and a are means over all folds."""

    beta: Float[np.ndarray, " rank"]  # scaled so that w has mean 1 …
    scale: float  # … from the solution of the equations as they stand
    imbalance: Float[np.ndarray, "tests rank"]  # M; the first `rank` tests are those of states alone
    states: Float[np.ndarray, "folds rank rank"]  # what each fold adds to the tests of states alone
    begins: Float[np.ndarray, "folds rank"]  # Σ ω ρ (1 − γc) φ
    fresh: Float[np.ndarray, "sets rank"]  # the mean of κφ over first states, for each set of tests
    regularisation: float
    residual: float  # the closed form's held-out loss, a sum over folds
    noise: float  # of the equations in a fold: what an exact w would leave when fitted to another, or little more …
    # … where the residual is positive, and is asked for
    signed: Float[np.ndarray, " steps"]  # βᵀφ in the log's order, before it is cut off at 0

    @property
    def ratio(self) -> Float[np.ndarray, " steps"]:
        return np.maximum(self.signed, 0.0)

    @property
    def negative(self) -> float:
        """Σ max(−w, 0) / Σ max(w, 0): the share of w's mass that is cut off."""
        positive = np.sum(self.ratio)
        return float((positive - np.sum(self.signed)) / positive)

    @property
    def excess(self) -> float:
        """The share by which w misses its equations on held-out episodes, beyond the noise of their number.

        As if there were `USUAL` equations: with more features there are more to miss, each by as little.
        """
        return float(np.sqrt(max(self.residual / FOLDS - self.noise, 0.0) * min(USUAL / len(self.beta), 1.0)))


@dataclass(frozen=True, eq=False)
class Policy:
    """What the equations need of a policy, a block of rows at a time."""

    equations: Equations
    ratio: Float[np.ndarray, " steps"]  # ρ on the log's rows
    probabilities: Float[np.ndarray, "steps actions"]

    @property
    def sets(self) -> int:
        """Of tests: those of states alone, and one for each contrast."""
        # on a continuing chain, π in the states after the last rows would be needed
        return 1 if self.equations.chain == "continuing" else 1 + len(contrasts_of(self.probabilities.shape[1]).T)

    def rho(self, block: Block) -> Float[np.ndarray, " n"]:
        return self.ratio[self.equations.order[block.part]]

    def kinds(self, block: Block, some: Int[np.ndarray, " n"] | None = None) -> Float[np.ndarray, "n sets"]:
        """κ of each set of tests, of all or some rows of a block; 1 for those of states alone."""
        at = self.equations.order[block.part]
        at = at if some is None else at[some]
        kinds = np.ones((len(at), self.sets))
        if self.sets > 1:
            kinds[:, 1:] = self.probabilities[at] @ contrasts_of(self.probabilities.shape[1])
        return kinds


def solve(
    equations: Equations,
    ratio: Float[np.ndarray, " steps"],
    probabilities: Float[np.ndarray, "steps actions"],
    flows: Float[np.ndarray, "folds sets rank rank"] | None = None,
) -> Solved:
    """w for the policy whose ρ and probabilities on the log's rows are given; `flows_of` it, where they are known."""
    policy = Policy(equations, ratio, probabilities)
    begins, fresh = _beginnings(policy)
    flows = flows_of(policy) if flows is None else flows
    sets = FOLDS * flows
    if equations.chain != "continuing":  # x' also holds where the chain begins anew
        sets += fresh[None, :, :, None] * (FOLDS * begins)[:, None, None, :]
    states = sets[:, 0] / FOLDS
    if equations.nothing_follows:
        return _unchanged(equations, states, begins, fresh)
    imbalance = sets.reshape(FOLDS, -1, equations.rows.rank)
    regularisation, residual = _choose(equations.settings.regularisation, imbalance, FOLDS * equations.mean)
    regularisation /= FOLDS * UNDER
    mean, total = equations.mean.sum(axis=0), imbalance.mean(axis=0)
    beta = np.linalg.solve(total.T @ total + regularisation * np.eye(len(mean)), mean)
    scale = float(mean @ beta)
    beta = beta / scale
    lifted = equations.rows.lifted(beta[:, None])

    def chunk(blocks: Sequence[Block]) -> tuple[list[Float[np.ndarray, " n"]], Noise]:
        w, noise = [], Noise.none(equations.rows.rank)
        for block in blocks:
            w.append(equations.rows.times_in(block, lifted)[:, 0].astype(np.float64))
            if residual > 0:  # otherwise nothing is missed, whatever the noise
                noise = noise.plus(Noise.of(equations, block, policy.rho(block), w[-1]))
        return w, noise

    signed, noise = like(equations.order, len(equations.order)), [Noise.none(equations.rows.rank)] * FOLDS
    each = iter(equations.blocks)
    for fold, (values, part) in equations.blocks.chunks(chunk):
        noise[fold] = noise[fold].plus(part)
        for w in values:
            signed[equations.order[next(each).part]] = w
    return Solved(
        beta=beta,
        scale=scale,
        imbalance=total,
        states=states,
        begins=begins,
        fresh=fresh,
        regularisation=regularisation,
        residual=residual,
        noise=float(np.mean([one.size for one in noise])) if residual > 0 else 0.0,
        signed=signed,
    )


def _beginnings(policy: Policy) -> tuple[Float[np.ndarray, "folds rank"], Float[np.ndarray, "sets rank"]]:
    """Σ ω ρ (1 − γc) φ in each fold, and the mean of κφ over first states."""
    equations = policy.equations

    def begins(block: Block) -> Float[np.ndarray, "n 1"]:
        return (equations.weight(block) * policy.rho(block) * (1 - equations.onward(block)))[:, None]

    def first(block: Block) -> Float[np.ndarray, "episodes sets"]:
        return policy.kinds(block, block.first) / len(equations.episodes)

    return equations.rows.sums(begins)[:, :, 0], equations.rows.of_firsts(first).T


def flows_of(policy: Policy) -> Float[np.ndarray, "folds sets rank rank"]:
    """Σᵢ ωᵢ ρᵢ (γc κ'φ'ᵢ − κφᵢ) φᵢᵀ in each fold; on a continuing chain Σᵢ ωᵢ (ρᵢφ'ᵢφᵢᵀ − φ'ᵢφ'ᵢᵀ)."""
    equations = policy.equations

    def weigh(block: Block) -> Weights:
        carried = (equations.weight(block) * policy.rho(block))[:, None]
        if equations.chain == "continuing":
            return Weights(moves=carried)
        kinds = policy.kinds(block)
        return Weights(-carried * kinds, carried * equations.onward(block)[:, None] * block.after(kinds))

    sums = equations.rows.moments(weigh)[:, 0]
    return sums - equations.fixed[:, None] if equations.chain == "continuing" else sums


def _unchanged(
    equations: Equations,
    states: Float[np.ndarray, "folds rank rank"],
    begins: Float[np.ndarray, "folds rank"],
    fresh: Float[np.ndarray, "sets rank"],
) -> Solved:
    """w ≡ 1, exactly, where every episode is one decision: no policy changes the states it is made in."""
    rank, rows = equations.rows.rank, len(equations.order)
    return Solved(
        beta=np.zeros(rank),
        scale=1.0,
        imbalance=np.zeros((rank, rank)),
        states=states,
        begins=begins,
        fresh=fresh,
        regularisation=1.0,
        residual=0.0,
        noise=0.0,
        signed=np.ones(rows),
    )


def pull(
    equations: Equations,
    solved: Solved,
    ratio: Float[np.ndarray, " steps"],
    probabilities: Float[np.ndarray, "steps actions"],
    slopes: Float[np.ndarray, "rank slopes"],
) -> Float[np.ndarray, "episodes slopes"]:
    """What each episode moves slopeᵀβ by through the equations, to first order; a slope must be orthogonal to β.

    With A = MᵀM + λI, g = A⁻¹slope, u = Mg and v = Mβ: slopeᵀdβ = gᵀda − (dM g)ᵀv − uᵀ(dM β), dM and da being what the
    episode adds to M and a, by itself and through φ̄₀.
    """
    count, (rank, several) = len(equations.episodes), slopes.shape
    if equations.nothing_follows:
        return np.zeros((count, several))
    policy, matrix = Policy(equations, ratio, probabilities), solved.imbalance
    g = np.linalg.solve(matrix.T @ matrix + solved.regularisation * np.eye(rank), slopes)
    both = np.concatenate([solved.beta[:, None], g], axis=1)
    tested = (matrix @ both).reshape(-1, rank, 1 + several)  # v and every u, by the set of tests
    lifted = equations.rows.lifted(np.concatenate([both, tested.transpose(1, 0, 2).reshape(rank, -1)], axis=1))
    fresh, anew = np.einsum("sr,src->c", solved.fresh, tested), solved.begins.sum(axis=0) @ both

    def move(block: Block) -> Float[np.ndarray, "episodes slopes"]:
        rho, weight, onward = policy.rho(block), equations.weight(block), equations.onward(block)
        values = equations.rows.times_in(block, lifted)
        # column by column: NumPy is slow with short rows
        b, *h = np.ascontiguousarray(values[:, : 1 + several].T)
        begun: np.ndarray | float = 0.0
        if equations.chain == "continuing":
            arrived = block.after(values)
            arrived[block.last] = equations.rows.times_beyond(block, lifted)
            flow_v, *flow_u = (rho - 1) * arrived[:, 1 + several :].T
        else:
            by_set = np.ascontiguousarray(values[:, 1 + several :].T).reshape(-1, 1 + several, len(block))
            by = np.einsum("scn,sn->cn", by_set, policy.kinds(block).T)  # all tests together
            flow_v, *flow_u = (
                rho * (onward * block.after(one) + (1 - onward) * begins - one)
                for one, begins in zip(by, fresh, strict=True)
            )
            first = by[:, block.first]
            begun = np.outer(first[0], anew[1:]) + first[1:].T * anew[0]
        moved = [
            block.by_episode(weight * (own / solved.scale - own * flow_v - b * flow))
            for own, flow in zip(h, flow_u, strict=True)
        ]
        return count * np.stack(moved, axis=1) - begun

    moved = np.empty((count, several))
    for block, by in equations.blocks.map(move):
        moved[equations.episodes[block.episodes]] = by
    return moved - moved.mean(axis=0)


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
