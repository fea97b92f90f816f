"""Fixtures of the judge's tests."""

import pytest

from statewise.ope import counted


@pytest.fixture(scope="module")
def by_features():
    """Few states are judged as many are, by features instead of counts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counted, "MOST_STATES", 0)
        yield
