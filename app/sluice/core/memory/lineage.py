"""The trust of parents that the session does not know: asked of the ledger (product.md, "Memory writes").

A parent's id holds its input's coordinates, so its decision is found without an index. What is no such id, or
another tenant's, or was never decided, stays unknown, which caps the child below the write threshold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, ValidationError

from sluice.core.foundation.input_record import is_memory_id
from sluice.core.foundation.requests import Request
from sluice.core.foundation.strict import StrictModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.core.memory.plan import Parent

PORT = "lineage"
MOST_ASKED = 16
"""Parents of one write that are looked up; each takes the reader some 20 ms. More of them stay unknown."""


class LineageAnswer(StrictModel):
    """`parents`: trust by memory id, null where the ledger has no decision for this tenant."""

    parents: dict[str, Annotated[float, Field(ge=-1, le=1)] | None]


def list_unknown(parents: Iterable[Parent]) -> list[str]:
    """The ids to ask for: those of unknown parents, if they have the form of a memory's id."""
    ids = [parent.memory_id for parent in parents if parent.trust is None and is_memory_id(parent.memory_id)]
    return ids[:MOST_ASKED]


def request_lineage(tenant: str, memory_ids: list[str], approved: float, budget_ms: int) -> Request:
    """The question for the port. `approved`: what a memory counts at least that a person approved."""
    return Request(PORT, {"tenant": tenant, "memories": memory_ids, "approved": approved}, budget_ms)


def resolve_parents(parents: Iterable[Parent], payload: object) -> tuple[float | None, ...]:
    """The trust of each parent, with what the port answered; nothing where the answer cannot be read."""
    try:
        trust_by_id = LineageAnswer.model_validate(payload).parents
    except ValidationError:
        trust_by_id = {}
    return tuple(
        trust_by_id.get(parent.memory_id) if parent.trust is None else parent.trust for parent in parents
    )
