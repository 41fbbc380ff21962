"""Mend 22.3: a stranger's record among the escalations does not end the command with which people answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest

from sluice.cli.ledger.escalated_actions import find_grant, read_escalations
from sluice_topics.catalog import get_wire_schema
from sluice_topics.records import EscalationExpired, GrantGiven

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STRANGE = (
    b"x",
    b"[]",
    b"\xff",
    b"null",
    orjson.dumps({"schema": get_wire_schema(EscalationExpired)}),
    orjson.dumps({"schema": get_wire_schema(GrantGiven), "grant_id": "grant-1"}),
    orjson.dumps({"schema": {"no": "name"}}),
)


class Topic:
    """What lies on gate.escalations, as the reader of the command gives it."""

    async def read_escalations(self) -> AsyncIterator[SimpleNamespace]:
        for value in STRANGE:
            yield SimpleNamespace(value=value)


@pytest.mark.parametrize("wanted", ["grant-1", "x"])
async def test_what_no_worker_wrote_is_passed_over(wanted: str) -> None:
    topic = cast("Any", Topic())
    assert await read_escalations(topic) == {}
    assert await find_grant(topic, wanted) is None
