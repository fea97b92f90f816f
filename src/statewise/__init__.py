"""From logged decisions to a better policy you can trust.

The public names stand in `__init__.pyi` alone. Each is imported when first asked for, so that `import statewise` is
instant, and a machine without the table libraries can still train.
"""

import re
from importlib import import_module
from pathlib import Path

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {name: home for home, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", _STUB, re.M)}

__all__ = tuple(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
__version__ = "0.1.0"


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'statewise' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_HOMES, "__version__"]
