"""`sluice hook`: a coding agent's event from standard input to the gateway, its answer to standard output.

It starts once for each call of a tool: it imports a part of the standard library alone, and the command's
other verbs do not load with it. Every fault ends it with code 2, which each product takes as a denial.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

    import typer

    from sluice.hook_dialects import HookEvent

BLOCKED = 2
"""The exit code of every fault: no other code blocks in all products."""
ANSWER_SCHEMA = "sluice/hook_answer/v1"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Hosts that the key goes to in clear."""
MOST_BYTES = 1_000_000
"""Of an answer."""
OPTIONS = ("dialect", "url", "wait", "escalated", "timeout", "issuer")
USAGE = (
    "usage: sluice hook --dialect NAME [--url URL] [--wait SECONDS] [--escalated ANSWER] [--timeout SECONDS] "
    "[--issuer FILE]"
)
LONGEST_TEXT = 2048
"""Characters of a prompt in ASCII JSON that goes into a mandate as it is; of a longer one its hash does."""
MANDATE_S = 3600.0
"""How long a mandate counts, where the issuer's file does not say."""
MOST_MANDATE_S = 86_400.0
ISSUER_FIELDS = ("issuer", "key", "task", "agent", "installation")
"""Of the issuer's file: the issuer, its private key's file, the template, the agent, the installation."""
OTHERS = 0o077
"""The mode of a file that others than its owner can use."""


class HookFault(Exception):
    """The event has no answer of the gate. The text says why."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Answer the event on standard input. Ends the process, whatever happens on the way."""
    code = BLOCKED
    try:
        options = parse_options(arguments)
        limit_s = _read_limit(options, os.environ)
        _end_after(limit_s)
        answer = run(options, limit_s, sys.stdin.buffer.read(), os.environ)
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()
        code = 0
    except HookFault as error:
        _explain(str(error))
    except BaseException as error:  # noqa: BLE001 - any way out but this one would let the tool run
        _explain(type(error).__name__)  # its text may quote the key
    finally:
        os._exit(code)


def _explain(why: str) -> None:
    text = f"sluice hook: {why}. The tool did not run.\n"
    try:
        os.write(2, text.encode("utf-8", "replace"))
    except OSError:  # nobody reads it; the code counts
        return


def run(options: Mapping[str, str], limit_s: float, event: bytes, environment: Mapping[str, str]) -> bytes:
    """Ask the gateway about an event; the bytes to answer with. Raises HookFault, OSError."""
    dialect = options["dialect"]
    url = options.get("url") or environment.get("SLUICE_URL") or "http://127.0.0.1:8085"
    headers = {"X-Mnemom-Api-Key": environment.get("SLUICE_API_KEY", ""), "Content-Type": "application/json"}
    if not headers["X-Mnemom-Api-Key"]:
        raise HookFault("SLUICE_API_KEY is not set")
    if agent := environment.get("SLUICE_AGENT"):
        headers["X-Mnemom-Agent"] = agent
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise HookFault(f"what is sent as {name} has a character that is no printable ASCII")
    keys = environment.get("SLUICE_VALUES__KEY_FILE"), options.get("issuer")
    body, before = prepare_body(dialect, event, *keys)
    query = (
        f"wait={_read_seconds(options.get('wait') or '0'):g}&escalated={options.get('escalated') or 'deny'}"
    )
    if mandate := environment.get("SLUICE_MANDATE_DIGEST"):
        query += f"&mandate={mandate}"
    from sluice.hook_dialects import DIALECTS  # noqa: PLC0415 - what is not needed for an error is imported late

    answer, document = _post(url, f"/v1/hooks/{dialect}?{query}", body, headers, limit_s)
    if before is not None and not DIALECTS[dialect].is_answer(before, document):
        raise HookFault(f"{url} gave no answer to a call of a tool")
    return answer


def _read_limit(options: Mapping[str, str], environment: Mapping[str, str]) -> float:
    """Seconds for the whole."""
    timeout_s = _read_seconds(options.get("timeout") or environment.get("SLUICE_HOOK_TIMEOUT_S") or "30")
    return timeout_s + _read_seconds(options.get("wait") or "0")


def parse_options(arguments: Sequence[str]) -> dict[str, str]:
    """The options by their names. Raises HookFault."""
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not name.startswith("--") or name[2:] not in OPTIONS or not (equals or rest):
            raise HookFault(f"{name}: no such option. {USAGE}")
        options[name[2:]] = value if equals else rest.pop(0)
    if "dialect" not in options:
        raise HookFault(f"--dialect is missing. {USAGE}")
    return options


