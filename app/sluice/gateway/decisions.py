"""Asks the gate and reads its decisions, by the agents' client: HTTP and Kafka are one path.

A decision is found again by the coordinates in its id, in one partition, from its input's time on.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError

from sluice.client.answers import (
    ActionNotDecided,
    ClientError,
    InputPlace,
    InputUnreadable,
    NeedsHuman,
    Verdict,
)
from sluice.client.approval import await_end, narrowed_parameters
from sluice.client.binding import answer_to, end_of, end_of_input
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
from sluice.client.sender import InputSigner, Origin, headers_of
from sluice.core.foundation.arrival import coordinates_of, memory_id, resolved_id, verdict_id
from sluice.gateway.http.http_errors import HttpError, not_found
from sluice.gateway.openapi_shapes import PENDING_SCHEMA
from sluice.gateway.waiting_subjects import is_callers
from sluice_topics.json_text import parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sluice.client.exchange import Exchange
    from sluice.client.input_kinds import InputKind
    from sluice.gateway.http.api_keys import Caller
    from sluice.gateway.input_requests import PreparedInput

REQUEST_ID = "X-Mnemom-Request-Id"
SOURCE = "/gateway/agents/"
REVIEW_SOURCE = "/gateway/approvers/"
"""ce_source of what the gateway publishes, before the agent's id or the approver's."""
_ID_KINDS = {ACTIONS: verdict_id, REVIEWS: resolved_id, MEMORY_WRITES: memory_id}
"""Decisions by the topic of their input."""
_KINDS = {one.topic: one for one in (ACTION, REVIEW, WRITE)}
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
        signer = self._signer if prepared.signs else None
        source = f"{SOURCE}{prepared.agent}"
        said = prepared.session, prepared.name, prepared.value
        headers = headers_of(kind, Origin(source, traceparent), *said, signer)
        headers.append((REQUEST_ID, request_id.encode()))
        what = OutgoingInput(kind, prepared.name, prepared.session, prepared.value, headers)
        async with kafka_told(kind):
            try:
                return (await self._exchange.ask(what, prepared.wait_s)).record
            except ActionNotDecided as late:
                if kind is not OUTCOME or late.place is None:
                    raise
                told = {"outcome_id": kind.ids_at(late.place)[0], "status": "pending"}
                return {"schema": PENDING_SCHEMA, **told}  # it is settled when its action comes

    async def review(self, prepared: PreparedInput, subject_id: str, request_id: str) -> dict[str, Any]:
        """Publish a reviewer's answer, and wait for the record that says what became of it.

        Raises HttpError.
        """
        headers = headers_of(
            REVIEW,
            Origin(f"{REVIEW_SOURCE}{prepared.agent}"),
            prepared.session,
            prepared.name,
            prepared.value,
            None,
        )
        headers.append((REQUEST_ID, request_id.encode()))
        what = OutgoingInput(REVIEW, prepared.name, prepared.session, prepared.value, headers)
        places: list[InputPlace] = []
        async with kafka_told(REVIEW):
            answer = await self._exchange.ask(what, prepared.wait_s, places.append, [subject_id])
            if not _answers(answer.record, places[0]):  # another answer, or time, was first
                answer = await self._exchange.answer_at(what, places[0], prepared.wait_s)
        return answer.record

    async def end_of(self, first: dict[str, Any]) -> Verdict | None:
        """The end of an escalated action's verdict; None: it still waits. Raises HttpError."""
        verdict = Verdict.of(first)
        at = first["input"]
        since = InputPlace(at["partition"], at["offset"], at["timestamp"])
        async with kafka_told(ACTION), self._readers:
            sought = end_of(verdict, since.timestamp_ms)
            found = await self._exchange.reader.look_back(sought, since, [ESCALATIONS])
            if found is None:
                return None
            try:
                return await await_end(self._exchange.reader, verdict, self._read_timeout_s)
            except NeedsHuman:
                return None

    async def retrieval_end(self, an_id: str, caller: Caller) -> dict[str, Any]:
        """The record that ended the escalation of a retrieval. Raises HttpError: 404 where there is none."""
        found = await self.escalation_end(an_id)
        if found is None or not is_callers(found, caller):
            raise not_found(an_id)
        return found

    async def escalation_end(self, an_id: str) -> dict[str, Any] | None:
        """The record that ended the escalation of an action or a retrieval; None: it waits. Raises HttpError:
        404 where the ledger has nothing of it."""
        try:
            topic, partition, offset = coordinates_of(an_id)
        except ValueError:
            raise not_found(an_id) from None
        is_there = topic in (ACTIONS, RETRIEVALS) and partition < self._exchange.partitions
        if not is_there or offset >= MOST_OFFSET:
            raise not_found(an_id)
        async with kafka_told(), self._readers:
            came = await self._exchange.reader.input_at(topic, partition, offset)
            if came is None:
                raise not_found(an_id)
            since = InputPlace(partition, offset, came.timestamp_ms)
            sought = end_of_input(an_id, came.value, came.timestamp_ms)
            found = await self._exchange.reader.look_back(sought, since, [ESCALATIONS])
        return None if found is None else found.record

    async def narrowed(self, end: Verdict) -> dict[str, Any] | None:
        """The parameters with which an approver let the action run, if other ones. Raises HttpError."""
        async with kafka_told(ACTION):
            found = await narrowed_parameters(self._exchange.reader, end)
            return None if found is None else dict(found)

    async def first(self, record: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """The decision that a repeat refers to, where it is still there; else the record itself."""
        original = record.get("duplicate_of")
        if not isinstance(original, str):
            return record
        try:
            return await self.decision(original, caller) or record
        except HttpError as error:
            if error.status == NOT_THERE:
                return record
            raise

    async def decision(self, an_id: str, caller: Caller) -> dict[str, Any] | None:
        """The record of this decision on an action or a memory write, or the verdict that an approval led to;
        None: its input is there, and not decided yet.

        Raises HttpError: 404 where there is no such, or it is of others.
        """
        topic, partition, offset = self._place(an_id)
        async with kafka_told(ACTION), self._readers:
            try:
                async with asyncio.timeout(self._read_timeout_s):
                    return await self._look(an_id, topic, (partition, offset), caller)
            except TimeoutError:
                raise HttpError(504, "too_slow", f"{an_id} was not found in time").after(
                    COME_AGAIN_S
                ) from None

    async def _look(
        self, an_id: str, topic: str, at: tuple[int, int], caller: Caller
    ) -> dict[str, Any] | None:
        found = await self._exchange.reader.input_at(topic, *at)
        if found is None:
            raise not_found(an_id)
        place = InputPlace(*at, found.timestamp_ms)
        kind = _KINDS[topic]
        sought = answer_to(kind, place, found.value, [an_id])
        answers = VERDICTS if kind is REVIEW else kind.answers
        answer = await self._exchange.reader.look_back(sought, place, [answers, DEAD_LETTERS])
        if answer is None:
            fields = parse(found.value)
            agent = fields.get("agent_id") if isinstance(fields, dict) else None
            if topic == REVIEWS or not isinstance(agent, str) or not caller.speaks_for(agent):
                raise not_found(an_id)
            return None
        record = answer.record
        if answer.topic == DEAD_LETTERS or not is_callers(record, caller):
            raise not_found(an_id)
        return record

    def _place(self, an_id: str) -> tuple[str, int, int]:
        try:
            topic, partition, offset = coordinates_of(an_id)
        except ValueError:
            raise not_found(an_id) from None
        id_of = _ID_KINDS.get(topic)
        canonical = None if id_of is None else id_of(f"{topic}:{partition}:{offset}")
        if canonical != an_id or partition >= self._exchange.partitions or offset >= MOST_OFFSET:
            raise not_found(an_id)
        return topic, partition, offset


def _answers(record: dict[str, Any], place: InputPlace) -> bool:
    """Whether a record says what became of the review at this place. A review that comes too late is the
    input of the expiry that it finds, and is refused besides."""
    at = record.get("input") or {}
    found = (at.get("topic"), at.get("partition"), at.get("offset"))
    is_of_review = "approver_id" in record or "refusal_id" in record
    return is_of_review and found == (REVIEWS, place.partition, place.offset)


@asynccontextmanager
async def kafka_told(kind: InputKind = ACTION) -> AsyncIterator[None]:
    """What the client raises, as an HTTP error."""
    try:
        yield
    except ActionNotDecided as late:
        raise _not_decided(kind, late) from None
    except InputUnreadable as wrong:
        raise HttpError(400, wrong.code, str(wrong), path=wrong.path) from None
    except (KafkaError, ConnectionError, ClientError) as error:
        raise HttpError(503, "unavailable", f"the broker does not answer: {error}").after(
            COME_AGAIN_S
        ) from None


def _not_decided(kind: InputKind, late: ActionNotDecided) -> HttpError:
    if late.place is None:
        told = "the broker did not confirm the input: the same request again, with its id, is decided once"
        return HttpError(503, "not_confirmed", told).after(COME_AGAIN_S)
    an_id = kind.ids_at(late.place)[0]
    details: dict[str, Any] = {"id": an_id, "may_still_come": late.may_still_come}
    if kind is ACTION:
        details["poll"] = f"/v1/verdicts/{an_id}"
    return HttpError(504, "not_decided", "no decision in time; it may still come", **details)
