"""Hooks by the JSON that each product documents; the sources are named in docs/hooks.md."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.hook_dialects import (
    AFTER,
    ALLOW,
    ASK,
    BEFORE,
    DENY,
    DIALECTS,
    FAILED,
    INTERRUPTED,
    OPENED,
    PROMPTED,
    HookUnreadable,
)

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
# A page that sums up cursor.com/docs/hooks of August 2026, and a measurement of Cursor 3.1.15
CURSOR_TOOL: dict[str, Any] = {
    **{name: value for name, value in CURSOR.items() if name not in ("command", "cwd")},
    "session_id": "s-1",
    "transcript_path": None,
    "hook_event_name": "preToolUse",
    "tool_name": "Shell",
    "tool_input": {"command": "npm test", "cwd": "", "timeout": 30000},
    "tool_use_id": "call-1",
    "cwd": "",
    "agent_message": "I run the tests",
}
CURSOR_MCP: dict[str, Any] = {
    **CURSOR,
    "hook_event_name": "beforeMCPExecution",
    "tool_name": "query",
    "tool_input": '{"q": 1}',
    "command": "npx database-server",
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
        ("cursor", CURSOR_MCP | {"hook_event_name": "afterMCPExecution", "result_json": "secret"}, None),
        ("cursor", CURSOR_TOOL | {"hook_event_name": "postToolUse", "tool_output": "secret"}, None),
        (
            "cursor",
            CURSOR_TOOL | {"hook_event_name": "postToolUseFailure", "error_message": "secret"},
            FAILED,
        ),
        (
            "cursor",
            CURSOR_TOOL
            | {"hook_event_name": "postToolUseFailure", "error_message": "secret", "is_interrupt": True},
            INTERRUPTED,
        ),
    ],
)
def test_what_a_tool_returned_is_left_out(name: str, changed: dict[str, Any], error: str | None) -> None:
    spoken = DIALECTS[name]
    before = CURSOR_MCP if "result_json" in changed else CURSOR_TOOL if "tool_use_id" in changed else None
    said = (before or BY_NAME[name]) | changed
    sent = spoken.strip(said)
    assert "secret" not in str(sent)
    for event in (spoken.read(said), spoken.read(sent)):
        assert (event.kind, event.error) == (AFTER, error)
    asked = spoken.read(before or BY_NAME[name])
    assert (spoken.read(said).same, spoken.read(said).call_id) == (asked.same, asked.call_id)


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
    assert spoken.read(CURSOR_MCP).arguments == {"q": 1}
    assert spoken.read({**CURSOR_MCP, "tool_input": {"q": 1}}).arguments == {"q": 1}
    with pytest.raises(HookUnreadable):
        spoken.read({**CURSOR_MCP, "tool_input": "q"})


def test_a_tool_of_cursors_mcp_servers_is_named_after_its_server() -> None:
    spoken = DIALECTS["cursor"]
    assert spoken.read(CURSOR_MCP).tool == "MCP:npx database-server:query"
    remote = {**CURSOR_MCP, "url": "https://ann:secret@db.example.org/mcp?token=secret#x", "command": ""}
    assert spoken.read(remote).tool == "MCP:https://db.example.org/mcp:query"
    assert spoken.read({**CURSOR_MCP, "tool_name": "Shell"}).tool != spoken.read(CURSOR).tool
    with pytest.raises(HookUnreadable, match="command"):
        spoken.read({name: value for name, value in CURSOR_MCP.items() if name != "command"})


def test_any_tool_of_cursors_is_read_before_its_use() -> None:
    event = DIALECTS["cursor"].read(CURSOR_TOOL)
    assert (event.kind, event.session, event.tool, event.call_id) == (BEFORE, "s-1", "Shell", "call-1")
    assert event.arguments == CURSOR_TOOL["tool_input"]
    assert DIALECTS["cursor"].read({**CURSOR, "cwd": ""}).arguments["cwd"] == "", "seen in Cursor 3.1.15"
    assert ASK not in DIALECTS["cursor"].waiting, "Cursor runs the tool then"


@pytest.mark.parametrize(
    ("name", "opening", "prompting", "passed"),
    [
        ("claude-code", "SessionStart", "UserPromptSubmit", {}),
        ("codex", "SessionStart", "UserPromptSubmit", {}),
        ("gemini-cli", "SessionStart", "BeforeAgent", {}),
        ("cursor", None, "beforeSubmitPrompt", {"continue": True}),
    ],
)
def test_a_session_and_a_prompt_are_read_and_the_prompt_is_not_sent(
    name: str, opening: str | None, prompting: str, passed: dict[str, Any]
) -> None:
    spoken = DIALECTS[name]
    ids = {"session_id": "s-1", "conversation_id": "s-1"}
    said: dict[str, Any] = {field: one for field, one in ids.items() if field in BY_NAME[name]}
    prompt = {**said, "hook_event_name": prompting, "prompt": "Pay the secret invoice", "attachments": []}
    event = spoken.read(prompt)
    assert (event.kind, event.session, event.prompt) == (PROMPTED, "s-1", "Pay the secret invoice")
    assert "secret" not in str(spoken.strip(prompt))
    assert spoken.write_passed() == passed
    if opening is not None:
        event = spoken.read({**said, "hook_event_name": opening, "source": "startup"})
        assert (event.kind, event.session, event.prompt) == (OPENED, "s-1", None)
