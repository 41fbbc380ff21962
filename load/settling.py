"""What still goes on after the last input is decided: memories run out of time, what was learnt is folded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from load.ledger_read import records_of
from load.positions import committed
from load.quarantine_recount import ENTERED, LEAVING
from topics.catalog import QUARANTINE, SOURCE_FEEDBACK

if TYPE_CHECKING:
    from load.site import Site


async def settled(site: Site) -> bool:
    """Nothing is held any more, and every source's owner has decided on what was told to it."""
    schemas = [json.loads(one.value or b"null")["schema"] for one in await records_of(site, QUARANTINE)]
    if schemas.count(ENTERED) != sum(schema in LEAVING for schema in schemas):
        return False
    positions = await committed(site)
    told = await records_of(site, SOURCE_FEEDBACK)
    return positions is not None and all(
        one.offset < positions.get((one.topic, one.partition), 0) for one in told
    )
