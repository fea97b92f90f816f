"""Every command meets every mistake: one sentence, exit code 2, no traceback, and every good file left as it was."""

import asyncio
import gc
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from logs import make
from statewise.cli import COMMANDS
from statewise.learning.runs import RunFolder
from statewise.policies.network import Policy
from statewise.policies.record import Asked, Outcome, Recorder

COLUMNS = "episode,step,obs_a,obs_b,action,reward,propensity,terminated"
ROWS = ["1,0,0.5,1,0,1,0.5,0", "1,1,0.2,2,1,0,0.5,1", "2,0,0.1,0,1,1,0.5,1", "3,0,0.3,3,0,0,0.5,1"]
ROWS += [f"{episode},0,0.{episode},1,{episode % 2},1,0.5,1" for episode in range(4, 20)]
GOOD = "a good file"

# How each command is called where all is well, in a folder with log.csv, run/, decisions/ and p.safetensors. `{log}` is
# its log, `{run}` its run or policy, `{out}` what it writes.
CALLS = {
    "act": "{run} {log} --out {out}.csv",
    "certify": "{run} {log} --out {out}.safetensors",
    "collect": "cartpole --episodes 2 --out {out}.csv",
    "evaluate": "{run} {log} --estimator per-decision",
    "export": "{run} --format numpy --out {out}.py",
    "fit": "{log} --updates 1 --out {out}",
    "improve": "{log} --updates 1 --out {out}",
    "inspect": "{log}",
    "record": "decisions --out {out}.csv",
    "report": "{run} --out {out}.html",
    "reproduce": "hard-example --no-run --out {out}",
    "rounds": "--domain hard-example --rounds 1 --episodes 15 --out {out}",
    "score": "{run} --domain cartpole --episodes 1",
    "serve": "{run} --port 0",
    "studio": "--folder {out} --port 0 --no-open",
}
READS_LOG = sorted(name for name, call in CALLS.items() if "{log}" in call)
READS_RUN = sorted(name for name, call in CALLS.items() if "{run}" in call)
WRITES_FILE = sorted(name for name, call in CALLS.items() if "{out}." in call)
WRITES_ALWAYS = [name for name in WRITES_FILE if name != "certify"]  # which writes what was certified, if anything was
WRITES_RUN = ("fit", "improve")


def call(name, **places):
    filled = {"log": "log.csv", "run": "p.safetensors" if name in ("act", "export", "serve") else "run", "out": "out"}
    return [name, *CALLS[name].format(**(filled | places)).split()]


@cache
def small_policy() -> Policy:
    rng = np.random.default_rng(0)
    weights = tuple(rng.normal(size=size) for size in ((2, 4), (4, 2)))
    return Policy(weights, (np.zeros(4), np.zeros(2)), np.zeros(2), np.ones(2), ("a", "b"), ("0", "1"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, with a log, a policy file and a run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("\n".join([COLUMNS, *ROWS]))
    small_policy().save("p.safetensors")
    folder = RunFolder.create("run")
    folder.write_manifest({"algorithm": "OPPOSD", "seeds": [0], "config": {"discount": 1.0}})
    folder.write_metrics({"value": np.ones((1, 3))})
    folder.write_policy(0, 3, small_policy())
    recorder = Recorder("decisions", small_policy())
    asyncio.run(record_one(recorder))
    recorder.close()
    return tmp_path


async def record_one(recorder):
    (kept,) = await recorder.decide([Asked(np.zeros(2), None, 0, np.full(2, 0.5))])
    await recorder.report([Outcome(kept.id, 1.0)])


@pytest.fixture
def told(run):
    """Runs a command, and asserts that it ended with a sentence."""

    def told(arguments, code=2):
        ended = run(*arguments)
        answer = " ".join((ended.stdout + ended.stderr).split())
        assert ended.returncode == code, answer
        return answer

    return told


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_command_is_in_the_table():
    assert sorted(CALLS) == sorted(COMMANDS)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_wrong_flag(name, place, told):
    before = files(place)
    words = told([*call(name), "--colour", "blue"])
    assert "No such option" in words
    assert "--colour" in words
    assert files(place) == before


@pytest.mark.parametrize("name", READS_LOG)
def test_a_log_that_is_not_there(name, place, told):
    before = files(place)
    words = told(call(name, log="lg.csv"))
    assert "lg.csv: there is no such file" in words
    assert "Did you mean log.csv?" in words
    assert files(place) == before


@pytest.mark.parametrize("name", READS_LOG)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        (COLUMNS, "no rows"),
        ("\0\1\2\3", "UTF-8"),
    ],
    ids=["nothing", "header alone", "not text"],
)
def test_an_empty_log(name, text, words, place, told):
    (place / "log.csv").write_text(text)
    before = files(place)
    assert words in told(call(name))
    assert files(place) == before


