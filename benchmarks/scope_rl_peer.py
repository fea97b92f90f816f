"""SCOPE-RL 0.2.1 on logs that benchmarks/accuracy.py wrote: every estimate of every log, as one JSON file.

python benchmarks/scope_rl_peer.py LOGS OUT.json [--steps 500]

It runs in its own environment, with `pip install torch==2.13.0 scope-rl==0.2.1` (in this order, which brings d3rlpy
2.8.1) and without this package. Only its estimators and its learners of weights and values are used, on arrays; its own
data classes need a Gym environment.

Each log is an npz file of rectangular episodes, flattened as SCOPE-RL expects them: `state` (standardised), `action`,
`reward`, `pscore`, `target` (probabilities of the policy to evaluate), `steps`, `gamma`.

Every estimator is called in each way that may suit it, and the caller keeps the best, with knowledge of the truth:

- weights by minimax weight learning and by its DICE, values by minimax value learning and by its DICE, all with its own
  networks; the kernel's bandwidth is the median distance between states. Minimax weights are learned with
  `regularization_weight=-1`: by default SCOPE-RL subtracts the constraint that their mean is 1 from the loss instead of
  adding it, and they fall to 0;
- `n_step_pdis` 0 and 1, and for state weights also w(s)ρ in place of w(s): at 0 SCOPE-RL leaves ρ out altogether, at 1
  it takes w one step too early;
- the discounted sum that it computes, and the mean of wr over rows times 1/(1 − γ), which is what its weights are for:
  they are learned on rows drawn uniformly in time.

Its estimators are called directly, so that the last step's reward, which its data class drops by default, is kept.
"""

import argparse
import contextlib
import io
import json
import os
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from scope_rl.ope import discrete as peer  # noqa: E402
from scope_rl.ope.weight_value_learning import (  # noqa: E402
    DiscreteDiceStateActionWightValueLearning,
    DiscreteMinimaxStateActionValueLearning,
    DiscreteMinimaxStateActionWeightLearning,
    DiscreteMinimaxStateWeightLearning,
)
from scope_rl.ope.weight_value_learning.function import (  # noqa: E402
    DiscreteQFunction,
    DiscreteStateActionWeightFunction,
    StateWeightFunction,
)

LEARNING_RATE = 1e-3  # ten times its default, for a twentieth of its default 10,000 steps


def median_distance(states: np.ndarray) -> float:
    some = states[np.random.default_rng(0).permutation(len(states))[:500]]
    distance = np.sqrt(np.square(some[:, None] - some[None]).sum(axis=2))
    return float(np.median(distance[np.triu_indices(len(some), 1)]))


def learned(log: dict, steps: int) -> tuple[dict, dict, dict]:
    """State weights, state-action weights and values [rows, actions], each by learner."""
    state, gamma = log["state"], float(log["gamma"])
    width, actions = state.shape[1], log["target"].shape[1]
    rows = {
        "step_per_trajectory": int(log["steps"]),
        "state": state,
        "action": log["action"],
        "reward": log["reward"],
        "pscore": log["pscore"],
        "evaluation_policy_action_dist": log["target"],
        "n_steps": steps,
        "n_steps_per_epoch": steps,
        "random_state": 0,
    }
    shared = {"gamma": gamma, "device": "cpu"}
    weigh = {"n_actions": actions, "state_dim": width, "device": "cpu"}
    by_state, by_action, values = {}, {}, {}
    torch.manual_seed(0)
    minimax = {**shared, "bandwidth": max(median_distance(state), 1e-3), "lr": LEARNING_RATE}
    of_state = DiscreteMinimaxStateWeightLearning(StateWeightFunction(width), **minimax)
    of_state.fit(**rows, regularization_weight=-1.0)
    by_state["minimax"] = of_state.predict_state_marginal_importance_weight(state)
    of_action = DiscreteMinimaxStateActionWeightLearning(DiscreteStateActionWeightFunction(**weigh), **minimax)
    of_action.fit(**rows, regularization_weight=-1.0)
    by_action["minimax"] = of_action.predict_weight(state, log["action"])
    value = DiscreteMinimaxStateActionValueLearning(DiscreteQFunction(**weigh), **minimax)
    value.fit(**rows)
    values["minimax"] = value.predict_q_function_for_all_actions(state)
    dice = DiscreteDiceStateActionWightValueLearning(
        DiscreteQFunction(**weigh),
        DiscreteStateActionWeightFunction(**weigh),
        **shared,
        q_lr=LEARNING_RATE,
        w_lr=LEARNING_RATE,
        lambda_lr=LEARNING_RATE,
    )
    dice.fit(**rows)
    by_action["DICE"] = dice.predict_weight(state, log["action"])
    values["DICE"] = dice.predict_q_function_for_all_actions(state)
    return by_state, by_action, values


