"""A run whose machine loses power at any write is resumed to the same bytes."""

import random

import pytest

import small
from logs import make
from power import Disk
from processes import statewise_here


@pytest.fixture(scope="module")
def learn(tmp_path_factory):
    """Runs `statewise fit` in a folder; two seeds, three checkpoints."""
    log = tmp_path_factory.mktemp("power") / "log.parquet"
    make([5] * 12).save(log)
    options = ("--algorithm", "behaviour-cloning", "--seeds", 2, "--updates", 6, "--checkpoint-every", 2)

    def learn(folder):
        done = statewise_here("fit", log, *options, "--out", folder / "run")
        assert done.returncode == 0, done.stderr
        return done

    with pytest.MonkeyPatch.context() as patch:
        small.defaults(patch)
        yield learn


@pytest.fixture(scope="module")
def whole(learn, tmp_path_factory):
    """The run without a loss: its bytes, and how many calls it made that change the disk."""
    folder = tmp_path_factory.mktemp("whole")
    disk = Disk(folder)
    with disk.watched():
        learn(folder)
    disk.left(folder / "left", None)
    assert contents(folder / "left") == contents(folder)  # nothing of it was still on its way to the disk
    return contents(folder), disk.calls


def contents(folder):
    paths = [path for path in (folder / "run").rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def lose_and_resume(learn, folder, stop_at, luck):
    """What the folder holds after a loss at that call, another loss while resuming, and an end in peace."""
    for number, stop in enumerate((stop_at, luck.randrange(stop_at + 1) if luck else None, None)):
        disk = Disk(folder, stop)
        with disk.watched():
            learn(folder)
        if not disk.lost:
            return contents(folder)
        disk.left(folder.with_name(f"{folder.name}-{number}"), luck)
        folder = folder.with_name(f"{folder.name}-{number}")
    raise AssertionError("it never ended")


def survive(learn, whole, folder, losses):
    expected, calls = whole
    for number, (stop_at, seed) in enumerate(losses):
        (folder / str(number)).mkdir()
        luck = None if seed is None else random.Random(f"{stop_at} {seed}")
        after = lose_and_resume(learn, folder / str(number), stop_at % calls, luck)
        assert after.keys() == expected.keys(), (stop_at, seed)
        assert all(after[name] == expected[name] for name in expected), (stop_at, seed)


def test_some_losses(learn, whole, tmp_path):
    _, calls = whole
    assert calls > 60
    survive(learn, whole, tmp_path, [(9 * calls // 10, None), (calls // 2, 0), (calls - 2, 1), (3, 2)])


@pytest.mark.long
def test_a_loss_at_every_write(learn, whole, tmp_path):
    """Without luck, and three times with it, most of them two in a row."""
    _, calls = whole
    assert 4 * calls >= 200
    survive(learn, whole, tmp_path, [(stop_at, seed) for stop_at in range(calls) for seed in (None, 0, 1, 2)])