def prepare_body(
    dialect: str, event: bytes, values_key_file: str | None, issuer_file: str | None = None
) -> tuple[bytes, HookEvent | None]:
    """The event as it is sent: without what a tool returned, with the fingerprints of its values if there is
    a key; without what a person said, with a mandate of it if there is an issuer. Besides, what is read of
    an event before a call. Raises HookFault, OSError."""
    import json  # noqa: PLC0415 - as above

    from sluice.hook_dialects import (  # noqa: PLC0415
        AFTER,
        BEFORE,
        DIALECTS,
        MANDATE_FIELD,
        OPENED,
        PROMPTED,
        VALUES_FIELD,
        HookUnreadable,
    )

    spoken = DIALECTS.get(dialect)
    if spoken is None:
        raise HookFault(f"{dialect}: no such dialect; there are {', '.join(DIALECTS)}")
    try:
        document: Any = json.loads(event)
        if not isinstance(document, dict):
            raise HookFault("the event is no JSON object")
        read = spoken.read(document)
    except HookUnreadable as error:
        raise HookFault(f"the event is none of {dialect}: {error}") from None
    except ValueError as error:
        raise HookFault(f"the event is not JSON: {error}") from None
    except RecursionError:
        raise HookFault("the event is nested too deeply") from None
    if read.kind not in (AFTER, OPENED, PROMPTED):
        return event, read if read.kind == BEFORE else None
    sent = spoken.strip(document)
    if read.kind != AFTER:
        if issuer_file:
            sent[MANDATE_FIELD] = sign_task(issuer_file, read)
        return json.dumps(sent).encode(), None
    result = spoken.find_result(document)
    if values_key_file and result is not None:
        from sluice_topics.values import fingerprint_result  # noqa: PLC0415 - after a call alone

        sent[VALUES_FIELD] = fingerprint_result(_read_values_key(values_key_file), result)
    return json.dumps(sent).encode(), None


def sign_task(issuer_file: str, event: HookEvent) -> dict[str, Any]:
    """The mandate of a session, by the issuer of this machine: the task is what the person said, or the
    template's own text where a session only begins; its tools are the template's. Raises HookFault,
    OSError."""
    import json  # noqa: PLC0415 - as above
    from datetime import UTC, datetime, timedelta  # noqa: PLC0415 - for a session and a prompt alone
    from hashlib import sha256  # noqa: PLC0415 - as above

    from sluice.client import Audience, InputSigner, MandateIssuer, MandateTerms, issue_mandate  # noqa: PLC0415
    from sluice.hook_dialects import PROMPTED  # noqa: PLC0415 - as above

    issuer = _read_issuer(issuer_file)
    task_fields: dict[str, Any] = {}
    if event.kind == PROMPTED:
        if event.prompt is None:
            raise HookFault("the event has no prompt")
        text, written = event.prompt.encode("utf-8", "surrogatepass"), json.dumps(event.prompt)
        is_text = text.decode("utf-8", "ignore") == event.prompt != ""
        task_fields = {"task": event.prompt}
        if not is_text or len(written) > LONGEST_TEXT:
            task_fields = {"task_hash": f"sha256:{sha256(text).hexdigest()}"}
    with open(issuer["key"], "rb") as file:  # noqa: PTH123 - pathlib is not loaded
        if os.fstat(file.fileno()).st_mode & OTHERS:
            raise HookFault(f"{issuer['key']}: others can use it")
        signer = InputSigner(file.read(), Audience(issuer["installation"], issuer["topic_prefix"]))
    try:
        until = datetime.now(UTC) + timedelta(seconds=_read_seconds(issuer["for_s"], MOST_MANDATE_S))
        terms = MandateTerms(template={"id": issuer["task"], "values": {}}, **task_fields)
        who = MandateIssuer(issuer["issuer"], signer)
        return issue_mandate(who, issuer["agent"], event.session, until, terms)
    except ValueError as error:  # of a key that is none
        raise HookFault(f"{issuer['key']}: {error}") from None


