"""The client for asyncio: it publishes an input once and returns the answer that the worker committed.

A tool runs only under a verdict that allows it. If anything goes wrong, the wait ends with an error and the
tool does not run.
"""

from __future__ import annotations

import asyncio
import functools
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from sluice.client.answers import (
    NOT_RETURNED,
    ActionAnswer,
    ActionInterrupted,
    ClientError,
    MemoryAnswer,
    Permit,
    RetrievalAnswer,
    make_refusal,
)
from sluice.client.approval import are_items_approved, await_end, fetch_narrowed_parameters
from sluice.client.exchange import OutgoingInput
from sluice.client.freezes import NOT_STARTED, make_frozen_refusal, read_call, stop_when_frozen
from sluice.client.guarded_calls import (
    GuardedTool,
    GuardOptions,
    await_value,
    find_mandate,
    name_error,
    resolve_session_id,
)
from sluice.client.input_kinds import ACTION, MANDATE, OUTCOME, RETRIEVAL, WRITE, InputKind
from sluice.client.journal import Journal
from sluice.client.json_values import copy_faithfully
from sluice.client.mandates import compute_mandate_digest
from sluice.client.sender import ClientOptions, Sender, make_exchange, name_outcome, serialize_record
from sluice.client.unreported import report_unreported

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Literal, Self

    from sluice.client.binding import CommittedAnswer
    from sluice.client.guarded_calls import Context, Mandate
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.sealing import SealedRecord

P = ParamSpec("P")
T = TypeVar("T")


