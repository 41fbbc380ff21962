"""From the bytes that the Messages API answers to what the `analysis` port answers, believing none of them.

Only the shape that was asked for counts: one text block that holds the JSON object of the schema. Everything
else (another block, another stop reason, a field more or less, a number out of range) is unreadable.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationError

from app.core.memory.analysis_prompt import MAX_EXPLANATION, PROMPT_VERSION
from app.core.strict import StrictModel, json_object
from app.ports import PortUnavailable

_THOUGHT = ("thinking", "redacted_thinking")
_NO_VERDICT = {
    "refusal": "the model declined to judge the text",
    "max_tokens": "the model's answer was cut off at max_tokens",
    "model_context_window_exceeded": "the text does not fit the model's context window",
}


class _Judgement(StrictModel):
    """The object of the prompt's schema, with the bounds that a schema for decoding cannot have."""

    categories: Annotated[list[str], Field(max_length=16)]
    explanation: str
    trust: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def port_answer(body: bytes, secret: str) -> dict[str, Any]:
    """The port's answer, never with `secret` in it. Raises PortUnavailable with no word of the body."""
    message = _object(body, "the model's API")
    judgement = _judgement(_object(_text(message).encode(), "the model"))
    if secret in f"{message.get('model')} {judgement.explanation}":
        raise PortUnavailable("the model's API sent the key back in an answer")
    return {
        "model": message.get("model"),
        "prompt_version": PROMPT_VERSION,
        "trust": judgement.trust,
        "categories": judgement.categories,
        "explanation": _plain(judgement.explanation),
    }


def _object(raw: bytes, who: str) -> dict[str, Any]:
    try:
        return json_object(raw)
    except ValueError:
        reason = f"{who} did not answer with one JSON object"
    raise PortUnavailable(reason)


def _text(message: dict[str, Any]) -> str:
    stopped = message.get("stop_reason")
    if stopped != "end_turn":
        raise PortUnavailable(_no_verdict(stopped))
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    said = [block for block in blocks if not (isinstance(block, dict) and block.get("type") in _THOUGHT)]
    if len(said) == 1 and isinstance(said[0], dict) and said[0].get("type") == "text":
        text = said[0].get("text")
        if isinstance(text, str):
            return text
    raise PortUnavailable("the model did not answer with one text")


def _no_verdict(stopped: object) -> str:
    known = _NO_VERDICT.get(stopped) if isinstance(stopped, str) else None
    return known or "the model stopped without an answer"


def _judgement(told: dict[str, Any]) -> _Judgement:
    try:
        return _Judgement.model_validate(told)
    except ValidationError:
        reason = "the model's answer is not the object that was asked for"
    raise PortUnavailable(reason)


def _plain(explanation: str) -> str:
    """On one line, cut to its bound, without characters that could steer a terminal or hide text."""
    shown = "".join(character if character.isprintable() else " " for character in explanation)
    return " ".join(shown.split())[:MAX_EXPLANATION]
