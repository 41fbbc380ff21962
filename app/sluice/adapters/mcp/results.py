"""What a server sends back about a call, put through the gate as items of a retrieval.

A result is built anew from the fields that MCP names, so that nothing else reaches the agent. Every text in
it is judged: contents, structured content, annotations, references, names, media types, error messages and
their data. The items are judged one by one and once together, because an agent reads the blocks as one text.
What cannot be judged (`Passed`) is dropped unless the operator names it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError
from mcp import MCPError
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
)

from sluice.adapters.mcp.proxy_file import Passed
from sluice.client.answers import ClientError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sluice.client import AsyncGateClient, Permit, RetrievalAnswer

log = logging.getLogger(__name__)
MOST_PROGRESS = 100
"""Of one call: each message is a request to the gate."""
GATE_AWAY = (ClientError, KafkaError, ConnectionError)
"""What a client of the gate raises if there is no answer."""
_STRUCTURED, _META, _TOGETHER = "structured", "meta", "together"
_BYTES = {"data": True, "resource": {"blob"}}


def list_contents(result: CallToolResult) -> list[Any]:
    """What a result holds, as JSON, for the values in it. In place of the bytes of images, sounds and
    resources, in which no value is read, stands an empty `bytes`."""
    contents: list[Any] = [result.structured_content, result.meta]
    for block in result.content:
        without = _BYTES | {"type": True}
        contents.append(block.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=without))
        if isinstance(block, (AudioContent, ImageContent)) or (
            isinstance(block, EmbeddedResource) and isinstance(block.resource, BlobResourceContents)
        ):
            contents.append(b"")
    return contents


async def report_outcome(gate: AsyncGateClient, permit: Permit, error: str | None) -> None:
    """Report an outcome. If the broker is away, nothing is raised: what was permitted has run, and on an
    error it would be done again."""
    try:
        await gate.finish(permit, error=error)
    except GATE_AWAY:
        log.exception("the outcome of %s is not reported", permit.action_id)


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A part of a result: its name in the items' ids, what is judged of it, and the blocks that show it."""

    name: str
    bodies: tuple[Any, ...]
    blocks: tuple[Any, ...] = ()

    def list_item_ids(self, action_id: str) -> list[str]:
        """One for each body."""
        return [f"{action_id}:{self.name}.{index}" for index in range(len(self.bodies))]


@dataclass(frozen=True, slots=True)
class ResultJudge:
    """Puts what a server sends back through the gate.

    `fields`, by wire names, are added to every item.
    """

    gate: AsyncGateClient
    session_id: str
    fields: Mapping[str, Any]
    passed: frozenset[Passed] = frozenset()

    async def read(self, result: CallToolResult, action_id: str, registered: str) -> CallToolResult:
        """The result as the agent may see it; an error if the gate does not answer.

        A note replaces each part that is withheld and stands before each that is flagged. If structured
        content is withheld, the result is an error, because it cannot follow its schema any more.
        """
        parts = list(_split_result(result, self.passed))
        try:
            judged = await self._judge(parts, action_id, registered)
        except GATE_AWAY as error:
            return make_error_result(f"{registered} ran, and its result is withheld: {error}")
        shown = [block for part in parts for block in _list_shown(part, judged[part.name])]
        served = {
            part.name: part.bodies[0] for part in parts if part.bodies and judged[part.name].withheld is None
        }
        structured = served.get(_STRUCTURED)
        return CallToolResult(
            content=shown,
            structured_content=structured,
            is_error=result.is_error or (structured is None and result.structured_content is not None),
            _meta=served.get(_META),
        )

    async def read_error(self, error: Exception, action_id: str, registered: str) -> CallToolResult:
        """Return what the agent may see of an error of the protocol. Of any other, which may quote the
        answer, it sees the class."""
        if not isinstance(error, MCPError):
            return make_error_result(
                f"{registered}: no result by the protocol and the schema: {type(error).__name__}"
            )
        texts = [f"MCP error {error.error.code}", error.error.message]
        if error.error.data is not None:
            texts.append(json.dumps(error.error.data, ensure_ascii=False))
        content: list[Any] = [TextContent(type="text", text=text) for text in texts]
        return await self.read(CallToolResult(content=content, is_error=True), action_id, registered)

    async def read_message(self, message: str, name: str, registered: str) -> str | None:
        """The message of a notification; None if it is withheld or the gate does not answer."""
        part = ResultPart("message", (message,))
        try:
            judged = await self._judge([part], name, registered)
        except GATE_AWAY:
            return None
        return message if judged[part.name].withheld is None else None

    async def _judge(
        self, parts: list[ResultPart], action_id: str, registered: str
    ) -> dict[str, _JudgedItems]:
        """Return what the gate says of each part. If all together are withheld, the rest is judged once more
        without the parts that are withheld by themselves."""
        judged: dict[str, _JudgedItems] = {}
        left, request_id = parts, f"of-{action_id}"
        while left:
            items = self._build_items(left, action_id)
            if not items:
                return judged | {part.name: _JudgedItems() for part in left}
            answer = await self.gate.retrieve(
                items, session_id=self.session_id, request_id=request_id, toolName=registered
            )
            judged |= {part.name: _read_answer(answer, part.list_item_ids(action_id)) for part in left}
            together = _read_answer(answer, [f"{action_id}:{_TOGETHER}"] if len(items) > 1 else [])
            served = [part for part in left if judged[part.name].withheld is None]
            if together.withheld is not None and len(served) == len(left):
                return judged | {part.name: together for part in left}
            left = served if together.withheld is not None else []
            request_id += "-rest"
        return judged

    def _build_items(self, parts: Iterable[ResultPart], action_id: str) -> list[dict[str, Any]]:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        bodies = {
            item_id: body
            for part in parts
            for item_id, body in zip(part.list_item_ids(action_id), part.bodies, strict=True)
        }
        if len(bodies) > 1:
            bodies[f"{action_id}:{_TOGETHER}"] = _join_bodies(bodies.values())
        return [
            {"timestamp": now, **self.fields, "item_id": item_id, "body": body}
            for item_id, body in bodies.items()
        ]


