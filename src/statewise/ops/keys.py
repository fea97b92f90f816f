"""Named random keys, so that two algorithms that share a part draw the same numbers for it."""

import zlib

import jax
from jaxtyping import Array, Key


def key_for(key: Key[Array, ""], name: str) -> Key[Array, ""]:
    """The key of one purpose; what other purposes exist does not change it."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()))
