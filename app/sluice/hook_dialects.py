"""The JSON of coding agents' hooks: what an event says, and how the gate's answer is written. Pure.

A dialect is a table in one class; the gateway's route and `sluice hook` share it. The sources of each are
named in docs/hooks.md. Imports little: the command starts once for each call of a tool.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

BEFORE, AFTER, OPENED, PROMPTED, OTHER = "before", "after", "opened", "prompted", "other"
ALLOW, DENY, ASK, DEFER = "allow", "deny", "ask", "defer"
VALUES_FIELD = "sluice_values"
"""Put into an event by `sluice hook` in place of a tool's result: the fingerprints of its values."""
MANDATE_FIELD = "sluice_mandate"
"""Put into an event by `sluice hook` in place of a person's prompt: the signed mandate that is made of it."""
PROMPT_FIELD = "prompt"
"""Of an event, in every product: what the person said."""
FAILED, INTERRUPTED = "tool_failed", "interrupted"
"""Classes of errors: the text of an error may hold content, and is not passed on."""
_SECRET_ENDS = (
    *("key", "token", "secret", "password", "passwd", "pwd", "auth", "jwt"),
    *("signature", "credential", "credentials", "session", "sessionid", "session_id"),
)
_SECRET_WORDS = ("pin", "sig", "code", "pass")
"""What the name of a parameter of an address ends with, and its last word, if its value may be a secret."""
LONGEST_SHOWN = 32
"""Characters of another parameter's value that a server's name shows; of a longer one it has a digest."""
CALL_FIELDS = frozenset({"tool_name", "tool_input", "command", "file_path"})
"""What an event that is about a call of a tool has, in every product."""


class HookUnreadable(ValueError):
    """An event without a field that its dialect has. `field`: its name."""

    def __init__(self, field: str, wanted: str) -> None:
        super().__init__(f"{field}: wanted {wanted}")
        self.field = field


