"""Hooks before a real gateway and worker: nothing runs that was not allowed, an approval runs one call."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from load.installations import neutral_policy
from sluice.cli.policy.key_files import make_private_key
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import ACTIONS, SESSION_EVENTS
from tests.kafka.gateway.test_gateway_reviews import open_escalation, sign
from tests.kafka.gateway_process import ESCALATING_TOOL, Gateway, run_gateway
from tests.kafka.installation import read_stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx2

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
CLAUDE = "/v1/hooks/claude-code"


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx2.Client]:
    with gateway.client() as made:
        yield made


def event(session: str, tool: str = neutral_policy.READ_TOOL, **more: Any) -> dict[str, Any]:
    """A PreToolUse event of Claude Code, as the hooks reference and the SDK's types have it."""
    return {
        "session_id": session,
        "transcript_path": "/home/ann/.claude/projects/p/s.jsonl",
        "cwd": "/home/ann/p",
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": {"table": "orders"},
        "tool_use_id": f"toolu_{uuid.uuid4().hex}",
        **more,
    }


def new_session() -> str:
    return f"s-{uuid.uuid4().hex}"


def ask(client: httpx2.Client, said: dict[str, Any], **query: Any) -> tuple[str, str]:
    answer = client.post(CLAUDE, json=said, params=query)
    assert answer.status_code == 200, answer.text
    told = answer.json()["hookSpecificOutput"]
    assert told["hookEventName"] == "PreToolUse"
    return told["permissionDecision"], told["permissionDecisionReason"]


def list_records(installation: TestInstallation, topic: str, session: str) -> list[dict[str, Any]]:
    found = [one for one in read_stored(installation, topic) if session in str(one.value)]
    return [json.loads(one.value or b"") for one in found]


def test_an_allowed_call_is_one_action_with_the_same_arguments_and_its_outcome_settles_it(
    installation: TestInstallation, client: httpx2.Client
) -> None:
    session = new_session()
    said = event(session)
    assert ask(client, said)[0] == "allow"
    assert ask(client, said)[0] == "allow", "two settings files may have the same hook"
    (action,) = list_records(installation, ACTIONS, session)
    assert (action["toolName"], action["parameters"]) == (said["tool_name"], said["tool_input"])
    done = {**said, "hook_event_name": "PostToolUseFailure", "error": "secret text", "is_interrupt": True}
    assert client.post(CLAUDE, json=done).json() == {}
    settled = [one for one in list_records(installation, SESSION_EVENTS, session) if "outcome_id" in one]
    assert [one["action_id"] for one in settled] == [action["action_id"]]
    assert "secret text" not in str(settled)


def test_a_denied_call_has_the_reason(client: httpx2.Client) -> None:
    decision, reason = ask(client, event(new_session(), "load.not_registered"))
    assert decision == "deny"
    assert "did not run" in reason


def test_an_id_with_other_arguments_is_denied(client: httpx2.Client) -> None:
    said = event(new_session())
    assert ask(client, said)[0] == "allow"
    decision, reason = ask(client, {**said, "tool_input": {"table": "payroll"}})
    assert (decision, reason.partition(":")[0]) == ("deny", "idempotency_conflict")


def test_the_same_call_again_finds_the_approval_once(
    installation: TestInstallation, client: httpx2.Client
) -> None:
    session = new_session()
    first = event(session, ESCALATING_TOOL)
    decision, reason = ask(client, first)
    assert decision == "deny"
    (waits_for,) = [word.rstrip(".") for word in reason.split() if word.startswith("escalation:")]
    assert ask(client, event(session, ESCALATING_TOOL))[0] == "deny", "it still waits"
    assert len(list_records(installation, ACTIONS, session)) == 1
    waits = open_escalation(client, waits_for)
    path = f"/v1/escalations/{waits_for}/decision"
    assert client.post(path, json=sign(installation, waits)).status_code == 200
    other = event(session, ESCALATING_TOOL, tool_input={"table": "payroll"})
    assert ask(client, other)[0] == "deny", "the approval is for these arguments alone"
    again = event(session, ESCALATING_TOOL)
    assert ask(client, again)[0] == "allow"
    assert ask(client, again)[0] == "allow", "the same call asks twice"
    assert ask(client, event(session, ESCALATING_TOOL))[0] == "deny", "an approval runs one call"
    assert ask(client, first)[0] == "deny", "the first call, too"
    done = {**again, "hook_event_name": "PostToolUse", "tool_response": {"rows": 1}}
    assert client.post(CLAUDE, json=done).status_code == 200
    actions = list_records(installation, ACTIONS, session)
    settled = [one for one in list_records(installation, SESSION_EVENTS, session) if "outcome_id" in one]
    assert [one["action_id"] for one in settled] == [actions[0]["action_id"]]