def needed():
    """Which command cannot do without which column, and what it says; without `step` rows are taken as they come."""
    for name in READS_LOG:
        for column in COLUMNS.split(","):
            if name == "act" and column.startswith("obs_"):
                yield name, column, f"'{column.removeprefix('obs_')}' is missing; the policy needs 'a', 'b'"
            elif name in ("certify", "evaluate") and column.startswith("obs_"):
                yield name, column, "observation"  # a policy of two, a log of one
            elif name != "act" and not column.startswith("obs_") and column != "step":
                yield name, column, f"{column}: there is no such column"


@pytest.mark.parametrize(("name", "column", "words"), needed())
def test_a_log_without_a_column(name, column, words, place, told):
    keep = [i for i, other in enumerate(COLUMNS.split(",")) if other != column]
    lines = [line.split(",") for line in (COLUMNS, *ROWS)]
    (place / "log.csv").write_text("\n".join(",".join(line[i] for i in keep) for line in lines))
    before = files(place)
    assert words in told(call(name))
    assert files(place) == before


@pytest.mark.parametrize("name", READS_LOG)
def test_a_folder_in_place_of_a_log(name, place, told):
    assert "it is a folder" in told(call(name, log="run"))


@pytest.mark.parametrize("name", READS_RUN)
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("absent", ("there is no such file", "it is not a run folder")),
        ("nothing", ("it is not a run folder",)),
        ("log.csv", ("it is not a policy file", "it is not a run folder")),
        ("damaged", ("its manifest.json is damaged", "it has no checkpoints yet")),
        ("cut.safetensors", ("it is not a policy file", "it is cut short", "it is not a run folder")),
    ],
)
def test_what_is_not_a_run(name, source, words, place, told):
    (place / "nothing").mkdir()
    (place / "damaged").mkdir()
    (place / "damaged" / "manifest.json").write_text('{"algorithm": ')
    (place / "cut.safetensors").write_bytes((place / "p.safetensors").read_bytes()[:-20])
    before = files(place)
    answer = told(call(name, run=source))
    assert any(each in answer for each in words), answer
    assert source in answer
    assert files(place) == before


@pytest.mark.parametrize("name", [*WRITES_FILE, *WRITES_RUN, "reproduce", "rounds"])
def test_an_output_where_nothing_can_be(name, place, told):
    """Below a file there is no folder; it is found out at once."""
    before = files(place)
    answer = told(call(name, out="log.csv/out"))
    assert "log.csv/out" in answer
    assert files(place) == before


@pytest.mark.parametrize("name", WRITES_RUN)
def test_a_run_in_a_folder_of_other_things(name, place, told):
    (place / "mine").mkdir()
    (place / "mine" / "thesis.txt").write_text(GOOD)
    assert "mine: it holds other files; choose an empty folder" in told(call(name, out="mine"))
    assert "log.csv: there is a file with that name" in told(call(name, out="log.csv"))
    assert files(place)["mine/thesis.txt"] == GOOD.encode()


@contextmanager
def full_disk():
    """A limit on the size of files stands for the full disk.

    JAX's cache of compiled programs, which all tests share, is left out of it: half an entry there would be read by
    whoever comes next.
    """
    shared = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    before, bytecode = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # the same holds for it
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = bytecode
        signal.signal(signal.SIGXFSZ, ignored)
        jax.config.update("jax_compilation_cache_dir", shared)
        compilation_cache.reset_cache()


