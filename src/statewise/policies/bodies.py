"""The bodies of requests and answers, and how they are described on the page /docs."""

# FastAPI reads these annotations, also those of classes made here: they are not put off as elsewhere
from typing import Annotated, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, WithJsonSchema

from statewise.data.encoding import Code
from statewise.policies.act import Choose, codes_of
from statewise.policies.files import StoredPolicy

MOST = 100_000  # observations or outcomes in one request


class Decision(BaseModel):
    action: str
    propensity: float = Field(description="The probability with which it was chosen; log it for the next round.")
    probabilities: dict[str, float] = Field(description="The policy's own, of every action.")
    id: str | None = Field(default=None, description="For reporting its outcome, if decisions are recorded.")


class Answer(BaseModel):
    decisions: list[Decision]


class Reported(BaseModel):
    recorded: int = Field(description="How many of the outcomes were not known before.")


class Wrong(BaseModel):
    error: str = Field(description="What is wrong, in one sentence.")


class Health(BaseModel):
    status: str
    observations: list[str]
    actions: list[str]


def _row(policy: StoredPolicy) -> dict[str, Any]:
    """The schema of an observation."""
    codes = codes_of(policy)
    kinds = {code.name: _kind(code) for code in codes}
    by_name = {"type": "object", "properties": kinds, "required": list(kinds), "additionalProperties": False}
    # one schema where all are alike, and one for each place where they are not
    plain = all(code.plain for code in codes)
    items = {"items": {"type": "number"}} if plain else {"prefixItems": list(kinds.values())}
    return {"anyOf": [by_name, {"type": "array", **items, "minItems": len(codes), "maxItems": len(codes)}]}


def _kind(code: Code) -> dict[str, Any]:
    """A column in the schema; a value of a wrong kind is refused by `arrange`."""
    if code.plain:
        return {"type": "number"}
    name = {"number": "number", "flag": "boolean"}.get(code.kind, "string")
    gaps = code.gaps or code.kind == "words"
    return {"type": [name, "null"] if gaps else name, "description": code.sentence}


def question_of(policy: StoredPolicy) -> type[BaseModel]:
    """The body of a request. Rows are checked by `arrange`, whose sentences are clearer; the schema says the same."""
    rows = {"type": "array", "items": _row(policy), "minItems": 1, "maxItems": MOST}
    # trees know no mean
    means = {each["name"]: each.get("mean", 0.0) for each in policy.full_card()["observations"]}
    example = {code.name: code.example(means.get(code.name, 0.0)) for code in codes_of(policy)}

    class Question(BaseModel):
        model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"observations": [example]}]})

        observations: Annotated[list[Any], WithJsonSchema(rows)] = Field(
            description="One per decision: names and values, or values in the policy's order; null is a gap."
        )
        legal: list[list[StrictBool]] | None = Field(
            None, description="Which actions are allowed, one list per observation."
        )
        choose: Choose | None = Field(
            None, description="draw: each action with its probability; likeliest: always the most probable."
        )
        seed: int | None = Field(
            None, ge=0, strict=True, description="The same seed and observations give the same decisions."
        )

    return Question


def recorded_question(question: type[BaseModel]) -> type[BaseModel]:
    """The same where decisions are recorded."""

    class RecordedQuestion(question):
        episodes: list[Annotated[StrictStr, Field(min_length=1, max_length=200)]] | None = Field(
            None, description="Whose decision each is, so that they form episodes. Without it, each is one of its own."
        )
        steps: list[Annotated[int, Field(strict=True, ge=0, lt=2**31)]] | None = Field(
            None,
            description="Each decision's number in its episode, from 0. With it a question may be repeated when its "
            "answer was lost: the answer is the same.",
        )

    return RecordedQuestion


def report_of(policy: StoredPolicy) -> type[BaseModel]:
    """The body of POST /outcome."""

    class ReportedOutcome(BaseModel):
        model_config = ConfigDict(extra="forbid")

        id: StrictStr = Field(max_length=100, description="Of the decision.")
        reward: float = Field(strict=True, allow_inf_nan=False, description="What the decision earned.")
        terminated: StrictBool = Field(
            False, description="Whether the episode ended with it; an episode without a name always does."
        )
        truncated: StrictBool = Field(False, description="Whether the episode was cut off after it.")
        observation: Annotated[Any, WithJsonSchema({"anyOf": [_row(policy), {"type": "null"}]})] = Field(
            None, description="The state after it, if no decision follows that would show it."
        )

    class Report(BaseModel):
        model_config = ConfigDict(extra="forbid")

        outcomes: list[ReportedOutcome] = Field(min_length=1, max_length=MOST)

    return Report


def sentence_of(error: RequestValidationError) -> str:
    """The first fault, as pydantic says it, with its place in front."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return "the request body is not JSON"
    place = ".".join(str(part) for part in first["loc"][1:]) or "the request body"
    return f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}"
