"""`sluice hook` fails closed: whatever goes wrong, it ends with code 2 and a reason, and writes no answer."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import tomllib
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from sluice.cli.machine.hook import parse_options, prepare_body
from sluice.core.registry.keys import is_mandate_of
from sluice.hook_dialects import DIALECTS, MANDATE_FIELD, VALUES_FIELD
from sluice.secrets.value_keys import make_value_key, write_value_key
from sluice_topics.audience import Audience
from sluice_topics.record_reading import read
from sluice_topics.records import TaskMandate
from sluice_topics.values import fingerprint_result
from tests.documents.blocks import blocks
from tests.unit.core.actions.mandate_scene import CONSOLE, write_pem
from tests.unit.test_hook_dialects import CLAUDE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVENT = json.dumps(CLAUDE).encode()
READ = DIALECTS["claude-code"].read(CLAUDE)


def call(
    url: str, said: bytes = EVENT, *options: str, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    own |= {"SLUICE_URL": url, "SLUICE_API_KEY": "k", **environment}
    given = [sys.executable, "-m", "sluice", "hook", *(options or ("--dialect", "claude-code"))]
    return subprocess.run(given, input=said, env=own, capture_output=True, timeout=60, check=False)


def check_blocked(done: subprocess.CompletedProcess[bytes], reason: bytes) -> None:
    assert (done.returncode, done.stdout) == (2, b"")
    assert reason in done.stderr, done.stderr


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield f"http://127.0.0.1:{made.getsockname()[1]}"


def serve(status: int, body: bytes, **headers: str) -> HTTPServer:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    made = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=made.handle_request, daemon=True).start()
    return made


def test_a_gateway_that_is_away_blocks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    check_blocked(call(url), b"does not answer")


def test_a_gateway_that_is_slow_blocks(silent: str) -> None:
    check_blocked(call(silent, EVENT, "--dialect=claude-code", "--timeout=0.3"), b"0.3 s")


@pytest.mark.parametrize(
    ("said", "options", "reason"),
    [
        (b"", (), b"not JSON"),
        (b"[]", (), b"no JSON object"),
        (b'{"hook_event_name": "PreToolUse"}', (), b"session_id"),
        (b"\xff", (), b"not JSON"),
        (EVENT, ("--dialect", "other"), b"no such dialect"),
        (EVENT, ("--dialekt", "codex"), b"no such option"),
        (EVENT, ("--wait", "1"), b"--dialect is missing"),
        (EVENT, ("--dialect=codex", "--wait=nan"), b"seconds"),
    ],
)
def test_an_event_or_an_option_that_is_none_blocks(
    silent: str, said: bytes, options: tuple[str, ...], reason: bytes
) -> None:
    check_blocked(call(silent, said, *options), reason)


def test_no_key_blocks(silent: str) -> None:
    check_blocked(call(silent, SLUICE_API_KEY=""), b"SLUICE_API_KEY")


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"{}", b"no answer of a gateway"),
        (503, b'{"error": {"code": "unavailable", "message": "m"}}', b"503"),
    ],
)
def test_what_is_no_answer_of_the_gate_blocks(status: int, body: bytes, reason: bytes) -> None:
    with serve(status, body) as made:
        check_blocked(call(f"http://127.0.0.1:{made.server_port}"), reason)


def answer_call(answer: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    with serve(200, answer, X_Mnemom_Schema="sluice/hook_answer/v1") as made:
        return call(f"http://127.0.0.1:{made.server_port}", EVENT, *options)


def test_the_gates_answer_is_passed_on_byte_for_byte() -> None:
    answer = json.dumps(DIALECTS["claude-code"].write(READ, "allow", "agreed"), indent=1).encode()
    done = answer_call(answer)
    assert (done.returncode, done.stdout, done.stderr) == (0, answer + b"\n", b"")
    assert answer_call(b"{}", "--dialect=codex").returncode == 0, "Codex's way to say that a call may run"


@pytest.mark.parametrize(
    "answer",
    [b"{}", b'{"decision": "allow"}', b'{"hookSpecificOutput": {"hookEventName": "PreToolUse"}}'],
)
def test_an_answer_that_decides_nothing_blocks(answer: bytes) -> None:
    check_blocked(answer_call(answer), b"no answer to a call")


@pytest.mark.parametrize(
    ("dialect", "name"),
    [
        ("gemini-cli", "PreToolUse"),
        ("claude-code", "preToolUse"),
        ("claude-code", "BeforeTool"),
        ("cursor", "beforeReadFile"),
        ("codex", "beforeShellExecution"),
    ],
)
def test_a_call_in_another_products_words_blocks(silent: str, dialect: str, name: str) -> None:
    said = json.dumps({**CLAUDE, "hook_event_name": name}).encode()
    check_blocked(call(silent, said, f"--dialect={dialect}"), b"hook_event_name")


@pytest.mark.parametrize("name", ["SLUICE_API_KEY", "SLUICE_AGENT"])
def test_a_key_that_no_header_takes_is_not_quoted(silent: str, name: str) -> None:
    done = call(silent, EVENT, **{name: "sluice_ab_SECRET\r"})
    check_blocked(done, b"printable")
    assert b"SECRET" not in done.stderr


def test_the_key_goes_to_this_machine_alone_in_clear() -> None:
    for url in ("http://192.0.2.1:8085", "http://127.0.0.1.example.net", "http://u@127.0.0.1:1"):
        check_blocked(call(url), b"a user" if "@" in url else b"https alone")


def test_an_event_that_never_ends_and_a_closed_standard_error_block(silent: str) -> None:
    own = {**os.environ, "SLUICE_URL": silent, "SLUICE_API_KEY": "k"}
    given = [sys.executable, "-m", "sluice", "hook", "--dialect=claude-code", "--timeout=0.3"]
    with subprocess.Popen(given, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=own) as endless:
        assert endless.wait(30) == 2
    shell = " ".join([*given, "2>&-"])
    done = subprocess.run(["sh", "-c", shell], input=b"{", env=own, timeout=60, check=False)
    assert done.returncode == 2


def test_a_package_that_cannot_be_loaded_blocks(tmp_path: Path) -> None:
    (tmp_path / "http").mkdir()
    (tmp_path / "http" / "__init__.py").write_text("raise ImportError")
    own = {**os.environ, "SLUICE_API_KEY": "k", "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    given = [sys.executable, "-m", "sluice", "hook", "--dialect=claude-code"]
    done = subprocess.run(given, input=EVENT, env=own, capture_output=True, check=False)
    check_blocked(done, b"ImportError")


def test_a_result_is_sent_as_fingerprints_of_its_values(tmp_path: Path) -> None:
    key, file = make_value_key(), tmp_path / "values.key"
    write_value_key(file, key)
    result = {"iban": "DE02 1203 0000 0000 2020 51"}
    said = json.dumps({**CLAUDE, "hook_event_name": "PostToolUse", "tool_response": result}).encode()
    body, _ = prepare_body("claude-code", said, str(file))
    sent = json.loads(body)
    assert sent[VALUES_FIELD] == fingerprint_result(key, result)
    assert sent[VALUES_FIELD]["fingerprints"]
    assert b"2020" not in body


@pytest.fixture
def issuer(tmp_path: Path) -> Path:
    """The file of an issuer, whose key lies beside it."""
    key, file = tmp_path / "issuer.pem", tmp_path / "issuer.json"
    key.write_bytes(write_pem(CONSOLE))
    key.chmod(0o600)
    said = {"issuer": "desk", "key": str(key), "task": "coding", "agent": "accountant", "installation": "i"}
    file.write_text(json.dumps(said))
    return file


PROMPT = {"session_id": "s-1", "hook_event_name": "UserPromptSubmit", "prompt": "Pay ACME\nwith a ü"}


def sign(said: dict[str, Any], issuer: Path) -> TaskMandate:
    """The mandate in an event as it is sent."""
    body, before = prepare_body("claude-code", json.dumps(said).encode(), None, str(issuer))
    sent = json.loads(body)
    assert before is None
    assert "prompt" not in sent
    made = read(TaskMandate, json.dumps(sent[MANDATE_FIELD]).encode())
    assert isinstance(made, TaskMandate)
    assert is_mandate_of(CONSOLE.public_key(), made, Audience("i", ""))
    return made


def test_a_prompt_becomes_a_mandate_that_this_machines_issuer_signs(issuer: Path) -> None:
    made = sign(PROMPT, issuer)
    assert (made.session_id, made.agent_id, made.issuer_id) == ("s-1", "accountant", "desk")
    assert (made.task, made.tools, made.task_hash) == (PROMPT["prompt"], None, None)
    assert made.template is not None
    assert (made.template.id, made.template.values) == ("coding", {})
    left = datetime.fromisoformat(made.until) - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
    opened = sign({"session_id": "s-1", "hook_event_name": "SessionStart", "source": "startup"}, issuer)
    assert (opened.task, opened.task_hash) == (None, None), "the text is the template's"
    for text in ("x" * 3000, "half a pair: \ud800", ""):
        hashed = sign({**PROMPT, "prompt": text}, issuer)
        due = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        assert (hashed.task, hashed.task_hash) == (None, f"sha256:{due}")


def test_without_an_issuer_no_mandate_is_made_and_the_prompt_stays_here() -> None:
    body, _ = prepare_body("claude-code", json.dumps(PROMPT).encode(), None)
    assert json.loads(body) == {name: one for name, one in PROMPT.items() if name != "prompt"}


@pytest.mark.parametrize("fault", ["others", "no key", "no field", "no json", "no prompt", "too long"])
def test_a_prompt_of_which_no_mandate_can_be_made_blocks(silent: str, issuer: Path, fault: str) -> None:
    said, key = dict(PROMPT), issuer.with_suffix(".pem")
    given = json.loads(issuer.read_text())
    if fault == "others":
        key.chmod(0o640)
    elif fault == "no key":
        key.write_text("secret")
    elif fault == "no field":
        del given["task"]
    elif fault == "too long":
        given["for_s"] = 100_000
    elif fault == "no prompt":
        del said["prompt"]
    issuer.write_text("{" if fault == "no json" else json.dumps(given))
    done = call(silent, json.dumps(said).encode(), "--dialect=claude-code", f"--issuer={issuer}")
    check_blocked(done, b"did not run")
    assert b"secret" not in done.stderr


def test_it_starts_without_the_other_verbs() -> None:
    script = (
        "import sys; from sluice.cli.machine.hook import prepare_body; "
        "prepare_body('claude-code', sys.stdin.buffer.read(), None); "
        "print([one for one in ('typer', 'pydantic', 'asyncio', 'sluice.client') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], input=EVENT, capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def list_settings() -> list[dict[str, Any]]:
    """The settings files in docs/hooks.md."""
    kinds = {"json": json.loads, "toml": tomllib.loads}
    return [kinds[one.kind](one.text) for one in blocks("docs/hooks.md")]


def list_hooks(settings: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The hooks of a settings file, with their events."""
    return [
        (event, hook)
        for event, groups in settings["hooks"].items()
        for group in groups
        for hook in group.get("hooks", [group])
    ]


@pytest.mark.parametrize("settings", list_settings(), ids=lambda one: next(iter(one["hooks"])))
def test_the_settings_files_of_the_docs_name_events_of_their_dialect(settings: dict[str, Any]) -> None:
    for event, hook in list_hooks(settings):
        words = hook.get("command", f"sluice hook --dialect {hook.get('url', '').rpartition('/')[2]}").split()
        assert words[:2] == ["sluice", "hook"]
        spoken = DIALECTS[parse_options(words[2:])["dialect"]]
        assert event in (*spoken.calls, *spoken.opening, *spoken.prompting)
        if spoken.name == "claude-code" and event in spoken.before:
            assert hook["onFailure"] == "block"
