"""The report in a real browser: light, dark, on a telephone, on paper."""

import pytest

from axe import findings
from browser import CHROMIUM, WHY_NOT
from reports import example, refused
from statewise.report.page import render

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)

OVERFLOWING = """
[...document.querySelectorAll('body *')].filter(e => {
  // what scrolls by itself or is hidden does not count
  if (e.closest('.scroll, pre, thead, svg') && !e.matches('.scroll, pre')) return false;
  if (e.matches('thead, .skip')) return false;
  const box = e.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map(e => e.outerHTML.slice(0, 80))
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "example.html").write_text(render(example()))
    (folder / "refused.html").write_text(render(refused()))
    return [folder / "example.html", folder / "refused.html"]


def test_it_opens_without_network_or_complaint(browser, pages):
    for page in pages:
        browser.width(1100)
        browser.media()
        browser.open(page)
        assert browser.requests == [page.resolve().as_uri()]
        assert browser.complaints == []
        assert browser.ask("document.querySelectorAll('h1').length") == 1
        assert browser.ask("document.querySelectorAll('h2').length") >= 6
        assert browser.ask("[...document.querySelectorAll('[role=img]')].every(e => e.ariaLabel.length > 30)")
        assert browser.ask("document.querySelectorAll('svg').length") == 12


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_overflows(browser, pages, width):
    for page in pages:
        browser.width(width)
        browser.open(page)
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.ask(OVERFLOWING) == []
        # text in figures stays readable on a telephone
        sizes = "[...document.querySelectorAll('svg text')].map(e => e.getBoundingClientRect().height)"
        assert min(size for size in browser.ask(sizes) if size > 0) >= 8


def contrast(browser, selector: str) -> float:
    """WCAG's contrast of an element's text to what is behind it."""
    return browser.ask(f"""(() => {{
      const numbers = c => c.match(/[\\d.]+/g).map(Number);
      const light = c => {{
        const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
        const [r, g, b] = numbers(c).slice(0, 3).map(v => linear(v / 255));
        return .2126 * r + .7152 * g + .0722 * b;
      }};
      let e = document.querySelector('{selector}'), behind = e;
      while (numbers(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
      const svg = e.tagName === 'text' ? getComputedStyle(e).fill : getComputedStyle(e).color;
      const [a, b] = [light(svg), light(getComputedStyle(behind).backgroundColor)];
      return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    }})()""")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_light_and_dark(browser, pages, scheme):
    browser.width(1100)
    browser.media(scheme=scheme)
    browser.open(pages[0])
    dark = browser.ask("matchMedia('(prefers-color-scheme: dark)').matches")
    assert dark == (scheme == "dark")
    for selector in (
        ".answer .headline",
        ".answer p:last-child",
        ".lead",
        "figcaption",
        "svg text",
        ".tile .small",
        "a[href]",
    ):
        assert contrast(browser, selector) >= 4.5, selector


def test_paper_is_white_and_keeps_everything(browser, pages):
    browser.width(794)  # A4 at 96 dots an inch
    browser.media("print", "dark")
    browser.open(pages[0])
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.ask("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.ask("document.documentElement.scrollWidth") <= 794
    assert len(browser.send("Page.printToPDF")["data"]) > 50_000
    browser.media()


def test_the_keyboard_reaches_what_scrolls(browser, pages):
    browser.width(360)
    browser.media()
    browser.open(pages[0])
    assert browser.ask("[...document.querySelectorAll('.scroll, pre')].every(e => e.tabIndex === 0)")
    for kind in ("keyDown", "keyUp"):
        browser.send("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert browser.ask("document.activeElement.className") == "skip"
    assert browser.ask("document.activeElement.getBoundingClientRect().left") >= 0


@pytest.mark.parametrize(("which", "width", "scheme"), [(0, 390, "dark"), (0, 1200, "light"), (1, 1200, "dark")])
def test_axe_finds_nothing_that_keeps_people_from_reading(browser, pages, which, width, scheme):
    browser.width(width)
    browser.media(scheme=scheme)
    browser.open(pages[which])
    browser.ask("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert findings(browser, ("moderate", "serious", "critical")) == []


def test_axe_would_find_it(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<html lang=en><title>x</title><main><h1 style='color: #eee; background: #fff'>Pale</h1><img src=x>")
    browser.media()
    browser.open(bad)
    assert {line.split(":")[0] for line in findings(browser)} == {"serious color-contrast", "critical image-alt"}


@pytest.mark.parametrize("width", [320, 360, 390])
def test_no_number_is_cut_on_a_phone(browser, pages, width):
    for page in pages:
        browser.width(width)
        browser.media()
        browser.open(page)
        browser.ask("document.querySelectorAll('details').forEach(e => e.open = true)")
        every = "[...document.querySelectorAll('.scroll, .tile, td, dd, li')]"
        cut = f"{every}.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.outerHTML.slice(0, 120))"
        assert browser.ask(cut) == []
        assert browser.ask("document.documentElement.scrollWidth") <= width


def test_the_first_screen_holds_the_answer_and_what_it_is_about(browser, pages):
    browser.width(1200, 900)
    browser.media()
    browser.open(pages[0])
    for place in (".answer", ".tiles", ".next", ".facts"):
        assert browser.ask(f"document.querySelector('{place}').getBoundingClientRect().bottom") <= 900, place
    shown = browser.ask("document.querySelector('.facts').innerText")
    for fact in ("treatment.csv", "2019-03-01 to 2023-11-30", "480 units", "patient", "outcome", "0.98", "cut off"):
        assert fact in shown


def test_paper_shows_what_is_folded(browser, pages):
    browser.width(794)
    browser.media("print")
    browser.open(pages[0])
    inside = (
        "[...document.querySelectorAll('details > p, details > .scroll')].map(e => e.getBoundingClientRect().height)"
    )
    heights = browser.ask(inside)
    assert len(heights) > 5
    assert min(heights) > 5
    browser.media()
