"""Every test run checks the shapes written in the signatures, and keeps compiled programs between runs."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import install_import_hook

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
# Programs are compiled quickly rather than well: in tests that takes far longer than to run them. And each in one
# piece, since the other core has tests of its own to run.
QUICK_TO_COMPILE = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
if "XLA_FLAGS" not in os.environ:
    # an XLA that no longer knows a flag ends the process: asked in another one
    start = "from jaxlib import xla_client; xla_client.make_cpu_client()"
    asked = subprocess.run(
        [sys.executable, "-c", start], env=os.environ | {"XLA_FLAGS": QUICK_TO_COMPILE}, capture_output=True
    )
    if asked.returncode == 0:
        os.environ["XLA_FLAGS"] = QUICK_TO_COMPILE

if "STATEWISE_UNCHECKED" not in os.environ:
    install_import_hook(["statewise", "actor_critic"], "beartype.beartype")


def pytest_configure(config):
    """Logs in tests are small and odd on purpose; the tests that are about warnings ask for them."""
    config.addinivalue_line("filterwarnings", "ignore::statewise.data.findings.LogWarning")


@pytest.fixture(scope="module")
def browser():
    """A real one; tests that ask for it are left out where there is none."""
    from browser import Browser

    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def trees():
    """A policy that acts by trees: two observations; do `no` below a = 0, `yes` above, `both` never by choice."""
    from statewise.policies.trees import TreePolicy

    return TreePolicy(
        feature=np.zeros(7, np.int32),
        threshold=np.zeros(7, np.float32),
        children=np.array([[1, 2], [1, 1], [2, 2], [4, 5], [4, 4], [5, 5], [6, 6]], np.int32),
        value=np.array([0.0, 1, 0, 0, 0, 1, -1]),
        roots=np.array([[0], [3], [6]], np.int32),
        depth=1,
        epsilon=0.3,
        observation_names=("a", "b"),
        action_names=("no", "yes", "both"),
        card={"algorithm": "FittedQ"},
    )


@pytest.fixture
def policy():
    """A policy of random weights: three observations, four actions."""
    from statewise.policies.network import Policy

    rng = np.random.default_rng(0)
    sizes = [3, 8, 8, 4]
    return Policy(
        weights=tuple(rng.normal(size=pair) for pair in pairwise(sizes)),
        biases=tuple(rng.normal(size=n) for n in sizes[1:]),
        mean=rng.normal(size=3),
        std=rng.uniform(1, 2, size=3),
        observation_names=("a", "b", "c"),
        action_names=("none", "one", "two", "both"),
        card={"made by": "a test"},
    )
