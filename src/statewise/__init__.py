"""From logged decisions to a better policy you can trust."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statewise.algorithms.acer import ACER as ACER
    from statewise.algorithms.behaviour_cloning import BehaviourCloning as BehaviourCloning
    from statewise.algorithms.cql import CQL as CQL
    from statewise.algorithms.fitted_q import FittedQ as FittedQ
    from statewise.algorithms.offpac import OffPAC as OffPAC
    from statewise.algorithms.opposd import OPPOSD as OPPOSD
    from statewise.algorithms.sac import SAC as SAC
    from statewise.data.dataset import Dataset as Dataset
    from statewise.data.episodes import from_arrays as from_arrays
    from statewise.data.episodes import to_arrays as to_arrays
    from statewise.data.findings import LogError as LogError
    from statewise.data.findings import LogWarning as LogWarning
    from statewise.data.minari import from_minari as from_minari
    from statewise.data.minari import to_minari as to_minari
    from statewise.data.rawlog import Columns as Columns
    from statewise.data.table import load as load
    from statewise.improvement import improve as improve
    from statewise.learning.fit import fit as fit
    from statewise.ope.estimate import Estimate as Estimate
    from statewise.ope.evaluate import evaluate as evaluate
    from statewise.ope.gate import gate as gate
    from statewise.ope.select import select as select
    from statewise.parts.fit_ratio import fit_ratio as fit_ratio
    from statewise.policies.files import load_policy as load_policy
    from statewise.policies.network import Policy as Policy
    from statewise.policies.trees import TreePolicy as TreePolicy
    from statewise.propensities.estimate import estimate_propensities as estimate_propensities
    from statewise.propensities.estimated import Estimated as Estimated

# Where each public name lives; it is imported when first asked for, so that `import statewise` is instant
# and a machine without the table libraries can still train.
_HOMES = {
    "ACER": "algorithms.acer",
    "BehaviourCloning": "algorithms.behaviour_cloning",
    "CQL": "algorithms.cql",
    "Columns": "data.rawlog",
    "Dataset": "data.dataset",
    "Estimate": "ope.estimate",
    "Estimated": "propensities.estimated",
    "FittedQ": "algorithms.fitted_q",
    "LogError": "data.findings",
    "LogWarning": "data.findings",
    "OPPOSD": "algorithms.opposd",
    "OffPAC": "algorithms.offpac",
    "Policy": "policies.network",
    "estimate_propensities": "propensities.estimate",
    "evaluate": "ope.evaluate",
    "SAC": "algorithms.sac",
    "TreePolicy": "policies.trees",
    "fit": "learning.fit",
    "fit_ratio": "parts.fit_ratio",
    "from_arrays": "data.episodes",
    "from_minari": "data.minari",
    "gate": "ope.gate",
    "improve": "improvement",
    "load": "data.table",
    "select": "ope.select",
    "load_policy": "policies.files",
    "to_arrays": "data.episodes",
    "to_minari": "data.minari",
}

__all__ = tuple(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
__version__ = "0.1.0"


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'statewise' has no attribute '{name}'")
    value = getattr(import_module(f"statewise.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_HOMES, "__version__"]
