"""NumPy's arrays on the device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


def placed(values: Any, dtype: Any) -> jax.Array:
    """The values as an array of that type; `jnp.asarray` would compile a program for each shape that it converts."""
    return jax.device_put(np.array(values, dtype))
