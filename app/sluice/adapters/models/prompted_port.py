"""A port that asks a hosted model one of the core's prompts, and what every model's answer must be."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sluice.core.foundation.requests import Asker
from sluice.core.foundation.strict import json_object
from sluice.ports import PortBusy, PortUnavailable, QueuedPort

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sluice.core.foundation.prompts import ModelAnswer, Prompt

_TOKENS = {
    "input": ("input_tokens", "prompt_tokens"),
    "output": ("output_tokens", "completion_tokens"),
    "cache_read": ("cache_read_input_tokens",),
    "cache_write": ("cache_creation_input_tokens",),
}
"""What is counted, and what the APIs call it."""


@dataclass(slots=True)
class ModelUsage:
    """Answers so far, and their tokens as the server counts them."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def add(self, usage: object) -> None:
        """One answer more; `usage`: the server's own count, which is believed where it is one."""
        self.calls += 1
        for name, called in _TOKENS.items():
            counts = [usage.get(key) for key in called] if isinstance(usage, dict) else []
            count = next((item for item in counts if type(item) is int and item >= 0), 0)
            setattr(self, name, getattr(self, name) + count)


class ModelDown(PortUnavailable):
    """The model's server cannot be had, whatever the question: it is away, overloaded, or refuses the key."""


class HostedModel(Protocol):
    """A model that answers prompts. `name`: as its provider calls it; `usage`: what it has cost so far."""

    name: str
    usage: ModelUsage

    async def judge(self, prompt: Prompt[Any], question: object) -> ModelAnswer:
        """The answer, to the letter what the prompt asks for. Raises PortUnavailable. May be cancelled."""

    async def close(self) -> None:
        """Close every connection. May be called again."""


def read_reply(prompt: Prompt[Any], model: object, text: str, secret: str) -> ModelAnswer:
    """The answer in a model's text, never with `secret` in it (empty: there is none). Raises PortUnavailable
    with no word of it."""
    try:
        reply = json_object(text.encode())
    except ValueError:
        reason = "the model did not answer with one JSON object"
    else:
        if secret and any(secret in sent_text for sent_text in _list_texts([model, reply])):
            raise PortUnavailable("the model's API sent the key back in an answer")
        if set(reply) == set(prompt.schema["properties"]):
            answer: ModelAnswer | None = prompt.read_answer(model, reply)
            if answer is not None:
                return answer
        reason = "the model's answer is not the object that was asked for"
    raise PortUnavailable(reason)


def _list_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for member in value.items() if isinstance(value, dict) else value:
            yield from _list_texts(list(member) if isinstance(member, tuple) else member)


class PromptedPort:
    """A port of the core: one prompt, asked of one model. Ports may share a model."""

    waits_in_queue = False

    def __init__(self, prompt: Prompt[Any], model: HostedModel) -> None:
        self._prompt = prompt
        self._model = model
        self.usage = model.usage
        self.asks = (prompt.version, model.name)
        """The prompt's version and the model's name."""

    async def ask(self, payload: object) -> object:
        """The model's answer to `payload["question"]`. Raises PortUnavailable."""
        if not isinstance(payload, dict):
            raise TypeError("a prompted port takes an object with a question")
        answer = await self._judge(payload["question"])
        return answer.model_dump(mode="json")

    @asynccontextmanager
    async def turn(self, payload: object, asker: Asker) -> AsyncIterator[float]:
        """At once: see `Queued`."""
        del payload, asker
        yield 0.0

    def read(self, answer: object) -> ModelAnswer | None:
        """What was kept of an answer; None where this prompt has no such answer."""
        model_answer: ModelAnswer | None = self._prompt.read(answer)
        return (
            model_answer
            if model_answer is not None and model_answer.prompt_version == self._prompt.version
            else None
        )

    async def _judge(self, question: object) -> ModelAnswer:
        return await self._model.judge(self._prompt, question)

    async def start(self) -> None:
        """Nothing: the first question opens a connection."""

    async def close(self) -> None:
        """Close every connection."""
        await self._model.close()


class BatchedPort:
    """Asks several questions of a port at once, each by itself and in a turn of its own, so that no text can
    sway the answer on another."""

    def __init__(self, inner: QueuedPort) -> None:
        self._inner = inner

    async def ask(self, payload: object) -> object:
        """{answers} to {scope, questions, asker}, in their order; {failed} in place of one that could not be
        had."""
        if not isinstance(payload, dict):
            raise TypeError("a port of several questions takes an object with questions")
        asker = Asker(*payload["asker"])
        each = [{"scope": payload["scope"], "question": item} for item in payload["questions"]]
        return {"answers": await asyncio.gather(*(self._read_result(question, asker) for question in each))}

    async def _read_result(self, payload: object, asker: Asker) -> object:
        try:
            async with self._inner.turn(payload, asker):
                return await self._inner.ask(payload)
        except (PortUnavailable, PortBusy) as reason:
            return {"failed": str(reason)}
