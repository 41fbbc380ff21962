"""A process in which many calls of one client wait for a verdict at once.

It imports the client alone, as an agent does. It prints the KiB that it holds resident while all calls wait,
and then how many got a verdict.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from sluice.client import AsyncGateClient, ClientOptions

PATIENCE_S = 240.0
PAGE_KB = 4
AT_ONCE = 100


async def wait_in_numbers(client: AsyncGateClient, waiters: int, seed: int) -> None:
    """Begin the calls a hundred at a time, wait until all are published, then for their verdicts."""
    calls = []
    for number in range(waiters):
        session, action_id = f"waiting-{seed}-{number}", f"waiting-{seed}-{number}"
        call = client.propose(
            "search_records",
            {"number": number},
            session_id=session,
            action_id=action_id,
            mode="standard",
            deadline_s=PATIENCE_S,
        )
        calls.append(asyncio.create_task(call))
        if number % AT_ONCE == 0:
            await asyncio.sleep(0.1)
    await asyncio.sleep(5)
    print(resident_kb(), flush=True)
    print(len(await asyncio.gather(*calls)), flush=True)


def resident_kb() -> int:
    """KiB that this process holds in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KB


async def main() -> None:
    """Arguments: the broker, the prefix of the topics, the agent, how many calls, a seed."""
    bootstrap, prefix, agent, waiters, seed = sys.argv[1:]
    async with AsyncGateClient(bootstrap, agent, ClientOptions(topic_prefix=prefix)) as client:
        await wait_in_numbers(client, int(waiters), int(seed))


if __name__ == "__main__":
    asyncio.run(main())
