"""What a model is told and must answer: fixed per question, and versioned by its digest.

What is judged travels as a JSON string inside the user's turn, which nothing inside it can close (OWASP
LLM01: segregate untrusted content), with invisible characters escaped so that the model sees them. An answer
counts only if it is to the letter what was asked for; an answer that is not is no answer, never a guess.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import Field, ValidationError

from sluice.core.foundation.strict import StrictModel

if TYPE_CHECKING:
    from collections.abc import Mapping

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ModelAnswer(StrictModel):
    """What a port answers for a model, as it is recorded; a subclass adds what the prompt asks for."""

    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:@/-]{1,128}$")]
    prompt_version: Annotated[str, Field(min_length=1, max_length=64)]


Told = TypeVar("Told", bound=ModelAnswer)


@dataclass(frozen=True, slots=True)
class Prompt(Generic[Told]):
    """One question to a model. `system` is the constant part, `schema` the JSON Schema of the answer (without
    bounds on numbers and lengths: constrained decoding refuses such schemas, the reader enforces them),
    `answer` what the port answers, `longest` the characters of a text in an answer that are kept.
    """

    name: str
    system: str
    schema: dict[str, Any]
    answer: type[Told]
    longest: int = 500

    @property
    def version(self) -> str:
        """The name and the start of the digest of all that the model is told."""
        parts = json.dumps([self.system, self.schema, self.longest], sort_keys=True)
        return f"{self.name}:{hashlib.sha256(parts.encode()).hexdigest()[:16]}"

    def read(self, answer: object) -> Told | None:
        """A port's answer, or one from a record; None where it is not to the letter one."""
        try:
            return self.answer.model_validate(answer)
        except ValidationError:
            return None

    def read_answer(self, model: object, reply: Mapping[str, Any]) -> Told | None:
        """What a model said, as the port answers it; None where it is not what was asked for. Texts are on
        one line, cut, and without characters that could steer a terminal or hide text."""
        shown = {name: self._show(value) for name, value in reply.items()}
        return self.read({**shown, "model": model, "prompt_version": self.version})

    def _show(self, value: Any) -> Any:
        if isinstance(value, str):
            plain = "".join(character if character.isprintable() else " " for character in value)
            return " ".join(plain.split())[: self.longest]
        return [self._show(item) for item in value] if isinstance(value, list) else value


_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def user_turn(question: object) -> str:
    """The user's message for a JSON value: ASCII control and invisible characters escaped."""
    return _INVISIBLE.sub(_escape, json.dumps(question, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]
