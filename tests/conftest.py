"""Every test run checks the shapes written in the signatures, and keeps compiled programs between runs."""

import os
from pathlib import Path

from jaxtyping import install_import_hook

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")

install_import_hook("statewise", "beartype.beartype")


def pytest_configure(config):
    """Logs in tests are small and odd on purpose; the tests that are about warnings ask for them."""
    config.addinivalue_line("filterwarnings", "ignore::statewise.data.findings.LogWarning")