class AsyncGateClient:
    """One agent's connection to the gate, as an async context manager, for any number of calls at once."""

    def __init__(
        self, bootstrap_servers: KafkaCluster, agent_id: str, options: ClientOptions | None = None
    ) -> None:
        """`agent_id` as in the registry. Raises ClientError for a key that cannot be used, and sqlite3.Error
        if the journal cannot be opened or another client has it open."""
        self._options = options or ClientOptions()
        self._exchange = make_exchange(bootstrap_servers, self._options)
        self._sender = Sender(self._exchange, agent_id, self._options)
        self._journal = Journal(self._options.journal)
        self._mandates: set[str] = set()
        self._freezes = None if self._options.freezes is None else self._options.freezes()

    @property
    def agent_id(self) -> str:
        """The agent's id, as in the registry."""
        return self._sender.agent_id

    async def __aenter__(self) -> Self:
        """Start; if that fails, close."""
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def start(self) -> None:
        """Connect, and report the outcomes that an earlier process did not. Raises BrokerUnreachable, and
        KafkaError where it is to see freezes and cannot read them."""
        await self._exchange.start(self._options.connect_timeout_s)
        await self._sender.sealing.start()
        if self._freezes is not None:
            await self._freezes.start()
        await report_unreported(self._exchange, self._sender, self._journal)

    async def close(self) -> None:
        """Close the connections and the journal. Callers that still wait get a ConnectionError."""
        if self._freezes is not None:
            await self._freezes.close()
        await self._sender.sealing.close()
        await self._exchange.close()
        self._journal.close()

    async def propose(
        self,
        tool_name: str,
        parameters: Mapping[str, Any],
        *,
        session_id: str,
        action_id: str | None = None,
        deadline_s: float | None = None,
        **fields: Any,
    ) -> ActionAnswer:
        """Propose an action and return the gate's verdict, whatever it is. No tool runs.

        `action_id` None: a new id. The same action under the same id again gets the first answer. `fields`:
        more fields of the record, by wire names (docs/fields.md); and `mandate`, under which it acts, signed
        or by its digest: without it, that of `in_session`.

        Raises ActionNotDecided, InputUnreadable, ClientError, ConnectionError and KafkaError.
        """
        arguments = {**fields, "parameters": parameters, "deadline_s": deadline_s}
        await self._name_mandate(session_id, arguments)
        record, wait_s = self._build_action(tool_name, session_id, action_id, arguments)
        value = serialize_record((await self._sender.seal(ACTION, record)).fields)
        answer = await self._ask(ACTION, record["action_id"], session_id, value, wait_s)
        return ActionAnswer.of(answer.record)

    async def remember(
        self,
        content: str,
        source: Mapping[str, Any],
        *,
        session_id: str,
        write_id: str | None = None,
        deadline_s: float | None = None,
        **fields: Any,
    ) -> MemoryAnswer:
        """Ask whether a memory may be kept. `source`: {"id": …, "type": …}. `fields`: the quality fields
        (`content_class`, `timestamp`, `confidence_score`, `provenance_uri`, …) and others, by wire names.
        Raises ActionNotDecided, InputUnreadable, ClientError and KafkaError.
        """
        record = self._sender.build_record(
            "write_id", write_id, session_id, content=content, source=dict(source), **fields
        )
        wait_s = self._resolve_wait(deadline_s)
        value = serialize_record((await self._sender.seal(WRITE, record)).fields)
        answer = await self._ask(WRITE, record["write_id"], session_id, value, wait_s)
        return MemoryAnswer.of(answer.record)

    async def retrieve(
        self,
        items: Sequence[Mapping[str, Any]],
        *,
        session_id: str,
        request_id: str | None = None,
        deadline_s: float | None = None,
        approval_timeout_s: float | None = None,
        **fields: Any,
    ) -> RetrievalAnswer:
        """Ask which of these items the agent may read.

        `approval_timeout_s`: how long to wait if denied items wait for a person; None: not at all. If they
        agree in time, the request is sent again, and its answer is returned. Raises as `remember` does.
        """
        record = self._sender.build_record(
            "request_id", request_id, session_id, items=[*map(dict, items)], **fields
        )
        sealed = await self._sender.seal(RETRIEVAL, record)
        wait_s, value = self._resolve_wait(deadline_s), serialize_record(sealed.fields)

        async def ask() -> RetrievalAnswer:
            answer = await self._ask(RETRIEVAL, record["request_id"], session_id, value, wait_s)
            return RetrievalAnswer.of(sealed.restore(answer.record))

        first, reader = await ask(), self._exchange.reader
        if approval_timeout_s is None or not await are_items_approved(reader, first, approval_timeout_s):
            return first
        return await ask()

    async def mandate(self, mandate: Mapping[str, Any], *, deadline_s: float | None = None) -> str:
        """Publish a signed mandate, and return its digest once the gate has recorded it.

        Raises ClientError with the gate's reason where it refuses the mandate; ActionNotDecided,
        InputUnreadable, ConnectionError and KafkaError.
        """
        session, name = mandate["session_id"], mandate["mandate_id"]
        value, wait_s = serialize_record(mandate), self._resolve_wait(deadline_s)
        record = (await self._ask(MANDATE, name, session, value, wait_s)).record
        if "mandate" not in record:
            raise ClientError(f"the mandate {name} is refused: {record['reason']}", record["message"])
        digest = compute_mandate_digest(mandate)
        self._mandates.add(digest)
        return digest

    async def report_outcome(
        self,
        verdict: ActionAnswer,
        rows_affected: int,
        *,
        error: str | None = None,
        result: Any = NOT_RETURNED,
    ) -> None:
        """Report the outcome of an action that ran without a guard. Returns when the broker has it.

        `result`: what the tool returned, as `Permit.result`."""
        session, action_id = verdict.record["session_id"], verdict.record["action_id"]
        values = await self._sender.read_values(result)
        value = await self._sender.build_outcome(verdict, rows_affected, error, values)
        await self._sender.publish(OUTCOME, session, name_outcome(session, action_id), value)

    async def permit(
        self,
        tool_name: str,
        parameters: Mapping[str, Any],
        *,
        session_id: str,
        action_id: str | None = None,
        approval_timeout_s: float | None = None,
        accept_narrowed: bool = False,
        **fields: Any,
    ) -> Permit:
        """The permission to run a tool once; call `finish` when it has run. `guard` and `action` do both.

        `approval_timeout_s`: how long to wait if a person must agree; None: not at all. A later call with the
        same id waits on. Run the tool with the permit's `parameters`. `accept_narrowed`: they may be those by
        which an approver replaced the proposed ones; without it such an approval raises ClientError.
        `fields`: as in `propose`.

        Raises what `propose` raises, ActionDenied, NeedsHuman, and ActionInterrupted if a tool was started
        under this id before. With `ClientOptions.freezes`, ActionDenied too for what was frozen since the
        verdict: it never starts under this id again, and its outcome says so.
        """
        arguments = {**fields, "approval_timeout_s": approval_timeout_s, "action_id": action_id}
        verdict, proposed = await self._decide(tool_name, parameters, session_id, arguments)
        an_id = verdict.record["action_id"]
        if not verdict.allowed:
            raise make_refusal(verdict)
        narrowed = await fetch_narrowed_parameters(self._exchange.reader, verdict)
        if narrowed is not None and not accept_narrowed:
            raise ClientError("approved with other parameters than proposed", "Pass accept_narrowed=True")
        if narrowed is None:
            judged = proposed.restore(proposed.fields["parameters"])
        else:
            judged = await self._sender.open_narrowed(proposed.fields, narrowed)
        stop = None if self._freezes is None else self._freezes.find_stop(read_call(verdict))
        if not self._journal.start(session_id, an_id):
            raise ActionInterrupted(an_id)
        permit = Permit(verdict, judged, narrowed=narrowed is not None)
        if stop is not None:
            permit.rows_affected = 0
            await self.finish(permit, error=NOT_STARTED)
            raise make_frozen_refusal(verdict, stop)
        return permit

    def stop_when_frozen(self, permit: Permit) -> AbstractAsyncContextManager[None]:
        """Cancel the block, which runs the permit's tool, when a freeze stops its action; raise ActionStopped
        then. Without `ClientOptions.freezes` it does nothing."""
        return stop_when_frozen(self._freezes, permit)

    def has_begun(self, session_id: str, action_id: str) -> bool:
        """Whether the journal has this action: with a file, also one that an earlier process began."""
        return self._journal.has_action(session_id, action_id)

    async def await_verdict(
        self,
        tool_name: str,
        parameters: Mapping[str, Any],
        *,
        session_id: str,
        action_id: str,
        approval_timeout_s: float | None = None,
        **fields: Any,
    ) -> ActionAnswer:
        """The verdict under which `permit` runs later with the same arguments: it is asked for once. For
        callers that must know whether a tool may run before they are the ones that run it.

        Raises what `permit` raises, apart from the refusals that are in the verdict."""
        arguments = {**fields, "approval_timeout_s": approval_timeout_s, "action_id": action_id}
        verdict, _ = await self._decide(tool_name, parameters, session_id, arguments)
        return verdict

    async def await_approval(self, verdict: ActionAnswer, timeout_s: float) -> ActionAnswer:
        """Wait for the end of a verdict's escalation, which an earlier process may have opened: the resolved
        verdict, or a denied one. Raises NeedsHuman after `timeout_s`."""
        return await await_end(self._exchange.reader, verdict, timeout_s)

    async def finish(self, permit: Permit, *, error: str | None = None) -> None:
        """Report what the tool did; `error`: what it raised. Returns when the broker has the outcome."""
        session, action_id = permit.session_id, permit.action_id
        values = await self._sender.read_values(permit.result)
        value = await self._sender.build_outcome(permit.verdict, permit.rows, error, values)
        self._journal.finish(session, action_id, value)
        await self._sender.publish(OUTCOME, session, name_outcome(session, action_id), value)
        self._journal.report(session, action_id)

    @asynccontextmanager
    async def action(
        self, tool_name: str, parameters: Mapping[str, Any], *, session_id: str | None = None, **more: Any
    ) -> AsyncIterator[Permit]:
        """Run the block only if the action is allowed, and report the outcome, even if the block raises.

        The block may set the permit's `rows_affected` and `result`. `more` and the errors are those of
        `permit`."""
        permit = await self.permit(tool_name, parameters, session_id=resolve_session_id(session_id), **more)
        async with self._report_after(permit), self.stop_when_frozen(permit):
            yield permit

    def guard(
        self,
        tool_name: str | None = None,
        *,
        rows: Callable[[Any], int] | None = None,
        rows_before: Callable[..., int | Awaitable[int]] | int | None = None,
        context: Context = (),
        on_refusal: Literal["raise", "return"] = "raise",
        **more: Any,
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, T]]]:
        """A decorator: the function runs only if the gate allows a call with its arguments.

        The gate judges the arguments by name, defaults included; the function gets what was judged. `context`
        names parameters that it does not see: objects that the call passes, such as `self`, or names with the
        functions that give the values. `tool_name` None: the function's name. `rows_before`: the rows that
        are known before the call, or a function of its arguments; `rows` computes those to report from the
        result, None: those reserved. `on_refusal`: "return" returns a text for a model where no tool ran.
        `more` is that of `action`.

        Raises ClientError for a function that cannot be guarded, and for arguments that JSON does not keep.
        """
        options = GuardOptions(tool_name, rows, rows_before, context, on_refusal, more)

        def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
            tool = GuardedTool(function, options)

            @functools.wraps(function)
            async def guarded(*args: P.args, **kwargs: P.kwargs) -> Any:
                session = tool.resolve_session()
                try:
                    call = tool.propose(args, kwargs)
                    fields = tool.build_fields(session, await await_value(tool.count_rows_before(call)))
                    permit = await self.permit(tool.name, call.parameters, **fields)
                except ClientError as error:
                    return tool.refuse(error)
                async with self._report_after(permit):
                    async with self.stop_when_frozen(permit):
                        result = await await_value(tool.run(permit, call))
                    tool.finish(permit, result)
                    return result

            return guarded

        return decorate

    @asynccontextmanager
    async def _report_after(self, permit: Permit) -> AsyncIterator[None]:
        """Report the outcome of the block, also if it raises."""
        try:
            yield
        except BaseException as error:
            await asyncio.shield(self.finish(permit, error=name_error(error)))
            raise
        await asyncio.shield(self.finish(permit))

    async def _decide(
        self, tool_name: str, parameters: Mapping[str, Any], session_id: str, fields: Mapping[str, Any]
    ) -> tuple[ActionAnswer, SealedRecord]:
        """The verdict on an action that no process has started, and the action as it was judged. What the
        journal has is not asked for again. `fields`: with `action_id` and `approval_timeout_s`."""
        arguments = {**fields, "parameters": parameters}
        approval_timeout_s, action_id = arguments.pop("approval_timeout_s"), arguments.pop("action_id")
        await self._name_mandate(session_id, arguments)
        record, wait_s = self._build_action(tool_name, session_id, action_id, arguments)
        sealed = await self._sender.seal(ACTION, record)
        an_id, value = record["action_id"], serialize_record(sealed.fields)
        entry = self._journal.propose(session_id, an_id, value)
        if entry.value != value:
            raise ClientError(f"{an_id}: another action of this session has this id", "Use a new action_id")
        if entry.step == "proposed":
            if entry.location is None:
                answer = await self._ask(ACTION, an_id, session_id, value, wait_s)
            else:
                sent = OutgoingInput(ACTION, an_id, session_id, value, ())
                answer = await self._exchange.fetch_answer(sent, entry.location, wait_s)
            self._journal.decide(session_id, an_id, answer.record)
            verdict = ActionAnswer.of(answer.record)
        elif entry.step == "decided" and entry.verdict is not None:
            verdict = ActionAnswer.of(entry.verdict)
        else:
            raise ActionInterrupted(an_id)
        if verdict.escalation_id is not None and not verdict.allowed and approval_timeout_s is not None:
            verdict = await self.await_approval(verdict, approval_timeout_s)
            self._journal.resolve(session_id, an_id, dict(verdict.record))
        return verdict, sealed

    async def _name_mandate(self, session: str, fields: dict[str, Any]) -> None:
        """Put the digest of an action's mandate in the place of `mandate`. A signed one that this client has
        not published yet goes first; its answer is not waited for, because the gate waits for the mandate."""
        mandate: Mandate | None = fields.pop("mandate", None) or find_mandate(session)
        if mandate is None:
            return
        if isinstance(mandate, str):
            fields["mandate_digest"] = mandate
            return
        fields["mandate_digest"] = digest = compute_mandate_digest(mandate)
        if digest not in self._mandates:
            value = serialize_record(mandate)
            await self._sender.publish(MANDATE, mandate["session_id"], mandate["mandate_id"], value)
            self._mandates.add(digest)

    def _resolve_wait(self, deadline_s: float | None) -> float:
        return self._options.deadline_s if deadline_s is None else deadline_s

    def _build_action(
        self, tool_name: str, session: str, action_id: str | None, fields: dict[str, Any]
    ) -> tuple[dict[str, Any], float]:
        wait_s = self._resolve_wait(fields.pop("deadline_s", None))
        defaults = {"toolName": tool_name, "mode": self._options.mode, "deadline_ms": int(1000 * wait_s)}
        fields["parameters"] = copy_faithfully(dict(fields["parameters"]), "parameters")
        return self._sender.build_record("action_id", action_id, session, **{**defaults, **fields}), wait_s

    async def _ask(
        self, kind: InputKind, name: str, session: str, value: bytes, wait_s: float
    ) -> CommittedAnswer:
        """Publish an input and wait for its answer. `name` names the input in errors."""
        placed = partial(self._journal.set_location, session, name) if kind is ACTION else None
        return await self._exchange.ask(
            self._sender.build_outgoing(kind, session, name, value), wait_s, placed
        )
