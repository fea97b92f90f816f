"""A real server on a real port: what it answers, and what it answers when asked wrongly."""

import asyncio
import re
import subprocess
import sys

import httpx
import numpy as np
import pytest

from statewise.policies.network import Policy
from statewise.policies.serve import application


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    rng = np.random.default_rng(0)
    policy = Policy(
        weights=(rng.normal(size=(2, 3)),),
        biases=(np.zeros(3),),
        mean=np.array([1.0, 2.0]),
        std=np.array([1.0, 0.5]),
        observation_names=("blood pressure", "age"),
        action_names=("wait", "treat", "refer"),
        card={"algorithm": "OPPOSD", "data": "abc", "estimate": {"verdict": "weak"}},
    )
    path = tmp_path_factory.mktemp("serve") / "p.safetensors"
    policy.save(path)
    command = [sys.executable, "-m", "statewise", "serve", str(path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert address, line + process.stderr.read()
        # however busy the machine is, an answer comes
        with httpx.Client(base_url=address.group(), timeout=None) as client:
            yield policy, client
    finally:
        process.terminate()
        process.communicate()


def test_probabilities_are_the_policy_s_own(server):
    policy, client = server
    rows = [{"age": 1.5, "blood pressure": 0.2}, [3, 2]]
    answer = client.post("/act", json={"observations": rows})
    assert answer.status_code == 200
    expected = policy.probabilities(np.array([[0.2, 1.5], [3, 2]]))
    for decision, chances in zip(answer.json()["decisions"], expected, strict=True):
        assert decision["probabilities"] == pytest.approx(
            dict(zip(policy.action_names, chances, strict=True)), abs=1e-15
        )
        assert decision["propensity"] == decision["probabilities"][decision["action"]]


def test_seed_likeliest_and_legal(server):
    policy, client = server
    rows = np.random.default_rng(0).normal(size=(40, 2)).tolist()

    def actions(**more):
        answer = client.post("/act", json={"observations": rows, **more})
        assert answer.status_code == 200, answer.text
        return [decision["action"] for decision in answer.json()["decisions"]]

    assert actions(seed=3) == actions(seed=3)
    assert len({tuple(actions()) for _ in range(5)}) == 5  # drawn anew each time
    likeliest = policy.probabilities(np.array(rows)).argmax(axis=1)
    assert actions(choose="likeliest") == [policy.action_names[a] for a in likeliest]
    assert set(actions(legal=[[False, True, False]] * 40)) == {"treat"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"observations": [{"age": 1}]}, "observation 1: 'blood pressure' is missing; the policy needs"),
        ({"observations": [[1, 2, 3]]}, "observation 1: expected 2 numbers, 'blood pressure', 'age'; got 3"),
        ({"observations": []}, "observations: expected a list, each entry a list of numbers or"),
        ({"observations": [[1, None]]}, "observation 1: expected a finite number for 'age', got 'None'"),
        ({"observations": {"age": 1}}, "observations: input should be a valid list"),
        ({}, "observations: field required"),
        ({"observations": [[1, 2]], "choice": 1}, "choice: extra inputs are not permitted"),
        ({"observations": [[1, 2]], "choose": "best"}, "choose: input should be 'draw' or 'likeliest'"),
        ({"observations": [[1, 2]], "legal": [[True]]}, "legal: expected true or false for each of the 3 actions"),
        ({"observations": [[1, 2]], "legal": [[False] * 3]}, "observation 1: no action is legal"),
        ({"observations": [[1, 2]] * 100_001}, "observations: expected at most 100,000, got 100,001"),
        (b"{", "the request body is not JSON"),
        (b'{"observations": [[1, NaN]]}', "expected a finite number for 'age', got 'nan'"),
        (b'{"observations": [[1, 1' + b"0" * 400 + b"]]}", "expected a finite number for 'age', got '1000"),
        (b'{"observations": [[1, 1e308], [1, -1e308]]}', "observation 1: its numbers are too large"),
    ],
)
def test_wrong_questions_get_a_sentence(server, body, words):
    content = {"content": body, "headers": {"content-type": "application/json"}} if isinstance(body, bytes) else {}
    answer = server[1].post("/act", **(content or {"json": body}))
    assert answer.status_code == 422
    assert words in answer.json()["error"]


def test_trees_are_served_too(trees):
    async def ask():
        transport = httpx.ASGITransport(application(trees))
        async with httpx.AsyncClient(transport=transport, base_url="http://policy") as client:
            question = {"observations": [{"a": 1, "b": 0}]}
            answers = [await client.post("/act", json=question), await client.get("/card")]
            return [answer.json() for answer in (*answers, await client.get("/openapi.json"))]

    decided, card, schema = asyncio.run(ask())
    assert decided["decisions"][0]["probabilities"] == pytest.approx({"no": 0.1, "yes": 0.8, "both": 0.1})
    assert card == trees.full_card()
    assert schema["components"]["schemas"]["Question"]["examples"] == [{"observations": [{"a": 0.0, "b": 0.0}]}]


def test_other_mistakes_have_the_same_shape(server):
    for answer, status in ((server[1].get("/nowhere"), 404), (server[1].get("/act"), 405)):
        assert answer.status_code == status
        assert set(answer.json()) == {"error"}
    huge = server[1].post("/act", content=b"[" * 100_000, headers={"content-type": "application/json"})
    assert huge.status_code in (400, 422)
    assert set(huge.json()) == {"error"}


def test_card_health_and_the_page_that_explains_it(server):
    policy, client = server
    assert client.get("/card").json() == policy.full_card()
    assert client.get("/health").json()["status"] == "ok"
    schema = client.get("/openapi.json").json()
    items = schema["components"]["schemas"]["Question"]["properties"]["observations"]["items"]["anyOf"]
    assert items[0]["required"] == ["blood pressure", "age"]
    page = client.get("/docs")
    assert page.status_code == 200
    assert "swagger-ui" in page.text
    sources = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert sources
    for source in sources:  # all of the page comes from the server itself
        assert not source.startswith(("http:", "https:", "//")), source
        assert client.get(source).status_code == 200
    assert client.get("/").status_code == 307
