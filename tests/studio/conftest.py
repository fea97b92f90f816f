"""An empty studio, and a client that may use it."""

import pytest

from statewise.studio.folder import StudioFolder
from studios import client


@pytest.fixture
def folder(tmp_path):
    return StudioFolder.create(tmp_path / "studio")


@pytest.fixture
def pages(folder):
    return client(folder)
