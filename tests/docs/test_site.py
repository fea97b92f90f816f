"""The site, as someone opens it who has no more than its folder: in a real browser, from files, without a network."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from axe import findings
from browser import CHROMIUM, WHY_NOT, until
from statewise.cli import COMMANDS

pytestmark = pytest.mark.skipif(find_spec("mkdocs") is None, reason="the site needs pip install 'statewise[docs]'")
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built strictly: a broken link or a name that no longer exists is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_command_is_in_the_reference(site):
    reference = (site / "commands.html").read_text()
    for name in COMMANDS:
        assert f'id="statewise-{name}"' in reference or f">{name}<" in reference, name


def test_examples_have_no_prompts(site):
    assert "&gt;&gt;&gt;" not in (site / "api.html").read_text()


def test_links_lead_to_files(site):
    """In a folder nobody answers for a page that is called by the name of its folder."""
    for page in site.glob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"#]+)[^"]*"', page.read_text()):
            parts = urlparse(target)
            if not parts.scheme and page.name != "404.html":
                assert (page.parent / unquote(parts.path)).is_file(), f"{page.name}: {target}"


def readable(browser, page, width, scheme):
    browser.width(width)
    browser.media(scheme=scheme)
    script = browser.send("Page.addScriptToEvaluateOnNewDocument", source="localStorage.clear()")  # remembers schemes
    browser.open(page)
    browser.send("Page.removeScriptToEvaluateOnNewDocument", **script)
    assert browser.ask("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[scheme]
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.complaints == []
    assert [address for address in browser.requests if not address.startswith(("file:", "data:"))] == []
    assert findings(browser) == []


@in_a_browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_pages_are_readable(site, browser, width, scheme):
    for page in ("index", "start", "reference"):
        readable(browser, site / f"{page}.html", width, scheme)


@in_a_browser
@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (390, "light"), (1280, "dark"), (1280, "light")])
def test_all_pages_are_readable(site, browser, width, scheme):
    for page in sorted(set(site.glob("*.html")) - {site / "404.html"}):  # which only a server shows
        readable(browser, page, width, scheme)


@in_a_browser
def test_the_search_works_from_a_folder(site, browser):
    browser.width(1280)
    browser.media()
    browser.open(site / "index.html")
    browser.click("label[for=__search]")
    field = "document.querySelector('.md-search__input')"
    browser.ask(f"{field}.value = 'propensities'; {field}.dispatchEvent(new KeyboardEvent('keyup', {{bubbles: true}}))")
    found = "[...document.querySelectorAll('.md-search-result__item > a')].map(e => e.pathname.split('/').pop())"
    assert "bandit.html" in until(lambda: browser.ask(found))
