"""What a client asks right before it starts a tool, and while the tool runs: whether a freeze came meanwhile.

A verdict says what may be done at its moment; its tool may start hours later, after an approval or a restart.
The client imports no policy: what follows the signed registry is handed to it
(sluice.bootstrap.followed_freezes).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sluice.client.answers import ActionStopped, make_refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sluice.client.answers import ActionAnswer, ActionRefused, Permit

NOT_STARTED = "ActionFrozen"
"""The `error` of an outcome whose tool a freeze kept from starting; `ActionStopped`: it was running."""


class StartingCall(NamedTuple):
    """A call that its verdict allows. `judged`: "kind/id@revision" to hash of the registry's entries that the
    verdict rests on, so that a freeze which asks, and was asked about, does not stop it."""

    agent_id: str
    session_id: str
    judged: Mapping[str, str]


class FreezeView(Protocol):
    """What is frozen, as something sees it that follows the registry. On the client's event loop."""

    async def start(self) -> None:
        """Read the registry. Raises KafkaError."""

    async def close(self) -> None:
        """Give up the connection."""

    def find_stop(self, call: StartingCall) -> str | None:
        """Why the call may not start, as a denial says it; None: it may. Costs no round trip. Raises
        ClientError where the registry was not read lately: nobody knows then."""

    def watch(self, call: StartingCall, stop: Callable[[str], None]) -> Callable[[], None]:
        """Call `stop` once with the reason when a freeze stops the call; the result ends the watch."""


def read_call(verdict: ActionAnswer) -> StartingCall:
    """The call that a verdict allows."""
    record = verdict.record
    return StartingCall(record["agent_id"], record["session_id"], record["registry_hashes"])


def make_frozen_refusal(verdict: ActionAnswer, reason: str) -> ActionRefused:
    """The denial of what a verdict had allowed before a freeze."""
    return make_refusal(replace(verdict, verdict="denied", gate="controls", reason=reason))


@asynccontextmanager
async def stop_when_frozen(view: FreezeView | None, permit: Permit) -> AsyncIterator[None]:
    """Cancel the block when a freeze stops its action, and raise ActionStopped then. What does not await, or
    catches the cancellation, runs on."""
    if view is None:
        yield
        return
    loop, reasons = asyncio.get_running_loop(), list[str]()
    try:
        async with asyncio.timeout(None) as until:

            def stop(reason: str) -> None:
                reasons.append(reason)
                until.reschedule(loop.time())

            end_watch = view.watch(read_call(permit.verdict), stop)
            try:
                yield
            finally:
                end_watch()
    except TimeoutError:
        if reasons and until.expired():
            raise ActionStopped(permit.action_id, reasons[0]) from None
        raise
