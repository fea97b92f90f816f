"""A policy as one Python file that needs NumPy and nothing else: read it, copy it, act by it."""

from __future__ import annotations

import json
from pprint import pformat

import numpy as np

from statewise.policies.exports import Export, only_network
from statewise.policies.files import StoredPolicy

TEMPLATE = '''"""A statewise policy. Needs NumPy and nothing else.

    import {module}
    {module}.probabilities([[{example}]])

or from a terminal: python {module}.py {plain}
"""

import json
import sys

import numpy as np

OBSERVATIONS = {observations}
ACTIONS = {actions}
CARD = json.loads({card})

MEAN = np.array({mean})
STD = np.array({std})
LAYERS = [
{layers}
]


def probabilities(observations, legal=None):
    """The probability of each action, [n, actions], for observations [n, features] in the order of OBSERVATIONS."""
    observations = np.asarray(observations, dtype=float)
    if observations.ndim != 2 or observations.shape[1] != len(OBSERVATIONS):
        wanted = f"[n, {{len(OBSERVATIONS)}}] ({{', '.join(OBSERVATIONS)}})"
        raise ValueError(f"expected observations {{wanted}}, got {{list(observations.shape)}}")
    if not np.isfinite(observations).all():
        raise ValueError("expected finite numbers, and an observation is missing or infinite")
    hidden = (observations - MEAN) / STD
    for weight, bias in LAYERS[:-1]:
        hidden = np.maximum(hidden @ weight + bias, 0)
    weight, bias = LAYERS[-1]
    logits = hidden @ weight + bias
    if legal is not None:
        logits = np.where(legal, logits, -np.inf)
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    if len(sys.argv) != 1 + len(OBSERVATIONS):
        sys.exit(f"expected {{len(OBSERVATIONS)}} numbers: {{', '.join(OBSERVATIONS)}}")
    chances = probabilities([[float(number) for number in sys.argv[1:]]])[0]
    print(json.dumps(dict(zip(ACTIONS, chances.tolist()))))
'''


def to_python(policy: StoredPolicy, name: str = "policy") -> bytes:
    """The contents of the file `name`.py. Numbers are written so that they come back bit for bit."""
    policy = only_network(policy)
    example = [f"{value:.4g}" for value in policy.mean.tolist()]
    layers = zip(policy.weights, policy.biases, strict=True)
    text = TEMPLATE.format(
        module=name if name.isidentifier() else "policy",
        example=", ".join(example),
        plain=" ".join(example),
        observations=pformat(list(policy.observation_names), width=110),
        actions=pformat(list(policy.action_names), width=110),
        # as text: JSON's null and true are not Python's
        card=repr(json.dumps(policy.full_card())),
        mean=policy.mean.tolist(),
        std=policy.std.tolist(),
        layers="\n".join(f"    (np.array({w.tolist()}),\n     np.array({b.tolist()}))," for w, b in layers),
    )
    return text.encode()


def probabilities(contents: bytes, observations: np.ndarray) -> np.ndarray:
    """π(·|s), [n, actions], as the file itself computes it."""
    space: dict = {"__name__": "exported"}
    exec(compile(contents.decode(), "exported", "exec"), space)
    return space["probabilities"](observations)


EXPORT = Export(".py", to_python, probabilities)
