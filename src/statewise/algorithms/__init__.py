"""One algorithm a file. This is the list of them: the loop, presets, the command line and the tests start here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from statewise.base.registry import Registry


@runtime_checkable
class Settings(Protocol):
    """What the settings of every algorithm have; they are a frozen dataclass, and all fields have defaults."""

    @property
    def discount(self) -> float | None: ...  # None: the log's own

    @property
    def updates(self) -> int: ...


@dataclass(frozen=True)
class Algorithm:
    """How an algorithm learns: settings, and four pure functions of them.

        data, view = prepare(config, dataset, key)           the log as updates draw from it, and as a policy sees it
        state = init(config, data, key)
        state, metrics = update(config, data, state, key)
        policy = policy(config, view, state)                 with `.probabilities(observations)` and `.save(path)`

    A state is a pytree of arrays, and all that is saved to resume. Where `compiled`, `init` and `update` are traced
    by JAX; otherwise they are called as they are, one run after the other.
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
        "sac": "statewise.algorithms.sac:ALGORITHM",
        "acer": "statewise.algorithms.acer:ALGORITHM",
        "behaviour-cloning": "statewise.algorithms.behaviour_cloning:ALGORITHM",
        "fitted-q": "statewise.algorithms.fitted_q:ALGORITHM",
        "cql": "statewise.algorithms.cql:ALGORITHM",
    },
)


def name_of(config: Settings) -> str:
    """What the algorithm with such settings is registered as."""
    for name, algorithm in ALGORITHMS.items():
        if type(config) is algorithm.settings:
            return name
    raise ValueError(f"expected the settings of a registered algorithm ({', '.join(ALGORITHMS)}), got {config!r}")


def algorithm_of(config: Settings) -> Algorithm:
    """The algorithm with such settings."""
    return ALGORITHMS[name_of(config)]
