"""Every route with its method, summary and answers, as the OpenAPI document has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Security
from fastapi.responses import Response
from fastapi.security import APIKeyHeader

from sluice.gateway.openapi_shapes import (
    AdvisoriesResponse,
    CheckpointResponse,
    ErrorResponse,
    EscalationResponse,
    EvaluationResponse,
    FreezesResponse,
    InclusionResponse,
    PendingResponse,
    RerunResponse,
    ReviewResponse,
    SessionResponse,
    WaitingResponse,
    build_action_schema,
    build_answer_schema,
    build_mandate_schema,
    build_outcome_schema,
    build_retrieval_schema,
    build_review_schema,
    build_write_schema,
)
from sluice.gateway.routes.answer_rendering import build_memory_schema
from sluice.gateway.routes.quarantine_routes import HeldMemoryResponse, MemoryCountsResponse
from sluice_topics.records import MandateRecorded, ReservationSettled, ServedRetrieval

if TYPE_CHECKING:
    from sluice.gateway.routes.deciding_routes import DecidingRoutes
    from sluice.gateway.routes.hook_routes import HookRoutes
    from sluice.gateway.routes.quarantine_routes import QuarantineRoutes
    from sluice.gateway.routes.reading_routes import ReadingRoutes
    from sluice.gateway.routes.review_routes import ReviewRoutes
    from sluice.gateway.routes.slack_routes import SlackRoutes

_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse} for status in (400, 401, 403, 408, 413, 429, 503, 504, "default")
}
_KEYED: dict[str, Any] = {
    "dependencies": [Security(APIKeyHeader(name="X-Mnemom-Api-Key", auto_error=False))],
    "response_class": Response,
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "the same request under it again gets the same answer, for 24 h",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}


def add_deciding(app: FastAPI, routes: DecidingRoutes) -> None:
    """The routes that ask for a decision."""
    app.add_api_route(
        "/v1/evaluate",
        routes.evaluate,
        methods=["POST"],
        summary="Decide on an action",
        responses={
            **_ERRORS,
            200: {"model": EvaluationResponse, "description": "allowed; in standard mode, any decision"},
            202: {"model": EvaluationResponse, "description": "needs_human"},
            422: {"model": EvaluationResponse | ErrorResponse, "description": "denied, with `error` in it"},
        },
        openapi_extra=_describe_body(build_action_schema()),
        **_KEYED,
    )

    records: tuple[tuple[str, Any, str, dict[str, Any], dict[str, Any]], ...] = (
        (
            "/v1/memory/evaluate",
            routes.memory,
            "Decide whether a memory may be kept",
            build_write_schema(),
            build_memory_schema(),
        ),
        (
            "/v1/retrievals/evaluate",
            routes.retrieval,
            "Decide which items the agent may see",
            build_retrieval_schema(),
            build_answer_schema(ServedRetrieval),
        ),
        (
            "/v1/mandates",
            routes.mandate,
            "Take what an issuer says that an agent is asked to do",
            build_mandate_schema(),
            build_answer_schema(MandateRecorded),
        ),
        (
            "/v1/outcomes",
            routes.outcome,
            "Take what an action really did",
            build_outcome_schema(),
            build_answer_schema(ReservationSettled),
        ),
    )
    for path, handler, summary, asked, answered in records:
        app.add_api_route(
            path,
            handler,
            methods=["POST"],
            summary=summary,
            responses={
                **_ERRORS,
                200: {"description": "decided", "content": {"application/json": {"schema": answered}}},
                202: {"model": PendingResponse, "description": "an outcome that waits for its action"},
                422: {"model": ErrorResponse},
            },
            openapi_extra=_describe_body(asked),
            **_KEYED,
        )


def add_hooks(app: FastAPI, routes: HookRoutes) -> None:
    """The route that coding agents' hooks call."""
    event = {"type": "object", "properties": {"hook_event_name": {"type": "string"}}}
    app.add_api_route(
        "/v1/hooks/{dialect}",
        routes.answer,
        methods=["POST"],
        summary="An event of a coding agent's hook, answered as its product reads it",
        responses={
            **_ERRORS,
            200: {"model": dict[str, Any], "description": "before a call: the decision, a denial too"},
            404: {
                "model": ErrorResponse,
                "description": "no such dialect; after a call: it was not judged here",
            },
            422: {"model": ErrorResponse},
        },
        openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": event}}}},
        **_KEYED,
    )


