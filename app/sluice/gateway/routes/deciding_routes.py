"""The routes that ask for a decision: the body becomes an input, the committed record the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastapi.responses import Response
from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotations

from sluice.client.input_kinds import ACTION, MANDATE, OUTCOME, RETRIEVAL, WRITE
from sluice.client.sealing import SealedRecord
from sluice.client.sender import serialize_record
from sluice.core.registry.freezes import find_stop
from sluice.gateway.decisions import seal_prepared
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.idempotency import (
    IdempotentRequests,
    RememberedRequest,
    StoredAnswer,
    compute_fingerprint,
)
from sluice.gateway.input_requests import (
    MANDATE_FIELD,
    PreparedInput,
    prepare_action,
    prepare_first_mandate,
    prepare_mandate,
    prepare_outcome,
    prepare_retrieval,
    prepare_write,
)
from sluice.gateway.openapi_shapes import (
    ErrorResponse,
    EvaluationResponse,
    PendingResponse,
    build_action_schema,
    build_answer_schema,
    build_mandate_schema,
    build_outcome_schema,
    build_retrieval_schema,
    build_write_schema,
)
from sluice.gateway.routes.answer_rendering import (
    build_memory_schema,
    render_evaluation,
    render_memory,
    render_outcome,
    render_retrieval,
    write_body,
)
from sluice.gateway.routes.callers import Callers, read_facts
from sluice.gateway.routes.declared_routes import declare
from sluice_topics.records import MandateRecorded, ReservationSettled, ServedRetrieval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluice.client.input_kinds import InputKind
    from sluice.client.sealing import SealingView
    from sluice.gateway.decisions import Decisions
    from sluice.gateway.http.response_headers import ResponseFacts
    from sluice.gateway.input_requests import RequestContext, WaitLimits
    from sluice.gateway.registry_view import RegistryView
    from sluice.gateway.routes.declared_routes import Handler

    Prepare = Callable[[bytes, RequestContext, RegistryView, WaitLimits], PreparedInput]
    Render = Callable[[Mapping[str, Any]], StoredAnswer]


@dataclass(frozen=True, slots=True)
class DecidingRoute:
    """A kind of question: its input, how a body becomes one, and how the answering record is told."""

    path: str
    kind: InputKind
    prepare: Prepare
    render: Render


def declare_record(
    path: str, summary: str, asked: dict[str, Any], answered: dict[str, Any]
) -> Callable[[Handler], Handler]:
    """Mark the handler of a question that a committed record answers, whatever was decided. `asked`,
    `answered`: the JSON Schemas of request and answer."""
    answers: dict[int | str, Any] = {
        200: {"description": "decided", "content": {"application/json": {"schema": answered}}},
        202: (PendingResponse, "an outcome that waits for its action"),
        422: None,
    }
    return declare(f"POST {path}", summary, answers, body=asked, may_repeat=True)


@dataclass(frozen=True, slots=True)
class DecidingRoutes:
    """The parts that the routes are made of."""

    callers: Callers
    decisions: Decisions
    registry: RegistryView
    wait: WaitLimits
    idempotent: IdempotentRequests
    sealing: SealingView

    @declare(
        "POST /v1/evaluate",
        "Decide on an action",
        {
            200: (EvaluationResponse, "allowed; in standard mode, any decision"),
            202: (EvaluationResponse, "needs_human"),
            422: (EvaluationResponse | ErrorResponse, "denied, with `error` in it"),
        },
        body=build_action_schema(),
        may_repeat=True,
    )
    async def evaluate(self, request: Request) -> Response:
        """Decide on an action (seeds 000 and 001)."""
        return await self._decide(request, EVALUATE)

    @declare_record(
        "/v1/memory/evaluate",
        "Decide whether a memory may be kept",
        build_write_schema(),
        build_memory_schema(),
    )
    async def memory(self, request: Request) -> Response:
        """Decide whether a memory may be kept (seed 003)."""
        return await self._decide(request, WRITE_MEMORY)

    @declare_record(
        "/v1/retrievals/evaluate",
        "Decide which items the agent may see",
        build_retrieval_schema(),
        build_answer_schema(ServedRetrieval),
    )
    async def retrieval(self, request: Request) -> Response:
        """Decide which retrieved items the agent may see (seed 004)."""
        return await self._decide(request, RETRIEVE)

    @declare_record(
        "/v1/outcomes",
        "Take what an action really did",
        build_outcome_schema(),
        build_answer_schema(ReservationSettled),
    )
    async def outcome(self, request: Request) -> Response:
        """Take what an action really did."""
        return await self._decide(request, REPORT)

    @declare_record(
        "/v1/mandates",
        "Take what an issuer says that an agent is asked to do",
        build_mandate_schema(),
        build_answer_schema(MandateRecorded),
    )
    async def mandate(self, request: Request) -> Response:
        """Take what an issuer says that an agent is asked to do."""
        return await self._decide(request, MANDATED)

    async def _decide(self, request: Request, route: DecidingRoute) -> Response:
        context = await self.callers.identify(request)
        body, facts = await request.body(), read_facts(request)
        if route is EVALUATE and MANDATE_FIELD.encode() in body:
            first = prepare_first_mandate(body, context, self.registry, self.wait)
            if first is not None:
                await self.decisions.send(MANDATE, first, context.request_id)
        prepared = await seal_prepared(
            self.sealing, route.kind, route.prepare(body, context, self.registry, self.wait)
        )
        facts.agent, facts.session = prepared.agent, prepared.session
        if context.idempotency is None:
            record = await self.decisions.ask(route.kind, prepared, context.request_id, context.traceparent)
            return respond(_restore(route, prepared, route.render(record)), facts)
        named = (context.agent or "").encode(), (context.session or "").encode()
        asked_for = _list_sealed_parts(prepared, context) if prepared.plain else (body,)
        request_of = RememberedRequest(
            compute_fingerprint(route.path.encode(), *named, *asked_for),
            prepared.agent,
            prepared.signs,
            prepared.session,
            prepared.name,
            prepared.value.decode(),
            prepared.wait_s,
        )

        async def decide(asked: RememberedRequest) -> StoredAnswer:
            prepared = PreparedInput(
                asked.agent, asked.signs, asked.session, asked.name, asked.value.encode(), asked.wait_s
            )
            record = await self.decisions.ask(route.kind, prepared, context.request_id, context.traceparent)
            return route.render(await self.decisions.fetch_first(record, context.caller))

        named_as, owner = context.idempotency, context.caller.name
        answer, facts.is_replay = await self.idempotent.answer(named_as, owner, lambda: request_of, decide)
        if facts.is_replay and route is EVALUATE and self.registry.registry.freezes:
            self._object_to_frozen(answer, context)
        return respond(_restore(route, prepared, answer), facts)

    def _object_to_frozen(self, answer: StoredAnswer, context: RequestContext) -> None:
        """Raises HttpError where what an earlier answer allowed is frozen now: no replay lets it start."""
        body = json.loads(answer.body)
        if body.get("verdict") != "allowed" or body.get("mode") != "high_stakes":
            return
        registry, tenant = self.registry.registry, context.caller.tenant
        stop = find_stop(registry.find_freezes(tenant, body["agent_id"], body["session_id"]))
        if stop is not None:
            raise HttpError(422, "frozen", f"it was allowed before; now {stop.word}. Start no tool")


def _restore(route: DecidingRoute, prepared: PreparedInput, answer: StoredAnswer) -> StoredAnswer:
    """An answer as its caller may see it: with the bodies of items that this request had sealed."""
    if route is not RETRIEVE or not prepared.plain:
        return answer
    return replace(answer, body=write_body(SealedRecord({}, prepared.plain).restore(json.loads(answer.body))))


def _list_sealed_parts(prepared: PreparedInput, context: RequestContext) -> tuple[bytes, bytes]:
    """What is equal in the same request again, apart from its own id: no store has a digest of what was
    sealed."""
    fields = json.loads(prepared.value)
    fields.pop("request_id", None)
    name = "" if prepared.name == context.request_id else prepared.name
    return name.encode(), serialize_record(fields)


def respond(answer: StoredAnswer, facts: ResponseFacts) -> Response:
    """The response with this answer."""
    for name, value in answer.facts.items():
        setattr(facts, name, value)
    return Response(answer.body.encode(), answer.status, media_type="application/json")


EVALUATE = DecidingRoute("/v1/evaluate", ACTION, prepare_action, render_evaluation)
WRITE_MEMORY = DecidingRoute("/v1/memory/evaluate", WRITE, prepare_write, render_memory)
RETRIEVE = DecidingRoute("/v1/retrievals/evaluate", RETRIEVAL, prepare_retrieval, render_retrieval)
MANDATED = DecidingRoute("/v1/mandates", MANDATE, prepare_mandate, render_outcome)
REPORT = DecidingRoute("/v1/outcomes", OUTCOME, prepare_outcome, render_outcome)
