"""Routes declared at the methods that answer them: method, path, summary, request and answers, from which
FastAPI writes the OpenAPI document. The handler's docstring is the description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fastapi import FastAPI, Security
from fastapi.responses import Response
from fastapi.security import APIKeyHeader

from sluice.gateway.openapi_shapes import ErrorResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])
    Answers = Mapping[int | str, Any]
    """By status: a model, a pair of model and description, or a dict as FastAPI's `responses` has it; None
    where an error is the answer."""

ERROR_STATUSES: tuple[int | str, ...] = (400, 401, 403, 408, 413, 429, 503, 504, "default")
"""What every route with a key may answer."""
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "the same request under it again gets the same answer, for 24 h",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_MARK = "__sluice_route__"


class DeclaredRoute(NamedTuple):
    """What FastAPI's `add_api_route` takes, but the handler."""

    path: str
    options: Mapping[str, Any]


def declare(
    operation: str,
    summary: str,
    answers: Answers,
    *,
    body: Mapping[str, Any] | None = None,
    may_repeat: bool = False,
) -> Callable[[Handler], Handler]:
    """Mark a method as the handler of `operation`, as "GET /v1/escalations", that asks for an API key and may
    answer each of ERROR_STATUSES. `body`: the JSON Schema of the request; `may_repeat`: it takes an
    Idempotency-Key."""
    extra: dict[str, Any] = {}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if may_repeat:
        extra["parameters"] = [_IDEMPOTENCY_KEY]
    return declare_open(
        operation,
        summary,
        {**dict.fromkeys(ERROR_STATUSES), **answers},
        openapi_extra=extra,
        response_class=Response,
        dependencies=[Security(APIKeyHeader(name="X-Mnemom-Api-Key", auto_error=False))],
    )


def declare_open(
    operation: str, summary: str, answers: Answers, **options: Any
) -> Callable[[Handler], Handler]:
    """Mark a method as the handler of an operation without an API key. `options`: as `add_api_route` has
    them."""
    method, path = operation.split(" ")
    responses = {status: _describe_answer(answer) for status, answer in answers.items()}
    route = DeclaredRoute(path, {"methods": [method], "summary": summary, "responses": responses, **options})

    def mark(handler: Handler) -> Handler:
        setattr(handler, _MARK, route)
        return handler

    return mark


def add_routes(app: FastAPI, *parts: Any) -> None:
    """Add the marked methods of these objects; a path without parameters comes before those that would take
    it for a parameter's value."""
    marked: list[tuple[DeclaredRoute, Any]] = [
        (getattr(attribute, _MARK), getattr(part, name))
        for part in parts
        for name, attribute in vars(type(part)).items()
        if hasattr(attribute, _MARK)
    ]
    for route, handler in sorted(marked, key=lambda pair: "{" in pair[0].path):
        app.add_api_route(route.path, handler, **route.options)


def _describe_answer(answer: Any) -> dict[str, Any]:
    if isinstance(answer, dict):
        return answer
    model, description = answer if isinstance(answer, tuple) else (answer, None)
    described = {"model": ErrorResponse if model is None else model}
    return described if description is None else {**described, "description": description}
