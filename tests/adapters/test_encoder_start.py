"""An encoder that does not get ready is given up, and those who ask are told so."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from dataclasses import asdict
from typing import TYPE_CHECKING

import orjson
import pytest

from sluice.adapters.encoder_child import PROGRAM, ChildOptions
from sluice.adapters.encoder_model import CHECKSUMS
from sluice.adapters.sentence_encoder import EncoderSettings, SentenceEncoder
from sluice.ports import PortUnavailable

if TYPE_CHECKING:
    from pathlib import Path

AT_ONCE_S = 0.01
"""No interpreter starts in this time."""


async def test_a_child_that_hangs_while_it_loads_is_ended_and_the_next_start_is_another() -> None:
    encoder = SentenceEncoder(EncoderSettings(start_limit_s=AT_ONCE_S, restart_wait_s=0))
    async with asyncio.timeout(30):
        for _ in range(2):
            with pytest.raises(PortUnavailable, match=r"not ready after 0\.01 s"):
                await encoder.start()
        await encoder.close()


async def test_a_child_whose_model_is_refused_says_why_and_ends_though_its_input_goes_on(
    tmp_path: Path,
) -> None:
    """The interpreter aborted at its end, over the lock of the input that a thread was reading."""
    options = ChildOptions(str(tmp_path), str(CHECKSUMS), 1, 1, 1, 1)
    child = await asyncio.create_subprocess_exec(
        sys.executable, *PROGRAM, orjson.dumps(asdict(options)).decode(), stdin=PIPE, stdout=PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    async with asyncio.timeout(30):
        assert set(orjson.loads(await child.stdout.read())) == {"failed"}
        assert await child.wait() == 1
    child.stdin.close()
