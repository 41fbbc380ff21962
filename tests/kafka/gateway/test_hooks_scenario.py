"""A scripted coding agent makes 200 calls behind its hook, in each product's JSON: a tenth of them by
`sluice hook`, the others over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from load.installations import neutral_policy
from sluice.hook_dialects import ALLOW, DIALECTS
from tests.frameworks.gate_process import AGENT, GateCommands, make_installation
from tests.frameworks.scenario import (
    HASTY_S,
    LOOK_S,
    OUTCOMES,
    PATIENT_S,
    PlannedCall,
    RecordedTools,
    make_calls,
    recount,
)
from tests.kafka import later_command
from tests.kafka.gateway_process import start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kafka.gateway_process import Gateway

pytestmark = pytest.mark.kafka
WORDS = {
    "claude-code": ("PreToolUse", "PostToolUse", "tool_response"),
    "codex": ("PreToolUse", "PostToolUse", "tool_response"),
    "cursor": ("preToolUse", "postToolUse", "tool_output"),
    "gemini-cli": ("BeforeTool", "AfterTool", "tool_response"),
}
"""Of each dialect: its events before and after a call, and the latter's field with the result."""
BY_COMMAND = 10
"""Each tenth call asks by the command, which takes a third of a second."""
WAITS = "It waits for approval as"


class HookedGate:
    """A worker and a gateway. While the worker is stopped the gateway is away, too, as if it had been killed;
    the next one finds what it kept."""

    def __init__(self, commands: GateCommands, folder: Path) -> None:
        self._commands = commands
        self._folder = folder
        self._started = 0
        self.gateway = self.start_gateway()
        self.key = self.gateway.key(neutral_policy.TENANT, [AGENT])

    def start_gateway(self, **more: Any) -> Gateway:
        """A gateway on the store that all of them share."""
        self._started += 1
        store, installation = str(self._folder / "hooks.sqlite"), self._commands.installation
        settings = {"idempotency_file": store, "wait_s": PATIENT_S, "longest_wait_s": PATIENT_S, **more}
        self.gateway = start(installation, f"hooks{self._started}", **settings)
        return self.gateway

    def do(self, name: str, **arguments: Any) -> Any:
        """As tests/frameworks/gate_process.py, with the gateway."""
        if name == "stop":
            self.gateway.kill()
        done = getattr(self._commands, name)(**arguments)
        if name == "start" and self.gateway.process.poll() is not None:
            self.start_gateway()
        return done


@pytest.fixture(scope="module")
def gate(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HookedGate]:
    folder = tmp_path_factory.mktemp("hooks")
    commands = GateCommands(make_installation(kafka, folder))
    opened = HookedGate(commands, folder)
    yield opened
    opened.gateway.kill()
    commands.kill()


def make_event(dialect: str, call: PlannedCall, result: str | None = None) -> dict[str, Any]:
    """The event before a call, with an id of its own; with a result the one after it."""
    before, after, field = WORDS[dialect]
    event = {
        "session_id": call.session,
        "conversation_id": call.session,
        "hook_event_name": before if result is None else after,
        "tool_name": call.tool,
        "tool_input": call.arguments,
        "tool_use_id": f"{call.call_id}-{uuid.uuid4().hex}",
        "cwd": "/p",
    }
    return event if result is None else {**event, field: result}


