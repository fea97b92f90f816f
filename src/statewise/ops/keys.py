"""Named random keys, so that two algorithms that share a part draw the same numbers for it."""

import zlib

import jax
from jaxtyping import Array, Key


def key_for(key: Key[Array, ""], name: str) -> Key[Array, ""]:
    """The key for one purpose, independent of what other purposes there are."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()))
