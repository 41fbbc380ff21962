"""Where tree heads go besides the topic: a file that has all, an endpoint that gets the newest, and an
authority that says when the newest was there.

A file has one DSSE envelope a line, in the order of the heads' numbers.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import ssl
import time
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import httpx2

from sluice.adapters.webhook import OF_THE_RECEIVER, OK, sign_body
from sluice.core.trust.tree_heads import HeadRefused, digest_head, open_head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rfc3161_client import TimeStampRequest

log = logging.getLogger(__name__)

_LARGEST_ANSWER = 1 << 16
"""Bytes; a time stamp with its certificates takes 2 to 8 KiB."""
_LOCK_S = 5.0
"""Who has a file writes a line or reads on in it."""
_LOOK_S = 0.01
_BLOCK = 1 << 16


def read_head_file(path: Path) -> Iterator[bytes]:
    """The envelopes of a file, without a last line that a kill cut off. Raises OSError."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield line.rstrip(b"\n")


@contextmanager
def open_alone(path: Path) -> Iterator[BinaryIO]:
    """The file, to read and to add to, and meanwhile to nobody else who opens it so. Raises OSError, also
    where another has it for longer than a moment.

    Locked is a file beside it that its owner alone can open: whoever may read a file can lock it.
    """
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take_lock(lock, path)
        with path.open("ab+") as file:
            yield file
    finally:
        os.close(lock)


def _take_lock(lock: int, path: Path) -> None:
    until = time.monotonic() + _LOCK_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise BlockingIOError(f"{path} is held by another process") from None
        time.sleep(_LOOK_S)


def write_line(file: BinaryIO, line: bytes) -> None:
    """Add it, in the place of a last one that a kill cut off, and wait until it is on the disk. Raises
    OSError."""
    at = file.seek(0, os.SEEK_END)
    block = b""
    while at > 0 and b"\n" not in block:
        end, at = at, max(0, at - _BLOCK)
        file.seek(at)
        block = file.read(end - at)
    file.truncate(at + block.rfind(b"\n") + 1)
    file.write(line + b"\n")
    file.flush()
    os.fsync(file.fileno())


class HeadFile:
    """Adds heads to a file; each is on the disk before the next one is signed."""

    def __init__(self, path: Path) -> None:
        """Reads what is there. Raises OSError, and HeadRefused where a line is no head."""
        self._path = path
        self._digests: list[str] = []
        self._end = 0
        if path.exists():
            with open_alone(path) as file:
                self._read_on(file)

    def take(self, number: int, digest: str, value: bytes) -> None:
        """See HeadCopies."""
        if number > len(self._digests):
            with open_alone(self._path) as file:
                self._read_on(file)
                if number > len(self._digests):
                    write_line(file, value)
                    self._digests.append(digest)
                    self._end += len(value) + 1
        if self._digests[number - 1] != digest:
            raise HeadRefused(f"head {number} is another than that in {self._path}")

    def _read_on(self, file: BinaryIO) -> None:
        """Take the heads that were added, also by a second signer: until one of two is fenced, both write. A
        last line that a kill cut off is cut away."""
        file.seek(self._end)
        for line in file:
            if not line.endswith(b"\n"):
                break
            number = len(self._digests) + 1
            envelope, head = open_head(line[:-1], number)
            if head.number != number:
                raise HeadRefused(f"{self._path}: line {number} is head {head.number}")
            self._digests.append(digest_head(envelope))
            self._end += len(line)
        file.truncate(self._end)

    async def require_no_later(self, number: int) -> None:
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
        self._endpoint = _Endpoint(url, timeout_s)

    def take(self, number: int, digest: str, value: bytes) -> None:
        """See HeadCopies."""
        del digest
        self._waiting = number, value

    async def require_no_later(self, number: int) -> None:
        """An endpoint is not asked what it has."""

    async def deliver(self) -> None:
        """Send what waits. A receiver that is away is named in the log, and holds nothing up for long."""
        if self._waiting is None:
            return
        number, value = self._waiting
        signed = sign_body(f"head:{number}", int(time.time()), value, self._secret)
        try:
            await self._endpoint.post(value, {"content-type": "application/json", **signed})
        except _NoAnswer as error:
            log.warning("head %d is not delivered: %s", number, error)
            return
        self._waiting = None

    async def close(self) -> None:
        """Give up the connection."""
        await self._endpoint.close()


