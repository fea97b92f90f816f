"""What axe-core, the usual judge of whether everyone can use a page, finds serious in the browser's page."""

from importlib.util import find_spec
from pathlib import Path

WHY_NOT = "axe-core is not installed: pip install --no-deps axe-playwright-python"


def axe_script() -> str | None:
    """axe-core itself, from the wheel that carries it; None where that is not installed."""
    found = find_spec("axe_playwright_python")
    places = [] if found is None else [Path(place) for place in found.submodule_search_locations or ()]
    return next((file.read_text() for place in places for file in place.rglob("axe.min.js")), None)


def serious(browser) -> list[str]:
    """Each serious finding, as its rule and the elements that break it."""
    script = axe_script()
    assert script is not None, WHY_NOT
    browser.send("Runtime.evaluate", expression=script)
    answer = browser.send(
        "Runtime.evaluate",
        expression="axe.run().then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))"
        ".map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ')).join('; ')))",
        awaitPromise=True,
        returnByValue=True,
    )
    return answer["result"]["value"]
