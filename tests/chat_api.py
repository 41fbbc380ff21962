"""A loopback server that speaks the chat completions API as local servers do: it answers by a script.

It refuses fields that one of vLLM, Ollama and llama.cpp does not list, and a schema that OpenAI's strict mode
does not take.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.messages_api import answer, make_failing

if TYPE_CHECKING:
    from tests.messages_api import Exchange, Reply

MODEL = "qwen/test-1"
_FIELDS = {"model", "messages", "response_format", "stream", "max_tokens", "temperature"}
_REASONING = {"model", "messages", "response_format", "stream", "max_completion_tokens", "reasoning_effort"}


def refusal_of(exchange: Exchange) -> Reply | None:
    """What a server says to a request that it would not take."""
    if exchange.path != "/v1/chat/completions":
        return make_failing(404, "not_found_error")
    schema = exchange.body["response_format"]["json_schema"]
    strict = schema["strict"] and set(schema["schema"]["required"]) == set(schema["schema"]["properties"])
    known = set(exchange.body) in (_FIELDS, _REASONING)
    return None if known and strict else make_failing(400, "invalid_request_error")


def reply_in_chat(text: str | None, *, finish: object = "stop", said: Any = None, **message: Any) -> Reply:
    """The model's answer with this text; `said` replaces fields of the choice's message, `message` fields of
    the whole."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "reasoning_content": "Hm.", **(said or {})},
        "finish_reason": finish,
    }
    whole = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": MODEL,
        "choices": [choice],
        "usage": {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17},
    }
    return answer(200, json.dumps(whole | message).encode())


def reply_with_judgement(**judgement: Any) -> Reply:
    """The model's answer with this judgement, in place of an ordinary one."""
    ordinary = {"categories": [], "explanation": "An ordinary note.", "trust": 0.9}
    return reply_in_chat(json.dumps(ordinary | judgement))
