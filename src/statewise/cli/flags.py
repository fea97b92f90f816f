"""Messages of the library name its parameters, as `propensity="estimate"`; on the command line those are flags."""

from __future__ import annotations

import ast
import re
import shlex

from statewise.data.rawlog import NAMED

FLAGS = {
    "actions": "--actions",
    "ends": "--ends",
    "cut_off": "--cut-off",
    "horizon": "--horizon",
    "propensity": "--propensity",
    "Columns(observations": "--observations",
    "Columns(words": "--words",
    "Columns(orders": "--order",
    "Columns(target_prefix": "--target-columns",
    **{f"Columns({name}": f"--{name}-column" for name in NAMED},
}
SWITCHES = ("--target-columns",)  # flags that take no value
PARAMETER = re.compile(r"`((?P<columns>Columns\()?\w+)=(?P<value>[^`]*?)(?(columns)\))`")


def with_flags(message: str) -> str:
    """The message with every parameter that has a flag written as that flag.

    >>> with_flags("Estimate them: `propensity='estimate'`, or name the column: `Columns(propensity=...)`")
    'Estimate them: --propensity estimate, or name the column: --propensity-column'
    """
    return PARAMETER.sub(_flag, message)


def _flag(parameter: re.Match[str]) -> str:
    flag = FLAGS.get(parameter[1])
    try:
        value = ast.literal_eval(parameter["value"])
    except (ValueError, SyntaxError):
        return parameter[0]
    if flag is None:
        return parameter[0]
    if value is ... or flag in SWITCHES:
        return flag
    names = [f'"{name}"' if "," in name else name for name in value] if isinstance(value, tuple) else [str(value)]
    return f"{flag} {shlex.quote(','.join(names))}"
