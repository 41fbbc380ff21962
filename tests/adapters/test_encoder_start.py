"""An encoder that does not get ready is given up, and those who ask are told so."""

from __future__ import annotations

import asyncio

import pytest

from app.adapters.sentence_encoder import EncoderSettings, SentenceEncoder
from app.ports import PortUnavailable

AT_ONCE_S = 0.01
"""No interpreter starts in this time."""


async def test_a_child_that_hangs_while_it_loads_is_ended_and_the_next_start_is_another() -> None:
    encoder = SentenceEncoder(EncoderSettings(start_limit_s=AT_ONCE_S, restart_wait_s=0))
    async with asyncio.timeout(30):
        for _ in range(2):
            with pytest.raises(PortUnavailable, match=r"not ready after 0\.01 s"):
                await encoder.start()
        await encoder.close()