def test_a_call_waits_for_its_approval_and_a_denial_stays(
    installation: TestInstallation, client: httpx2.Client
) -> None:
    session = new_session()
    deferred = event(session, ESCALATING_TOOL)
    decision, reason = ask(client, deferred, escalated="defer")
    assert decision == "defer"
    (waits_for,) = [word.rstrip(".") for word in reason.split() if word.startswith("escalation:")]
    answer = sign(installation, open_escalation(client, waits_for), "deny")
    assert client.post(f"/v1/escalations/{waits_for}/decision", json=answer).status_code == 200
    for said in (deferred, event(session, ESCALATING_TOOL)):
        decision, reason = ask(client, said, escalated="defer", wait=20)
        assert (decision, "approval_denied" in reason) == ("deny", True)


def test_a_gateway_that_was_killed_leaves_what_waits_and_one_of_many_calls_gets_the_approval(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = new_session()
    store = {"idempotency_file": str(installation.folder / "hooks.sqlite")}
    with run_gateway(installation, "hooks", wait_s=50, **store) as first:
        key = first.key(agents=[neutral_policy.AGENT])
        with first.client(key) as client:
            decision, reason = ask(client, event(session, ESCALATING_TOOL))
        first.kill()
    assert decision == "deny"
    (waits_for,) = [word.rstrip(".") for word in reason.split() if word.startswith("escalation:")]
    with run_gateway(installation, "hooks", wait_s=50, **store) as second:
        with second.client(key) as client:
            answer = sign(installation, open_escalation(client, waits_for))
            assert client.post(f"/v1/escalations/{waits_for}/decision", json=answer).status_code == 200

        def call_again(_: int) -> str:
            with second.client(key) as own:
                return ask(own, event(session, ESCALATING_TOOL))[0]

        with ThreadPoolExecutor(8) as threads:
            decisions = list(threads.map(call_again, range(16)))
    assert sorted(decisions) == ["allow"] + ["deny"] * 15


@pytest.mark.parametrize(
    ("dialect", "before", "after", "allowed"),
    [
        ("codex", "PreToolUse", {"hook_event_name": "PostToolUse", "tool_response": "x"}, {}),
        (
            "gemini-cli",
            "BeforeTool",
            {"hook_event_name": "AfterTool", "tool_response": {"llmContent": "x", "error": "x"}},
            {"decision": "allow"},
        ),
        (
            "cursor",
            "preToolUse",
            {"hook_event_name": "postToolUse", "tool_output": "x", "duration": 5},
            {"permission": "allow"},
        ),
    ],
)
def test_each_dialect_is_answered_in_its_own_words_and_reports_its_outcome(
    installation: TestInstallation,
    client: httpx2.Client,
    dialect: str,
    before: str,
    after: dict[str, Any],
    allowed: dict[str, Any],
) -> None:
    session = new_session()
    said = event(session, hook_event_name=before, conversation_id=session)
    assert client.post(f"/v1/hooks/{dialect}", json=said).json() == allowed
    denied = client.post(f"/v1/hooks/{dialect}", json={**said, "tool_name": "t", "tool_use_id": "u"})
    assert "deny" in denied.text
    assert client.post(f"/v1/hooks/{dialect}", json={**said, **after}).json() == {}
    action = list_records(installation, ACTIONS, session)[0]
    settled = [one for one in list_records(installation, SESSION_EVENTS, session) if "outcome_id" in one]
    assert [one["action_id"] for one in settled] == [action["action_id"]]


def test_an_answer_that_a_dialect_does_not_have_is_refused(client: httpx2.Client) -> None:
    said = event(new_session())
    answer = client.post("/v1/hooks/codex", json=said, params={"escalated": "ask"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_value")
    assert client.post("/v1/hooks/other", json=said).status_code == 404


def test_a_registered_sub_agent_acts_as_a_delegate_and_starts_as_one(
    kafka: str, installation: TestInstallation, gateway: Gateway
) -> None:
    root, helper = "hooked-agent", "hooked-agent:reviewer"
    common = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "autonomy_tier": "sandbox"}
    specs = {root: {**common, "delegates_to": [helper]}, helper: {**common, "callers": [root]}}
    made = [{"kind": "agent", "id": name, "revision": 1, "spec": spec} for name, spec in specs.items()]
    asyncio.run(publish_policy(kafka, installation.prefix, installation.trust.sign_entries(made)))
    session = new_session()
    with gateway.client(gateway.key(agents=[root, helper]), **{"X-Mnemom-Agent": root}) as client:
        until = time.monotonic() + 30
        while True:
            inside = event(session, agent_id="a-1", agent_type="reviewer")
            decision, reason = ask(client, inside)
            if decision == "allow" or time.monotonic() > until:
                break
            time.sleep(0.2)
        assert decision == "allow", reason
        assert ask(client, event(session, agent_id="a-2", agent_type="stranger"))[0] == "deny"
        ask(client, event(session, "Task", tool_input={"prompt": "look", "subagent_type": "reviewer"}))
    actions = list_records(installation, ACTIONS, session)
    told = next(one for one in actions if one.get("governanceContext"))
    assert told["agent_id"] == helper
    assert told["governanceContext"] == {"rootAgentId": root, "parentAgentId": root, "chainDepth": 1}
    assert [one["delegate_to"] for one in actions if "delegate_to" in one] == [helper]


def test_a_sub_agent_that_is_not_registered_is_denied(client: httpx2.Client) -> None:
    said = event(new_session(), agent_id="a-1", agent_type="reviewer")
    decision, reason = ask(client, said)
    assert (decision, reason.partition(":")[0]) == ("deny", "agent_not_bound")


def test_a_call_that_was_not_judged_is_told(client: httpx2.Client) -> None:
    done = {**event(new_session()), "hook_event_name": "PostToolUse", "tool_response": "x"}
    answer = client.post(CLAUDE, json=done)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_judged")


@pytest.mark.parametrize("name", ["SessionStart", "UserPromptSubmit", "Stop"])
def test_other_events_have_no_decision(client: httpx2.Client, name: str) -> None:
    answer = client.post(CLAUDE, json={"session_id": "s", "hook_event_name": name, "prompt": "hello"})
    assert (answer.status_code, answer.json()) == (200, {})


def call(
    gateway: Gateway, said: bytes, *options: str, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    own |= {"SLUICE_URL": gateway.url, **environment}
    given = [sys.executable, "-m", "sluice", "hook", *options]
    return subprocess.run(given, input=said, env=own, capture_output=True, timeout=60, check=False)


def test_the_command_answers_for_the_gateway(gateway: Gateway, client: httpx2.Client) -> None:
    said, key = event(new_session()), client.headers["X-Mnemom-Api-Key"]
    done = call(gateway, json.dumps(said).encode(), "--dialect", "claude-code", SLUICE_API_KEY=key)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"
    after = {**said, "hook_event_name": "PostToolUse", "tool_response": "x" * 2_000_000}
    done = call(gateway, json.dumps(after).encode(), "--dialect=claude-code", SLUICE_API_KEY=key)
    assert (done.returncode, done.stdout.strip()) == (0, b"{}")


def test_a_prompt_is_the_task_of_the_calls_after_it(
    kafka: str, installation: TestInstallation, gateway: Gateway, client: httpx2.Client, tmp_path: Path
) -> None:
    key, file = make_private_key(tmp_path / "desk.pem"), tmp_path / "desk.json"
    common, tools = {"tenant_id": neutral_policy.TENANT}, [{"tool": neutral_policy.READ_TOOL}]
    desk = {**common, "keys": [{"public_key": key.public.text}], "agents": [neutral_policy.AGENT]}
    entries = {
        ("issuer", "desk"): {**desk, "tasks": ["coding"]},
        ("task", "coding"): {**common, "task": "What the person says", "tools": tools},
    }
    made = [{"kind": kind, "id": one, "revision": 1, "spec": spec} for (kind, one), spec in entries.items()]
    asyncio.run(publish_policy(kafka, installation.prefix, installation.trust.sign_entries(made)))
    audience = installation.audience
    said = {"issuer": "desk", "key": str(tmp_path / "desk.pem"), "task": "coding"}
    said |= {"agent": neutral_policy.AGENT, "topic_prefix": audience.topic_prefix}
    file.write_text(json.dumps({**said, "installation": audience.installation}))
    session, own = new_session(), {"SLUICE_API_KEY": client.headers["X-Mnemom-Api-Key"]}
    opened = {"session_id": session, "hook_event_name": "SessionStart", "source": "startup"}
    prompt = {"session_id": session, "hook_event_name": "UserPromptSubmit", "prompt": "Read the orders"}
    until = time.monotonic() + 30
    for event_said in (opened, prompt):
        while True:  # the worker may not have read the issuer yet
            words = "--dialect=claude-code", f"--issuer={file}"
            done = call(gateway, json.dumps(event_said).encode(), *words, **own)
            if done.returncode == 0 or time.monotonic() > until:
                break
        assert (done.returncode, done.stdout.strip()) == (0, b"{}"), done.stderr
        assert ask(client, event(session))[0] == "allow"
    ledger = list_records(installation, SESSION_EVENTS, session)
    recorded = [one for one in ledger if "mandate_event_id" in one]
    assert [one["mandate"]["task"] for one in recorded] == ["What the person says", "Read the orders"]
    assert all(one["mandate"]["scopes"][0]["tools"] == tools for one in recorded)
    named = [one["mandate_digest"] for one in list_records(installation, ACTIONS, session)]
    assert named == [one["mandate"]["digest"] for one in recorded]
    assert b"Read the orders" not in (installation.folder / "gateway.log").read_bytes()
    file.write_text(file.read_text().replace('"coding"', '"other"'))
    done = call(gateway, json.dumps(prompt).encode(), *words, **own)
    assert (done.returncode, b"unknown_task" in done.stderr) == (2, True), done.stderr


def test_the_command_blocks_where_the_key_counts_for_nothing(gateway: Gateway) -> None:
    said = json.dumps(event(new_session())).encode()
    done = call(gateway, said, "--dialect=claude-code", SLUICE_API_KEY="none")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"401" in done.stderr