class HookCaller:
    """Asks as a product does, which waits so long for its hook, and runs no tool without an answer."""

    def __init__(self, gate: HookedGate, patience_s: float) -> None:
        self._gate = gate
        self._patience_s = patience_s

    async def ask(self, dialect: str, event: dict[str, Any], *, by_command: bool = False) -> Any:
        """The answer to an event; None: the hook has failed."""
        return await (self._run if by_command else self._post)(dialect, json.dumps(event).encode())

    async def _post(self, dialect: str, body: bytes) -> Any:
        url, headers = f"{self._gate.gateway.url}/v1/hooks/{dialect}", {"X-Mnemom-Api-Key": self._gate.key}
        async with httpx2.AsyncClient(timeout=self._patience_s) as client:
            try:
                answer = await client.post(url, content=body, headers=headers)
            except httpx2.HTTPError:
                return None
        return answer.json() if answer.status_code == 200 else None

    async def _run(self, dialect: str, body: bytes) -> Any:
        own = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        own |= {"SLUICE_URL": self._gate.gateway.url, "SLUICE_API_KEY": self._gate.key}
        words = ["-m", "sluice", "hook", f"--dialect={dialect}", f"--timeout={self._patience_s:g}"]
        pipe = asyncio.subprocess.PIPE
        hook = await asyncio.create_subprocess_exec(
            sys.executable, *words, env=own, stdin=pipe, stdout=pipe, stderr=pipe
        )
        try:
            answer, _ = await hook.communicate(body)
        finally:
            if hook.returncode is None:
                hook.kill()
                await hook.wait()
        assert hook.returncode in (0, 2)
        return json.loads(answer) if hook.returncode == 0 else None


def is_allowed(dialect: str, event: dict[str, Any], answer: Any) -> bool:
    """Whether the product runs the tool."""
    spoken = DIALECTS[dialect]
    if answer is None:
        return False
    said = answer.get("hookSpecificOutput", {})
    reason = said.get("permissionDecisionReason", "")
    return bool(answer == spoken.write(spoken.read(event), ALLOW, reason))


def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(gate: HookedGate, tmp_path: Path) -> None:
    tools, denied = RecordedTools(tmp_path), list[str]()

    async def run(caller: HookCaller, call: PlannedCall) -> Any:
        dialect, by_command = [*WORDS][call.number % len(WORDS)], call.number % BY_COMMAND == 0
        while True:
            event = make_event(dialect, call)
            answer = await caller.ask(dialect, event, by_command=by_command)
            if is_allowed(dialect, event, answer):
                break
            if WAITS not in str(answer):
                denied.append(str(answer))
                return answer
            await asyncio.sleep(LOOK_S)  # the model goes on, and calls the tool again
        value = getattr(tools, call.tool)(**call.arguments)
        done = {**make_event(dialect, call, value), "tool_use_id": event["tool_use_id"]}
        assert await caller.ask(dialect, done, by_command=by_command) is not None
        return value

    asyncio.run(make_calls(gate, run, HookCaller(gate, PATIENT_S), HookCaller(gate, HASTY_S)))
    counts = recount(gate, tools)
    reported = [one["action_id"] for one in gate.do("read", topic=OUTCOMES)]
    assert len(reported) == len(set(reported)) == sum(counts.values())
    assert sum("no-payroll" in one for one in denied) == 40
    assert sum("approval_denied" in one for one in denied) == 10


def test_an_approval_after_two_hours_is_found_by_a_new_gateway_and_worker_and_runs_one_call(
    gate: HookedGate,
) -> None:
    caller, dialect = HookCaller(gate, PATIENT_S), "claude-code"
    call = PlannedCall(200, "approved", "pay", {"customer": "ada", "amount": 10, "number": 200})

    def ask() -> str:
        answer = asyncio.run(caller.ask(dialect, make_event(dialect, call)))
        said = answer["hookSpecificOutput"]
        return f"{said['permissionDecision']}: {said['permissionDecisionReason']}"

    assert WAITS in ask()
    gate.do("stop")
    gate.start_gateway(module=later_command.__name__)
    gate.do("start")
    assert WAITS in ask()
    assert gate.do("answer_escalations", approve=True) == 1
    until = time.monotonic() + PATIENT_S
    while WAITS in (told := ask()) and time.monotonic() < until:
        time.sleep(LOOK_S)
    assert told == "allow: allowed: a person agreed"
    assert WAITS in ask(), "the next call is asked about anew"
