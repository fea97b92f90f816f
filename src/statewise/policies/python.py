"""A policy as one Python file that needs NumPy and nothing else: read it, copy it, act by it."""

from __future__ import annotations

import json
from pprint import pformat

import numpy as np

from statewise.policies.exported import TOLERANCE, around_mean
from statewise.policies.network import Policy

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
        raise ValueError(f"give observations [n, {{len(OBSERVATIONS)}}]: {{', '.join(OBSERVATIONS)}}")
    if not np.isfinite(observations).all():
        raise ValueError("an observation is missing or not a finite number")
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
        sys.exit(f"give {{len(OBSERVATIONS)}} numbers: {{', '.join(OBSERVATIONS)}}")
    chances = probabilities([[float(number) for number in sys.argv[1:]]])[0]
    print(json.dumps(dict(zip(ACTIONS, chances.tolist()))))
'''


def to_python(policy: Policy, module: str = "policy") -> str:
    """The file's text. Numbers are written so that they come back bit for bit."""
    example = [f"{value:.4g}" for value in policy.mean.tolist()]
    layers = zip(policy.weights, policy.biases, strict=True)
    text = TEMPLATE.format(
        module=module if module.isidentifier() else "policy",
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
    difference = largest_difference(text, policy)
    if not difference <= TOLERANCE:
        raise ValueError(f"the Python file differs from the policy by {difference:.2g}; it was not written")
    return text


def largest_difference(text: str, policy: Policy) -> float:
    """Between the file's probabilities and the policy's own, over observations around the mean."""
    space: dict = {"__name__": "exported"}
    exec(compile(text, "exported", "exec"), space)
    observations = around_mean(policy)
    return float(np.abs(space["probabilities"](observations) - policy.probabilities(observations)).max())
