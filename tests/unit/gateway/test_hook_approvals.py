"""Approvals of calls that hooks ask about: what is kept, whose it is, and what no loss of it may let run."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from starlette.requests import Request

from sluice.client.answers import ActionAnswer
from sluice.client.input_kinds import MANDATE
from sluice.client.mandates import compute_mandate_digest
from sluice.client.sealing import NoSealing
from sluice.gateway.http.api_keys import Caller
from sluice.gateway.http.edge import FACTS
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.http.response_headers import ResponseFacts
from sluice.gateway.idempotency import IdempotentRequests, SqliteAnswers
from sluice.gateway.input_requests import RequestContext, WaitLimits
from sluice.gateway.routes import hook_routes
from sluice.gateway.routes.hook_routes import HookRoutes
from sluice.hook_dialects import MANDATE_FIELD

if TYPE_CHECKING:
    from sluice.client.input_kinds import InputKind
    from sluice.gateway.input_requests import PreparedInput

AGENT, KEY = "accountant", "k1"
ENTER, HELD = "read", "pay"
"""A tool whose calls are allowed, and one whose calls wait for a person."""
OTHER_MANDATE = "sha256:" + "ab" * 32


class ScriptedWorker:
    """Decides as a worker does: the same action again has the first verdict. `ends`: by the escalation's id.
    `looks`: how often an end was looked for; `frozen`: agents and sessions; `refuses`: why every mandate is
    refused."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        self.asked: list[dict[str, Any]] = []
        self.ends: dict[str, dict[str, Any]] = {}
        self.looks = 0
        self.frozen: set[str] = set()
        self.refuses: str | None = None

    async def ask(self, kind: InputKind, prepared: PreparedInput, *_: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        said = json.loads(prepared.value)
        if kind is MANDATE:
            self.asked.append(said)
            return {"refusal_id": "r", "reason": self.refuses, "message": ""} if self.refuses else {}
        if kind.topic.endswith("outcomes"):
            self.asked.append(said)
            return {}
        first = self.records.get(prepared.name)
        if first is not None:
            return {**first, "duplicate_of": first["verdict_id"]}
        self.asked.append(said)
        held, number = said["toolName"] == HELD, len(self.records)
        self.records[prepared.name] = {
            "verdict": "needs_human" if held else "allowed",
            "verdict_id": f"verdict:{number}",
            "action_id": prepared.name,
            "agent_id": prepared.agent,
            "gateResults": [],
            "blockReason": "pays" if held else None,
            "tier": "T3",
            "escalationId": f"escalation:{number}" if held else None,
            "duplicate_of": None,
            "obligations": [],
            "rows_reserved": 1,
            "input": {},
        }
        return self.records[prepared.name]

    async def fetch_first(self, told: dict[str, Any], _: Caller) -> dict[str, Any]:
        same = (one for one in self.records.values() if one["verdict_id"] == told["verdict_id"])
        return next(same)

    async def fetch_end(self, first: dict[str, Any]) -> ActionAnswer | None:
        self.looks += 1
        await asyncio.sleep(0)
        end = self.ends.get(first["escalationId"])
        return None if end is None else ActionAnswer.of({**first, **end})

    def answer(self, verdict: str = "allowed", reason: str | None = None) -> None:
        """End everything that waits."""
        for one in self.records.values():
            end = {"verdict": verdict, "blockReason": reason, "verdict_id": f"end of {one['verdict_id']}"}
            self.ends.setdefault(one["escalationId"], end)

    def find_agent(self, name: str, tenant: str) -> Any:
        return SimpleNamespace(id=name, tenant=tenant, keys=None)

    def find_freezes(self, _: str, agent: str, session: str) -> bool:
        return bool(self.frozen & {agent, session})


class Hooks:
    """The route before a scripted worker. `store`: what the gateway keeps."""

    def __init__(self, store: SqliteAnswers | None = None) -> None:
        self.worker = ScriptedWorker()
        self.open: set[str] = set()
        self.key = KEY
        self.store = store or SqliteAnswers(None)
        registry: Any = self.worker
        registry.registry = self.worker
        self.routes = HookRoutes(
            cast("Any", self),
            cast("Any", self.worker),
            registry,
            WaitLimits(10, 60),
            cast("Any", SimpleNamespace(get=lambda _, an_id: an_id if an_id in self.open else None)),
            IdempotentRequests(self.store),
            NoSealing(),
        )

    async def identify(self, request: Request) -> RequestContext:
        return RequestContext(Caller(self.key, "acme", None), "r-1", request.headers["x-mnemom-agent"])

    async def ask(
        self, call_id: str, tool: str = HELD, *, dialect: str = "claude-code", key: str = KEY, **more: Any
    ) -> tuple[str, str]:
        """What a hook is told, and why."""
        event = {
            "session_id": "s-1",
            "hook_event_name": "PreToolUse",
            "tool_name": tool,
            "tool_input": {"amount": 10, "note": "a secret text"},
            "tool_use_id": call_id,
            **more,
        }
        told = await self.send(event, dialect, key)
        said = told.get("hookSpecificOutput") or {
            "permissionDecision": "allow",
            "permissionDecisionReason": "",
        }
        return said["permissionDecision"], said["permissionDecisionReason"]

    async def send(
        self, event: dict[str, Any], dialect: str = "claude-code", key: str = KEY
    ) -> dict[str, Any]:
        """The gateway's answer to an event."""
        query = {name: event.pop(name) for name in ("mandate", "wait") if name in event}
        agent = event.pop("agent", AGENT)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": json.dumps(event).encode()}

        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "state": {}}
        scope["headers"] = [(b"x-mnemom-agent", agent.encode())]
        scope["state"] = {FACTS: ResponseFacts("r-1")}
        self.key = key
        answer = await self.routes.answer(Request(scope, receive), dialect, **query)
        told: dict[str, Any] = json.loads(bytes(answer.body))
        return told

    async def decide(self, *given: Any, **more: Any) -> str:
        """What a hook is told."""
        return (await self.ask(*given, **more))[0]

    def list_names(self) -> list[str]:
        rows = self.store._rows.execute("SELECT name FROM answers")  # noqa: SLF001 - as who owns the file
        return [one[0] for one in rows]

    def forget(self, *names: str) -> None:
        """As an eviction, or another who writes to the store, would."""
        for one in names:
            self.store._rows.execute("DELETE FROM answers WHERE name = ?", (one,))  # noqa: SLF001 - as above


