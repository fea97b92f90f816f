"""axe-core, which finds what keeps people from reading a page: contrast, names, order of headings, roles."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from browser import Browser

GRAVE = ("serious", "critical")


@cache
def _source() -> str:
    """The script itself; the package that brings it would drive a browser of its own."""
    found = find_spec("axe_playwright_python")
    assert found is not None, "axe-core is not installed: pip install --no-deps axe-playwright-python"
    assert found.origin is not None
    return (Path(found.origin).parent / "axe.min.js").read_text()


def findings(browser: Browser, impacts: tuple[str, ...] = GRAVE) -> list[str]:
    """What axe finds on the page that is open, one line for each element."""
    browser.ask(f"{_source()}; 1")
    violations = browser.ask("axe.run().then(found => found.violations)")
    return [
        f"{one['impact']} {one['id']}: {node['html'][:160]}"
        for one in violations
        if one["impact"] in impacts
        for node in one["nodes"]
    ]
