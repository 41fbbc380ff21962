"""The client for code without an event loop: the asyncio client on a thread of its own."""

from __future__ import annotations

import asyncio
import functools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from sluice.client.answers import ClientError
from sluice.client.async_client import AsyncGateClient
from sluice.client.guarded_calls import (
    GuardedTool,
    GuardOptions,
    find_mandate,
    name_error,
    refuse_coroutine,
    resolve_session_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Literal, Self

    from sluice.client.answers import ActionAnswer, MemoryAnswer, Permit, RetrievalAnswer
    from sluice.client.guarded_calls import Context
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.sender import ClientOptions

P = ParamSpec("P")
T = TypeVar("T")


class GateClient:
    """One agent's connection to the gate, as a context manager; any number of threads may use it at once.

    Arguments, methods and errors are those of AsyncGateClient; guarded tools run in the caller's thread.
    """

    def __init__(
        self, bootstrap_servers: KafkaCluster, agent_id: str, options: ClientOptions | None = None
    ) -> None:
        """See AsyncGateClient."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sluice-client", daemon=True)
        self._thread.start()
        try:
            self._client = self._run(self._make_client(bootstrap_servers, agent_id, options))
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        """Connect; if that fails, close."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    @property
    def asynchronous(self) -> AsyncGateClient:
        """The client on this one's thread; `submit` runs its coroutines there."""
        return self._client

    def submit(self, step: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine of `asynchronous` on this client's thread."""
        return asyncio.run_coroutine_threadsafe(step, self._loop)

    def start(self) -> None:
        """See AsyncGateClient.start."""
        self._run(self._client.start())

    def close(self) -> None:
        """See AsyncGateClient.close."""
        try:
            self._run(self._client.close())
        finally:
            self._end()

    def propose(self, tool_name: str, parameters: Mapping[str, Any], **more: Any) -> ActionAnswer:
        """See AsyncGateClient.propose."""
        return self._run(self._client.propose(tool_name, parameters, **_add_mandate(more)))

    def remember(self, content: str, source: Mapping[str, Any], **more: Any) -> MemoryAnswer:
        """See AsyncGateClient.remember."""
        return self._run(self._client.remember(content, source, **more))

    def retrieve(self, items: Sequence[Mapping[str, Any]], **more: Any) -> RetrievalAnswer:
        """See AsyncGateClient.retrieve."""
        return self._run(self._client.retrieve(items, **more))

    def mandate(self, mandate: Mapping[str, Any], *, deadline_s: float | None = None) -> str:
        """See AsyncGateClient.mandate."""
        return self._run(self._client.mandate(mandate, deadline_s=deadline_s))

    def report_outcome(self, verdict: ActionAnswer, rows_affected: int, **more: Any) -> None:
        """See AsyncGateClient.report_outcome."""
        self._run(self._client.report_outcome(verdict, rows_affected, **more))

    def permit(self, tool_name: str, parameters: Mapping[str, Any], **more: Any) -> Permit:
        """See AsyncGateClient.permit."""
        return self._run(self._client.permit(tool_name, parameters, **_add_mandate(more)))

    def await_approval(self, verdict: ActionAnswer, timeout_s: float) -> ActionAnswer:
        """See AsyncGateClient.await_approval."""
        return self._run(self._client.await_approval(verdict, timeout_s))

    def finish(self, permit: Permit, *, error: str | None = None) -> None:
        """See AsyncGateClient.finish."""
        self._run(self._client.finish(permit, error=error))

    @contextmanager
    def action(
        self, tool_name: str, parameters: Mapping[str, Any], *, session_id: str | None = None, **more: Any
    ) -> Iterator[Permit]:
        """See AsyncGateClient.action."""
        permit = self.permit(tool_name, parameters, session_id=resolve_session_id(session_id), **more)
        with self._report_after(permit):
            yield permit

    def guard(
        self,
        tool_name: str | None = None,
        *,
        rows: Callable[[Any], int] | None = None,
        rows_before: Callable[..., int] | int | None = None,
        context: Context = (),
        on_refusal: Literal["raise", "return"] = "raise",
        **more: Any,
    ) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """See AsyncGateClient.guard."""
        options = GuardOptions(tool_name, rows, rows_before, context, on_refusal, more)

        def decorate(function: Callable[P, T]) -> Callable[P, T]:
            refuse_coroutine(function)
            tool = GuardedTool(function, options)

            @functools.wraps(function)
            def guarded(*args: P.args, **kwargs: P.kwargs) -> Any:
                session = tool.resolve_session()
                try:
                    call = tool.propose(args, kwargs)
                    fields = tool.build_fields(session, tool.count_rows_before(call))
                    permit = self.permit(tool.name, call.parameters, **fields)
                except ClientError as error:
                    return tool.refuse(error)
                with self._report_after(permit):
                    result = tool.run(permit, call)
                    tool.finish(permit, result)
                    return result

            return guarded

        return decorate

    @contextmanager
    def _report_after(self, permit: Permit) -> Iterator[None]:
        """Report the outcome of the block, also if it raises."""
        try:
            yield
        except BaseException as error:
            self.finish(permit, error=name_error(error))
            raise
        self.finish(permit)

    async def _make_client(
        self, cluster: KafkaCluster, agent_id: str, options: ClientOptions | None
    ) -> AsyncGateClient:
        return AsyncGateClient(cluster, agent_id, options)

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        return self.submit(step).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _add_mandate(more: dict[str, Any]) -> dict[str, Any]:
    """With the mandate of `in_session`, which only the caller's own thread has."""
    mandate = more.get("mandate") or find_mandate(more.get("session_id", ""))
    return more if mandate is None else {**more, "mandate": mandate}
