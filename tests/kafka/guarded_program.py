"""An agent's process with one guarded tool, which kills itself at a step. Run by test_client.py.

Arguments: servers, topic prefix, session, folder, step. It ends with 0 if the tool ran, with 3 if it had run
before.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from load.installations import neutral_policy
from sluice.client import ActionInterrupted, AsyncGateClient, ClientOptions
from sluice.client.exchange import Exchange, OutgoingInput
from sluice.client.input_kinds import OUTCOME
from sluice.client.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS, PREFIX, SESSION, FOLDER, STEP = sys.argv[1:]


def die_at(step: str) -> None:
    """As if the machine had gone."""
    if step == STEP:
        os.kill(os.getpid(), signal.SIGKILL)


def make_dying(method: Callable[..., Any], before: str) -> Callable[..., Any]:
    """The method, but for a process that is to die before it."""

    def call(*args: Any) -> Any:
        die_at(before)
        return method(*args)

    return call


async def _publish(self: Exchange, what: OutgoingInput) -> Any:
    die_at("before_outcome" if what.kind is OUTCOME else "before_publish")
    place = await published(self, what)
    die_at("after_outcome" if what.kind is OUTCOME else "after_publish")
    return place


published = Exchange.publish
Exchange.publish = _publish  # type: ignore[method-assign]
Journal.decide = make_dying(Journal.decide, "before_verdict")  # type: ignore[method-assign]
Journal.start = make_dying(Journal.start, "before_start")  # type: ignore[method-assign]


async def main() -> int:
    """Call the tool once, under the session's one action id."""
    options = ClientOptions(topic_prefix=PREFIX, deadline_s=60, journal=Path(FOLDER) / "journal")
    async with AsyncGateClient(SERVERS, neutral_policy.AGENT, options) as gate:
        try:
            async with gate.action(neutral_policy.READ_TOOL, {}, session_id=SESSION, action_id="the-one"):
                with (Path(FOLDER) / "ran").open("a") as ran:
                    ran.write("ran\n")
                die_at("in_tool")
        except ActionInterrupted:
            return 3
    return 0


sys.exit(asyncio.run(main()))
