"""Decisions that were answered are in the record, with what is needed to learn from them; the record becomes a log."""

import asyncio
import json
import random
import signal
import sqlite3
import threading
import time
from collections import Counter

import httpx
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import statewise as sw
from processes import statewise_here
from serving import ACTIONS, answer, request, served, small_policy, start
from statewise.base.lock import FolderInUse
from statewise.data.recorded import FILE
from statewise.data.table import read
from statewise.policies.files import fingerprint, load_policy
from statewise.policies.record import Asked, Outcome, Recorder, RecordError
from statewise.policies.serve import application


@pytest.fixture
def recorder(tmp_path):
    made = Recorder(tmp_path / "record", small_policy())
    yield made
    made.close()


def do(steps):
    """Runs `steps(client)` against an application in this process."""

    async def run(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://policy") as client:
            return await steps(client)

    return lambda app: asyncio.run(run(app))


def seen(episode, step):
    rng = np.random.default_rng([episode, step])
    return rng.normal(size=2).tolist()


async def play(client, episodes, length):
    """Plays episodes in which a reward follows from episode and step; the first two report nothing of their last."""
    ids = {}
    for episode in range(episodes):
        for step in range(length):
            question = {"observations": [seen(episode, step)], "episodes": [f"patient {episode}"]}
            (decision,) = (await client.post("/act", json=question)).json()["decisions"]
            ids[episode, step] = decision
            if step == length - 1 and episode < 2:
                continue
            outcome = {"id": decision["id"], "reward": episode - step / 8, "terminated": step == length - 1}
            answered = await client.post("/outcome", json={"outcomes": [outcome]})
            assert answered.json() == {"recorded": 1}, answered.text
    return ids


def test_the_record_is_a_log_with_the_standard_columns(recorder):
    policy = small_policy()
    decisions = do(lambda client: play(client, episodes=5, length=4))(application(policy, record=recorder))
    dataset, findings = read(recorder.folder)
    assert [str(finding) for finding in findings.warnings if finding.column == "reward"] == [
        "reward: 2 decisions have no outcome, so their episodes end there. Report every outcome, and make the log "
        "again once they are known"
    ]
    assert dataset.episode_ids.tolist() == [f"patient {e}" for e in range(5)]
    assert dataset.lengths.tolist() == [3, 3, 4, 4, 4]
    assert dataset.terminated.tolist() == [False, False, True, True, True]
    places = [(e, s) for e in range(5) for s in range(3 if e < 2 else 4)]
    np.testing.assert_array_equal(dataset.observations, [seen(*place) for place in places])
    np.testing.assert_array_equal(dataset.final_observations[:2], [seen(0, 3), seen(1, 3)])
    assert dataset.has_final_observation.tolist() == [True, True, False, False, False]
    assert dataset.rewards.tolist() == [e - s / 8 for e, s in places]
    assert [ACTIONS[action] for action in dataset.actions] == [decisions[place]["action"] for place in places]
    assert dataset.propensities.tolist() == [decisions[place]["propensity"] for place in places]
    np.testing.assert_allclose(dataset.distributions, policy.probabilities(dataset.observations), rtol=1e-15)


def test_the_command_writes_the_log_that_load_reads(recorder, tmp_path):
    policy = small_policy()
    decisions = do(lambda client: play(client, episodes=3, length=2))(application(policy, record=recorder))
    out = tmp_path / "log.parquet"
    done = statewise_here("record", recorder.folder, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"log": str(out), "decisions": 6, "outcomes": 4, "episodes": 3}
    assert sw.load(out).fingerprint == sw.load(recorder.folder).fingerprint
    frame = pl.read_parquet(out).drop_nulls("action")
    assert frame["id"].to_list() == [decisions[place]["id"] for place in [(0, 0), (1, 0), (2, 0), (2, 1)]]
    assert set(frame["logger"]) == {fingerprint(policy)[:12]}
    missing = statewise_here("record", tmp_path, "--out", out)
    assert missing.returncode == 2
    assert "is not a folder that `statewise serve --record` has written to" in missing.stderr


def test_the_fingerprint_is_that_of_the_policy_s_file(tmp_path):
    small_policy().save(tmp_path / "p.safetensors")
    assert fingerprint(load_policy(tmp_path / "p.safetensors")) == fingerprint(small_policy())
    assert fingerprint(small_policy(1)) != fingerprint(small_policy())
    held = (tmp_path / "p.safetensors").read_bytes()
    assert fingerprint(small_policy()).encode() in held


def test_decisions_without_an_episode_are_episodes_of_one(recorder):
    async def steps(client):
        asked = await client.post("/act", json={"observations": [[0, 1], [2, 3]]})
        outcomes = [{"id": each["id"], "reward": 1.5} for each in asked.json()["decisions"]]
        return await client.post("/outcome", json={"outcomes": outcomes})

    assert do(steps)(application(small_policy(), record=recorder)).json() == {"recorded": 2}
    data = sw.load(recorder.folder)
    assert (data.lengths.tolist(), data.terminated.tolist()) == ([1, 1], [True, True])


def test_likeliest_and_legal_are_recorded_as_they_were_chosen(recorder):
    question = {"observations": [[0, 1]], "legal": [[True, False, True]]}

    async def steps(client):
        for choose in ("likeliest", "draw"):
            asked = await client.post("/act", json=question | {"choose": choose})
            (decision,) = asked.json()["decisions"]
            await client.post("/outcome", json={"outcomes": [{"id": decision["id"], "reward": 0}]})

    policy = small_policy()
    do(steps)(application(policy, record=recorder))
    data = sw.load(recorder.folder)
    chances = policy.probabilities(np.array([[0.0, 1.0]]), np.array([[True, False, True]]))[0]
    np.testing.assert_array_equal(data.distributions[0], np.eye(3)[chances.argmax()])
    np.testing.assert_array_equal(data.distributions[1], chances)
    assert data.propensities[0] == 1
    assert data.legal.tolist() == [[True, False, True]] * 2


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/act", {"observations": [[1, 2]], "seed": 3}, 422, "seed: cannot be given while decisions are recorded"),
        ("/act", {"observations": [[1, 2]], "episodes": ["a", "b"]}, 422, "episodes: expected 1, one per observation"),
        ("/act", {"observations": [[1, 2]], "steps": [0]}, 422, "steps: these need episodes"),
        ("/act", {"observations": [[1, 2]], "episodes": ["open"], "steps": [5]}, 409, "expected step 1, got 5"),
        ("/act", {"observations": [[9, 9]], "episodes": ["open"], "steps": [0]}, 409, "was decided before, for anoth"),
        ("/act", {"observations": [[1, 2]], "episodes": ["over"]}, 409, "episode 'over': it ended with step 0"),
        ("/act", {"observations": [[1, 2]], "episodes": [""]}, 422, "episodes.0: string should have at least 1 char"),
        ("/outcome", {"outcomes": [{"id": "none", "reward": 1}]}, 404, "id 'none': there is no such decision"),
        ("/outcome", {"outcomes": [{"id": "OVER", "reward": 2}]}, 409, "another outcome was reported before"),
        ("/outcome", {"outcomes": [{"id": "FIRST", "reward": 2, "terminated": True}]}, 409, "it has later decisions"),
        (
            "/outcome",
            {"outcomes": [{"id": "FIRST", "reward": True}]},
            422,
            "outcomes.0.reward: input should be a valid",
        ),
        ("/outcome", {"outcomes": [{"id": "FIRST", "reward": 1, "observation": [1]}]}, 422, "expected 2 numbers"),
        ("/outcome", {"outcomes": []}, 422, "outcomes: list should have at least 1 item"),
        ("/outcome", b'{"outcomes": [{"id": "FIRST", "reward": 1e999}]}', 422, "finite number"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(recorder, path, body, status, sentence):
    async def steps(client):
        asked = {"observations": [[1, 2], [1, 2], [1, 3]], "episodes": ["over", "open", "two"]}
        over, _, first = (await client.post("/act", json=asked)).json()["decisions"]
        await client.post("/act", json={"observations": [[1, 4]], "episodes": ["two"]})
        await client.post("/outcome", json={"outcomes": [{"id": over["id"], "reward": 1, "terminated": True}]})
        before = contents(recorder.folder)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        content = content.replace(b"OVER", over["id"].encode()).replace(b"FIRST", first["id"].encode())
        refused = await client.post(path, content=content, headers={"content-type": "application/json"})
        assert contents(recorder.folder) == before
        return refused

    refused = do(steps)(application(small_policy(), record=recorder))
    assert refused.status_code == status, refused.text
    assert sentence in refused.json()["error"]


def contents(folder):
    with sqlite3.connect(folder / FILE) as connection:
        rows = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("decisions", "outcomes")]
    connection.close()
    return rows


def test_one_bad_outcome_refuses_all_of_its_request_and_none_of_others(recorder):
    async def steps(client):
        asked = await client.post("/act", json={"observations": [[1, 2]] * 3})
        ids = [each["id"] for each in asked.json()["decisions"]]
        bad = {"outcomes": [{"id": ids[0], "reward": 1}, {"id": "none", "reward": 1}]}
        good = {"outcomes": [{"id": ids[1], "reward": 1}]}
        return await asyncio.gather(*(client.post("/outcome", json=body) for body in (bad, good, good)))

    refused, first, second = do(steps)(application(small_policy(), record=recorder))
    assert refused.status_code == 404
    assert sorted(one.json()["recorded"] for one in (first, second)) == [0, 1]
    assert len(contents(recorder.folder)[1]) == 1


def test_a_question_that_is_repeated_gets_the_answer_it_had(recorder):
    async def steps(client):
        question = {"observations": [[1, 2]], "episodes": ["a"], "steps": [0]}
        return [(await client.post("/act", json=question)).json() for _ in range(20)]

    answers = do(steps)(application(small_policy(), record=recorder))
    assert all(one == answers[0] for one in answers)
    assert len(contents(recorder.folder)[0]) == 1


def test_nothing_is_answered_before_it_is_on_the_disk_and_many_share_one_wait(recorder):
    """The transaction is held up: no answer comes; then all of them come from a single further one."""
    committed, go = [], threading.Event()
    real = recorder._commit

    def commit(jobs):
        go.wait()
        committed.append(len(jobs))  # before answers come, which may be read at once
        real(jobs)

    recorder._commit = commit

    async def steps(client):
        tasks = [asyncio.create_task(client.post("/act", json={"observations": [[1, 2]]})) for _ in range(50)]
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in tasks)
        go.set()
        return [(await task).status_code for task in tasks]

    assert do(steps)(application(small_policy(), record=recorder)) == [200] * 50
    assert sum(committed) == 50
    assert len(committed) <= 3