@dataclass(frozen=True, slots=True)
class _JudgedItems:
    """`withheld`: why, None if it is served. `flags`: of the served ones."""

    withheld: str | None = None
    flags: tuple[str, ...] = ()


def make_error_result(text: str, fields: Mapping[str, Any] | None = None) -> CallToolResult:
    """A tool error with a text, and the same as fields."""
    content: list[Any] = [TextContent(type="text", text=text)]
    structured = None if fields is None else dict(fields)
    return CallToolResult(content=content, structured_content=structured, is_error=True)


def _split_result(result: CallToolResult, passed: Collection[Passed]) -> Iterable[ResultPart]:
    """The parts of a result without what is dropped; the text of a block is judged apart from its fields,
    because known content is found by its digest."""
    for index, block in enumerate(result.content):
        name = str(index)
        if Passed.BLOBS not in passed and (dropped := _find_bytes(block)) is not None:
            yield ResultPart(
                name, (), (_make_note(f"{dropped} was dropped: `--pass blobs` would let it through"),)
            )
            continue
        cleaned = _drop_unnamed(block, passed)
        fields = cleaned.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude=_BYTES | {"type": True}
        )
        texts = [text for text in (fields.pop("text", None), _pop_text(fields)) if text is not None]
        yield ResultPart(name, (*texts, fields) if fields else tuple(texts), (cleaned,))
    if result.structured_content is not None:
        yield ResultPart(_STRUCTURED, (result.structured_content,))
    if result.meta and Passed.META in passed:
        yield ResultPart(_META, (result.meta,))


def _join_bodies(bodies: Iterable[Any]) -> list[Any]:
    """The texts as one line, because an order may be split between them, and whatever else there is."""
    parts = list(bodies)
    texts = " ".join(text.strip() for text in parts if isinstance(text, str))
    return [texts, *(value for value in parts if not isinstance(value, str))]


def _pop_text(fields: dict[str, Any]) -> str | None:
    resource = fields.get("resource", {})
    text = resource.pop("text", None)
    return text if isinstance(text, str) else None


def _find_bytes(block: Any) -> str | None:
    if isinstance(block, (ImageContent, AudioContent)):
        return f"an {block.type} block"
    is_blob = isinstance(block, EmbeddedResource) and isinstance(block.resource, BlobResourceContents)
    return "a binary resource" if is_blob else None


def _drop_unnamed(block: Any, passed: Collection[Passed]) -> Any:
    """A copy of a block without icons and `_meta`, unless they are named."""
    changes: dict[str, Any] = {}
    if Passed.META not in passed:
        changes["meta"] = None
        if isinstance(block, EmbeddedResource):
            changes["resource"] = block.resource.model_copy(update={"meta": None})
    if Passed.BLOBS not in passed and "icons" in type(block).model_fields:
        changes["icons"] = None
    return block.model_copy(update=changes)


def _read_answer(answer: RetrievalAnswer, item_ids: Iterable[str]) -> _JudgedItems:
    served = {served_item["item_id"]: served_item for served_item in answer.items}
    why = {
        withheld_item["item_id"]: ", ".join(withheld_item["reason_codes"])
        for withheld_item in answer.withheld
    }
    flags: dict[str, None] = {}
    for item_id in item_ids:
        item = served.get(item_id)
        if item is None:
            return _JudgedItems(why.get(item_id, "not served"))
        raised = [flag for flag, is_set in item["flags"].items() if is_set]
        if item.get("body") is None:
            return _JudgedItems(", ".join(raised) or "no body")
        flags |= dict.fromkeys(raised)
    return _JudgedItems(None, tuple(flags))


def _list_shown(part: ResultPart, judged: _JudgedItems) -> list[Any]:
    if judged.withheld is not None:
        return [_make_note(f"withheld by the gate: {judged.withheld}")]
    return (
        [_make_note(f"flagged by the gate: {', '.join(judged.flags)}"), *part.blocks]
        if judged.flags
        else [*part.blocks]
    )


def _make_note(text: str) -> TextContent:
    return TextContent(type="text", text=f"[{text}]")
