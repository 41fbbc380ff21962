"""Ledger records as signed HTTP requests to one endpoint, in the form of Standard Webhooks.

The signature is HMAC-SHA256 over "id.timestamp.body". The id is the record's place in the ledger: the same
record has the same id however often it is delivered, so a receiver that remembers ids takes each once.

A receiver is not believed: of its answer only the status and a wait count. No redirect is followed, no cookie
kept, no body read or unpacked, and no proxy taken from the environment, to which a record would go in clear
text where the URL is one of this machine.

Standard Webhooks specification 1.0 (standard-webhooks.com).
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import ssl
from typing import TYPE_CHECKING

import httpx2
import orjson

from sluice.notify.notifier import TryLaterError, parse_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sluice.notify.backlog import CommittedEvent, Part, Pending

SUBJECT_FIELDS = ("escalation_id", "memory_id", "grant_id", "alarm_id")
"""By which the records of one thing are told apart from those of others; the first that a record has."""
TOO_MANY = 429
OK = range(200, 300)
MEND_ALONE = range(400, 500)
"""Statuses that say something of this one request."""
OF_THE_RECEIVER = (httpx2.HTTPError, OSError, ValueError, LookupError)
"""What a receiver's bytes raise in TLS, h11 and the codecs below; OSError has TimeoutError."""


class Webhook:
    """One endpoint, for all tenants or one. One delivery at a time."""

    def __init__(
        self,
        name: str,
        endpoint: tuple[str, bytes],
        tenant: str | None,
        timeout_s: float,
        now_s: Callable[[], float],
    ) -> None:
        """`endpoint`: its URL and the secret with which requests are signed; `now_s`: since 1970."""
        self.name = f"webhook {name}"
        self._url, self._secret = endpoint
        self._tenant = tenant
        self._now_s = now_s
        self._timeout_s = timeout_s
        self._transport = httpx2.AsyncHTTPTransport(ssl.create_default_context(), trust_env=False)

    def name_subject(self, record: CommittedEvent) -> str | None:
        """The escalation, the held memory, the grant or the alarm; None for other tenants' records."""
        fields = record.fields
        if self._tenant is not None and fields.get("tenant_id") != self._tenant:
            return None
        return next((str(fields[name]) for name in SUBJECT_FIELDS if name in fields), None)

    def name_scope(self, pending: Pending) -> str | None:
        """None: an endpoint is away as a whole, or refuses one record."""
        del pending
        return None

    async def assign(self, parts: Iterable[Part]) -> None:
        """Nothing: the consumer's position says what is delivered."""

    async def deliver(self, subject: str, records: Sequence[CommittedEvent]) -> None:
        """One request for each record. Raises TryLaterError."""
        del subject
        for done, record in enumerate(records):
            try:
                await self._send(record)
            except TryLaterError as error:
                error.done = done
                raise

    async def close(self) -> None:
        """Give up the connections."""
        await self._transport.aclose()

    async def _send(self, record: CommittedEvent) -> None:
        an_id, body = name_record(record), write_body(record)
        headers = {
            "content-type": "application/json",
            **sign_body(an_id, int(self._now_s()), body, self._secret),
        }
        try:
            async with asyncio.timeout(self._timeout_s):
                status, wait_s = await self._post(body, headers)
        except OF_THE_RECEIVER as error:
            raise TryLaterError(f"does not answer: {type(error).__name__}", "") from None
        if status not in OK:
            scope = None if status in MEND_ALONE and status != TOO_MANY else ""
            raise TryLaterError(f"answers {status}", scope, wait_s)

    async def _post(self, body: bytes, headers: dict[str, str]) -> tuple[int, float | None]:
        """The status and the wait of the answer. The connection ends with it, unless there is no body."""
        request = httpx2.Request("POST", self._url, content=body, headers=headers)
        answer = await self._transport.handle_async_request(request)
        await answer.aclose()
        return answer.status_code, parse_wait(answer.headers.get("retry-after", ""))


def name_record(record: CommittedEvent) -> str:
    """The record's place: topic, partition and offset."""
    return f"{record.part[0]}:{record.part[1]}:{record.offset}"


def write_body(record: CommittedEvent) -> bytes:
    """The record as the ledger has it, and where."""
    (topic, partition), offset = record.part, record.offset
    coordinates = {"topic": topic, "partition": partition, "offset": offset, "timestamp": record.timestamp_ms}
    return orjson.dumps({"id": name_record(record), **coordinates, "record": record.fields})


def sign_body(an_id: str, now_s: int, body: bytes, secret: bytes) -> dict[str, str]:
    """The headers by which a receiver knows that it is from us, and when it was sent."""
    signature = hmac.digest(secret, f"{an_id}.{now_s}.".encode() + body, "sha256")
    return {
        "webhook-id": an_id,
        "webhook-timestamp": str(now_s),
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }
