"""Seed 002 to the letter: what a response says, what survives of a request, and what is never said."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.gateway.http.edge import Edge, EdgeRules
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.http.response_headers import (
    EXPOSED,
    LONGEST_ADVISORIES,
    ResponseFacts,
    build_response_headers,
    is_reserved,
    strip,
)
from sluice_topics.headers import API_VERSION

SAFE_HOUSE = (
    "Verdict",
    "Advisory",
    "Event",
    "Quarantine-Id",
    "Canary-Triggered",
    "DLP",
    "Session-Risk",
    "Mode",
    "Simulated-Verdict",
)
AIP = (
    "Action",
    "Proceed",
    "Synthetic",
    "Source",
    "Analysis-Scope",
    "Reason",
    "Nudge-Count",
    "Enforcement",
    "Certificate-Id",
    "Chain-Hash",
)
RETIRED = (
    "X-Mnemom-Autonomy-Verdict",
    *(f"X-Safe-House-{name}" for name in SAFE_HOUSE),
    *(f"X-AIP-{name}" for name in AIP),
)
"""The 20 of seed 002, "What was retired"."""
CANONICAL = {name.lower() for name in EXPOSED if name.startswith("X-")}
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
STATES = ("pass", "observed", "nudged", "enforced")
CHECKPOINTS = ("front", "autonomy", "integrity", "back")
ANY_TEXT = st.text(max_size=400) | st.text(alphabet='\r\n\0\x7f\x80\u2028\U0001f600"\\', max_size=400)
ADVISORIES = st.lists(
    st.fixed_dictionaries(
        {"source": st.text(min_size=1, max_size=300), "text": ANY_TEXT},
        optional={"severity": st.sampled_from(["info", "warn", "critical"]), "id": ANY_TEXT},
    ),
    max_size=8,
)
AIP_VERDICTS = (
    "pass",
    "boundary_violation",
    "ambiguous",
    "clear",
    "skipped",
    "pending",
    "disabled",
    "error",
)
"""Seed 002's eight."""
FACTS = st.builds(
    ResponseFacts,
    request_id=st.uuids(version=4).map(str),
    schema=st.none() | st.just("sluice/evaluation/v1"),
    checkpoints=st.none() | st.fixed_dictionaries({name: st.sampled_from(STATES) for name in CHECKPOINTS}),
    advisories=ADVISORIES,
    agent=st.none() | st.text(min_size=1, max_size=256),
    session=st.none() | st.text(min_size=1, max_size=256),
    aip_verdict=st.none() | st.sampled_from(AIP_VERDICTS),
    checkpoint_id=st.none() | st.text(min_size=1),
    is_replay=st.booleans(),
)


def headers_of(facts: ResponseFacts) -> dict[str, str]:
    pairs = build_response_headers(facts)
    assert len(dict(pairs)) == len(pairs), "each header once"
    return {name.decode(): value.decode("ascii") for name, value in pairs}


def parse_mnemom_verdict(header_value: str) -> dict[str, str]:
    """Seed 002's Python snippet."""
    return dict(s.strip().split("=", 1) for s in header_value.split(";"))


@given(FACTS)
def test_every_response_is_valid_http_and_has_the_canonical_set_alone(facts: ResponseFacts) -> None:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.next_event()
    written = connection.send(h11.Response(status_code=200, headers=build_response_headers(facts))) or b""
    headers = headers_of(facts)
    assert written.count(b"\r\n") == len(headers) + 3  # the status, the framing's own header, the end
    ours = {name for name in headers if name.startswith("x-")}
    assert ours <= CANONICAL
    assert {"x-mnemom-request-id", "x-mnemom-verdict", "x-mnemom-version"} <= ours
    assert headers["cache-control"] == "no-store"
    assert headers["x-mnemom-version"] == API_VERSION
    verdict = parse_mnemom_verdict(headers["x-mnemom-verdict"])
    assert tuple(verdict) == CHECKPOINTS
    assert set(verdict.values()) <= set(STATES)
    assert headers["x-mnemom-verdict"] == "; ".join(f"{name}={state}" for name, state in verdict.items())


@given(FACTS)
def test_advisories_are_compact_json_at_most_five_and_left_out_when_empty(facts: ResponseFacts) -> None:
    line = headers_of(facts).get("x-mnemom-advisory")
    if facts.checkpoints is not None and not facts.advisories:
        assert line is None
    if line is None:
        return
    assert len(line) <= LONGEST_ADVISORIES
    told = json.loads(line)
    assert 1 <= len(told) <= 5
    assert line == json.dumps(told, separators=(",", ":"))
    for one in told:
        assert {"source", "text"} <= one.keys() <= {"source", "text", "severity", "id"}


def test_what_is_no_decision_passed_no_checkpoint() -> None:
    headers = headers_of(ResponseFacts("r"))
    assert set(parse_mnemom_verdict(headers["x-mnemom-verdict"]).values()) == {"observed"}
    assert json.loads(headers["x-mnemom-advisory"])[0]["source"] == "sluice.gateway"
    assert "x-aip-verdict" not in headers


KEPT = ("X-Mnemom-Api-Key", "X-Mnemom-Version", "X-Mnemom-Agent", "X-Mnemom-Session")
SPELLINGS = [
    form
    for name in ("X-Mnemom-Verdict", "X-AIP-Verdict", "X-Mnemom-Request-Id", "X-Aip-Checkpoint-Id")
    for form in (
        name.lower(),
        name.upper(),
        name.swapcase(),
        name.replace("-", "_"),
        name.replace("-", "."),
        name.replace("X-", "x_"),
        name.replace("X-", "X--"),
        f" {name} ",
        name.replace("X-", "x~"),
    )
]


