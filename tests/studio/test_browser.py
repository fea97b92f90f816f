"""The studio in a real browser: from an empty page to a report, with a kill of everything in the middle."""

import os
import signal
from pathlib import Path

import pytest

from awkward import email
from axe import findings
from browser import CHROMIUM, WHY_NOT, until
from statewise.report.content import from_json
from statewise.studio.folder import StudioFolder
from studios import FAST, studio

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
TOO_WIDE = "document.documentElement.scrollWidth - innerWidth"
DARK = ("home", "faults", "answer")  # where every colour is
CANNOT = "document.querySelector('.verdict.bad')"
CAN = "document.querySelector('.verdict.good')"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "fast.toml"
    path.write_text(FAST)
    return path


@pytest.fixture(scope="module")
def looked_at(browser, config, tmp_path_factory):
    """Goes through the whole studio once; what was seen on the way, by page."""
    place = tmp_path_factory.mktemp("studio")
    log, folder, seen = place / "Mails of spring.csv", place / "folder", {}
    log.write_text(email(40) + "\n")

    def look(page: str) -> None:
        seen[page] = {}
        for width in (390, 1200):
            browser.width(width)
            seen[page][width] = browser.ask(TOO_WIDE)
        for scheme in ("light", "dark"):
            browser.media(scheme=scheme)
            seen[page][scheme] = findings(browser) if scheme == "light" or page in DARK else []

    with studio(folder, config) as (process, link):
        browser.go(link)
        browser.arrive("document.querySelector('.drop')")
        look("home")
        browser.give(".drop input", log)
        browser.arrive(CANNOT)
        look("faults")
        browser.follow("button[value='ends=truncated']")
        browser.arrive(CAN)
        chosen = "document.querySelector('select[aria-labelledby=\\'column-6\\']')"
        browser.ask(f"{chosen}.value = 'left out'; {chosen}.dispatchEvent(new Event('input', {{bubbles: true}}))")
        assert browser.ask("document.querySelector('.changed').hidden") is False
        browser.follow(".apply button")
        browser.arrive(f"{CAN} && {chosen}.value == 'left out'")
        look("log")
        browser.follow(".start form > button")
        browser.arrive("location.pathname.startsWith('/runs/')")
        (run,) = (folder / "runs").iterdir()
        until(lambda: list(run.glob("run/checkpoints/state-*.npz")))  # it learns
        look("run")
        process.kill()
        os.kill(int((run / ".running").read_text()), signal.SIGKILL)
        process.wait()
    assert not (run / "run" / "report.html").exists()
    seen["kept"] = sorted(path.name for path in run.glob("run/checkpoints/state-*.npz"))
    with studio(folder, config) as (process, link):
        browser.go(link)
        browser.follow(".list a")
        browser.arrive("document.querySelector('.answer .headline')")  # it was resumed by itself
        look("answer")
        answer = browser.ask("document.querySelector('.headline').textContent")
        browser.follow("a[href$='/try']")
        browser.arrive("document.querySelector('.fields')")
        look("try")
        browser.ask("document.querySelector('[name=value-0]').value = 'family'")
        browser.follow("form > button.button")
        browser.arrive("document.querySelector('.headline-small')")
        seen["tried"] = browser.ask("[...document.querySelectorAll('.bars tbody td')].map(e => e.textContent)")
        browser.go(f"{link.split('/?')[0]}/runs/{run.name}/rounds")
        look("rounds")
        browser.go(f"{link.split('/?')[0]}/runs/{run.name}/report")
        seen["report"] = browser.ask("document.querySelector('.headline').textContent")
        seen["complaints"] = [each for each in browser.complaints if "ERR_CONNECTION" not in each]
        seen["elsewhere"] = [each for each in browser.requests if not each.startswith("http://127.0.0.1:")]
    return folder, run, answer, seen


def test_a_kill_in_the_middle_loses_nothing(looked_at):
    folder, run, answer, seen = looked_at
    assert seen["kept"]  # the second process went on from there
    content = from_json((run / "run" / "decision.json").read_text())
    assert content.settings["discount"] == 0.98
    assert "?Collect more data first" in answer
    assert seen["report"] == answer
    assert StudioFolder(folder).run(run.name).logs == ("mails-of-spring",)


def test_what_was_left_out_by_a_menu_is_not_learned_from(looked_at):
    _, run, _, _ = looked_at
    options = (run / "options.toml").read_text()
    assert "days_since_open" in options
    assert "subscribed" not in options


def test_the_policy_answers_for_a_row(looked_at):
    shares = [float(text.removesuffix(" %")) for text in looked_at[3]["tried"]]
    assert len(shares) == 3
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_nothing_is_asked_elsewhere_and_nothing_complains(looked_at):
    assert looked_at[3]["elsewhere"] == []
    assert looked_at[3]["complaints"] == []


PAGES = ("home", "faults", "log", "run", "answer", "try", "rounds")


@pytest.mark.parametrize("page", PAGES)
def test_pages_fit_a_phone_and_a_screen(looked_at, page):
    assert {width: looked_at[3][page][width] for width in (390, 1200)} == {390: 0, 1200: 0}


@pytest.mark.parametrize("page", PAGES)
def test_everyone_can_use_them(looked_at, page):
    assert {scheme: looked_at[3][page][scheme] for scheme in ("light", "dark")} == {"light": [], "dark": []}


@pytest.mark.long
def test_a_second_round_beside_the_first(looked_at, browser, config, tmp_path):
    """The next log is dropped on the answer's page, read as the first was, and compared with it."""
    folder, run, _, _ = looked_at
    log = Path(tmp_path / "summer.csv")
    log.write_text(email(60, seed=1) + "\n")
    with studio(folder, config) as (_, link):
        browser.width(1200)
        browser.go(link)
        browser.go(f"{link.split('/?')[0]}/runs/{run.name}")
        browser.give(".drop input", log)
        browser.arrive(f"location.pathname.startsWith('/logs/') && {CAN}")
        assert browser.ask("document.querySelectorAll('.columns select').length") == 0
        browser.follow(".start form > button")
        browser.arrive("document.querySelector('.answer .headline')")
        browser.follow("a[href$='/rounds']")
        browser.arrive("document.querySelector('.rounds')")
        assert browser.ask("document.querySelectorAll('.rounds tbody tr').length") == 2
        assert serious(browser) == []
    second = from_json((folder / "runs" / "summer" / "run" / "decision.json").read_text())
    assert second.settings["episodes"] == {"older logs": 40, "learning": 30, "judging": 30}
