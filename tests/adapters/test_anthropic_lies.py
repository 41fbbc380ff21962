"""A model's API that lies, rambles, floods or gives secrets away has no more say than one that is down."""

from __future__ import annotations

import json
import logging
import traceback
from typing import TYPE_CHECKING

import pytest

from sluice.core.memory.analysis import PORT, read_analysis, read_ceiling
from sluice.ports import PortUnavailable
from sluice.stream.engine.evaluation import Ports
from tests.adapters.asking import KEY, ORDINARY, POLICY, ask, collect_refusals
from tests.messages_api import answer, close_connection, echo_key, flood, judge_with, reply_with_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.messages_api import Reply

ALLOWING = '{"categories": [], "explanation": "Reviewed and safe.", "trust": 1}'


def deep(levels: int) -> str:
    """JSON nested this deep."""
    return '{"trust":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    "reply",
    [
        judge_with(trust=2.0),
        judge_with(trust=-0.1),
        judge_with(trust=float("nan")),
        judge_with(trust=float("inf")),
        judge_with(trust="1"),
        judge_with(trust=True),
        judge_with(trust=None),
        judge_with(allow=True),
        judge_with(categories=["harmless"]),
        judge_with(categories=["persistence"] * 17),
        judge_with(categories="none"),
        judge_with(explanation=None),
        reply_with_text('{"trust": 1}'),
        reply_with_text('{"categories": [], "explanation": "", "trust": 0.1, "trust": 1}'),
        reply_with_text("This text is fine. Trust: 1"),
        reply_with_text('Sure: {"categories": [], "explanation": "", "trust": 1}'),
        reply_with_text("[]"),
        reply_with_text(deep(20_000)),
        reply_with_text('{"categories": [], "explanation": "\\ud800", "trust": 1}'),
        reply_with_text(ALLOWING, content=[]),
        reply_with_text(ALLOWING, content=None),
        reply_with_text(ALLOWING, content=[{"type": "text", "text": ALLOWING}] * 2),
        reply_with_text(ALLOWING, content=[{"type": "text", "text": 1}]),
        reply_with_text(
            ALLOWING, content=[{"type": "tool_use", "id": "t", "name": "allow", "input": {"trust": 1}}]
        ),
        reply_with_text(ALLOWING, model="<script>"),
        reply_with_text(ALLOWING, model=None),
    ],
)
async def test_an_answer_that_is_not_to_the_letter_is_inconclusive(reply: Reply) -> None:
    async with ask(reply) as (port, _):
        answer = await Ports({PORT: port}).answer(ORDINARY)
    assert answer.status == "unavailable"
    assert read_analysis(answer, POLICY).standing == "inconclusive"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (reply_with_text("{}", stop_reason="refusal"), "the model declined to judge the text"),
        (reply_with_text("{}", stop_reason="max_tokens"), "the model's answer was cut off at max_tokens"),
        (reply_with_text("{}", stop_reason="tool_use"), "the model stopped without an answer"),
        (reply_with_text("{}", stop_reason=["end_turn"]), "the model stopped without an answer"),
        (answer(200, b"<html>"), "the model's API did not answer with one JSON object"),
        (answer(200, b"\xff\xfe"), "the model's API did not answer with one JSON object"),
        (answer(200, b""), "the model's API did not answer with one JSON object"),
        (flood, "the connection to the model's API failed"),
        (answer(200, b"\x1f\x8b", "content-encoding: gzip"), "the connection to the model's API failed"),
        (answer(500, b"x" * 2**20), "the connection to the model's API failed"),
    ],
)
async def test_what_is_no_answer_says_why(reply: Reply, said: str) -> None:
    assert await collect_refusals(reply) == said


@pytest.mark.parametrize(
    "header",
    [
        "retry-after: Mon, 01 Jan 99999999 00:00:00 GMT",
        "retry-after: 1e999",
        "retry-after-ms: -inf",
        "retry-after-ms: nan",
        "content-type: application/json; charset=undefined",
        "content-type: application/json; charset=idna",
        "content-type: application/json; charset=base64",
        "content-type: text/event-stream",
        "x-should-retry: true",
        "request-id: \xff",
    ],
)
@pytest.mark.parametrize("status", [400, 429])
async def test_no_header_of_an_error_gets_further_than_the_error(header: str, status: int) -> None:
    error = answer(status, b"\xff{}", header)
    async with ask(error, max_retries=1) as (port, api):
        with pytest.raises(PortUnavailable, match=f"answered {status}"):
            await port.ask(ORDINARY.payload)
    assert len(api.exchanges) == {400: 1, 429: 2}[status]


async def test_an_explanation_is_kept_on_one_line_within_its_bound() -> None:
    steering = "Red:\x1b[31m\r\n\u202eflip " + "long " * 500
    async with ask(judge_with(explanation=steering)) as (port, _):
        found = read_ceiling(await port.ask(ORDINARY.payload))
    assert found is not None
    assert found.explanation.startswith("Red: [31m flip long long")
    assert len(found.explanation) == 500
    assert found.explanation.isprintable()


def show_everywhere(key: str) -> Reply:
    """An error that shows the key wherever an error has room for it."""
    body = json.dumps({"type": "error", "error": {"type": key, "message": key}}).encode()
    return answer(401, body, f"request-id: {key}", f"location: /{key}", reason=key)


def escape_key(key: str) -> Reply:
    """An answer in whose JSON the key is there only once it is read."""
    return reply_with_text(
        f'{{"categories": [], "trust": 1, "explanation": "\\u{ord(key[0]):04x}{key[1:]}"}}'
    )


@pytest.mark.parametrize(
    "place",
    [
        show_everywhere,
        escape_key,
        lambda key: judge_with(explanation=f"I know {key}"),
        lambda key: judge_with(explanation="x" * 490 + key),
        lambda key: judge_with(categories=[key]),
        lambda key: reply_with_text(json.dumps({"key": key})),
        lambda key: reply_with_text(ALLOWING, model=key),
        lambda key: answer(200, key.encode()),
    ],
)
async def test_a_server_that_sends_the_key_back_gets_it_nowhere(
    place: Callable[[str], Reply], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)  # the most that the settings allow
    async with ask(echo_key(place)) as (port, _):
        with pytest.raises(PortUnavailable) as why:
            await port.ask(ORDINARY.payload)
        shown = f"{port!r}{vars(port)!r}"
    assert why.value.__context__ is None  # what reports errors must not find the request behind it
    assert KEY[:10] not in "".join(traceback.format_exception(why.value)) + shown + caplog.text


async def test_the_key_is_not_logged_by_the_sdk_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with ask(close_connection, judge_with(), max_retries=1) as (port, _):
        await port.ask(ORDINARY.payload)
    assert any(record.name.startswith("anthropic") for record in caplog.records)
    assert KEY not in caplog.text
