"""The ways to an MCP server: by Streamable HTTP, and by the standard input and output of a command.

By HTTP the SDK follows a redirect only within the server's own origin, verifies TLS, and bounds an event (1
MiB) and the time without a byte. It does not bound an answer that is one JSON value, nor what a compressed
answer becomes, nor a line of a command: that is done here. Whatever is too long ends the connection.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from typing import Self

    from anyio.abc import Process
    from mcp import StdioServerParameters

log = logging.getLogger(__name__)
MOST_ANSWER_BYTES = 16 * 1024 * 1024
"""The longest answer of a server that is one JSON value, and the longest line of a command."""
CONNECT_S, QUIET_S = 30.0, 300.0
"""The longest time to connect or send, and without a byte of an answer."""
END_S = 2.0
"""How long a command may take to end after its input has ended, and again after it was asked by a signal."""
LOGGED_S, MOST_LOGGED = 60.0, 16
"""In this time one line of the log says that a server makes requests of a kind; the most kinds."""
_UNCOMPRESSED = "identity"


@asynccontextmanager
async def reach_by_http(url: str) -> AsyncIterator[Any]:
    """The streams of a connection, as the SDK's client takes them."""
    async with (
        httpx2.AsyncClient(
            headers={"accept-encoding": _UNCOMPRESSED},
            timeout=httpx2.Timeout(CONNECT_S, read=QUIET_S),
            event_hooks={"response": [_bound_answer]},
        ) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


@asynccontextmanager
async def reach_by_command(command: StdioServerParameters) -> AsyncIterator[Any]:
    """The same of a server that is started for it, in a process group of its own. Raises OSError if it cannot
    be started."""
    process = await anyio.open_process(
        [command.command, *command.args],
        env={**get_default_environment(), **(command.env or {})},
        cwd=command.cwd,
        stderr=None,
        start_new_session=True,
    )
    messages, read = anyio.create_memory_object_stream[Any](0)
    write, taken = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_lines, process, messages)
        tasks.start_soon(_write_lines, process, taken, messages)
        try:
            yield read, write
        finally:
            with anyio.CancelScope(shield=True):
                read.close()
                write.close()
                await _end(process)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def overhear(reached: Any, server: str, passed: Iterable[str]) -> AsyncIterator[Any]:
    """The streams of a connection, with a line in the log for what the server asks of its client that is not
    `passed` on, because the SDK refuses it without a trace. `passed`: methods."""
    allowed, logged = frozenset(passed), dict[str, float]()

    def note(item: Any) -> None:
        message = getattr(item, "message", None)
        if not isinstance(message, JSONRPCRequest) or message.method in allowed or message.method == "ping":
            return
        method, now = message.method[:64], time.monotonic()
        is_told = method in logged or len(logged) >= MOST_LOGGED
        if not is_told or now - logged.get(method, now) >= LOGGED_S:
            logged[method] = now
            log.warning("%s asks its client for %r, which is refused: it is not named", server, method)

    async with reached as (read, write):
        yield _OverheardStream(read, note), write


class _OverheardStream:
    """A stream of messages, each of which is shown to `note` before it is read."""

    def __init__(self, stream: Any, note: Callable[[Any], None]) -> None:
        self._stream, self._note = stream, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> _OverheardStream:
        return self

    async def __anext__(self) -> Any:
        item = await anext(self._stream)
        self._note(item)
        return item

    async def receive(self) -> Any:
        """The next message."""
        item = await self._stream.receive()
        self._note(item)
        return item

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._stream.__aexit__(*error)


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_ANSWER_BYTES
        async for part in self._stream:
            left -= len(part)
            if left < 0:
                raise httpx2.StreamError(f"an answer of more than {MOST_ANSWER_BYTES} bytes")
            yield part

    async def aclose(self) -> None:
        """Close the stream within."""
        await self._stream.aclose()


async def _bound_answer(response: httpx2.Response) -> None:
    """An event stream may go on for days; its events are bounded one by one. What is compressed has no bound:
    nobody asked for it."""
    if response.headers.get("content-encoding", _UNCOMPRESSED).strip().lower() != _UNCOMPRESSED:
        raise httpx2.DecodingError("a compressed answer, which was not asked for")
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        response.stream = _BoundedStream(response.stream)


async def _read_lines(process: Process, messages: Any) -> None:
    """Hand on a command's messages. The connection ends where its output does, and after a line that is too
    long; what comes then is read until the process has ended, and dropped."""
    output: Any = process.stdout
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
        async with messages:
            async for line in _split_lines(output):
                await messages.send(_parse(line))
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
        async for _ in output:
            pass


async def _split_lines(output: Any) -> AsyncIterator[bytes]:
    parts: list[bytes] = []
    size = 0
    async for chunk in output:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join((*parts, end))
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > MOST_ANSWER_BYTES:
            log.error("a line of more than %d bytes: the connection to the server ends", MOST_ANSWER_BYTES)
            return


def _parse(line: bytes) -> SessionMessage | ValueError:
    """A message, or the error, which the session is told in its place."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write_lines(process: Process, taken: Any, messages: Any) -> None:
    """Hand a command its messages. If it reads no more, the connection ends."""
    command_input: Any = process.stdin
    try:
        async with taken:
            async for message in taken:
                await command_input.send(
                    message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                )
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await messages.aclose()


async def _end(process: Process) -> None:
    """End a command as MCP has it: its input ends; then its group is asked to end; then that is killed."""
    command_input: Any = process.stdin
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await command_input.aclose()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        with anyio.move_on_after(END_S):
            while process.returncode is None:  # noqa: ASYNC110 - `wait` waits for who else has its output
                await anyio.sleep(0.01)
            break
    output: Any = process.stdout
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await output.aclose()
