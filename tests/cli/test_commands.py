"""The command line as a stranger meets it: sentences, exit codes, no tracebacks."""

import json
import subprocess
import sys

import polars as pl
import pytest

import small
from logs import make
from processes import statewise as in_own_process
from processes import statewise_here as statewise
from statewise.policies.network import Policy


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.parquet"
    make([2, 1, 3], units=["p", "q", "p"]).save(path)
    return path


def test_inspect_tells_what_a_log_holds(log):
    out = in_own_process("inspect", log)
    assert out.returncode == 0
    assert "✓ log.parquet can be used" in out.stdout
    assert "3 of 2 units" in out.stdout
    assert "2 terminated, 1 truncated" in out.stdout


def test_inspect_tells_the_same_to_a_machine(log):
    told = json.loads(statewise("inspect", log, "--json").stdout)
    assert told["usable"]
    assert told["faults"] == []
    summary, data = told["summary"], make([2, 1, 3])
    assert summary["episodes"] == 3
    assert summary["lengths"]["mean"] == 2
    assert summary["returns"]["mean"] == pytest.approx(data.returns().mean())
    assert [action["count"] for action in summary["actions"]] == [(data.actions == a).sum() for a in range(3)]


def test_inspect_says_what_being_cut_off_means_and_how_to_change_it(tmp_path):
    make([9, 4, 9, 9], final=[False] * 4).save(tmp_path / "log.parquet")  # the second and the last were cut off
    path = tmp_path / "log.parquet"
    reading = json.loads(statewise("inspect", path, "--json").stdout)["summary"]["reading"]
    assert (reading["cut_off"], reading["horizon"], reading["discount"]) == ("censored", 9, 1)
    assert reading["sentence"].startswith("The record of 50 % of the episodes stops before they end: ")
    assert "γ is 1, since at least half of the episodes end by themselves." in reading["sentence"]
    assert reading["sentence"].endswith("Change this with --cut-off and --horizon.")
    assert reading["sentence"] in " ".join(statewise("inspect", path).stdout.split())
    for flags, cut_off, horizon in (
        (("--cut-off", "limit"), "limit", 9),
        (("--horizon", "3"), "limit", 3),
        (("--horizon", "5", "--cut-off", "continuing"), "continuing", 5),
    ):
        reading = json.loads(statewise("inspect", path, *flags, "--json").stdout)["summary"]["reading"]
        assert (reading["cut_off"], reading["horizon"]) == (cut_off, horizon)


def test_inspect_finds_propensities_that_are_wrong(tmp_path):
    """Coins are logged that were none: action 1 was taken three times in four."""
    rows = [f"{e},{e % 7},{int(e % 4 > 0)},0,0.5,1" for e in range(600)]
    log = "\n".join(["episode,obs_a,action,reward,chance,terminated", *rows])
    (tmp_path / "log.csv").write_text(log)
    told = json.loads(statewise("inspect", tmp_path / "log.csv", "--propensity-column", "chance", "--json").stdout)
    (warning,) = (each for each in told["warnings"] if each["column"] == "chance")
    assert "action 1 was taken in 75 % of 600 rows, but the logged probabilities say 50 % ± 2" in warning["problem"]
    assert "--propensity estimate" in warning["advice"]


def test_faults_end_with_exit_code_2_and_no_traceback(tmp_path):
    (tmp_path / "bad.csv").write_text(
        "episode,step,obs_a,action,reward,propensity,terminated\n1,0,1,0,1,0,0\n1,1,2,1.5,1,0.5,1\n"
    )
    out = in_own_process("inspect", tmp_path / "bad.csv")
    assert out.returncode == 2
    assert "cannot be used: 2 faults" in out.stdout
    assert "propensity: 1 row is 0 or less (line 2)" in out.stdout
    assert "action: 1 row is not a whole number (line 3)" in out.stdout
    assert "Traceback" not in out.stdout + out.stderr
    told = json.loads(statewise("inspect", tmp_path / "bad.csv", "--json").stdout)
    assert not told["usable"]
    assert [fault["rows"] for fault in told["faults"]] == [[0], [1]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["inspct", "x.csv"], "there is no command 'inspct'; did you mean 'inspect'?"),
        (["inspect"], "Missing argument"),
        (["inspect", "x.csv", "--jsn"], "No such option"),
        (["inspect", "absent.csv"], "there is no such file"),
        (
            ["collect", "carpole", "--out", "x.csv"],
            "there is no domain 'carpole'; did you mean 'cartpole'? choose from cartpole, hiv",
        ),
        (["collect", "cartpole", "--out", "x.txt"], "must end in .parquet or .csv"),
        (["collect", "cartpole", "--episodes", "0", "--out", "x.csv"], "is not in the range"),
        (["fit", "absent.csv", "--out", "run"], "there is no such file"),
        (["fit", "absent.csv", "--out", "run", "--smooth", "1"], "is not in the range"),
        (["score", "absent", "--domain", "cartpole"], "it is not a run folder"),
        (["collect", "cartpole", "--noise", "0.5", "--out", "x.csv"], "it needs --behaviour FILE"),
        (["collect", "cartpole", "--seed", "4294967296", "--out", "x.csv"], "is not in the range"),
        (["collect", "cartpole", "--behaviour", "absent.safetensors", "--out", "x.csv"], "there is no such file"),
    ],
)
def test_mistakes_are_answered_by_a_sentence(arguments, words, tmp_path):
    out = statewise(*arguments, cwd=tmp_path)
    assert out.returncode == 2
    assert words in " ".join((out.stdout + out.stderr).split())
    assert "Traceback" not in out.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_command_has_help_with_an_example():
    from statewise.cli import COMMANDS

    for name in COMMANDS:
        out = statewise(name, "--help")
        assert out.returncode == 0
        assert f"Example: statewise {name}" in " ".join(out.stdout.split())


