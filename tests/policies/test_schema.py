"""Questions made from the server's own schema, within it and beyond: no answer that the schema does not promise."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from serving import small_policy
from statewise.policies.record import Recorder
from statewise.policies.serve import application

# schemathesis draws from `random`, of which Hypothesis warns
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
FEW = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def schemas(tmp_path_factory):
    """Of a server that keeps nothing, and of one that records."""
    policy = small_policy()
    recorder = Recorder(tmp_path_factory.mktemp("record"), policy)
    apps = {"plain": application(policy), "recording": application(policy, record=recorder)}
    yield {name: schema_of(app) for name, app in apps.items()}
    recorder.close()


def schema_of(app):
    async def never_ending(scope, receive, send):
        """The application without its end, which would close the record after the first question."""
        if scope["type"] == "http":
            await app(scope, receive, send)

    return schemathesis.openapi.from_asgi("/openapi.json", never_ending)


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
@pytest.mark.parametrize(
    ("server", "method", "path"),
    [
        ("plain", "POST", "/act"),
        ("plain", "GET", "/card"),
        ("plain", "GET", "/health"),
        ("recording", "POST", "/act"),
        ("recording", "POST", "/outcome"),
    ],
)
def test_whatever_is_asked_the_answer_is_one_that_the_schema_promises(schemas, server, method, path, mode):
    """But a question of the right form may ask for the impossible, such as no legal action."""
    statuses = set()

    @FEW
    @given(case=schemas[server][path][method].as_strategy(generation_mode=mode))
    def ask(case):
        answer = case.call_and_validate(excluded_checks=[positive_data_acceptance])
        statuses.add(answer.status_code)
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error"}

    if method == "GET" and mode is schemathesis.GenerationMode.NEGATIVE:
        pytest.skip("a question without a body cannot be wrong")
    ask()
    expected = 422 if mode is schemathesis.GenerationMode.NEGATIVE else 404 if path == "/outcome" else 200
    assert expected in statuses  # no one guesses an id
