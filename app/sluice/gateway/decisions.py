"""Asks the gate and reads its decisions, by the agents' client: HTTP and Kafka are one path.

A decision is found again by the coordinates in its id, in one partition, from its input's time on.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError

from sluice.client.answers import (
    ActionAnswer,
    ActionNotDecided,
    ClientError,
    InputLocation,
    InputUnreadable,
    NeedsHuman,
)
from sluice.client.approval import await_end, fetch_narrowed_parameters
from sluice.client.binding import describe_answer, describe_end, describe_input_end
from sluice.client.exchange import OutgoingInput
from sluice.client.input_kinds import (
    ACTION,
    ACTIONS,
    DEAD_LETTERS,
    ESCALATIONS,
    MEMORY_WRITES,
    OUTCOME,
    RETRIEVALS,
    REVIEW,
    REVIEWS,
    VERDICTS,
    WRITE,
)
from sluice.client.sealing import NoSealing, seal_record
from sluice.client.sender import InputSigner, Origin, build_headers, serialize_record
from sluice.core.foundation.input_record import make_resolved_id, memory_id, read_coordinates, verdict_id
from sluice.gateway.http.http_errors import HttpError, make_not_found
from sluice.gateway.openapi_shapes import PENDING_SCHEMA
from sluice.gateway.waiting_subjects import is_of_caller
from sluice_topics.json_text import parse, write_json_path
from sluice_topics.sealing import find_tokens, is_sealed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sluice.client.exchange import Exchange
    from sluice.client.input_kinds import InputKind
    from sluice.client.sealing import SealingView
    from sluice.gateway.http.api_keys import Caller
    from sluice.gateway.input_requests import PreparedInput

REQUEST_ID = "X-Mnemom-Request-Id"
SOURCE = "/gateway/agents/"
REVIEW_SOURCE = "/gateway/approvers/"
"""ce_source of what the gateway publishes, before the agent's id or the approver's."""
_ID_KINDS = {ACTIONS: verdict_id, REVIEWS: make_resolved_id, MEMORY_WRITES: memory_id}
"""Decisions by the topic of their input."""
_KINDS = {kind.topic: kind for kind in (ACTION, REVIEW, WRITE)}
COME_AGAIN_S = 1
NOT_THERE = 404
MOST_OFFSET = 2**63


class Decisions:
    """One installation's, by one exchange."""

    def __init__(
        self, exchange: Exchange, signer: InputSigner | None, read_timeout_s: float, readers: int
    ) -> None:
        """`signer`: with the gateway's own key, which signs for agents that sign. A look for a
        decision takes `read_timeout_s` at most; so many `readers` look at once."""
        self._exchange = exchange
        self._signer = signer
        self._read_timeout_s = read_timeout_s
        self._readers = asyncio.Semaphore(readers)

    async def ask(
        self, kind: InputKind, prepared: PreparedInput, request_id: str, traceparent: str | None = None
    ) -> dict[str, Any]:
        """Publish an input, and wait for the record that answers it. Raises HttpError."""
        what = self._build_input(kind, prepared, request_id, traceparent)
        async with translate_faults(kind):
            try:
                return (await self._exchange.ask(what, prepared.wait_s)).record
            except ActionNotDecided as late:
                if kind is not OUTCOME or late.location is None:
                    raise
                message = {"outcome_id": kind.list_ids(late.location)[0], "status": "pending"}
                return {"schema": PENDING_SCHEMA, **message}  # it is settled when its action comes

    async def send(self, kind: InputKind, prepared: PreparedInput, request_id: str) -> None:
        """Publish an input, and wait for no answer. Raises HttpError."""
        async with translate_faults(kind):
            await self._exchange.publish(self._build_input(kind, prepared, request_id, None))

    def _build_input(
        self, kind: InputKind, prepared: PreparedInput, request_id: str, traceparent: str | None
    ) -> OutgoingInput:
        signer = self._signer if prepared.signs else None
        source = f"{SOURCE}{prepared.agent}"
        signed_parts = prepared.session, prepared.name, prepared.value
        headers = build_headers(kind, Origin(source, traceparent), *signed_parts, signer)
        headers.append((REQUEST_ID, request_id.encode()))
        return OutgoingInput(kind, prepared.name, prepared.session, prepared.value, headers)

    async def review(self, prepared: PreparedInput, subject_id: str, request_id: str) -> dict[str, Any]:
        """Publish a reviewer's answer, and wait for the record that says what became of it.

        Raises HttpError.
        """
        headers = build_headers(
            REVIEW,
            Origin(f"{REVIEW_SOURCE}{prepared.agent}"),
            prepared.session,
            prepared.name,
            prepared.value,
            None,
        )
        headers.append((REQUEST_ID, request_id.encode()))
        what = OutgoingInput(REVIEW, prepared.name, prepared.session, prepared.value, headers)
        async with translate_faults(REVIEW):
            return await self._exchange.review(what, subject_id, prepared.wait_s)

    async def fetch_end(self, first: dict[str, Any]) -> ActionAnswer | None:
        """The end of an escalated action's verdict; None: it still waits. Raises HttpError."""
        verdict = ActionAnswer.of(first)
        at = first["input"]
        since = InputLocation(at["partition"], at["offset"], at["timestamp"])
        async with translate_faults(ACTION), self._readers:
            sought = describe_end(verdict, since.timestamp_ms)
            answer = await self._exchange.reader.look_back(sought, since, [ESCALATIONS])
            if answer is None:
                return None
            try:
                return await await_end(self._exchange.reader, verdict, self._read_timeout_s)
            except NeedsHuman:
                return None

    async def fetch_retrieval_end(self, an_id: str, caller: Caller) -> dict[str, Any]:
        """The record that ended the escalation of a retrieval. Raises HttpError: 404 where there is none."""
        end = await self.fetch_escalation_end(an_id)
        if end is None or not is_of_caller(end, caller):
            raise make_not_found(an_id)
        return end

    async def fetch_escalation_end(self, an_id: str) -> dict[str, Any] | None:
        """The record that ended the escalation of an action or a retrieval; None: it waits. Raises HttpError:
        404 where the ledger has nothing of it."""
        try:
            topic, partition, offset = read_coordinates(an_id)
        except ValueError:
            raise make_not_found(an_id) from None
        is_there = topic in (ACTIONS, RETRIEVALS) and partition < self._exchange.partitions
        if not is_there or offset >= MOST_OFFSET:
            raise make_not_found(an_id)
        async with translate_faults(), self._readers:
            came = await self._exchange.reader.fetch_input(topic, partition, offset)
            if came is None:
                raise make_not_found(an_id)
            since = InputLocation(partition, offset, came.timestamp_ms)
            sought = describe_input_end(an_id, came.value, came.timestamp_ms)
            answer = await self._exchange.reader.look_back(sought, since, [ESCALATIONS])
        return None if answer is None else answer.record

    async def fetch_narrowed(self, end: ActionAnswer) -> dict[str, Any] | None:
        """The parameters with which an approver let the action run, if other ones. Raises HttpError."""
        async with translate_faults(ACTION):
            parameters = await fetch_narrowed_parameters(self._exchange.reader, end)
            return None if parameters is None else dict(parameters)

    async def fetch_first(self, record: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """The decision that a repeat refers to, where it is still there; else the record itself, and so where
        a freeze denies now what it allowed."""
        original = record.get("duplicate_of")
        if not isinstance(original, str) or record.get("outcome") == "BLOCK":
            return record
        try:
            return await self.fetch_decision(original, caller) or record
        except HttpError as error:
            if error.status == NOT_THERE:
                return record
            raise

    async def fetch_decision(self, an_id: str, caller: Caller) -> dict[str, Any] | None:
        """The record of this decision on an action or a memory write, or the verdict that an approval led to;
        None: its input is there, and not decided yet.

        Raises HttpError: 404 where there is no such, or it is of others.
        """
        topic, partition, offset = self._resolve_place(an_id)
        async with translate_faults(ACTION), self._readers:
            try:
                async with asyncio.timeout(self._read_timeout_s):
                    return await self._look(an_id, topic, (partition, offset), caller)
            except TimeoutError:
                raise HttpError(504, "too_slow", f"{an_id} was not found in time").set_retry_after(
                    COME_AGAIN_S
                ) from None

    async def _look(
        self, an_id: str, topic: str, at: tuple[int, int], caller: Caller
    ) -> dict[str, Any] | None:
        review_input = await self._exchange.reader.fetch_input(topic, *at)
        if review_input is None:
            raise make_not_found(an_id)
        location = InputLocation(*at, review_input.timestamp_ms)
        kind = _KINDS[topic]
        sought = describe_answer(kind, location, review_input.value, [an_id])
        answers = VERDICTS if kind is REVIEW else kind.answers
        answer = await self._exchange.reader.look_back(sought, location, [answers, DEAD_LETTERS])
        if answer is None:
            fields = parse(review_input.value)
            agent = fields.get("agent_id") if isinstance(fields, dict) else None
            if topic == REVIEWS or not isinstance(agent, str) or not caller.is_bound_to(agent):
                raise make_not_found(an_id)
            return None
        record = answer.record
        if answer.topic == DEAD_LETTERS or not is_of_caller(record, caller):
            raise make_not_found(an_id)
        return record

    def _resolve_place(self, an_id: str) -> tuple[str, int, int]:
        try:
            topic, partition, offset = read_coordinates(an_id)
        except ValueError:
            raise make_not_found(an_id) from None
        id_of = _ID_KINDS.get(topic)
        canonical = None if id_of is None else id_of(f"{topic}:{partition}:{offset}")
        if canonical != an_id or partition >= self._exchange.partitions or offset >= MOST_OFFSET:
            raise make_not_found(an_id)
        return topic, partition, offset


async def seal_prepared(sealing: SealingView, kind: InputKind, prepared: PreparedInput) -> PreparedInput:
    """An input as it may be published and stored, its personal data sealed. Raises HttpError."""
    if isinstance(sealing, NoSealing):
        return prepared
    plain = json.loads(prepared.value)
    if kind is ACTION:
        refuse_sealed(plain)
    async with translate_faults(kind):
        sealed = await seal_record(sealing, kind, prepared.agent, plain)
    if not sealed.plain:
        return prepared
    return replace(prepared, value=serialize_record(sealed.fields), plain=sealed.plain)


def refuse_sealed(document: Any) -> None:
    """Raise HttpError for a sealed value in an action that a caller sends: it was copied from a topic, and
    what an approver narrows would give it back opened."""
    for steps, token in find_tokens(document):
        if is_sealed(token):
            message = "a sealed value is not taken from callers: send it plain"
            raise HttpError(400, "sealed_invalid", message, path=write_json_path(steps))


@asynccontextmanager
async def translate_faults(kind: InputKind = ACTION) -> AsyncIterator[None]:
    """Raise within the block an HTTP error in place of what the client raises."""
    try:
        yield
    except ActionNotDecided as late:
        raise _make_undecided_error(kind, late) from None
    except InputUnreadable as wrong:
        raise HttpError(400, wrong.code, str(wrong), path=wrong.path) from None
    except (KafkaError, ConnectionError, ClientError) as error:
        raise HttpError(503, "unavailable", f"the broker does not answer: {error}").set_retry_after(
            COME_AGAIN_S
        ) from None


def _make_undecided_error(kind: InputKind, late: ActionNotDecided) -> HttpError:
    if late.location is None:
        message = "the broker did not confirm the input: the same request again, with its id, is decided once"
        return HttpError(503, "not_confirmed", message).set_retry_after(COME_AGAIN_S)
    an_id = kind.list_ids(late.location)[0]
    details: dict[str, Any] = {"id": an_id, "may_still_come": late.may_still_come}
    if kind is ACTION:
        details["poll"] = f"/v1/verdicts/{an_id}"
    return HttpError(504, "not_decided", "no decision in time; it may still come", **details)