def test_the_same_seed_gives_the_same_file(tmp_path):
    for name, run in (("a", in_own_process), ("b", statewise)):
        out = run("collect", "cartpole", "--episodes", 70, "--seed", 3, "--out", tmp_path / f"{name}.parquet")
        assert out.returncode == 0, out.stderr
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    other = statewise("collect", "cartpole", "--episodes", 70, "--seed", 4, "--out", tmp_path / "c.csv", "--json")
    told = json.loads(other.stdout)
    assert told["episodes"] == 70
    assert 15 < told["mean_return"] < 32


def test_output_that_cannot_be_written_is_found_out_first(tmp_path):
    (tmp_path / "file").write_text("")
    out = statewise("collect", "hiv", "--episodes", 100000, "--out", tmp_path / "file" / "x.csv")
    assert out.returncode == 2
    assert "cannot be written" in " ".join(out.stderr.split())


def test_noise_is_the_share_of_random_choices(tmp_path):
    from statewise.domains.behaviours import shipped

    shipped("hiv").save(tmp_path / "p.safetensors")
    arguments = ("collect", "hiv", "--episodes", 1, "--behaviour", tmp_path / "p.safetensors", "--noise", 0.9)
    out = statewise(*arguments, "--out", tmp_path / "log.parquet")
    assert out.returncode == 0, out.stderr
    frame = pl.read_parquet(tmp_path / "log.parquet", columns=[f"propensity_{a}" for a in range(4)])
    assert frame.drop_nulls().to_numpy().min() >= 0.9 / 4 - 1e-6
    assert frame.drop_nulls().to_numpy().max() <= 0.9 / 4 + 0.1 + 1e-6


def test_import_waits_for_nothing_heavy():
    """Names are looked up where they are first used; NumPy alone takes longer to import than the names."""
    code = (
        "import sys, statewise; print(sorted({'jax', 'numpy', 'polars', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (out.stdout.strip(), out.stderr) == ("[]", "")


def test_help_does_not_wait_for_jax():
    code = "import sys; from statewise.cli.main import group; group(['--help'], standalone_mode=False)"
    code += "; print('jax' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip().endswith("False")


def test_fit_and_score_a_small_run(tmp_path, monkeypatch):
    """A few updates from log to curve; a second call finds the run finished and changes nothing."""
    small.defaults(monkeypatch)
    statewise("collect", "cartpole", "--episodes", 30, "--out", tmp_path / "log.parquet")
    arguments = ("fit", tmp_path / "log.parquet", "--updates", 4, "--seeds", 2, "--checkpoint-every", 2)
    first = statewise(*arguments, "--out", tmp_path / "run", "--json")
    assert first.returncode == 0, first.stderr
    assert [row["seed"] for row in json.loads(first.stdout)["seeds"]] == [0, 1]
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == [
        "seed-0-update-2.safetensors",
        "seed-0-update-4.safetensors",
        "seed-1-update-2.safetensors",
        "seed-1-update-4.safetensors",
        "state-2.npz",
        "state-4.npz",
    ]
    assert pl.read_parquet(tmp_path / "run" / "metrics.parquet").select("seed", "update").rows() == [
        (seed, update) for seed in (0, 1) for update in (1, 2, 3, 4)
    ]
    card = Policy.load(tmp_path / "run" / "checkpoints" / "seed-1-update-4.safetensors").full_card()
    assert (card["algorithm"], card["seed"], card["update"], card["discount"]) == ("OPPOSD", 1, 4, 1.0)
    assert card["data"] == json.loads((tmp_path / "run" / "manifest.json").read_text())["data"]
    assert {"statewise", "jax", "numpy", "python"} <= set(card["versions"])
    assert card["estimate"] is None
    before = (tmp_path / "run" / "checkpoints" / "seed-1-update-4.safetensors").read_bytes()
    again = statewise(*arguments, "--out", tmp_path / "run", "--json")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "run" / "checkpoints" / "seed-1-update-4.safetensors").read_bytes() == before
    other = statewise(
        "fit", tmp_path / "log.parquet", "--updates", 4, "--algorithm", "offpac", "--out", tmp_path / "run"
    )
    assert other.returncode == 2
    assert "holds a run with a different algorithm" in " ".join(other.stderr.split())
    scored = statewise("score", tmp_path / "run", "--domain", "cartpole", "--episodes", 8, "--json")
    told = json.loads(scored.stdout)
    assert {(row["seed"], row["update"]) for row in told["checkpoints"]} == {(0, 2), (0, 4), (1, 2), (1, 4)}
    assert 8 < told["behaviour"] < 60