def estimates(log: dict, steps: int) -> dict[str, dict[str, float]]:
    """{estimator: {way of calling it: value}}"""
    gamma, horizon = float(log["gamma"]), int(log["steps"])
    inputs = {
        "step_per_trajectory": horizon,
        "action": log["action"],
        "reward": log["reward"],
        "pscore": log["pscore"],
        "evaluation_policy_action_dist": log["target"],
    }
    with contextlib.redirect_stdout(io.StringIO()):
        by_state, by_action, values = learned(log, steps)
    out: dict[str, dict[str, float]] = {}

    def record(name: str, way: str, estimator, **more) -> None:
        value = estimator.estimate_policy_value(**{**inputs, "gamma": gamma, **more})
        out.setdefault(name, {})[way] = float(value)

    def record_marginal(name: str, way: str, estimator, **more) -> None:
        record(name, way, estimator, **more)
        if gamma < 1 and "initial_state_value_prediction" not in more:
            total = estimator.estimate_policy_value(**{**inputs, "gamma": 1.0, **more})
            out[name][f"{way}, mean over rows"] = float(total / horizon / (1 - gamma))

    record("TIS", "", peer.TrajectoryWiseImportanceSampling())
    record("SNTIS", "", peer.SelfNormalizedTIS())
    record("PDIS", "", peer.PerDecisionImportanceSampling())
    record("SNPDIS", "", peer.SelfNormalizedPDIS())
    rho = log["target"][np.arange(len(log["action"])), log["action"]] / log["pscore"]
    state_ways, action_ways = [], []
    for learner, w in by_state.items():
        for way, weights, n in (("n_step 0", w, 0), ("n_step 1", w, 1), ("wρ", w * rho, 0)):
            state_ways.append((f"{learner}, {way}", {"state_marginal_importance_weight": weights, "n_step_pdis": n}))
    for learner, w in by_action.items():
        for n in (0, 1):
            more = {"state_action_marginal_importance_weight": w, "n_step_pdis": n}
            action_ways.append((f"{learner}, n_step {n}", more))
    for way, more in state_ways:
        record_marginal("SM-IS", way, peer.StateMarginalIS(), **more)
        record_marginal("SM-SNIS", way, peer.StateMarginalSNIS(), **more)
    for way, more in action_ways:
        record_marginal("SAM-IS", way, peer.StateActionMarginalIS(), **more)
        record_marginal("SAM-SNIS", way, peer.StateActionMarginalSNIS(), **more)
    for learner, q in values.items():
        record("DM", learner, peer.DirectMethod(), state_action_value_prediction=q)
        record("DR", learner, peer.DoublyRobust(), state_action_value_prediction=q)
        record("SNDR", learner, peer.SelfNormalizedDR(), state_action_value_prediction=q)
        first = (q * log["target"]).sum(axis=1)[::horizon]
        critic = {"state_action_value_prediction": q, "initial_state_value_prediction": first}
        for way, more in state_ways:
            record("SM-DR", f"{learner} | {way}", peer.StateMarginalDR(), **critic, **more)
            record("SM-SNDR", f"{learner} | {way}", peer.StateMarginalSNDR(), **critic, **more)
        for way, more in action_ways:
            record("SAM-DR", f"{learner} | {way}", peer.StateActionMarginalDR(), **critic, **more)
            record("SAM-SNDR", f"{learner} | {way}", peer.StateActionMarginalSNDR(), **critic, **more)
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("logs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    finished = json.loads(options.out.read_text()) if options.out.exists() else {}
    for path in sorted(options.logs.glob("*.npz")):
        if path.stem in finished:  # resumes an interrupted run
            continue
        with np.load(path) as log:
            finished[path.stem] = estimates(dict(log), options.steps)
        print(path.stem, flush=True)
        options.out.write_text(json.dumps(finished))


if __name__ == "__main__":
    main()
