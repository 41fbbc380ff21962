"""How far the workers are: the group's committed positions against the inputs' ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from load.site import Site

ANSWER_S = 8.0

Ends = dict[tuple[str, int], int]


async def committed(site: Site) -> Ends | None:
    """First undecided offset by real topic and partition; None when the broker does not say."""
    admin = AIOKafkaAdminClient(bootstrap_servers=site.bootstrap_servers)
    try:
        async with asyncio.timeout(ANSWER_S):
            await admin.start()
            offsets = await admin.list_consumer_group_offsets(site.app_id)
    except (KafkaError, TimeoutError, OSError):
        return None
    finally:
        await admin.close()
    return {(tp.topic, tp.partition): meta.offset for tp, meta in offsets.items()}


def behind(positions: Mapping[tuple[str, int], int], ends: Ends) -> int:
    """How many offsets lie between the positions and the ends."""
    return sum(max(0, end - max(0, positions.get(place, 0))) for place, end in ends.items())
