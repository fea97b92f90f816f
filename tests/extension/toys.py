"""The plugin: everything of a user's own in one module, as `--plugin` takes it."""

import coin  # noqa: F401
import constant  # noqa: F401
import even_actions  # noqa: F401
import first_step  # noqa: F401
import jsonl  # noqa: F401