class HeadTimestamps:
    """Has an authority state by RFC 3161 when the newest head was there, and adds both to a file: a line is
    the head's envelope with the member `timestamp`, the TimeStampResp in base64. The message that is stamped
    is the envelope's payload, by its SHA-256.

    A head that could not be stamped is tried again with each `deliver`, until there is a newer one. Who has
    signed the stamp, the verifier checks (docs/tree-heads.md); here it must be granted, with the request's
    nonce and over its message. Needs the package `rfc3161-client`.
    """

    def __init__(self, url: str, path: Path, timeout_s: float) -> None:
        """Reads how far the file has come. Raises OSError, ImportError, and HeadRefused where a line is no
        head."""
        from rfc3161_client import HashAlgorithm, TimestampRequestBuilder  # noqa: PLC0415 - an extra's

        self._builder = TimestampRequestBuilder().hash_algorithm(HashAlgorithm.SHA256)
        self._endpoint = _Endpoint(url, timeout_s)
        self._path = path
        self._stamped = 0
        self._waiting: tuple[int, bytes] | None = None
        if path.exists():
            for value in read_head_file(path):
                self._stamped = open_head(value, self._stamped + 1)[1].number

    def take(self, number: int, digest: str, value: bytes) -> None:
        """See HeadCopies."""
        del digest
        if number > self._stamped:
            self._waiting = number, value

    async def require_no_later(self, number: int) -> None:
        """See HeadCopies."""
        if number < self._stamped:
            raise HeadRefused(
                f"the topic ends with head {number}, and head {self._stamped} of {self._path} was stamped: "
                "the topic was cut off"
            )

    async def deliver(self) -> None:
        """Have what waits stamped. An authority that is away, or answers with something else, is named in the
        log, and holds nothing up for long. Raises OSError of the file."""
        if self._waiting is None:
            return
        number, value = self._waiting
        request = self._builder.data(open_head(value, number)[0].payload).build()
        try:
            answer = await self._endpoint.post(
                request.as_bytes(), {"content-type": "application/timestamp-query"}
            )
        except _NoAnswer as error:
            log.warning("head %d has no time stamp: %s", number, error)
            return
        objection = _find_objection_to_stamp(answer, request)
        if objection is not None:
            log.warning("head %d has no time stamp: the authority's answer %s", number, objection)
            return
        stamped = json.dumps(json.loads(value) | {"timestamp": b64encode(answer).decode()})
        with open_alone(self._path) as file:
            write_line(file, stamped.encode())
        self._stamped, self._waiting = number, None

    async def close(self) -> None:
        """Give up the connection."""
        await self._endpoint.close()


def _find_objection_to_stamp(answer: bytes, request: TimeStampRequest) -> str | None:
    """Why an answer is no time stamp for this request; None: it is."""
    from rfc3161_client import PKIStatus, decode_timestamp_response  # noqa: PLC0415 - an extra's

    try:
        response = decode_timestamp_response(answer)
        if response.status != PKIStatus.GRANTED:
            return f"has the status {response.status}: {' '.join(response.status_string)[:200]!r}"
        info = response.tst_info
        stamped = info.message_imprint.message
    except ValueError as error:
        return f"is no TimeStampResp: {error}"
    if info.nonce != request.nonce or stamped != request.message_imprint.message:
        return "is of another request"
    return None


class _NoAnswer(Exception):
    """An endpoint did not take what was sent. The message says how."""


class _Endpoint:
    """One address to which bytes are posted; one connection."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._transport = httpx2.AsyncHTTPTransport(ssl.create_default_context(), trust_env=False)

    async def post(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The answer's body. Raises _NoAnswer."""
        request = httpx2.Request("POST", self._url, content=body, headers=headers)
        read = bytearray()
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._transport.handle_async_request(request)
                try:
                    async for chunk in answer.aiter_raw():
                        read += chunk
                        if len(read) > _LARGEST_ANSWER:
                            break
                finally:
                    await answer.aclose()
        except OF_THE_RECEIVER as error:
            raise _NoAnswer(f"{self._url} does not answer: {error!r}") from None
        if answer.status_code not in OK or len(read) > _LARGEST_ANSWER:
            raise _NoAnswer(f"{self._url} answers {answer.status_code} with {len(read)} bytes")
        return bytes(read)

    async def close(self) -> None:
        await self._transport.aclose()
