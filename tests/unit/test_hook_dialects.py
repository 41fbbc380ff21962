"""Hooks by the JSON that each product documents; the sources are named in docs/hooks.md."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.hook_dialects import AFTER, ALLOW, BEFORE, DENY, DIALECTS, FAILED, INTERRUPTED, HookUnreadable

# The types of the Claude Agent SDK: anthropics/claude-agent-sdk-python, src/claude_agent_sdk/types.py
CLAUDE: dict[str, Any] = {
    "session_id": "s-1",
    "transcript_path": "/t.jsonl",
    "cwd": "/p",
    "permission_mode": "default",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "npm test"},
    "tool_use_id": "toolu_1",
}
# openai/codex, codex-rs/hooks/schema/generated/pre-tool-use.command.input.schema.json
CODEX = {**CLAUDE, "model": "m", "turn_id": "t-1", "transcript_path": None}
# google-gemini/gemini-cli, docs/hooks/reference.md
GEMINI: dict[str, Any] = {
    "session_id": "s-1",
    "transcript_path": "/t.json",
    "cwd": "/p",
    "hook_event_name": "BeforeTool",
    "timestamp": "2026-01-01T00:00:00Z",
    "tool_name": "run_shell_command",
    "tool_input": {"command": "npm test"},
}
# cursor.com/docs/hooks, as repositories have copied it
CURSOR: dict[str, Any] = {
    "conversation_id": "s-1",
    "generation_id": "g-1",
    "model": "m",
    "hook_event_name": "beforeShellExecution",
    "cursor_version": "2.0.77",
    "workspace_roots": ["/p"],
    "user_email": None,
    "command": "npm test",
    "cwd": "/p",
}
BY_NAME = {"claude-code": CLAUDE, "codex": CODEX, "gemini-cli": GEMINI, "cursor": CURSOR}


@pytest.mark.parametrize("name", list(DIALECTS))
def test_the_documented_event_before_a_call_is_read(name: str) -> None:
    event = DIALECTS[name].read(BY_NAME[name])
    assert (event.kind, event.session, event.arguments["command"]) == (BEFORE, "s-1", "npm test")
    assert event.call_id == (None if name in ("cursor", "gemini-cli") else "toolu_1")


@pytest.mark.parametrize("name", list(DIALECTS))
def test_an_event_without_a_field_is_not_read(name: str) -> None:
    said = BY_NAME[name]
    for field in (
        "session_id",
        "conversation_id",
        "hook_event_name",
        "tool_name",
        "tool_input",
        "tool_use_id",
    ):
        if field in said and not (field == "tool_use_id" and name == "gemini-cli"):
            with pytest.raises(HookUnreadable, match=field):
                DIALECTS[name].read({key: value for key, value in said.items() if key != field})


@pytest.mark.parametrize(
    ("name", "allowed", "denied"),
    [
        (
            "claude-code",
            {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}},
            {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}},
        ),
        ("codex", {}, {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}),
        ("gemini-cli", {"decision": "allow"}, {"decision": "deny", "reason": "no"}),
        (
            "cursor",
            {"permission": "allow"},
            {"permission": "deny", "user_message": "no", "agent_message": "no"},
        ),
    ],
)
def test_the_answer_is_the_documented_one(name: str, allowed: dict[str, Any], denied: dict[str, Any]) -> None:
    spoken = DIALECTS[name]
    event = spoken.read(BY_NAME[name])
    for decision, wanted in ((ALLOW, allowed), (DENY, denied)):
        written = spoken.write(event, decision, "no")
        if "hookSpecificOutput" in wanted:
            assert written["hookSpecificOutput"].pop("permissionDecisionReason") == "no"
        assert written == wanted


@pytest.mark.parametrize(
    ("name", "changed", "error"),
    [
        ("claude-code", {"hook_event_name": "PostToolUse", "tool_response": "secret"}, None),
        ("claude-code", {"hook_event_name": "PostToolUseFailure", "error": "secret"}, FAILED),
        (
            "claude-code",
            {"hook_event_name": "PostToolUseFailure", "error": "secret", "is_interrupt": True},
            INTERRUPTED,
        ),
        ("codex", {"hook_event_name": "PostToolUse", "tool_response": "secret"}, None),
        ("gemini-cli", {"hook_event_name": "AfterTool", "tool_response": {"llmContent": "secret"}}, None),
        (
            "gemini-cli",
            {"hook_event_name": "AfterTool", "tool_response": {"llmContent": "secret", "error": "secret"}},
            FAILED,
        ),
        ("cursor", {"hook_event_name": "afterShellExecution", "output": "secret", "duration": 5}, None),
    ],
)
def test_what_a_tool_returned_is_left_out(name: str, changed: dict[str, Any], error: str | None) -> None:
    spoken = DIALECTS[name]
    said = BY_NAME[name] | changed
    sent = spoken.strip(said)
    assert "secret" not in str(sent)
    for event in (spoken.read(said), spoken.read(sent)):
        assert (event.kind, event.error) == (AFTER, error)
    assert spoken.read(said).same == spoken.read(BY_NAME[name]).same


def test_a_sub_agents_call_and_its_start_are_named() -> None:
    spoken = DIALECTS["claude-code"]
    inside = spoken.read({**CLAUDE, "agent_id": "a-1", "agent_type": "reviewer"})
    assert inside.sub_agent == "reviewer"
    assert spoken.read({**CLAUDE, "agent_type": "main"}).sub_agent is None, "of a session with --agent"
    started = spoken.read(
        {**CLAUDE, "tool_name": "Task", "tool_input": {"prompt": "look", "subagent_type": "reviewer"}}
    )
    assert started.starts == "reviewer"


def test_cursors_mcp_arguments_are_a_text_or_an_object() -> None:
    spoken = DIALECTS["cursor"]
    said = {**CURSOR, "hook_event_name": "beforeMCPExecution", "tool_name": "query", "tool_input": '{"q": 1}'}
    assert spoken.read(said).arguments == {"q": 1}
    assert spoken.read({**said, "tool_input": {"q": 1}}).arguments == {"q": 1}
    with pytest.raises(HookUnreadable):
        spoken.read({**said, "tool_input": "q"})
