"""Where tree heads go besides the topic: a file that has all, an endpoint that gets the newest.

The file has one DSSE envelope a line, in the order of the heads' numbers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from typing import TYPE_CHECKING

import httpx2

from sluice.adapters.webhook import OF_THE_RECEIVER, OK, sign_body
from sluice.core.trust.tree_heads import HeadRefused, digest_head, open_head

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger(__name__)


def read_head_file(path: Path) -> Iterator[bytes]:
    """The envelopes of a file, without a last line that a kill cut off. Raises OSError."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield line.rstrip(b"\n")


class HeadFile:
    """Adds heads to a file; each is on the disk before the next one is signed."""

    def __init__(self, path: Path) -> None:
        """Reads what is there. Raises OSError, and HeadRefused where a line is no head."""
        self._path = path
        self._digests: list[str] = []
        whole = 0
        if path.exists():
            for number, value in enumerate(read_head_file(path), start=1):
                envelope, head = open_head(value, number)
                if head.number != number:
                    raise HeadRefused(f"{path}: line {number} is head {head.number}")
                self._digests.append(digest_head(envelope))
                whole += len(value) + 1
            with path.open("rb+") as file:
                file.truncate(whole)

    def take(self, number: int, digest: str, value: bytes) -> None:
        """See HeadCopies."""
        if number <= len(self._digests):
            if self._digests[number - 1] != digest:
                raise HeadRefused(f"head {number} is another than that in {self._path}")
            return
        with self._path.open("ab") as file:
            file.write(value + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._digests.append(digest)

    def require_no_later(self, number: int) -> None:
        """See HeadCopies."""
        if number < len(self._digests):
            raise HeadRefused(
                f"the topic ends with head {number}, and {self._path} has head {len(self._digests)}: the "
                "topic was cut off"
            )

    async def deliver(self) -> None:
        """Nothing: `take` wrote it."""

    async def close(self) -> None:
        """Nothing is held."""


class HeadWebhook:
    """Sends the newest head to an endpoint, signed as Standard Webhooks 1.0 has it; the id is `head:NUMBER`
    and the body is the envelope. One that cannot be delivered is tried again with each `deliver`, until there
    is a newer one: a later head vouches for those before it."""

    def __init__(self, url: str, secret: bytes, timeout_s: float) -> None:
        self._url = url
        self._secret = secret
        self._timeout_s = timeout_s
        self._waiting: tuple[int, bytes] | None = None
        self._transport = httpx2.AsyncHTTPTransport(ssl.create_default_context(), trust_env=False)

    def take(self, number: int, digest: str, value: bytes) -> None:
        """See HeadCopies."""
        del digest
        self._waiting = number, value

    def require_no_later(self, number: int) -> None:
        """An endpoint is not asked what it has."""

    async def deliver(self) -> None:
        """Send what waits. A receiver that is away is named in the log, and holds nothing up for long."""
        if self._waiting is None:
            return
        number, value = self._waiting
        signed = sign_body(f"head:{number}", int(time.time()), value, self._secret)
        request = httpx2.Request(
            "POST", self._url, content=value, headers={"content-type": "application/json", **signed}
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._transport.handle_async_request(request)
                await answer.aclose()
        except OF_THE_RECEIVER as error:
            log.warning("head %d is not delivered: %s does not answer: %r", number, self._url, error)
            return
        if answer.status_code not in OK:
            log.warning("head %d is not delivered: %s answers %d", number, self._url, answer.status_code)
            return
        self._waiting = None

    async def close(self) -> None:
        """Give up the connection."""
        await self._transport.aclose()
