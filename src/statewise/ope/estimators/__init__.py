"""One estimator a file: a function of a policy on a log and of rewards that returns a `Quotient` of sums over episodes.

All have the same target, the expected (discounted) return over the logged horizon, so that they can be compared. This
is the list of them: `evaluate`, the command line, the tests and the documentation start here.
"""

from __future__ import annotations

from collections.abc import Callable

from statewise.base.registry import Registry
from statewise.ope.quotient import Quotient

HERE = "statewise.ope.estimators"
ESTIMATORS: Registry[Callable[..., Quotient]] = Registry(
    "estimator",
    {
        "doubly-robust-state-ratio": f"{HERE}.doubly_robust_state_ratio:doubly_robust_state_ratio",
        "state-ratio": f"{HERE}.state_ratio:state_ratio",
        "state-ratio-network": f"{HERE}.state_ratio:state_ratio_network",
        "importance": f"{HERE}.importance:importance_sampling",
        "per-decision": f"{HERE}.per_decision:per_decision",
        "weighted-importance": f"{HERE}.importance:weighted_importance_sampling",
        "weighted-per-decision": f"{HERE}.per_decision:weighted_per_decision",
        "doubly-robust": f"{HERE}.doubly_robust:doubly_robust",
        "weighted-doubly-robust": f"{HERE}.doubly_robust:weighted_doubly_robust",
        "more-robust-doubly-robust": f"{HERE}.more_robust:more_robust_doubly_robust",
        "magic": f"{HERE}.magic:magic",
        "fitted-q": f"{HERE}.fitted_q:fitted_q",
        "fitted-q-trees": f"{HERE}.fitted_q_trees:fitted_q_trees",
        "behaviour": f"{HERE}.behaviour_return:behaviour_return",
    },
)
# Right where the ratio is, and where the critic is: on HIV the ratio alone does not follow a policy's slow gains at all
USUAL = "doubly-robust-state-ratio"