def add_reading(app: FastAPI, routes: ReadingRoutes) -> None:
    """The routes that read what was decided, and those about the gateway itself."""
    app.add_api_route(
        "/v1/verdicts/{verdict_id}",
        routes.verdict,
        methods=["GET"],
        summary="A decision by its id",
        responses={
            **_ERRORS,
            200: {"model": EvaluationResponse},
            202: {"model": PendingResponse, "description": "not decided yet"},
            404: {"model": ErrorResponse},
        },
        **_KEYED,
    )
    app.add_api_route(
        "/v1/verdicts/{verdict_id}/rerun",
        routes.rerun,
        methods=["POST"],
        summary="Decide again what was decided",
        responses={
            **_ERRORS,
            200: {"model": RerunResponse},
            404: {"model": ErrorResponse},
            409: {"model": ErrorResponse, "description": "not decided yet"},
        },
        **_KEYED,
    )
    app.add_api_route(
        "/v1/verdicts/{verdict_id}/proof",
        routes.proof,
        methods=["GET"],
        summary="The proof that a decision is in the ledger that a tree head signs",
        responses={
            **_ERRORS,
            200: {"model": InclusionResponse},
            404: {"model": ErrorResponse},
            409: {"model": ErrorResponse, "description": "not decided, or in no tree head yet"},
        },
        **_KEYED,
    )
    app.add_api_route(
        "/v1/integrity-checkpoints/{checkpoint_id}",
        routes.checkpoint,
        methods=["GET"],
        summary="What a model made of an agent's reasoning",
        responses={**_ERRORS, 200: {"model": CheckpointResponse}, 404: {"model": ErrorResponse}},
        **_KEYED,
    )
    app.add_api_route(
        "/v1/sessions/{session_id:path}",
        routes.session,
        methods=["GET"],
        summary="A session's totals",
        responses={**_ERRORS, 200: {"model": SessionResponse}, 404: {"model": ErrorResponse}},
        **_KEYED,
    )
    app.add_api_route(
        "/v1/agents/{agent_id}/advisories",
        routes.advisories,
        methods=["GET"],
        summary="All advisories of an agent's newest actions",
        responses={**_ERRORS, 200: {"model": AdvisoriesResponse}},
        **_KEYED,
    )
    app.add_api_route(
        "/v1/agents/{agent_id}/freezes",
        routes.freezes,
        methods=["GET"],
        summary="What is frozen of an agent: ask right before a tool starts",
        responses={**_ERRORS, 200: {"model": FreezesResponse}},
        **_KEYED,
    )
    app.add_api_route(
        "/v1/quality/report",
        routes.quality,
        methods=["GET"],
        summary="How retrieved items were decided",
        responses={**_ERRORS, 200: {"model": dict[str, Any]}},
        **_KEYED,
    )
    app.add_api_route("/", routes.index, methods=["GET"], include_in_schema=False)
    app.add_api_route("/healthz", routes.health, methods=["GET"], summary="The process answers")
    app.add_api_route(
        "/readyz",
        routes.ready,
        methods=["GET"],
        summary="It can decide",
        responses={503: {"model": ErrorResponse}},
    )


def add_reviewing(app: FastAPI, routes: ReviewRoutes) -> None:
    """The routes of what waits for a person."""
    waiting = {**_ERRORS, 200: {"model": WaitingResponse}}
    answered = {
        **_ERRORS,
        200: {"model": ReviewResponse},
        404: {"model": ErrorResponse},
        409: {"model": ErrorResponse},
        422: {
            "model": ErrorResponse,
            "description": "refused: ended, no approver, wrong role",
        },
    }
    asked = {"requestBody": _describe_body(build_review_schema())["requestBody"]}
    for path, handler, summary in (
        ("/v1/escalations", routes.escalations, "What waits for an approver"),
        ("/v1/quarantine", routes.quarantine, "Memories that wait for a reviewer"),
    ):
        app.add_api_route(path, handler, methods=["GET"], summary=summary, responses=waiting, **_KEYED)
    app.add_api_route(
        "/v1/escalations/{subject_id}",
        routes.escalation,
        methods=["GET"],
        summary="How an escalated action stands; waits for its end",
        responses={
            **_ERRORS,
            200: {"model": EscalationResponse},
            202: {"model": EscalationResponse, "description": "it waits"},
            404: {"model": ErrorResponse},
        },
        **_KEYED,
    )
    for path, answer, summary in (
        ("/v1/escalations/{subject_id}/decision", routes.decide_escalation, "Approve or deny"),
        ("/v1/quarantine/{subject_id}/review", routes.review_memory, "Approve or reject a memory"),
    ):
        app.add_api_route(
            path, answer, methods=["POST"], summary=summary, responses=answered, openapi_extra=asked, **_KEYED
        )


def add_quarantine(app: FastAPI, routes: QuarantineRoutes) -> None:
    """The routes that reviewers read held memories by."""
    gone: dict[int | str, dict[str, Any]] = {
        404: {"model": ErrorResponse},
        409: {"model": ErrorResponse, "description": "not decided yet"},
    }
    app.add_api_route(
        "/v1/quarantine/stats",
        routes.stats,
        methods=["GET"],
        summary="How many memories were decided how",
        responses={**_ERRORS, 200: {"model": MemoryCountsResponse}},
        **_KEYED,
    )
    app.add_api_route(
        "/v1/quarantine/{subject_id}",
        routes.show,
        methods=["GET"],
        summary="A memory with its content, for its reviewers",
        responses={**_ERRORS, **gone, 200: {"model": HeldMemoryResponse}},
        **_KEYED,
    )


def add_slack(app: FastAPI, routes: SlackRoutes) -> None:
    """The route that Slack calls, where the settings have its signing secret."""
    form = {"type": "object", "properties": {"payload": {"type": "string"}}, "required": ["payload"]}
    content = {"application/x-www-form-urlencoded": {"schema": form}}
    app.add_api_route(
        "/v1/slack/interactions",
        routes.interact,
        methods=["POST"],
        summary="What a person pressed in Slack",
        responses={**_ERRORS, 200: {"description": "taken; for a form, what came of it"}},
        response_class=Response,
        openapi_extra={"requestBody": {"required": True, "content": content}},
    )


def _describe_body(schema: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}, "parameters": [_IDEMPOTENCY_KEY]}
