"""Known-wrong worlds: small problems with a known truth, each with a trap for whoever judges a policy by a log.

`WORLDS` has them by name; `benchmarks/worlds.py` runs them all, `test_worlds.py` small versions of them. NumPy and
statewise's core suffice, except where a world says what more it `needs`.
"""

from worlds import assumptions, ends, limits, one_step, protocols, records, sequences
from worlds.world import World

ROOMS = (limits, protocols, assumptions, one_step, sequences, ends, records)
WORLDS: dict[str, World] = {world.name: world for room in ROOMS for world in room.worlds()}
