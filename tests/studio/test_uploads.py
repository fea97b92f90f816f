"""Files that are given to the studio."""

import asyncio

import pytest

from awkward import clinic
from statewise.studio.folder import StudioError
from statewise.studio.uploads import LONGEST_NAME, receive, shown_name
from studios import client, given


def receive_now(folder, name, *chunks, **limits):
    async def body():
        for chunk in chunks:
            yield chunk

    return asyncio.run(receive(folder, name, body(), **limits))


def test_a_file_is_kept_as_it_came(folder):
    text = clinic(5).encode()
    page = given(client(folder), "Clinic 2024 (final).csv", text)
    assert page == "/logs/clinic-2024-final"
    log = folder.log("clinic-2024-final")
    assert (log.name, log.size, log.file) == ("Clinic 2024 (final).csv", len(text), "clinic-2024-final.csv")
    assert folder.log_file("clinic-2024-final").read_bytes() == text


def test_names_are_made_harmless_and_never_leave_the_folder(folder):
    for name, shown in (
        ("../../../etc/passwd.csv", "passwd.csv"),
        ("C:\\secret\\a.csv", "a.csv"),
        ("\x1b[2J\u202elog.csv", "\\x1b[2J\\u202elog.csv"),
        ("‮.csv", "\\u202e.csv"),
    ):
        assert shown_name(name) == shown
        id = receive_now(folder, name, b"x")
        assert folder.log_file(id).parent.parent == folder.path / "logs"
    assert len(shown_name("x" * 500 + ".csv")) <= LONGEST_NAME
    assert len(folder.logs()) == 4


def test_two_files_of_one_name_are_two_logs(folder):
    assert [receive_now(folder, "a.csv", b"x"), receive_now(folder, "a.csv", b"y")] == ["a", "a-2"]


@pytest.mark.parametrize(
    ("name", "chunks", "sentence"),
    [
        ("a.xlsx", [b"x"], "a.xlsx: its name ends in .xlsx; export it as .parquet, .csv, .tsv or .txt"),
        ("", [b"x"], "the file: its name has no ending; export it as .parquet, .csv, .tsv or .txt"),
        ("a.csv", [], "a.csv: it is empty"),
        ("a.csv", [b"x" * 60, b"x" * 60], "a.csv: it is larger than the 100 bytes that there is room for"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(folder, name, chunks, sentence):
    with pytest.raises(StudioError, match="^" + sentence.replace(".", r"\.")):
        receive_now(folder, name, *chunks, largest=100)
    assert list((folder.path / "logs").iterdir()) == []


def test_a_connection_that_breaks_leaves_nothing_behind(folder):
    async def broken():
        yield b"x"
        raise ConnectionError

    with pytest.raises(OSError, match="written"):
        asyncio.run(receive(folder, "a.csv", broken()))
    assert list((folder.path / "logs").iterdir()) == []