def _read_issuer(path: str) -> dict[str, str]:
    """What the issuer's file says. Raises HookFault, OSError."""
    import json  # noqa: PLC0415 - as above

    with open(path, "rb") as file:  # noqa: PTH123 - pathlib is not loaded
        try:
            document = json.load(file)
        except ValueError:
            document = None
    wanted = {"topic_prefix": "", "for_s": f"{MANDATE_S:g}"}
    if isinstance(document, dict):
        wanted |= {name: value if isinstance(value, str) else f"{value}" for name, value in document.items()}
    if wanted.keys() != {*ISSUER_FIELDS, "topic_prefix", "for_s"}:
        raise HookFault(f"{path}: wanted an object with {', '.join(ISSUER_FIELDS)}")
    return wanted


def _read_values_key(path: str) -> bytes:
    from pathlib import Path  # noqa: PLC0415 - as above

    from sluice.secrets.value_keys import read_value_key  # noqa: PLC0415 - as above

    return read_value_key(Path(path))


def _read_seconds(text: str, most: float = 3600) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise HookFault(f"{text}: wanted seconds") from None
    if not 0 <= seconds <= most:  # not NaN
        raise HookFault(f"{text}: wanted 0 to {most:g} seconds")
    return seconds


def _end_after(seconds: float) -> None:
    """End the process after so long, whatever it waits for: a product's own time limit lets the tool run."""
    import threading  # noqa: PLC0415 - as above

    def end() -> None:
        _explain(f"no answer within {seconds:g} s")
        os._exit(BLOCKED)

    limit = threading.Timer(max(seconds, 0.01), end)
    limit.daemon = True
    limit.start()


def _post(
    url: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
) -> tuple[bytes, dict[str, Any]]:
    """The gateway's answer, and the JSON object that it is. Raises HookFault."""
    import http.client  # noqa: PLC0415 - as above
    import json  # noqa: PLC0415 - as above

    scheme, _, rest = url.partition("://")
    host, _, base = rest.partition("/")
    if scheme not in ("http", "https") or not host:
        raise HookFault(f"{url}: wanted http://host:port or https://host")
    if "@" in host:
        raise HookFault("the gateway's address has a user in it")
    if scheme == "http" and host.rpartition(":")[0] not in LOOPBACK and host not in LOOPBACK:
        raise HookFault(f"{url}: the key goes over https alone, or to this machine")
    make = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    connection = make(host, timeout=max(timeout_s, 0.01))
    try:
        connection.request("POST", f"/{base}".rstrip("/") + path, body, dict(headers))
        response = connection.getresponse()
        status, schema = response.status, response.headers.get("X-Mnemom-Schema")
        answer = response.read(MOST_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise HookFault(f"the gateway at {url} does not answer: {error or type(error).__name__}") from None
    finally:
        connection.close()
    try:
        read = json.loads(answer)
    except ValueError:
        read = None
    if status != 200 or schema != ANSWER_SCHEMA or not isinstance(read, dict):  # noqa: PLR2004
        answer_error = read.get("error") if isinstance(read, dict) else None
        why = (
            f"{answer_error.get('code')}: {answer_error.get('message')}"
            if isinstance(answer_error, dict)
            else "no answer of a gateway"
        )
        raise HookFault(f"{url} answered {status}, {why}")
    return answer, read


def register_hook(app: typer.Typer) -> None:
    """Add the verb to the command, for its help; `sluice hook` itself starts without Typer."""
    import typer  # noqa: PLC0415 - for the help alone

    waiting = "Answer to a call that waits for a person: deny, or ask, defer where there is one."

    def hook(
        dialect: str = typer.Option(..., help="claude-code, codex, cursor or gemini-cli."),
        url: str = typer.Option("", help="The gateway; else SLUICE_URL."),
        wait: str = typer.Option("0", help="Seconds to wait for a person's answer."),
        escalated: str = typer.Option("deny", help=waiting),
        timeout: str = typer.Option("", help="Seconds for everything else; else SLUICE_HOOK_TIMEOUT_S."),
        issuer: str = typer.Option("", help="A file that says who signs mandates of a person's prompts."),
    ) -> None:
        """Answer a coding agent's hook: each call goes through the gate.

        The event is read from standard input, the answer written to standard output. The API
        key is read from SLUICE_API_KEY. Every fault ends with code 2.
        """
        options = {"dialect": dialect, "url": url, "wait": wait, "escalated": escalated, "timeout": timeout}
        options["issuer"] = issuer
        main([f"--{name}={value}" for name, value in options.items() if value])

    app.command("hook")(hook)
