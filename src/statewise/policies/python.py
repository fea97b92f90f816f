"""A policy as one Python file that needs NumPy and nothing else: read it, copy it, act by it."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pprint import pformat
from typing import Any

import numpy as np

from statewise.policies.act import codes_of
from statewise.policies.exports import Export, networks_of, raw_codes
from statewise.policies.files import StoredPolicy
from statewise.policies.network import Policy

MEANING = "The probability of each action, [n, actions], for observations [n, features] in the order of OBSERVATIONS."
RAW_MEANING = "The probability of each action, [n, actions], for raw rows: lists in the order of COLUMNS, or dicts."
TEMPLATE = '''"""A statewise policy. Needs NumPy and nothing else.

    import {module}
    {module}.probabilities([[{example}]])

or from a terminal: python {module}.py {plain}
"""

import json
import sys
{imports}
import numpy as np

OBSERVATIONS = {observations}
ACTIONS = {actions}
CARD = json.loads({card})

# Of each network: mean and deviation of the observations, and its layers
NETWORKS = [
{networks}
]
# Which network acts; or a step between two policies: its way, its step, what is done today, and the goal
POLICY = {shape}


def probabilities(observations, legal=None):
    """{meaning}"""
    observations = {read}
    if observations.ndim != 2 or observations.shape[1] != len(OBSERVATIONS):
        wanted = f"[n, {{len(OBSERVATIONS)}}] ({{', '.join(OBSERVATIONS)}})"
        raise ValueError(f"expected observations {{wanted}}, got {{list(observations.shape)}}")
    if not np.isfinite(observations).all():
        raise ValueError("expected finite numbers, and an observation is missing or infinite")
    return blend(POLICY, observations, legal)


def blend(policy, observations, legal):
    """A network's probabilities, or those of a step between two policies."""
    if isinstance(policy, int):
        return act(*NETWORKS[policy], observations, legal)
    way, step, *ends = policy
    today, goal = (blend(end, observations, legal) for end in ends)
    if way == "mixture":
        return (1 - step) * today + step * goal
    product = today ** (1 - step) * goal**step
    return product / product.sum(axis=1, keepdims=True)


def act(mean, std, layers, observations, legal):
    """softmax(W·relu(… (s − mean)/std …) + b)."""
    hidden = (observations - mean) / std
    for weight, bias in layers[:-1]:
        hidden = np.maximum(hidden @ weight + bias, 0)
    weight, bias = layers[-1]
    logits = hidden @ weight + bias
    if legal is not None:
        logits = np.where(legal, logits, -np.inf)
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


{encoding}if __name__ == "__main__":
{script}
    print(json.dumps(dict(zip(ACTIONS, chances.tolist()))))
'''

NUMBERS = """    if len(sys.argv) != 1 + len(OBSERVATIONS):
        sys.exit(f"expected {len(OBSERVATIONS)} numbers: {', '.join(OBSERVATIONS)}")
    chances = probabilities([[float(number) for number in sys.argv[1:]]])[0]"""

RAW = """    if len(sys.argv) != 1 + len(COLUMNS):
        sys.exit(f"expected {len(COLUMNS)} values: {', '.join(column['name'] for column in COLUMNS)}")
    read = {"number": float, "flag": lambda text: text.lower() in ("true", "yes", "1")}
    pairs = zip(COLUMNS, sys.argv[1:])
    row = [read.get(column["kind"], str)(text) if text.strip() else None for column, text in pairs]
    chances = probabilities([row])[0]"""

# the meaning of `statewise.data.encoding.Code`, which the tests hold it to
ENCODING = '''# What becomes of each column of a raw row: its kind, the words told apart, and what fills a gap.
COLUMNS = json.loads({columns})


def encode(rows):
    """Raw rows as numbers [n, features]; a row is a list in the order of COLUMNS, or a dict, and None is a gap."""
    names = [column["name"] for column in COLUMNS]
    rows = [[row[name] for name in names] if isinstance(row, dict) else row for row in rows]
    if any(len(row) != len(names) for row in rows):
        raise ValueError(f"expected {{len(names)}} values in each row: {{', '.join(names)}}")
    return np.array([[x for c, value in zip(COLUMNS, row) for x in features(c, value)] for row in rows], dtype=float)


def features(column, value):
    """The numbers that a value becomes; NaN where it is not what the column holds."""
    kind, words = column["kind"], column["words"]
    gap = value is None or value != value or (isinstance(value, str) and not value.strip())
    word = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    place = words.index(word) if not gap and word in words else None
    if kind == "words":
        width = len(words) + column["other"] + column["gaps"]
        if gap and column["gaps"]:
            place = width - 1
        elif place is None and column["other"]:
            place = len(words)
        return [float(j == place) for j in range(width)]
    number = place if kind == "order" else None
    if kind == "date" and not gap:
        number = days(value, column["format"]) - days(column["origin"], None)
    elif kind in ("number", "flag") and not gap:
        number = float(value)
    if number is None:
        return [np.nan] if column["fill"] is None else [column["fill"], 1.0]
    return [number, 0.0] if column["gaps"] else [number]


def days(value, format):
    """Days since 1970-01-01; without a zone, time is taken for UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value) if format is None else datetime.strptime(value, format)
    value = datetime(value.year, value.month, value.day) if not isinstance(value, datetime) else value
    return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp() / 86400


'''


def to_python(policy: StoredPolicy, name: str = "policy") -> bytes:
    """The contents of the file `name`.py. Numbers are written so that they come back bit for bit."""
    networks, shape = networks_of(policy)
    codes = raw_codes(policy)
    means = dict(zip(policy.observation_names, networks[0].mean.tolist(), strict=True))
    rows = [code.example(float(f"{means.get(code.name, 0.0):.4g}")) for code in codes_of(policy)]
    columns = repr(json.dumps([asdict(code) for code in codes or ()]))
    text = TEMPLATE.format(
        module=name if name.isidentifier() else "policy",
        example=", ".join(f"{value:g}" if isinstance(value, float) else repr(value) for value in rows),
        plain=" ".join(f"{value:g}" if isinstance(value, float) else shlex.quote(str(value)) for value in rows),
        observations=pformat(list(policy.observation_names), width=110),
        actions=pformat(list(policy.action_names), width=110),
        # as text: JSON's null and true are not Python's
        card=repr(json.dumps(policy.full_card())),
        networks="\n".join(map(_network, networks)),
        shape=repr(shape),
        imports="" if codes is None else "from datetime import datetime, timezone\n",
        meaning=MEANING if codes is None else RAW_MEANING,
        read="np.asarray(observations, dtype=float)" if codes is None else "encode(observations)",
        encoding="" if codes is None else ENCODING.format(columns=columns),
        script=NUMBERS if codes is None else RAW,
    )
    return text.encode()


def _network(policy: Policy) -> str:
    layers = zip(policy.weights, policy.biases, strict=True)
    written = "\n".join(f"      (np.array({w.tolist()}),\n       np.array({b.tolist()}))," for w, b in layers)
    return f"    (np.array({policy.mean.tolist()}),\n     np.array({policy.std.tolist()}),\n     [\n{written}\n     ]),"


def probabilities(contents: bytes, observations: Any) -> np.ndarray:
    """π(·|s), [n, actions], as the file itself computes it."""
    space: dict = {"__name__": "exported"}
    exec(compile(contents.decode(), "exported", "exec"), space)
    return space["probabilities"](observations)


EXPORT = Export(".py", to_python, probabilities)