def test_there_are_thirty_spellings_and_the_twenty_names() -> None:
    assert len(SPELLINGS) >= 30
    assert len(RETIRED) == 20


@pytest.mark.parametrize("name", [*SPELLINGS, *RETIRED, "x-smoltbot-verdict", "X-Mnemom", "x-mnemom-"])
def test_what_only_the_gateway_may_say_is_stripped(name: str) -> None:
    assert strip([(name.lower().encode(), b"front=pass"), (b"accept", b"*/*")]) == [(b"accept", b"*/*")]


@pytest.mark.parametrize("name", KEPT)
def test_the_four_survive_and_only_in_their_own_spelling(name: str) -> None:
    kept = (name.lower().encode(), b"v")
    assert strip([kept]) == [kept]
    assert strip([(name.lower().replace("-", "_").encode(), b"v")]) == []


@pytest.mark.parametrize("name", [b"x-forwarded-for", b"x-aipple", b"x-mnemomic", b"x-request-id", b"ximage"])
def test_headers_of_others_stay(name: bytes) -> None:
    assert not is_reserved(name)


class Application:
    """What stands behind the edge: it says what it should not, and fails if it is told to."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.seen: list[tuple[bytes, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen = scope["headers"]
        if self.fault is not None:
            raise self.fault
        said = [(name.lower().encode(), b"x") for name in (*RETIRED, "X-Mnemom-Verdict", "x-smoltbot-a")]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1"), *said]})
        await send({"type": "http.response.body", "body": (await receive())["body"]})


async def answer(
    application: Application, headers: dict[str, str] | None = None, method: str = "POST", body: bytes = b"{}"
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of what the edge sends."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": method, "raw_path": b"/v1/evaluate", "headers": raw}
    await Edge(application, EdgeRules(100, 1.0, ["https://here.example"]))(scope, receive, send)
    start = sent[0]
    pairs = [(name.decode(), value.decode()) for name, value in start["headers"]]
    assert len(dict(pairs)) == len(pairs)
    return start["status"], dict(pairs), b"".join(one.get("body", b"") for one in sent[1:])


async def test_nothing_smuggled_comes_in_or_out() -> None:
    application = Application()
    given = {name.strip(): "front=pass; smuggled" for name in (*SPELLINGS, *RETIRED)} | {
        "X-Mnemom-Agent": "a"
    }
    status, headers, body = await answer(application, given)
    assert (status, body) == (200, b"{}")
    assert application.seen == [(b"x-mnemom-agent", b"a")]
    assert "smuggled" not in str(headers)
    assert {name for name in headers if name.startswith("x-")} <= {"x-own", *CANONICAL}


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (RuntimeError("secret"), 500, "internal_error"),
        (HttpError(429, "too_many_requests", "later").set_retry_after(3), 429, "too_many_requests"),
        (HttpError(401, "unauthorized", "no"), 401, "unauthorized"),
    ],
)
async def test_every_error_has_the_headers_and_one_form(fault: Exception, status: int, code: str) -> None:
    found, headers, body = await answer(Application(fault))
    told = json.loads(body)["error"]
    assert (found, told["code"]) == (status, code)
    assert told.keys() == {"code", "message", "details"}
    assert UUID4.fullmatch(headers["x-mnemom-request-id"])
    assert headers["x-mnemom-schema"] == "sluice/error/v1"
    assert headers.get("retry-after") == ("3" if status == 429 else None)
    assert b"secret" not in body


async def test_each_request_has_its_own_id() -> None:
    given = {"X-Mnemom-Request-Id": str(uuid.uuid4())}
    ids = {(await answer(Application(), given))[1]["x-mnemom-request-id"] for _ in range(20)}
    assert len(ids) == 20
    assert given["X-Mnemom-Request-Id"] not in ids


async def test_versions_are_negotiated_by_date() -> None:
    known = await answer(Application(), {"X-Mnemom-Version": API_VERSION})
    assert (known[0], known[1]["x-mnemom-version"]) == (200, API_VERSION)
    for unknown in ("2020-01-01", "latest", ""):
        status, headers, body = await answer(Application(), {"X-Mnemom-Version": unknown})
        assert (status, json.loads(body)["error"]["code"]) == (400, "unknown_version")
        assert headers["x-mnemom-version"] == API_VERSION


async def test_pages_of_allowed_origins_may_read_the_set() -> None:
    asked = {"Origin": "https://here.example", "Access-Control-Request-Method": "POST"}
    status, headers, _ = await answer(Application(), asked, "OPTIONS")
    assert (status, headers["access-control-allow-origin"]) == (204, "https://here.example")
    assert "x-mnemom-api-key" in headers["access-control-allow-headers"]
    _, headers, _ = await answer(Application(), {"Origin": "https://here.example"})
    assert set(EXPOSED) == set(headers["access-control-expose-headers"].split(", "))
    _, headers, _ = await answer(Application(), {"Origin": "https://elsewhere.example"})
    assert "access-control-allow-origin" not in headers
    assert headers["vary"] == "Origin"


async def test_a_body_over_the_bound_is_refused_unread() -> None:
    application = Application()
    for body, headers in ((b"x" * 101, {}), (b"", {"Content-Length": "101"})):
        status, _, told = await answer(application, headers, body=body)
        assert (status, json.loads(told)["error"]["code"]) == (413, "too_large")
    assert not application.seen
