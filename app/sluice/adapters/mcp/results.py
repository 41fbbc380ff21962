"""A tool's result as items of a retrieval, and the result as the gate serves it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.client import RetrievalAnswer

_STRUCTURED = "structured"


def items_of(result: CallToolResult, action_id: str, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One item for each block, and one for the structured content.

    `fields`, by wire names, are added to every item. The gate judges of an image or a sound only its
    description.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    bodies = {str(place): _body(one) for place, one in enumerate(result.content)}
    if result.structured_content is not None:
        bodies[_STRUCTURED] = result.structured_content
    return [
        {"timestamp": now, **fields, "item_id": f"{action_id}:{part}", "body": body}
        for part, body in bodies.items()
    ]


def as_served(result: CallToolResult, action_id: str, answer: RetrievalAnswer) -> CallToolResult:
    """The result with a note before each flagged part; a note replaces each part that is withheld.

    If structured content is withheld, the result is an error, because it cannot follow its schema any more.
    """
    served = {one["item_id"]: one for one in answer.items}
    why = {one["item_id"]: ", ".join(one["reason_codes"]) for one in answer.withheld}
    content: list[Any] = []
    for place, block in enumerate(result.content):
        content += _served(served, why, f"{action_id}:{place}", [block])
    name, structured = f"{action_id}:{_STRUCTURED}", result.structured_content
    if structured is not None:
        content += _served(served, why, name, [])
        structured = served.get(name, {}).get("body")
    is_lost = structured is None and result.structured_content is not None
    return CallToolResult(content=content, structured_content=structured, is_error=result.is_error or is_lost)


def _served(served: Mapping[str, Any], why: Mapping[str, str], name: str, blocks: list[Any]) -> list[Any]:
    item = served.get(name)
    if item is None:
        return [_note(f"withheld by the gate: {why.get(name, 'not served')}")]
    flags = ", ".join(flag for flag, is_set in item["flags"].items() if is_set)
    if item.get("body") is None:
        return [_note(f"withheld by the gate: {flags}")]
    return [_note(f"flagged by the gate: {flags}"), *blocks] if flags else blocks


def _note(text: str) -> TextContent:
    return TextContent(type="text", text=f"[{text}]")


def _body(block: Any) -> Any:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
        return block.resource.text
    return block.model_dump(mode="json", by_alias=True, exclude={"data": True, "resource": {"blob"}})
