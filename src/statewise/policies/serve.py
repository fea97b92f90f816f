"""A policy behind HTTP: observations in, decisions out; the page /docs explains it, without a network."""

# FastAPI reads the annotations of its endpoints, also those of classes made here: they are not put off as elsewhere
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from fastapi.security import HTTPBearer
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from statewise.policies.act import Choose, Decisions, ObservationError, arrange, arrange_legal, codes_of, decide
from statewise.policies.bodies import (
    MOST,
    Answer,
    Decision,
    Health,
    Reported,
    Wrong,
    question_of,
    recorded_question,
    report_of,
    sentence_of,
)
from statewise.policies.files import StoredPolicy
from statewise.policies.guard import Guard
from statewise.policies.record import Asked, Outcome, Recorder, RecordError


def application(
    policy: StoredPolicy, choose: Choose = "draw", record: Recorder | None = None, token: str | None = None
) -> FastAPI:
    """The HTTP application: POST /act, GET /card, GET /health, and /docs; with a `record`, POST /outcome as well.

    With a `token`, only those are answered who send it.
    """
    rng = np.random.default_rng()  # endpoints are coroutines: one at a time draws from it
    Question = question_of(policy) if record is None else recorded_question(question_of(policy))
    wrong: dict[int | str, dict[str, Any]] = {status: {"model": Wrong} for status in _statuses(record, token)}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        if record is not None:
            record.close()

    app = FastAPIOffline(
        title="statewise policy",
        description="What the policy does in each situation, and with which probabilities.",
        version=str((policy.card.get("versions") or {}).get("statewise", "unknown")),
        lifespan=lifespan,
        # for the schema alone: Guard asks for it
        dependencies=[] if token is None else [Depends(HTTPBearer(auto_error=False))],
    )
    app.add_middleware(Guard, token=token)

    @app.exception_handler(ObservationError)
    async def refuse(request: Request, error: ObservationError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=422)

    @app.exception_handler(RecordError)
    async def refuse_record(request: Request, error: RecordError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=error.status)

    @app.exception_handler(RequestValidationError)
    async def refuse_form(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": sentence_of(error)}, status_code=422)

    @app.exception_handler(HTTPException)
    async def refuse_request(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, status_code=error.status_code, headers=error.headers)

    @app.get("/", include_in_schema=False)
    async def home() -> RedirectResponse:
        return RedirectResponse("/docs")

    @app.post("/act", responses=wrong, response_model_exclude_none=True)
    async def act(question: Question) -> Answer:  # pyright: ignore[reportInvalidTypeForm]
        """Decide for each observation."""
        if len(question.observations) > MOST:
            raise ObservationError(f"observations: expected at most {MOST:,}, got {len(question.observations):,}")
        observations = arrange(policy, question.observations)
        legal = arrange_legal(policy, question.legal, len(observations))
        draws = rng if question.seed is None else np.random.default_rng(question.seed)
        how = question.choose or choose
        if record is None:
            return _answer(policy, decide(policy, observations, draws, how, legal))
        places = _places(question, len(observations))
        decisions = decide(policy, observations, draws, how, legal)
        return await _recorded(policy, record, observations, legal, decisions, how, places)

    if record is not None:
        Report = report_of(policy)

        @app.post("/outcome", responses=wrong | {404: {"model": Wrong}})
        async def outcome(report: Report) -> Reported:  # pyright: ignore[reportInvalidTypeForm]
            """Report what followed decisions, each by its id. All are recorded, or none."""
            return Reported(recorded=await record.report([_outcome(policy, each) for each in report.outcomes]))

    @app.get("/card", responses=_only(wrong, 401))
    async def card() -> dict[str, Any]:
        """What the policy is: its observations and actions, what it was trained on, and what it is worth."""
        return policy.full_card()

    @app.get("/health", responses=_only(wrong, 401))
    async def health() -> Health:
        """Whether the policy can be asked."""
        columns = [code.name for code in codes_of(policy)]
        return Health(status="ok", observations=columns, actions=list(policy.action_names))

    return app


def _statuses(record: Recorder | None, token: str | None) -> list[int]:
    return [400, 408, 413, 422, 503, *([409] if record else []), *([401] if token else [])]


def _only(wrong: dict[int | str, dict[str, Any]], status: int) -> dict[int | str, dict[str, Any]]:
    return {status: wrong[status]} if status in wrong else {}


# Decisions


def _answer(policy: StoredPolicy, decisions: Decisions) -> Answer:
    rows = zip(decisions.names, decisions.propensities.tolist(), decisions.probabilities.tolist(), strict=True)
    return Answer(
        decisions=[
            Decision(
                action=action,
                propensity=propensity,
                probabilities=dict(zip(policy.action_names, chances, strict=True)),
            )
            for action, propensity, chances in rows
        ]
    )


async def _recorded(
    policy: StoredPolicy,
    record: Recorder,
    observations: np.ndarray,
    legal: np.ndarray | None,
    decisions: Decisions,
    how: Choose,
    places: list[tuple[str | None, int | None]],
) -> Answer:
    """The answer, once all of it is on the disk."""
    chances = decisions.probabilities
    if how == "likeliest":  # it was not drawn from the policy's own
        chances = np.eye(len(policy.action_names))[decisions.actions]
    rows = [
        Asked(observations[i], None if legal is None else legal[i], int(action), chances[i], *places[i])
        for i, action in enumerate(decisions.actions)
    ]
    return Answer(
        decisions=[
            Decision(
                action=policy.action_names[kept.action],
                propensity=kept.propensity,
                probabilities=dict(
                    zip(policy.action_names, (own if kept.own is None else kept.own).tolist(), strict=True)
                ),
                id=kept.id,
            )
            for kept, own in zip(await record.decide(rows), decisions.probabilities, strict=True)
        ]
    )


def _places(question: Any, count: int) -> list[tuple[str | None, int | None]]:
    """Each decision's episode and step, as far as they are given."""
    if question.seed is not None:
        raise ObservationError("seed: cannot be given while decisions are recorded, since propensities would be wrong")
    for name in ("episodes", "steps"):
        given = getattr(question, name)
        if given is not None and len(given) != count:
            raise ObservationError(f"{name}: expected {count}, one per observation, got {len(given)}")
    if question.steps is not None and question.episodes is None:
        raise ObservationError("steps: these need episodes")
    episodes, steps = question.episodes or [None] * count, question.steps or [None] * count
    return list(zip(episodes, steps, strict=True))


def _outcome(policy: StoredPolicy, given: Any) -> Outcome:
    if given.terminated and given.truncated:
        raise ObservationError(f"id '{given.id}': expected terminated or truncated, got both")
    try:
        after = None if given.observation is None else arrange(policy, [given.observation])[0]
    except ObservationError as error:
        sentence = str(error).removeprefix("observation 1: ")
        raise ObservationError(f"id '{given.id}': observation: {sentence}") from None
    return Outcome(given.id, given.reward, given.terminated, given.truncated, after)
