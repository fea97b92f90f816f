"""A log's page: what was made of its columns, what is wrong and where, and what the menus change."""

import html

import pytest

import statewise as sw
from awkward import clinic, email
from statewise.studio.choices import Choices
from statewise.studio.folder import StudioError
from statewise.studio.reading import reading_of, with_menus
from studios import given


def roles(folder, id):
    return {column.name: column.role for column in reading_of(folder, id).columns}


def chosen(folder, id, **changes):
    """The form of the page, with some menus changed."""
    columns = reading_of(folder, id).columns
    form = {f"role-{i}": changes.pop(column.name, column.role) for i, column in enumerate(columns)}
    return form | changes


def test_roles_are_those_that_the_library_finds(folder, pages):
    given(pages, "clinic.csv", clinic(20))
    assert [(fault.column, fault.mends) for fault in reading_of(folder, "clinic").faults] == [
        ("propensity", (("Estimate them from the log", "propensity=estimate"),))
    ]
    answer = pages.post("/logs/clinic", data={"mend": "propensity=estimate"})
    assert "This log can be used" in answer.text
    schema = sw.load(folder.log_file("clinic"), propensity="estimate").schema
    found = roles(folder, "clinic")
    assert {name: found[name] for name in ("Patient", "Visit date", "Treatment", "Score", "Died", "Comment")} == {
        "Patient": "episode", "Visit date": "time", "Treatment": "action", "Score": "reward", "Died": "terminated",
        "Comment": "left out",
    }  # fmt: skip
    assert tuple(name for name, role in found.items() if role == "observation") == schema.columns.observations
    becomes = {column.name: column.becomes for column in reading_of(folder, "clinic").columns}
    assert [becomes[name] for name in schema.columns.observations] == [code.sentence for code in schema.codes]


def test_menus_change_what_is_read(folder, pages):
    given(pages, "clinic.csv", clinic(20))
    pages.post("/logs/clinic", data={"mend": "propensity=estimate"})
    form = chosen(folder, "clinic", Comment="left out", Smoker="left out", Age="words", propensity="estimate")
    pain = next(i for i, column in enumerate(reading_of(folder, "clinic").columns) if column.name == "Pain")
    pages.post("/logs/clinic", data=form | {f"order-{pain}": "low, medium, high", "cut_off": "limit"})
    reading = reading_of(folder, "clinic")
    kinds = {code.name: code.kind for code in reading.schema.codes}
    assert "Smoker" not in kinds
    assert (kinds["Age"], kinds["Pain"]) == ("words", "order")
    assert reading.dataset.horizon.cut_off == "limit"
    assert not any(column.guessed for column in reading.columns)


def test_findings_show_their_rows(folder, pages):
    lines = email(20).split("\n")
    lines[3] = lines[3].replace(lines[3].split(",")[9], "oops")  # the revenue, on line 4
    page = given(pages, "mail.csv", "\n".join(lines))
    pages.post(page, data={"mend": "ends=truncated"})
    pages.post(page, data=chosen(folder, "mail", revenue="reward", clicked="left out", ends="truncated"))
    fault = next(fault for fault in reading_of(folder, "mail").faults if fault.column == "revenue")
    assert fault.sentence.startswith("expected numbers, got text such as 'oops' (line 4)")
    assert (fault.rows.word, fault.rows.numbers) == ("line", (4,))
    assert fault.rows.cells[0][fault.rows.columns.index("revenue")] == "oops"
    assert '<td class="mark">oops</td>' in pages.get(page).text


def test_two_columns_of_one_role_are_a_sentence(folder, pages):
    page = given(pages, "clinic.csv", clinic(5))
    answer = pages.post(page, data=chosen(folder, "clinic", Age="reward"))
    assert "'Age' and 'Score' cannot both be the reward: choose something else for one of them." in html.unescape(
        answer.text
    )


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.csv", "x", "there is no such column"),
        ("a.csv", "a,b\n1,2\n3\n", "Expected 2 fields as in the header, got 1 (line 3)"),
        ("a.parquet", "no parquet", "it cannot be read"),
        ("a.csv", "episode,episode\n1,2\n", "There are several columns with this name"),
        ("<script>.csv", "<script>,b\n1,2\n", "&lt;script&gt;"),
    ],
)
def test_a_file_that_is_no_log_is_answered_in_sentences(pages, name, text, sentence):
    answer = pages.get(given(pages, name, text))
    assert answer.status_code == 200
    assert sentence.lower() in answer.text.lower()
    assert "This log cannot be used yet" in answer.text
    assert "<script>.csv" not in answer.text


def test_parameters_of_the_library_are_menus_here():
    assert with_menus("use `ends='terminated'`; if cut off, `ends='truncated'`") == (
        "use “Ends of episodes: every episode ended by itself”; "
        "if cut off, “Ends of episodes: every episode was cut off”"
    )
    assert with_menus("Change this with `cut_off=...` and `horizon=...`.") == (
        "Change this with “Cut off means” and “horizon” on the command line."
    )


@pytest.mark.parametrize("form", [{"role-0": "king"}, {"propensity": "guess"}, {"ends": "soon"}])
def test_forms_that_no_page_sends_are_refused(folder, pages, form):
    page = given(pages, "clinic.csv", clinic(5))
    assert pages.post(page, data=form).status_code == 400
    assert not folder.choices_file("clinic").is_file()


def test_an_order_needs_different_words():
    choices = Choices(roles=(("pain", "observation"),), orders=(("pain", "low, low"),))
    with pytest.raises(StudioError, match="from least to most, each once"):
        choices.arguments()
