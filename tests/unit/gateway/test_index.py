"""Mend 22.24b: the address of a gateway leads somewhere: people to the pages, programs to an index."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.routing import Match, Route

from sluice.gateway.http.edge import Edge, EdgeRules
from sluice.gateway.routes.declared_routes import add_routes
from sluice.gateway.routes.quarantine_routes import QuarantineRoutes
from sluice.gateway.routes.reading_routes import ReadingRoutes
from sluice.gateway.routes.review_routes import ReviewRoutes


async def get(path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """What the application answers; nothing behind its routes is asked."""
    nothing: Any = None
    app = FastAPI(docs_url=None, redoc_url=None)
    add_routes(app, ReadingRoutes(*[nothing] * 8))
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await Edge(app, EdgeRules(1024, 10.0))({**scope, "headers": raw, "scheme": "http"}, receive, send)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, b"".join(one["body"] for one in sent[1:])


@pytest.mark.parametrize("accept", ["text/html,application/xhtml+xml", "*/*", ""])
async def test_people_get_to_the_pages(accept: str) -> None:
    status, headers, _ = await get("/", accept=accept)
    assert (status, headers["location"]) == (303, "/review")


async def test_programs_get_an_index_whose_addresses_are_there() -> None:
    status, headers, body = await get("/", accept="application/json")
    assert (status, headers["x-mnemom-schema"]) == (200, "sluice/index/v1")
    index = json.loads(body)
    assert index["pages"] == "/review"
    for name in ("openapi", "health"):
        assert (await get(index[name]))[0] == 200, name


async def test_a_request_has_a_bounded_number_of_headers() -> None:
    """Mend 22 (attacks that nobody had tried): 80 KB of headers in one piece passed the protocol's bound."""
    assert (await get("/", **{f"x-{number}": "a" for number in range(100)}))[0] == 303
    status, headers, _ = await get("/", **{f"x-{number}": "a" for number in range(101)})
    assert (status, headers["connection"]) == (431, "close")
    assert (await get("/", **{"x-a": "a" * 33_000}))[0] == 431


def test_each_path_without_parameters_leads_to_its_own_handler() -> None:
    """A method whose path has a parameter, declared above another's, took the other's for a value."""
    nothing: Any = None
    app = FastAPI(docs_url=None, redoc_url=None)
    add_routes(
        app, QuarantineRoutes(*[nothing] * 3), ReviewRoutes(*[nothing] * 5), ReadingRoutes(*[nothing] * 8)
    )
    routes = [route for route in app.routes if isinstance(route, Route)]
    literal = [route for route in routes if "{" not in route.path]
    assert "/v1/quarantine/stats" in {route.path for route in literal}
    for route in literal:
        (method,) = (route.methods or set()) - {"HEAD"}
        scope = {"type": "http", "method": method, "path": route.path}
        first = next(other for other in routes if other.matches(scope)[0] is Match.FULL)
        assert first is route, route.path