def test_commits_wait_for_the_disk(recorder):
    def pragma(name):
        return recorder._connection.execute(f"PRAGMA {name}").fetchone()[0]

    assert (pragma("journal_mode"), pragma("synchronous")) == ("wal", 2)


def test_what_cannot_be_recorded_is_not_decided(recorder):
    """A full disk, simulated by SQLite's own limit."""
    pages = recorder._connection.execute("PRAGMA page_count").fetchone()[0]
    recorder._connection.execute(f"PRAGMA max_page_count = {pages + 1}")

    async def steps(client):
        return [await client.post("/act", json={"observations": [[1, 2]] * 100}) for _ in range(3)]

    answers = do(steps)(application(small_policy(), record=recorder))
    assert answers[-1].status_code == 503
    assert "it could not be recorded (database or disk is full), so nothing was decided" in answers[-1].json()["error"]
    good = sum(one.status_code == 200 for one in answers)
    assert len(contents(recorder.folder)[0]) == 100 * good


def test_a_folder_takes_one_server_and_policies_of_the_same_names(tmp_path, policy):
    with_lock = Recorder(tmp_path / "r", small_policy())
    refused = []

    def second():
        try:
            Recorder(tmp_path / "r", small_policy())
        except FolderInUse as error:
            refused.append(error)

    thread = threading.Thread(target=second)
    thread.start()
    thread.join()
    with_lock.close()
    assert len(refused) == 1
    Recorder(tmp_path / "r", small_policy(1)).close()
    with pytest.raises(RecordError, match="it records a policy with other observations; choose another folder"):
        Recorder(tmp_path / "r", policy)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / FILE).write_bytes(b"no database" * 100)
    with pytest.raises(RecordError, match="it is not a record, or it is damaged"):
        Recorder(tmp_path / "other", policy)


