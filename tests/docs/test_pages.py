"""Commands and snippets in README and docs are run as they stand; what is shown of their output is what they print.

All run in this process, which spares each of them the wait for JAX, and with small networks, since nothing is asked of
what they learn: the README first, then one page after the other in the folder that it left. The README's commands learn
by all algorithms, as a reader's do, and try every step towards the goal; the pages' learn by the one that they name,
and try a few. `SMALLER` says what else of a page is run with less than it shows.
"""

import contextlib
import io
import re
import shlex
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

import small
import statewise as sw
from processes import statewise_here
from serving import served

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
# in the order of the navigation: later pages use what earlier ones wrote
PAGES = ("start", "columns", "hiv", "bandit", "icu-sepsis", "rounds", "choosing", "certify", "trust", "paper")
PAGES += ("interoperability", "extending", "scale")
# what a page says, and what is run in its place: enough to certify a step, so that the page's next round starts from it
SMALLER = {
    "rounds": {"updates=500": "updates=100", "collect(300,": "collect(200,", "episodes=300": "episodes=200"},
}
BLOCK = re.compile(
    r"(?:<!-- needs (?P<needs>\w+) -->\n)?"
    r"```(?P<language>\w+)(?: title=\"(?P<file>[\w.]+)\")?\n(?P<text>.*?)```",
    flags=re.S,
)


def blocks(text: str, language: str) -> list[str]:
    return [found["text"] for found in BLOCK.finditer(text) if found["language"] == language]


def command(line: str) -> str:
    """What a command prints, which must not fail."""
    first, *arguments = shlex.split(line)
    assert first == "statewise", line
    done = statewise_here(*arguments)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


def snippet(text: str, page: str, names: dict) -> str:
    """What Python prints; a page's snippets share their `names`, as a reader would type them one after the other."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as out:
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", module="minari")  # it asks for an author and a licence
        warnings.filterwarnings("ignore", message=".*Any type hint is inferred")  # by MLflow, of its own
        exec(compile(text, page, "exec"), names)
    return out.getvalue()


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Runs the README's shell commands in order, in an empty folder: the folder, and what each command printed."""
    folder = tmp_path_factory.mktemp("readme")
    with pytest.MonkeyPatch.context() as patch:
        small.defaults(patch)
        with contextlib.chdir(folder):
            outputs = {line: command(line) for line in "".join(blocks(README, "sh")).splitlines()}
        yield folder, outputs


@pytest.fixture
def apart(session, monkeypatch):
    """Modules of the pages' folder can be imported; they, and what a page registers, are gone after it."""
    small.alone(monkeypatch)
    small.few_steps(monkeypatch)
    small.few_refits(monkeypatch)
    for registry in (sw.ALGORITHMS, sw.ESTIMATORS, sw.MEASURES, sw.DOMAINS, sw.FORMATS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.syspath_prepend(session[0])
    monkeypatch.chdir(session[0])
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(session[0] / "minari"))
    yield
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "").parent == session[0]:
            del sys.modules[name]


def test_shown_output_is_what_is_printed(session):
    _, outputs = session
    (shown,) = re.findall(r"<!-- inspect -->\n```text\n(.*?)```", README, flags=re.S)
    assert outputs["statewise inspect cartpole.parquet"].split() == shown.split()


def test_python_snippets_run(session, apart):
    assert "Dataset: 350 episodes" in snippet("".join(blocks(README, "python")), "README.md", {})


@pytest.mark.parametrize("page", PAGES)
def test_pages_run(page, session, apart):
    names: dict = {"__name__": "__main__"}
    left_out, text = [], (ROOT / "docs" / f"{page}.md").read_text()
    for shown, run in SMALLER.get(page, {}).items():
        assert shown in text, f"{page}: no longer says {shown}"
        text = text.replace(shown, run)
    for block in BLOCK.finditer(text):
        if block["needs"] and find_spec(block["needs"]) is None:
            left_out.append(block["needs"])
        elif block["file"]:
            (session[0] / block["file"]).write_text(block["text"])
        elif block["language"] == "python":
            snippet(block["text"], f"{page}.md", names)
        elif block["language"] == "sh":
            for line in block["text"].splitlines():
                if line not in session[1]:  # the README ran the very same in this folder
                    command(line)
        else:
            assert block["language"] in ("text", "toml"), f"{page}: a block of {block['language']} is not run"
    if left_out:
        pytest.skip(f"all of it ran but the snippet that needs {', '.join(left_out)}")


def test_the_page_on_serving_runs_beside_a_server(session, apart):
    """Its server is the one that the page starts, on a port that is free."""
    page = (ROOT / "docs" / "serving.md").read_text()
    (line,) = (line for line in "".join(blocks(page, "text")).splitlines() if line.startswith("statewise serve"))
    _, _, policy, _, port, *options = shlex.split(line)
    with served(policy, *options) as server:
        snippet("".join(blocks(page, "python")).replace(port, str(server.port)), "serving.md", {})
        for line in "".join(blocks(page, "sh")).splitlines():
            command(line)
    log = sw.load("round2.parquet")
    assert (log.episodes, len(log), log.terminated.all()) == (30, 90, True)
    assert sw.load("decisions").fingerprint == log.fingerprint


def test_every_page_is_run_or_made_from_the_code():
    made = {"commands", "api", "reference", "results", "earlier-results", "accuracy", "certified", "coverage", "worlds"}
    known = {
        *PAGES,
        *made,
        "index",
        "errata",
        "performance",
        "decisions",
        "serving",
        "reliability",
        "studio",
        "notebooks",
    }
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} <= known
    for bare in ("commands", "api", "reference", "decisions"):
        assert not BLOCK.search((ROOT / "docs" / f"{bare}.md").read_text())


def test_the_home_page_has_the_commands_of_the_readme():
    """Which are run, with less to learn."""
    (shown,) = blocks((ROOT / "docs" / "index.md").read_text(), "text")
    run = "".join(blocks(README, "sh")).splitlines()
    assert shown.replace("--preset quick", "--updates 5 --seeds 1").splitlines() == run[:2]


def test_settings_shown_are_settings_known():
    import tomllib

    from statewise.base.decode import changed
    from statewise.improvement import Plan
    from statewise.learning.presets import preset

    (shown,) = blocks((ROOT / "docs" / "start.md").read_text(), "toml")
    given = tomllib.loads(shown)
    assert given.pop("time_budget") == "10m"
    config = changed(preset(given.pop("preset", "default"), given.pop("algorithm", "opposd")), given.pop("settings"))
    assert config.critic.trace == 0.9
    changed(Plan(), given)