@pytest.mark.parametrize("name", WRITES_ALWAYS)
def test_a_full_disk_leaves_the_good_file(name, place, told):
    out = next(place / word for word in call(name) if word.startswith("out."))
    out.write_text(GOOD)
    before = files(place)
    with full_disk():
        answer = told(call(name))
    assert f"{out.name}: it could not be written" in answer
    assert files(place) == before


@pytest.mark.parametrize("name", WRITES_RUN)
def test_a_full_disk_stops_a_run_with_a_sentence(name, place, told):
    make([3] * 40, features=1, actions=2).save("log.csv")
    with full_disk():
        answer = told(call(name))
    assert "it could not be written" in answer
    assert "out/" in answer
    assert not files(place / "out")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("name", ["act", "inspect"])
@pytest.mark.parametrize("buffered", ["", "1"])
def test_standard_output_that_is_full(name, buffered, place):
    """What is printed may go to a full disk too, at once or at the end."""
    arguments = ["act", "p.safetensors", "log.csv"] if name == "act" else call(name)
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "statewise", *arguments]
        environment = {**os.environ, "PYTHONUNBUFFERED": buffered}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["act", "export", "report", "collect"])
def test_an_interrupted_write_leaves_the_good_file(name, place, told, monkeypatch):
    """Control-C at the last moment, when all is written but not yet in its place."""

    def stop(*_):
        raise KeyboardInterrupt

    out = next(place / word for word in call(name) if word.startswith("out."))
    out.write_text(GOOD)
    before = files(place)
    monkeypatch.setattr("statewise.base.files.os.replace", stop)
    assert "Stopped." in told(call(name), code=130)
    assert files(place) == before


def test_training_that_fails_is_a_sentence(place, told, monkeypatch):
    from statewise.learning.program import NotFinite

    def failing(*_, **__):
        raise NotFinite("the critic became infinite or not a number at update 3 of seed 0")

    monkeypatch.setattr("statewise.cli.fit.fit", failing)
    assert "the critic became infinite" in told(call("fit"))


def test_an_experiment_that_was_never_run(place, told):
    answer = told(call("reproduce"))
    assert "out: exact.npz is missing; run the same command without --no-run" in answer


def test_a_policy_for_other_observations(place, told):
    (place / "log.csv").write_text("\n".join([COLUMNS.replace("obs_b", "obs_c"), *ROWS]))
    assert "'b' is missing" in told(call("act"))
    answer = told(["evaluate", "p.safetensors", "log.csv", "--estimator", "per-decision"])
    assert "the policy looks at a, b, but the log holds a, c" in answer


def test_a_policy_that_does_not_fit_the_simulator(place, told):
    assert "run: its policy is for 2 observations and 2 actions, the domain has 4 and 2" in told(call("score"))


@pytest.mark.parametrize("given", ["0", "a,a", "a,", "two"])
def test_actions_that_are_neither_a_number_nor_words(given, place, told):
    words = f"expected a number above 0, or different names such as A,B,C; got '{given}'"
    assert words in told(["inspect", "log.csv", "--actions", given])


def test_a_minari_data_set_that_is_not_there(place, told, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(place))
    for name in ("tests/absent-v0", ""):
        assert "there is no such Minari dataset on this machine" in told(["inspect", f"minari:{name}"])


def test_control_c_within_a_callback_is_not_lost(place, told, monkeypatch):
    """As it comes to one of JAX's callbacks of the garbage collector, whose exceptions Python drops."""

    def stop(*_):
        gc.callbacks.remove(stop)
        raise KeyboardInterrupt

    def wait(*_, **__):
        gc.callbacks.append(stop)
        gc.collect()
        for _ in range(60_000):  # an interruption that comes ends it at once, one that is lost after ten minutes
            time.sleep(0.01)

    monkeypatch.setattr("statewise.cli.inspect.read_any", wait)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        assert told(call("inspect"), code=130).strip() == "Stopped."
    finally:
        signal.signal(signal.SIGINT, before)
