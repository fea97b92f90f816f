"""A policy behind HTTP: observations in, decisions out; the page /docs explains it, without a network."""

# FastAPI reads the annotations of its endpoints, also those of classes made here: they are not put off as elsewhere
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from fastapi_offline import FastAPIOffline
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from starlette.exceptions import HTTPException

from statewise.data.encoding import Code
from statewise.policies.act import Choose, ObservationError, arrange, arrange_legal, codes_of, decide
from statewise.policies.files import StoredPolicy

MOST = 100_000  # observations in one request


class Decision(BaseModel):
    action: str
    propensity: float = Field(description="The probability with which it was chosen; log it for the next round.")
    probabilities: dict[str, float] = Field(description="The policy's own, of every action.")


class Answer(BaseModel):
    decisions: list[Decision]


class Wrong(BaseModel):
    error: str = Field(description="What is wrong, in one sentence.")


class Health(BaseModel):
    status: str
    observations: list[str]
    actions: list[str]


def application(policy: StoredPolicy, choose: Choose = "draw") -> FastAPI:
    """The HTTP application: POST /act, GET /card, GET /health, and /docs."""
    rng = np.random.default_rng()  # endpoints are coroutines: one at a time draws from it
    Question = _question(policy)
    app = FastAPIOffline(
        title="statewise policy",
        description="What the policy does in each situation, and with which probabilities.",
        version=str((policy.card.get("versions") or {}).get("statewise", "unknown")),
    )

    @app.exception_handler(ObservationError)
    async def refuse(request: Request, error: ObservationError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=422)

    @app.exception_handler(RequestValidationError)
    async def refuse_form(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": _sentence(error)}, status_code=422)

    @app.exception_handler(HTTPException)
    async def refuse_request(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, status_code=error.status_code)

    @app.get("/", include_in_schema=False)
    async def home() -> RedirectResponse:
        return RedirectResponse("/docs")

    @app.post("/act", responses={422: {"model": Wrong}})
    async def act(question: Question) -> Answer:  # pyright: ignore[reportInvalidTypeForm]
        """Decide for each observation."""
        if len(question.observations) > MOST:
            raise ObservationError(f"observations: expected at most {MOST:,}, got {len(question.observations):,}")
        observations = arrange(policy, question.observations)
        legal = arrange_legal(policy, question.legal, len(observations))
        draws = rng if question.seed is None else np.random.default_rng(question.seed)
        decisions = decide(policy, observations, draws, question.choose or choose, legal)
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

    @app.get("/card")
    async def card() -> dict[str, Any]:
        """What the policy is: its observations and actions, what it was trained on, and what it is worth."""
        return policy.full_card()

    @app.get("/health")
    async def health() -> Health:
        """Whether the policy can be asked."""
        columns = [code.name for code in codes_of(policy)]
        return Health(status="ok", observations=columns, actions=list(policy.action_names))

    return app


def _question(policy: StoredPolicy) -> type[BaseModel]:
    """The body of a request. Rows are checked by `arrange`, whose sentences are clearer; the schema says the same."""
    codes = codes_of(policy)
    kinds = {code.name: _kind(code) for code in codes}
    by_name = {"type": "object", "properties": kinds, "required": list(kinds), "additionalProperties": False}
    # one schema where all are alike, and one for each place where they are not
    plain = all(code.plain for code in codes)
    items = {"items": {"type": "number"}} if plain else {"prefixItems": list(kinds.values())}
    in_order = {"type": "array", **items, "minItems": len(codes), "maxItems": len(codes)}
    rows = {"type": "array", "items": {"anyOf": [by_name, in_order]}, "minItems": 1, "maxItems": MOST}
    # trees know no mean
    means = {each["name"]: each.get("mean", 0.0) for each in policy.full_card()["observations"]}
    example = {code.name: code.example(means.get(code.name, 0.0)) for code in codes}

    class Question(BaseModel):
        model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"observations": [example]}]})

        observations: Annotated[list[Any], WithJsonSchema(rows)] = Field(
            description="One per decision: names and values, or values in the policy's order; null is a gap."
        )
        legal: list[list[bool]] | None = Field(None, description="Which actions are allowed, one list per observation.")
        choose: Choose | None = Field(
            None, description="draw: each action with its probability; likeliest: always the most probable."
        )
        seed: int | None = Field(None, ge=0, description="The same seed and observations give the same decisions.")

    return Question


def _kind(code: Code) -> dict[str, Any]:
    """A column in the schema; a value of a wrong kind is refused by `arrange`."""
    if code.plain:
        return {"type": "number"}
    name = {"number": "number", "flag": "boolean"}.get(code.kind, "string")
    gaps = code.gaps or code.kind == "words"
    return {"type": [name, "null"] if gaps else name, "description": code.sentence}


def _sentence(error: RequestValidationError) -> str:
    """The first fault, as pydantic says it, with its place in front."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return "the request body is not JSON"
    place = ".".join(str(part) for part in first["loc"][1:]) or "the request body"
    return f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}"
