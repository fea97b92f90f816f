"""One algorithm per file, and the registry from which the loop, presets, command line and tests take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from statewise.base.registry import Registry


@runtime_checkable
class Settings(Protocol):
    """What every algorithm's settings have. They are a frozen dataclass whose fields all have defaults."""

    @property
    def discount(self) -> float | None: ...  # None: the log's own

    @property
    def updates(self) -> int: ...


@dataclass(frozen=True)
class Algorithm:
    """How an algorithm learns: its settings, and four pure functions of them.

        data, view = prepare(config, dataset, key)           the log as updates draw from it, and as a policy sees it
        state = init(config, data, key)
        state, metrics = update(config, data, state, key)
        policy = policy(config, view, state)                 with `.probabilities(observations)` and `.save(path)`

    A state is a pytree of arrays, and everything that is saved to resume. If `compiled`, JAX traces `init` and
    `update`; otherwise they are called as they are, one run after another.
    """

    settings: type[Any]
    prepare: Callable[..., tuple[Any, Any]]
    init: Callable[..., Any]
    update: Callable[..., tuple[Any, Any]]
    policy: Callable[..., Any]
    compiled: bool = True


ALGORITHMS: Registry[Algorithm] = Registry(
    "algorithm",
    {
        "opposd": "statewise.algorithms.opposd:ALGORITHM",
        "offpac": "statewise.algorithms.offpac:ALGORITHM",
        "geoffpac": "statewise.algorithms.geoffpac:ALGORITHM",
        "sac": "statewise.algorithms.sac:ALGORITHM",
        "acer": "statewise.algorithms.acer:ALGORITHM",
        "behaviour-cloning": "statewise.algorithms.behaviour_cloning:ALGORITHM",
        "fitted-q": "statewise.algorithms.fitted_q:ALGORITHM",
        "cql": "statewise.algorithms.cql:ALGORITHM",
    },
)


def name_of(config: Settings) -> str:
    """The registered name of the algorithm with these settings."""
    for name, algorithm in ALGORITHMS.items():
        if type(config) is algorithm.settings:
            return name
    raise ValueError(f"expected the settings of a registered algorithm ({', '.join(ALGORITHMS)}), got {config!r}")


def algorithm_of(config: Settings) -> Algorithm:
    """The algorithm with these settings."""
    return ALGORITHMS[name_of(config)]
