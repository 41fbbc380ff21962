"""Ways past the hooks of coding agents that somebody has looked for and that must stay shut."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.gateway.http.http_errors import HttpError
from sluice.hook_dialects import DIALECTS, MANDATE_FIELD, HookUnreadable
from tests.unit.gateway.test_hook_approvals import ENTER, HELD, Hooks, make_prompt, name_next

HOME, ROOT = "/home/ann/work", "/"
SPELLINGS: list[dict[str, Any]] = [
    {"amount": 10.0},
    {"amount": "10"},
    {"amount": True},
    {"amount": 9007199254740993},
    {"amount": 9007199254740992},
    {"amount": 0},
    {"amount": -0.0},
    {"amount": 10, "note": None},
    {"amount": 10, "n\u00f6te": "x"},
    {"amount": 10, "no\u0308te": "x"},
    {"amount": 10, "note": "\u202ea secret text"},
    {"amount": [10]},
    {"amount": {"amount": 10}},
]
"""Arguments that a reader, or a careless comparison, may take for each other."""


def end(call_id: str, tool: str = HELD, **more: Any) -> dict[str, Any]:
    """The event after a call."""
    return {
        "session_id": "s-1",
        "hook_event_name": "PostToolUse",
        "tool_name": tool,
        "tool_input": {"amount": 10, "note": "a secret text"},
        "tool_use_id": call_id,
        **more,
    }


async def test_an_id_that_a_model_writes_twice_runs_no_second_call() -> None:
    """Where a model writes the ids of its calls, it can write one again."""
    hooks = Hooks()
    await hooks.decide("functions.pay:0")
    hooks.worker.answer()
    assert await hooks.decide("functions.pay:1") == "allow"
    await hooks.send(end("functions.pay:1"))
    assert (await hooks.ask("functions.pay:1"))[1].startswith("ran_before")
    assert await hooks.decide("functions.read:2", ENTER) == "allow"
    await hooks.send(end("functions.read:2", ENTER, hook_event_name="PostToolUseFailure"))
    for _ in range(2):
        assert (await hooks.ask("functions.read:2", ENTER))[1].startswith("ran_before")


async def test_an_approval_in_one_folder_runs_nothing_in_another() -> None:
    hooks = Hooks()
    await hooks.decide("a", cwd=HOME)
    hooks.worker.answer()
    others: list[dict[str, Any]] = [{"cwd": ROOT}, {"cwd": f"{HOME}/"}, {"cwd": ""}, {}, {"cwd": 5}]
    for number, other in enumerate(others):
        assert await hooks.decide(f"b{number}", **other) == "deny", other
    assert await hooks.decide("a", cwd=ROOT) == "deny", "nor under the id that waited"
    assert await hooks.decide("c", cwd=HOME) == "allow"


async def test_no_arguments_that_look_alike_run_by_an_approval() -> None:
    for approved in SPELLINGS:
        hooks = Hooks()
        await hooks.decide("a", tool_input=approved)
        hooks.worker.answer()
        others = [one for one in SPELLINGS if one is not approved]
        for number, other in enumerate(others):
            assert await hooks.decide(f"b{number}", tool_input=other) == "deny", (approved, other)


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example\\@db.example.org/mcp",
        "https://evil.example\\\\@db.example.org/mcp",
        "https://evil.example\t\\@db.example.org/mcp",
        "https:\\\\evil.example/https://db.example.org/mcp",
        "https://evil.example/@db.example.org/mcp",
        "https://evil.example?@db.example.org/mcp",
        "https://evil.example#@db.example.org/mcp",
        "https://db.example.org@evil.example/mcp",
        "https:/evil.example/@db.example.org/mcp",
        "https://db.example.org \n.evil.example/mcp",
    ],
)
def test_no_address_of_a_server_takes_the_name_of_another(address: str) -> None:
    """The addresses stand in a file of the workspace, and lead a browser's parser to another host."""
    event = {
        "hook_event_name": "beforeMCPExecution",
        "conversation_id": "c-1",
        "tool_name": "query",
        "tool_input": "{}",
        "url": address,
    }
    try:
        named = DIALECTS["cursor"].read(event).tool
    except HookUnreadable:
        return
    assert "//db.example.org/" not in named


def test_servers_that_differ_in_the_query_of_their_address_have_two_names() -> None:
    def name(query: str) -> str:
        event = {
            "hook_event_name": "beforeMCPExecution",
            "conversation_id": "c-1",
            "tool_name": "query",
            "tool_input": "{}",
            "url": f"https://mcp.example.org/x{query}",
        }
        return DIALECTS["cursor"].read(event).tool

    others = [
        "",
        "?",
        "#a",
        "?profile=ours",
        "?profile=ours&x=1",
        "?profile=theirs",
        "?theirs",
        "?a=b;profile=ours",
    ]
    others += [f"?profile={letter * 40}" for letter in "ab"]
    assert len({name(one) for one in others}) == len(others) - 2, "?, # and nothing are one place"
    for secret in ("?api_key=1234", "?%61pi_key=1234", "?access_token=1234#1234", "?x=1;SECRET=1234"):
        assert "1234" not in name(secret)
    assert name("?api_key=1234") == name("?api_key=5678") == name(""), "a new key needs no new entry"


async def test_no_outcome_of_another_call_or_session_ends_a_call() -> None:
    """Nor does one that is reported before the call is judged."""
    hooks = Hooks()
    assert await hooks.decide("a", ENTER) == "allow"
    for wrong in ({"session_id": "s-2"}, {"agent_id": "x", "agent_type": "reviewer"}, {"tool_use_id": "b"}):
        with pytest.raises(HttpError):
            await hooks.send(end("a", ENTER, **wrong))
    assert await hooks.decide("a", ENTER) == "allow"


async def test_a_mandate_of_another_session_or_agent_is_no_prompt_here() -> None:
    hooks = Hooks()
    wrong: list[dict[str, Any]] = [{"session_id": "s-2"}, {"agent_id": "other"}, {"session_id": ""}]
    for one in wrong:
        with pytest.raises(HttpError):
            await hooks.send(make_prompt("stolen", **one))
    assert await name_next(hooks, "a") is None
    tool = {**make_prompt("of a tool"), "hook_event_name": "PostToolUse", "tool_name": ENTER}
    with pytest.raises(HttpError):
        await hooks.send(tool | {"tool_input": {}, "tool_use_id": "x"})
    assert await name_next(hooks, "b") is None, "no event but a prompt's brings a mandate"
    assert MANDATE_FIELD in tool


@pytest.mark.control
async def test_control_a_hook_that_asks_twice_about_a_call_is_answered_twice() -> None:
    hooks = Hooks()
    assert [await hooks.decide("a", ENTER), await hooks.decide("a", ENTER)] == ["allow", "allow"]
    await hooks.send(end("a", ENTER))
    assert await hooks.decide("b", ENTER) == "allow"


@pytest.mark.control
async def test_control_an_approval_runs_the_same_call_whatever_the_order_of_its_keys() -> None:
    hooks = Hooks()
    await hooks.decide("a", tool_input={"amount": 10, "to": {"x": 1, "y": 2}}, cwd=HOME)
    hooks.worker.answer()
    assert await hooks.decide("b", tool_input={"to": {"y": 2, "x": 1}, "amount": 10}, cwd=HOME) == "allow"
