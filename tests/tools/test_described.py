"""Fields as the site's reference describes them."""

from dataclasses import fields, is_dataclass

import griffe
import pytest

import docs
import statewise as sw
from described import Described, description

SETTINGS = ["Plan", "Columns", *docs.GROUPS["Algorithms"].split(), *docs.GROUPS["Their parts"].split()]
CODE = '''
from dataclasses import dataclass

@dataclass
class Settings:
    """Settings."""

    rate: float = 0.5  # how fast, with a # in it
    steps: int = (
        3
    )  # λ, or how many

@dataclass
class Half:
    one: int  # described
    other: int
'''


@pytest.fixture(scope="module")
def source():
    """The package as the site reads it."""
    return griffe.load("statewise", search_paths=[docs.DOCS.parent / "src"], submodules=True)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_described(name, source):
    settings = getattr(sw, name)
    assert is_dataclass(settings)
    members = source[settings.__module__.removeprefix("statewise.")][name].members
    assert [field.name for field in fields(settings) if not description(members[field.name])] == []


def test_comments_become_a_table():
    with griffe.temporary_visited_module(CODE) as module:
        whole, half = module["Settings"], module["Half"]
        for one in (whole, half):
            Described().on_class(cls=one)
        assert whole.docstring.value == (
            "Settings.\n\nAttributes:\n    rate: How fast, with a # in it.\n    steps: λ, or how many."
        )
        assert half.docstring is None