class HookEvent:
    """What an event says of a call of a tool, or of a session.

    `kind`: BEFORE or AFTER the call; OPENED is a session that begins or goes on, PROMPTED one in which a
    person said something: `session` is set, and `prompt`, where the event has it. OTHER is none of these, and
    only `name` is set. `call_id` None: the dialect
    gives a call no id. `same`: what is equal in the events before and after a call without an id.
    `sub_agent`: the type of the sub-agent that calls; None: the agent itself. `starts`: the type of the
    sub-agent that the call starts. `error`: the class of the call's error, after it.
    `where`: the folder in which it is made; empty: the event does not say.
    """

    __slots__ = (
        "arguments",
        "call_id",
        "error",
        "kind",
        "name",
        "prompt",
        "same",
        "session",
        "starts",
        "sub_agent",
        "tool",
        "where",
    )

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.session = ""
        self.prompt: str | None = None
        self.where = ""
        self.tool = ""
        self.arguments: Mapping[str, Any] = {}
        self.same: tuple[str, Any] = ("", None)
        self.call_id: str | None = None
        self.sub_agent: str | None = None
        self.starts: str | None = None
        self.error: str | None = None

    def replace_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Put others in their place, sealed ones, wherever they stand."""
        word, content = self.same
        if content == self.arguments:
            content = arguments
        elif isinstance(content, list):
            content = [arguments if part == self.arguments else part for part in content]
        elif isinstance(content, str):
            content = next(
                (arguments[name] for name, value in self.arguments.items() if value == content), content
            )
        self.same, self.arguments = (word, content), arguments


class Dialect:
    """A product's JSON. `before` and `after`: its events before and after a call, the latter with the class
    of the error that the event means; `opening` and `prompting`: those of a session and of a prompt;
    `session`: the field with the session's id; `results`: fields with content, which never go on; `waiting`:
    what an action that waits for a person may be answered with."""

    name = ""
    before: tuple[str, ...] = ()
    after: Mapping[str, str | None] = {}
    opening: tuple[str, ...] = ()
    prompting: tuple[str, ...] = ()
    session = "session_id"
    results: tuple[str, ...] = ()
    waiting: tuple[str, ...] = (DENY,)

    @property
    def calls(self) -> tuple[str, ...]:
        """Its events about a call of a tool."""
        return (*self.before, *self.after)

    def read(self, document: Mapping[str, Any]) -> HookEvent:
        """What an event says. Raises HookUnreadable."""
        name = read_text(document, "hook_event_name")
        kinds = {BEFORE: self.before, AFTER: self.after, OPENED: self.opening, PROMPTED: self.prompting}
        event = HookEvent(name, next((kind for kind, names in kinds.items() if name in names), OTHER))
        if event.kind != OTHER:
            event.session = read_text(document, self.session)
        if event.kind in (BEFORE, AFTER):
            where = document.get("cwd")
            event.where = where if isinstance(where, str) else ""
            self._read_call(document, event)
        elif event.kind == PROMPTED:
            prompt = document.get(PROMPT_FIELD)
            event.prompt = prompt if isinstance(prompt, str) else None
        elif event.kind == OPENED:
            return event
        elif name.casefold().startswith("before") or not CALL_FIELDS.isdisjoint(document):
            # of another product, or new: an answer without a decision would let the call run
            raise HookUnreadable("hook_event_name", f"one of {', '.join(self.calls)}")
        return event

    def _read_call(self, document: Mapping[str, Any], event: HookEvent) -> None:
        """Claude Code's fields, which others have taken over."""
        event.tool = read_text(document, "tool_name")
        event.arguments = read_table(document, "tool_input")
        event.same = (event.tool, event.arguments)
        event.error = self.after.get(event.name)

    def strip(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The event without what a tool returned, or a person said."""
        return {name: value for name, value in document.items() if name not in (*self.results, PROMPT_FIELD)}

    def find_result(self, document: Mapping[str, Any]) -> Any:
        """What the tool returned; None where the event does not say."""
        return next((document[name] for name in self.results if name in document), None)

    def write(self, event: HookEvent, decision: str, reason: str) -> dict[str, Any]:
        """The answer to an event before a call. `decision`: ALLOW, or one of `waiting`."""
        raise NotImplementedError

    def write_passed(self) -> dict[str, Any]:
        """The answer to an event that is not about a call."""
        return {}

    def is_answer(self, event: HookEvent, answer: Any) -> bool:
        """Whether this is an answer that `write` gives."""
        return any(_is_same(self.write(event, decision, ""), answer) for decision in (ALLOW, *self.waiting))


def _is_same(expected: Any, answer: Any) -> bool:
    """The same but for texts that are empty in what is expected."""
    if isinstance(expected, dict):
        if not isinstance(answer, dict) or expected.keys() != answer.keys():
            return False
        return all(_is_same(value, answer[name]) for name, value in expected.items())
    return bool(expected == answer or (expected == "" and isinstance(answer, str)))


class ClaudeCode(Dialect):
    """Claude Code and the Claude Agent SDK."""

    name = "claude-code"
    before = ("PreToolUse",)
    after: Mapping[str, str | None] = {"PostToolUse": None, "PostToolUseFailure": FAILED}
    opening = ("SessionStart",)
    prompting = ("UserPromptSubmit",)
    results = ("tool_response", "error")
    waiting: tuple[str, ...] = (DENY, ASK, DEFER)
    starting: tuple[str, ...] = ("Task", "Agent")

    def _read_call(self, document: Mapping[str, Any], event: HookEvent) -> None:
        super()._read_call(document, event)
        event.call_id = read_text(document, "tool_use_id")
        if document.get("agent_id") is not None:
            event.sub_agent = read_text(document, "agent_type")
        if document.get("is_interrupt") is True:
            event.error = INTERRUPTED
        started = event.arguments.get("subagent_type")
        if event.tool in self.starting and isinstance(started, str) and started:
            event.starts = started

    def write(self, event: HookEvent, decision: str, reason: str) -> dict[str, Any]:
        fields = {"permissionDecision": decision, "permissionDecisionReason": reason}
        return {"hookSpecificOutput": {"hookEventName": event.name, **fields}}


class Codex(ClaudeCode):
    """OpenAI's Codex. It refuses an answer that it does not expect, and runs the tool: an allowed call is
    answered with an empty object, and `ask` is never written."""

    name = "codex"
    after: Mapping[str, str | None] = {"PostToolUse": None}
    waiting: tuple[str, ...] = (DENY,)
    starting: tuple[str, ...] = ()

    def write(self, event: HookEvent, decision: str, reason: str) -> dict[str, Any]:
        return {} if decision == ALLOW else super().write(event, decision, reason)


class GeminiCli(Dialect):
    """Google's Gemini CLI. A call has no id."""

    name = "gemini-cli"
    before = ("BeforeTool",)
    after: Mapping[str, str | None] = {"AfterTool": None}
    opening = ("SessionStart",)
    prompting = ("BeforeAgent",)
    results = ("tool_response",)

    def _read_call(self, document: Mapping[str, Any], event: HookEvent) -> None:
        super()._read_call(document, event)
        response = document.get("tool_response")
        if isinstance(response, dict) and response.get("error"):
            event.error = FAILED

    def strip(self, document: Mapping[str, Any]) -> dict[str, Any]:
        response = document.get("tool_response")
        failed = isinstance(response, dict) and response.get("error")
        return super().strip(document) | ({"tool_response": {"error": FAILED}} if failed else {})

    def write(self, event: HookEvent, decision: str, reason: str) -> dict[str, Any]:  # noqa: ARG002
        return {"decision": decision} if decision == ALLOW else {"decision": decision, "reason": reason}


SHELL = "Shell"
"""The tool that Cursor's commands are calls of."""


class Cursor(Dialect):
    """Cursor's tools by `preToolUse`, or its commands and MCP calls by the events of their own, in which a
    call has no id. A tool of an MCP server is named after its server, too: `MCP:SERVER:TOOL`. `ask` is never
    written: Cursor runs the tool then."""

    name = "cursor"
    before = ("preToolUse", "beforeShellExecution", "beforeMCPExecution")
    after: Mapping[str, str | None] = {
        "postToolUse": None,
        "postToolUseFailure": FAILED,
        "afterShellExecution": None,
        "afterMCPExecution": None,
    }
    prompting = ("beforeSubmitPrompt",)
    session = "conversation_id"
    results = ("output", "result_json", "tool_output", "error_message")

    def _read_call(self, document: Mapping[str, Any], event: HookEvent) -> None:
        if event.name.endswith("ShellExecution"):
            event.tool, command = SHELL, read_text(document, "command")
            event.arguments = {"command": command}
            if event.kind == BEFORE:
                event.arguments = {**event.arguments, "cwd": read_text(document, "cwd", may_be_empty=True)}
            event.same = (event.tool, command)
        elif event.name.endswith("MCPExecution"):
            tool, tool_input = read_text(document, "tool_name"), document.get("tool_input")
            event.arguments = (
                parse_arguments(tool_input)
                if isinstance(tool_input, str)
                else read_table(document, "tool_input")
            )
            event.same = ("MCP", [tool, event.arguments])  # afterwards nothing says the server
            event.tool = f"MCP:{_read_server(document)}:{tool}" if event.kind == BEFORE else tool
        else:
            super()._read_call(document, event)
            event.call_id = read_text(document, "tool_use_id")
            if document.get("is_interrupt") is True:
                event.error = INTERRUPTED

    def write(self, event: HookEvent, decision: str, reason: str) -> dict[str, Any]:  # noqa: ARG002
        if decision == ALLOW:
            return {"permission": decision}
        return {"permission": decision, "user_message": reason, "agent_message": reason}

    def write_passed(self) -> dict[str, Any]:
        """See Dialect: without `continue` the prompt would not be sent."""
        return {"continue": True}


def _read_server(document: Mapping[str, Any]) -> str:
    """Of an MCP call: the address of its server without what may be a secret in it, or its command. Raises
    HookUnreadable, also for an address in which a product may see another host: a backslash ends the host as
    a slash does, and white space and control characters are left out."""
    address = document.get("url")
    if not isinstance(address, str) or not address:
        return read_text(document, "command")
    scheme, colon, rest = address.partition("://")
    if not (colon and address.isprintable()) or "\\" in address or " " in address:
        raise HookUnreadable("url", "the address of a server")
    location, _, query = rest.partition("#")[0].partition("?")
    host, slash, path = location.partition("/")
    named = "&".join(_name_parameters(query))
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}{named and '?'}{named}"