async def test_an_approval_runs_one_call_and_the_next_is_asked_anew() -> None:
    hooks = Hooks()
    assert await hooks.decide("a") == "deny"
    hooks.worker.answer()
    assert [await hooks.decide("b"), await hooks.decide("b")] == ["allow", "allow"], "the same call twice"
    assert (await hooks.ask("a"))[1].startswith("not_again"), "the call that waited, too"
    assert (await hooks.ask("c"))[1].startswith("needs_human")
    assert len(hooks.worker.records) == 2
    for call in ("a", "b"):
        assert await hooks.decide(call) == "deny", "the earlier approval counts for none of them any more"
    hooks.worker.answer()
    assert [await hooks.decide("c"), await hooks.decide("a"), await hooks.decide("b")] == [
        "allow",
        "deny",
        "deny",
    ]


async def test_of_many_calls_at_once_one_runs() -> None:
    hooks = Hooks()
    await hooks.decide("first")
    hooks.worker.answer()
    told = await asyncio.gather(*(hooks.decide(f"c{number}") for number in range(16)))
    assert Counter(told) == {"allow": 1, "deny": 15}
    twice = Hooks()
    await twice.decide("first")
    twice.worker.answer()
    told = await asyncio.gather(*(twice.decide("again") for _ in range(4)))
    assert told == ["allow"] * 4, "one call, whose hook is there twice"


@pytest.mark.parametrize("used", [True, False])
async def test_no_entry_that_is_lost_makes_an_approval_count_again(used: bool) -> None:
    """Whatever one, two or all of the entries are lost, before or after a call has run."""
    complete = Hooks()
    await complete.decide("a")
    complete.worker.answer()
    await complete.decide("b")
    names = complete.list_names()
    lost: list[list[str]] = [
        names,
        *([one] for one in names),
        *([one, two] for one in names for two in names),
    ]
    for some in lost:
        hooks = Hooks()
        await hooks.decide("a")
        hooks.worker.answer()
        ran = [await hooks.decide("b")] if used else []
        hooks.forget(*some)
        ran += [await hooks.decide(call) for call in ("a", "c", "a", "d")]
        ran += [await hooks.decide("b")] if not used else []
        assert ran.count("allow") <= 1, some


