"""Registries: built-in entries are imported when asked for, and users add their own."""

import sys

import pytest

from statewise.base.registry import Registry, UnknownName


def test_entries_come_in_the_order_they_were_added():
    shapes = Registry("shape", {"b": "math:pi", "a": "math:tau"})
    assert shapes.add("c", 3) == 3
    assert list(shapes) == ["b", "a", "c"]
    assert [name for name, _ in shapes.items()] == ["b", "a", "c"]
    assert shapes.values()[2] == 3
    assert len(shapes) == 3


def test_a_built_in_entry_is_imported_when_it_is_asked_for(tmp_path, monkeypatch):
    (tmp_path / "late_module.py").write_text("entry = 'here'")
    monkeypatch.syspath_prepend(tmp_path)
    things = Registry("thing", {"late": "late_module:entry"})
    assert "late" in things
    assert list(things) == ["late"]
    assert "late_module" not in sys.modules
    assert things["late"] == "here"


def test_an_unknown_name_is_answered_with_the_known_ones():
    animals = Registry("animal")
    animals.add("horse", 1)
    animals.add("cow", 2)
    with pytest.raises(UnknownName) as error:
        animals["hores"]
    assert str(error.value) == "there is no animal 'hores'; did you mean 'horse'? choose from horse, cow"
    with pytest.raises(ValueError, match="there is no animal 'zebra'; choose from horse, cow"):
        animals["zebra"]


def test_a_name_that_is_taken_is_refused():
    animals = Registry("animal", {"pi": "math:pi"})
    with pytest.raises(ValueError, match="there is already an animal called 'pi'"):
        animals.add("pi", 3)