def _name_parameters(query: str) -> Iterator[str]:
    """The parameters of an address by which servers of one place differ: without those that are secrets by
    their names, and with digests of values that are long or have no name."""
    if not query:
        return
    import hashlib  # noqa: PLC0415 - few addresses have a query
    from urllib.parse import unquote  # noqa: PLC0415 - as above

    for parameter in filter(None, query.replace(";", "&").split("&")):
        name, equals, value = parameter.partition("=")
        read = unquote(name).lower().replace("-", "_")
        if equals and (read.endswith(_SECRET_ENDS) or read.rpartition("_")[2] in _SECRET_WORDS):
            continue
        if equals and len(value) <= LONGEST_SHOWN:
            yield parameter
        else:
            digest = hashlib.sha256(parameter.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            yield f"{name}=sha256:{digest}" if equals else f"sha256:{digest}"


def read_text(document: Mapping[str, Any], name: str, *, may_be_empty: bool = False) -> str:
    """A field that must be a text. Raises HookUnreadable."""
    value = document.get(name)
    if not isinstance(value, str) or not (value or may_be_empty):
        raise HookUnreadable(name, "a text")
    return value


def read_table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field that must be an object. Raises HookUnreadable."""
    value = document.get(name)
    if not isinstance(value, dict):
        raise HookUnreadable(name, "an object")
    return value


def parse_arguments(text: str) -> Mapping[str, Any]:
    """The arguments of a call that come as a JSON text, which everyone must read alike. Raises
    HookUnreadable."""
    from sluice_topics.json_text import Unreadable, parse  # noqa: PLC0415 - one dialect alone has such a text

    arguments = parse(text.encode("utf-8", "surrogatepass"))
    if isinstance(arguments, Unreadable) or not isinstance(arguments, dict):
        raise HookUnreadable("tool_input", "an object, or the JSON text of one")
    return arguments


DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect for dialect in (ClaudeCode(), Codex(), Cursor(), GeminiCli())
}
"""Every dialect by its name."""