async def test_an_approval_is_not_shared() -> None:
    others: list[dict[str, Any]] = [
        {"mandate": OTHER_MANDATE},
        {"dialect": "codex"},
        {"key": "k2"},
        {"agent": "other"},
        {"session_id": "s-2"},
        {"agent_id": "x", "agent_type": "reviewer"},
        {"tool_input": {"amount": 11}},
    ]
    for number, other in enumerate(others):
        hooks = Hooks()
        await hooks.decide("a")
        hooks.worker.answer()
        assert await hooks.decide(f"b{number}", **other) == "deny", other
        assert await hooks.decide("b") == "allow"
    hooks = Hooks()
    await hooks.decide("a", mandate=OTHER_MANDATE)
    hooks.worker.answer()
    assert await hooks.decide("b") == "deny", "nor is one under a mandate counted for a call without"
    assert await hooks.decide("c", mandate=OTHER_MANDATE) == "allow"


@pytest.mark.parametrize("frozen", [AGENT, f"{AGENT}:reviewer", "s-1"])
async def test_a_freeze_denies_what_was_allowed(frozen: str) -> None:
    inside = {"agent_id": "x", "agent_type": "reviewer"}
    hooks = Hooks()
    await hooks.decide("held", **inside)
    hooks.worker.answer()
    assert await hooks.decide("read", ENTER, **inside) == "allow"
    hooks.worker.frozen = {frozen}
    for call, tool in (("read", ENTER), ("again", HELD)):
        decision, reason = await hooks.ask(call, tool, **inside)
        assert (decision, reason.partition(":")[0]) == ("deny", "frozen")
    hooks.worker.frozen = set()
    assert await hooks.decide("again", **inside) == "allow"


async def test_an_expired_escalation_is_asked_anew_and_a_denied_one_is_not() -> None:
    hooks = Hooks()
    await hooks.decide("a")
    hooks.worker.answer("denied", "approval_expired: nobody answered")
    assert (await hooks.ask("a"))[1].startswith("not_again")
    assert (await hooks.ask("b"))[1].startswith("needs_human")
    hooks.worker.answer("denied", "approval_denied: no")
    assert ["approval_denied" in (await hooks.ask(call))[1] for call in ("a", "b", "c")] == [True] * 3
    assert len(hooks.worker.records) == 2


async def test_arguments_are_not_kept_once_a_call_is_answered() -> None:
    hooks = Hooks()
    for call, tool in (("a", ENTER), ("b", HELD)):
        await hooks.decide(call, tool)
    for name in hooks.list_names():
        assert b"a secret text" not in (await hooks.store.get(name) or b"")
    assert (await hooks.ask("a", ENTER, tool_input={}))[1].startswith("idempotency_conflict")


async def test_a_key_that_keeps_too_much_is_denied_with_the_reason() -> None:
    hooks = Hooks(SqliteAnswers(None, most_bytes=20_000))
    told = [await hooks.ask(f"c{number}", ENTER) for number in range(100)]
    assert told[0][0] == "allow"
    assert (told[-1][0], told[-1][1].partition(":")[0]) == ("deny", "too_much_kept")
    assert "idempotency_mb" in told[-1][1]
    assert await hooks.decide("other", ENTER, key="k2") == "allow"


