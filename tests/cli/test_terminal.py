"""Notes, tables, colours and bars, as a terminal and as a file get them."""

import io
import json

import pytest
from rich.console import Console
from rich.text import Text

from statewise.cli.progress import Watch
from statewise.cli.terminal import coloured, echo_json, note, table


def written(terminal: bool, width: int = 100) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=terminal, width=width, highlight=False, color_system="standard" if terminal else None
    )
    return console, file


def test_only_the_outcome_is_coloured():
    console, file = written(terminal=True)
    console.print(coloured("Deploy") + Text(": it earns more"))
    assert file.getvalue() == "\x1b[1;32mDeploy\x1b[0m: it earns more\n"


def test_a_table_sets_numbers_right_and_needs_no_header():
    console, file = written(terminal=False)
    shown = table(("name", "value"), left=("name",))
    shown.add_row("a", "1")
    shown.add_row("long name", "1000")
    console.print(shown)
    assert file.getvalue().splitlines() == [" name       value ", " a              1 ", " long name   1000 "]
    console, file = written(terminal=False)
    bare = table()
    bare.add_row("a", "b")
    console.print(bare)
    assert file.getvalue() == " a  b \n"


def test_a_note_is_text_as_it_stands():
    console, file = written(terminal=False)
    note(console, "column [red] is odd")
    assert file.getvalue() == "note  column [red] is odd\n"


def test_what_is_not_finite_is_null_for_a_machine(capsys):
    echo_json({"low": float("-inf"), "rows": (1, float("nan"))})
    assert json.loads(capsys.readouterr().out) == {"low": None, "rows": [1, None]}


@pytest.mark.parametrize("terminal", [True, False])
def test_a_watch_has_a_bar_on_a_terminal_and_lines_elsewhere(terminal):
    console, file = written(terminal, width=120)
    with Watch(console, "preparing") as watch:
        watch.show("learning", 3, 10, "V̂ 1.5")
        watch.bar.refresh()
        watch.line("3 of 10")
        watch.show("judging", 1, 2)
        watch.bar.refresh()
    shown = file.getvalue()
    if terminal:
        assert "left" in shown
        assert "learning" in shown
        assert "3/10" in shown
        assert "V̂ 1.5" in shown
        assert "1/2" in shown
        assert "3 of 10" not in shown
    else:
        assert shown == "3 of 10\n"


def test_the_time_that_is_left_follows_from_what_is_done(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("statewise.cli.progress.time.monotonic", lambda: now[0])
    watch = Watch(written(terminal=False)[0], "preparing")
    watch.show("learning", 0, 10)
    now[0] += 20
    assert watch.left(2, 10) == ", about 80 s left"
    assert watch.left(1, 40) == ", about 13 min left"
    assert watch.left(9, 10) == ""  # two seconds are not worth a word
    assert watch.left(10, 10) == ""
    watch.show("judging", 1, 2)  # another title begins anew
    now[0] += 30
    assert watch.left(1, 2) == ", about 30 s left"
