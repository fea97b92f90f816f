"""Who may use the studio."""

import pytest

from statewise.studio.folder import StudioFolder
from studios import ADDRESS, OWN


def test_the_link_of_the_terminal_opens_it_and_nothing_else_does(folder, pages):
    assert pages.get("/").status_code == 200
    pages.cookies.clear()
    assert pages.get("/").status_code == 401
    assert pages.get("/?key=guess").status_code == 401
    shown = pages.get(f"/logs/none?key={folder.key()}&row=3", follow_redirects=False)
    assert (shown.status_code, shown.headers["location"]) == (303, "/logs/none?row=3")
    assert "HttpOnly" in shown.headers["set-cookie"]


def test_the_key_stays_with_the_folder_and_is_read_by_its_owner_alone(folder):
    assert StudioFolder(folder.path).key() == folder.key()
    assert (folder.path / ".key").stat().st_mode & 0o077 == 0
    assert folder.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8008", "127.0.0.1.evil.example:8008", ""])
def test_another_name_for_this_machine_is_refused(pages, host):
    assert pages.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://127.0.0.1:9999", "https://127.0.0.1:8008"]
)
def test_what_changes_something_must_come_from_our_own_page(pages, folder, origin):
    pages.headers.pop("origin")
    headers = {} if origin is None else {"origin": origin}
    assert pages.put("/logs?name=a.csv", content=b"x", headers=headers).status_code == 403
    assert pages.post("/runs/any/stop", headers=headers).status_code == 403
    assert folder.logs() == {}
    assert pages.put("/logs?name=a.csv", content=b"x", headers=OWN).status_code == 200


def test_an_address_that_makes_no_sense_is_a_page_too(pages):
    answer = pages.get("/runs/any/try?row=first")
    assert answer.status_code == 400
    assert "This address is not one of " in answer.text


def test_pages_may_load_nothing_from_elsewhere(pages):
    headers = pages.get("/").headers
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["cache-control"] == "no-store"
    assert ADDRESS not in pages.get("/").text
    assert "http" not in pages.get("/studio.js").text + pages.get("/studio.css").text


RUN = "/runs/none"


@pytest.mark.parametrize(
    "path", ["/logs/none", "/logs/..%2f..", RUN, f"{RUN}/report", f"{RUN}/files/policy.safetensors", f"{RUN}/try", "/x"]
)
def test_what_is_not_there_is_said_so(pages, path):
    answer = pages.get(path)
    assert answer.status_code == 404
    assert "here is no such page" in answer.text or "here is no " in answer.text
