"""Runs as processes: started, watched, stopped, resumed, found again by another studio. The work itself is a toy."""

import os
import shutil
import signal
import sys
import time
from dataclasses import replace

import pytest

from awkward import email
from browser import until
from reports import example
from statewise.cli.config import write_config
from statewise.report.content import to_json
from statewise.studio.folder import Run, StudioError, StudioFolder, now
from statewise.studio.runs import Runs
from studios import client, given

COMMAND = Runs._command
WORK = """
import pathlib, sys, time
place = pathlib.Path(sys.argv[1])
print("note  columns: guessed", flush=True)
print("learning with opposd: 1 of 2  V 3\\n good  Enough episodes: 100 of 150", flush=True)
while not (place / "go").exists():
    time.sleep(0.01)
print("learning with opposd: 2 of 2", flush=True)
if (place / "go").read_text():
    sys.exit("Error: " + (place / "go").read_text())
(place / "run").mkdir()
(place / "run" / "report.html").write_text("done")
"""


@pytest.fixture
def runs(tmp_path, monkeypatch):
    folder = StudioFolder.create(tmp_path / "studio")
    page = given(client(folder), "mail.csv", email(20))
    client(folder).post(page, data={"mend": "ends=truncated"})
    command = lambda self, id: [sys.executable, "-c", WORK, str(self.folder.run_path(id))]  # noqa: E731
    monkeypatch.setattr(Runs, "_command", command)
    made = Runs(folder, write_config, {"beside": [], "settings": {"critic": {"steps": 2}}})
    yield made
    for id in folder.runs():
        made.stop(id)


def working(runs, id):
    until(lambda: runs.progress(id).stages)


def test_a_run_from_start_to_end(runs):
    id = runs.start(("mail",), preset="quick", settings={"discount": 0.9})
    working(runs, id)
    progress = runs.progress(id)
    assert progress.state == "running"
    assert [(stage.name, stage.done, stage.total) for stage in progress.stages] == [("learning with opposd", 1, 2)]
    assert progress.notes == ("columns: guessed",)
    assert runs.planned(id) == ["learning with opposd", "certifying"]
    with pytest.raises(StudioError, match="another run is in progress"):
        runs.start(("mail",))
    (runs.folder.run_path(id) / "go").write_text("")
    until(lambda: runs.progress(id).state == "finished")
    assert runs.running() is None


def test_the_options_are_what_the_page_shows(runs):
    import tomllib

    id = runs.start(("mail",), preset="quick", settings={"discount": 0.9})
    options = tomllib.loads((runs.folder.run_path(id) / "options.toml").read_text())
    assert (options["episode_column"], options["action_column"]) == ("customer_id", "offer")
    assert (options["ends"], options["preset"], options["discount"]) == ("truncated", "quick", 0.9)
    assert (options["beside"], options["settings"]) == ([], {"critic": {"steps": 2}})


def test_stop_and_resume(runs):
    id = runs.start(("mail",))
    working(runs, id)
    runs.stop(id)
    assert runs.progress(id).state == "stopped"
    runs.resume_interrupted()
    assert not runs.is_running(id)  # what was stopped stays so
    runs.resume(id)
    working(runs, id)
    assert runs.is_running(id)


def test_a_next_log_is_that_of_the_newest_policy_to_deploy(runs):
    """Where a round certified nothing, what was deployed before still decides."""
    folder, pages = runs.folder, client(runs.folder)
    for id, after, policy in (("one", None, True), ("two", "one", False)):
        place = folder.run_path(id)
        (place / "run").mkdir(parents=True)
        (place / "run" / ("policy.safetensors" if policy else "goal.safetensors")).touch()
        folder.write_about("runs", id, Run(("mail",), now(), after=after))
    page = pages.put("/logs", params={"name": "next.csv", "after": "two"}, content=email(20, seed=1)).json()["page"]
    assert "The policy of an earlier round" in pages.get(page).text
    pages.post(f"{page}/start", data={"today": "policy"})
    run = folder.run("next")
    assert (run.logs, run.after, run.today) == (("mail", "next"), "two", "one")
    command = COMMAND(runs, "next")
    assert command[command.index("--today") + 1] == str(folder.run_path("one") / "run" / "policy.safetensors")
    assert command[4:6] == [str(folder.log_file("mail")), str(folder.log_file("next"))]