async def test_looks_for_an_end_become_rarer_and_stop_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses = [0.0], list[float]()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds
        await asyncio.sleep(0)

    monkeypatch.setattr(hook_routes, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(hook_routes, "asyncio", SimpleNamespace(sleep=sleep))
    hooks = Hooks()
    assert await hooks.decide("a", wait=60) == "deny"
    assert now[0] == pytest.approx(60)
    assert hooks.worker.looks < 40
    assert (pauses[0], max(pauses)) == (0.1, 2.0)
    assert pauses == [*sorted(pauses[:-1]), pauses[-1]]
    now[0], pauses[:] = 0.0, []
    hooks.worker.looks = 0
    assert await hooks.decide("b") == "deny"
    assert (hooks.worker.looks, pauses) == (1, [])


def make_prompt(name: str, hours: float = 1, event: str = "UserPromptSubmit", **more: Any) -> dict[str, Any]:
    """An event with a mandate of this name."""
    until = datetime.now(UTC) + timedelta(hours=hours)
    mandate = {
        "mandate_id": name,
        "session_id": "s-1",
        "agent_id": AGENT,
        "issuer_id": "desk",
        "key_id": "0a" * 32,
        "task": name,
        "until": until.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "template": {"id": "coding", "values": {}},
        "signature": "c2ln",
    }
    return {"session_id": "s-1", "hook_event_name": event, MANDATE_FIELD: mandate | more}


async def name_next(hooks: Hooks, call: str, **more: Any) -> str | None:
    """The mandate that the next call names."""
    await hooks.ask(call, ENTER, **more)
    found: str | None = hooks.worker.asked[-1].get("mandate_digest")
    return found


async def test_calls_name_the_mandate_of_the_last_prompt_of_their_session() -> None:
    hooks = Hooks()
    assert await name_next(hooks, "a") is None
    opened, first, second = (
        make_prompt(one, event=name)
        for one, name in (
            ("opened", "SessionStart"),
            ("first", "UserPromptSubmit"),
            ("second", "UserPromptSubmit"),
        )
    )
    for number, event in enumerate((opened, first, second)):
        digest = compute_mandate_digest(event[MANDATE_FIELD])
        assert await hooks.send(dict(event)) == {}
        assert hooks.worker.asked[-1] == event[MANDATE_FIELD]
        assert await name_next(hooks, f"b{number}") == digest
    again = make_prompt("resumed", event="SessionStart")
    await hooks.send(again)
    assert await name_next(hooks, "c") == digest, "a session that goes on keeps what was said last"
    assert await name_next(hooks, "d", mandate=OTHER_MANDATE) == OTHER_MANDATE, (
        "the hook's settings go before"
    )
    others: list[dict[str, Any]] = [{"session_id": "s-2"}, {"key": "k2"}, {"agent": "other"}]
    others.append({"agent_id": "x", "agent_type": "reviewer"})
    for number, other in enumerate(others):
        assert await name_next(hooks, f"e{number}", **other) is None, other
    hooks.worker.refuses = "mandate_without_room"
    await hooks.send(make_prompt("ninth"))
    assert await name_next(hooks, "f") == digest, "the last one that has room goes on"


async def test_a_prompt_whose_mandate_is_refused_is_an_error() -> None:
    hooks = Hooks()
    hooks.worker.refuses = "mandate_without_room"
    with pytest.raises(HttpError) as error:
        await hooks.send(make_prompt("first"))
    assert (error.value.status, error.value.code) == (422, "mandate_without_room")
    hooks.worker.refuses = None
    await hooks.send(make_prompt("short", hours=-1))
    hooks.worker.refuses = "mandate_without_room"
    with pytest.raises(HttpError):
        await hooks.send(make_prompt("second"))
    for wrong in ({"agent_id": "other"}, {"session_id": "s-2"}, {"task": 5}):
        with pytest.raises(HttpError):
            await hooks.send(make_prompt("third", **wrong))
    assert await hooks.send({"session_id": "s-1", "hook_event_name": "UserPromptSubmit"}) == {}


async def test_what_waits_is_found_after_the_person_has_said_more() -> None:
    hooks = Hooks()
    await hooks.send(make_prompt("first"))
    assert await hooks.decide("a") == "deny"
    hooks.worker.answer()
    await hooks.send(make_prompt("go on"))
    assert await hooks.decide("b", mandate=OTHER_MANDATE) == "deny"
    assert await hooks.decide("c") == "allow"
    assert len(hooks.worker.records) == 2
    bare = Hooks()
    assert await bare.decide("a") == "deny"
    bare.worker.answer()
    await bare.send(make_prompt("first"))
    assert await bare.decide("b") == "deny", "nor does an approval without a mandate count under one"