@pytest.mark.parametrize("table", ["decisions", "outcomes"])
def test_a_damaged_row_is_found(recorder, table):
    do(lambda client: play(client, episodes=3, length=2))(application(small_policy(), record=recorder))
    recorder.close()
    column = {"decisions": "propensity", "outcomes": "reward"}[table]
    connection = sqlite3.connect(recorder.folder / FILE)
    connection.execute(f"UPDATE {table} SET {column} = {column} + 1e-9 WHERE rowid = 3")
    connection.commit()
    connection.close()
    with pytest.raises(sw.LogError, match=r"record.sqlite cannot be read \(1 of its rows is damaged\)"):
        sw.load(recorder.folder)


numbers = st.floats(-1e17, 1e17)


@settings(max_examples=10, deadline=None)
@given(rows=st.lists(st.tuples(numbers, numbers, numbers, st.text(min_size=1, max_size=5)), min_size=1, max_size=4))
def test_every_number_and_name_comes_back_as_it_was(rows, tmp_path_factory):
    recorder = Recorder(tmp_path_factory.mktemp("r"), small_policy())
    third = np.full(3, 1 / 3)

    async def write():
        for a, b, reward, name in rows:
            asked = [Asked(np.array([a, b]), None, 1, third, name.encode("utf-8", "replace").decode())]
            (kept,) = await recorder.decide(asked)
            await recorder.report([Outcome(kept.id, reward)])

    asyncio.run(write())
    decisions, outcomes = contents(recorder.folder)
    recorder.close()
    assert [row[1] for row in outcomes] == [row[2] for row in rows]
    assert [np.frombuffer(row[7]).tolist() for row in decisions] == [list(row[:2]) for row in rows]
    assert read(recorder.folder)[1].faults == []  # all checksums fit