def test_an_answer_comes_with_how_strong_a_hidden_reason_would_have_to_be(runs):
    place = runs.folder.run_path("one") / "run"
    place.mkdir(parents=True)
    (place / "report.html").touch()
    (place.parent / "options.toml").touch()
    runs.folder.write_about("runs", "one", Run(("mail",), now()))
    for content, said in ((example(), True), (replace(example(), hidden_reason=None), False)):
        (place / "decision.json").write_text(to_json(content))
        page = client(runs.folder).get("/runs/one").text
        assert content.because in page
        assert ("A reason that is not in the log would have to multiply the odds of an action by" in page) == said


def test_what_was_removed_by_hand_is_gone_and_nothing_else(runs):
    folder, pages = runs.folder, client(runs.folder)
    page = pages.put("/logs", params={"name": "next.csv"}, content=email(20, seed=1)).json()["page"]
    pages.post(page, data={"mend": "ends=truncated"})
    id = runs.start(("next",))
    later = pages.put("/logs", params={"name": "later.csv", "after": id}, content=email(20)).json()["page"]
    runs.stop(id)
    shutil.rmtree(folder.path / "logs" / "next")
    for address in ("/", f"/runs/{id}", f"/runs/{id}/rounds"):
        assert "next" in pages.get(address).text
    shutil.rmtree(folder.run_path(id))
    assert pages.get(later).status_code == 200
    assert "This log follows" not in pages.get(later).text
    assert pages.get(f"/runs/{id}").status_code == 404


def test_what_went_wrong_is_its_last_sentence(runs):
    id = runs.start(("mail",))
    (runs.folder.run_path(id) / "go").write_text("the log has 3 episodes: it needs at least 15")
    until(lambda: not runs.is_running(id))
    progress = runs.progress(id)
    assert (progress.state, progress.error) == ("failed", "the log has 3 episodes: it needs at least 15")
    page = client(runs.folder).get(f"/runs/{id}").text
    assert "the log has 3 episodes: it needs at least 15" in page
    assert "Try again" in page


def test_another_studio_finds_a_run_whose_studio_is_gone(runs):
    """The process goes on by itself, and the new studio sees it, and can stop it."""
    id = runs.start(("mail",))
    working(runs, id)
    other = Runs(runs.folder, write_config)
    assert other.progress(id).state == "running"
    other.resume_interrupted()  # nothing to do
    process = runs.processes.pop(id)
    process.kill()  # as a power loss does
    process.wait()
    until(lambda: other.progress(id).state == "interrupted")
    other.resume_interrupted()
    working(other, id)
    assert other.progress(id).state == "running"
    other.close()
    assert other.progress(id).state == "interrupted"  # and the next one resumes it


def test_a_studio_that_ends_stops_its_run_and_the_next_one_resumes_it(runs):
    with client(runs.folder) as pages:
        page = pages.post("/logs/mail/start", data={"preset": "quick"})
        id = page.url.path.rpartition("/")[2]
        working(runs, id)
        assert runs.progress(id).state == "running"
        assert "Working" in page.text
    assert runs.progress(id).state == "interrupted"
    with client(runs.folder) as pages:
        working(runs, id)
        assert runs.progress(id).state == "running"
        assert pages.post(f"/runs/{id}/stop").status_code == 200
        assert runs.progress(id).state == "stopped"


def test_a_process_number_that_is_someone_elses_is_left_alone(runs):
    """After a restart of the machine, the number in the file may be that of any process."""
    id = runs.start(("mail",))
    working(runs, id)
    runs.stop(id)
    (runs.folder.run_path(id) / ".running").write_text(str(os.getpid()))
    handled = []
    signal.signal(signal.SIGTERM, lambda *_: handled.append(True))
    try:
        Runs(runs.folder, write_config).stop(id)
        time.sleep(0.05)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert handled == []


def test_forms_below_a_log_are_checked(runs):
    pages = client(runs.folder)
    for form, sentence in (
        ({"discount": "2"}, "expected a number above 0 and at most 1, got 2"),
        ({"discount": "soon"}, "expected a number such as 0.98"),
        ({"preset": "slow"}, "choose one of the two"),
        ({"time_budget": "9y"}, "choose one from the menu"),
    ):
        answer = pages.post("/logs/mail/start", data=form)
        assert answer.status_code == 400
        assert sentence in answer.text
    assert runs.folder.runs() == {}