# Under load, and killed


class Clients:
    """Many clients of one server, who come back when it has died; they keep every answer that they got."""

    def __init__(self, count):
        self.count, self.answered, self.errors, self.over = count, {}, Counter(), False
        self.took: list[float] = []

    async def one(self, number, port):
        step = 0
        while not self.over:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)  # the server is dead
                continue
            try:
                while not self.over:
                    seen = [number + step / 7, step]
                    question = {"observations": [seen], "episodes": [f"client {number}"], "steps": [step]}
                    began = time.perf_counter()
                    writer.write(request("/act", question))
                    status, body = await answer(reader)
                    self.took.append(time.perf_counter() - began)
                    if status != 200:
                        self.errors[status, body] += 1
                        continue
                    (decision,) = json.loads(body)["decisions"]
                    self.answered[f"client {number}", step] = (seen, decision)
                    step += 1
            except (OSError, asyncio.IncompleteReadError):
                pass  # it died with our question
            finally:
                writer.close()


def load(folder, clients, seconds, kills):
    """So many clients for so long, while the server is killed again and again; the record must have all they got."""
    small_policy().save(folder / "p.safetensors")
    options = (folder / "p.safetensors", "--record", folder / "record")
    luck, everyone = random.Random(seconds), Clients(clients)
    server = start(*options)
    port = server.port

    async def run():
        nonlocal server
        tasks = [asyncio.create_task(everyone.one(number, port)) for number in range(clients)]
        for _ in range(kills):
            await asyncio.sleep(seconds / (kills + 1) * luck.uniform(0.7, 1))
            server.end(signal.SIGKILL)
            server = await asyncio.to_thread(start, *options, port=port)
        await asyncio.sleep(seconds / (kills + 1))
        everyone.over = True
        await asyncio.gather(*tasks)

    try:
        asyncio.run(run())
    finally:
        server.end(signal.SIGKILL)
    decisions, _ = contents(folder / "record")
    recorded = {(row[2], row[3]): row for row in decisions}
    assert not everyone.errors
    assert len(everyone.answered) > 10 * kills
    for place, (seen, decision) in everyone.answered.items():
        row = recorded[place]  # none that was answered is missing
        assert row[1] == decision["id"]
        assert (ACTIONS[row[4]], row[5]) == (decision["action"], decision["propensity"])
        assert np.frombuffer(row[7]).tolist() == seen
        assert np.frombuffer(row[6]).tolist() == [decision["probabilities"][name] for name in ACTIONS]
    # what was recorded but not answered: at most what every client had asked when the server died
    assert len(recorded) - len(everyone.answered) <= clients
    return everyone


def test_no_answer_is_missing_after_a_kill(tmp_path):
    load(tmp_path, clients=20, seconds=2, kills=1)


@pytest.mark.long
def test_200_clients_for_a_minute_with_a_kill_in_the_middle(tmp_path):
    everyone = load(tmp_path, clients=200, seconds=60, kills=1)
    print(len(everyone.answered), "decisions", np.quantile(everyone.took, [0.5, 0.99]) * 1e3, "ms")


@pytest.mark.long
def test_20_kills(tmp_path):
    load(tmp_path, clients=50, seconds=60, kills=20)


def test_a_record_is_read_while_it_is_written(tmp_path):
    small_policy().save(tmp_path / "p.safetensors")
    with served(tmp_path / "p.safetensors", "--record", tmp_path / "record") as server:
        with httpx.Client(base_url=server.url, timeout=None) as client:
            (decision,) = client.post("/act", json={"observations": [[1, 2]]}).json()["decisions"]
            client.post("/outcome", json={"outcomes": [{"id": decision["id"], "reward": 7}]})
            assert sw.load(tmp_path / "record").rewards.tolist() == [7.0]
        server.end(signal.SIGKILL)
        assert sw.load(tmp_path / "record").rewards.tolist() == [7.0]
