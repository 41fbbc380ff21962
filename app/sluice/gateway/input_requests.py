"""From the body of a request to the input record that is published: names, defaults, whose it is. Pure."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sluice.client.mandates import compute_mandate_digest
from sluice.client.sender import name_outcome, serialize_record
from sluice.gateway.http.http_errors import HttpError, make_unreadable
from sluice_topics.json_text import Unreadable, parse
from sluice_topics.record_reading import read
from sluice_topics.records import (
    ActionOutcome,
    ProposedAction,
    ProposedMemoryWrite,
    ProposedRetrieval,
    ReviewDecision,
    TaskMandate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.registry.registry_entries import Agent
    from sluice.gateway.http.api_keys import Caller
    from sluice.gateway.registry_view import RegistryView
    from sluice_topics.records.base import Record

MODES = {"ENFORCE": "high_stakes", "SHADOW": "high_stakes"}
"""What seed 001's words of enforcement come to; SHADOW only where the tenant is in shadow."""
SHORTEST_WAIT_S = 1.0
MANDATE_FIELD = "mandate"
"""Of an action's request: the signed mandate that it names, which the gateway publishes before it."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What is known of a request apart from its body. `agent` and `session` are those of its headers;
    `idempotency`: the name of its idempotency key, from which new ids are made then."""

    caller: Caller
    request_id: str
    agent: str | None = None
    session: str | None = None
    idempotency: str | None = None
    traceparent: str | None = None

    def make_id(self, what: str) -> str:
        """Make an id for what the request does not name."""
        if self.idempotency is None:
            return uuid.uuid4().hex
        return sha256(f"{what}:{self.idempotency}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class PreparedInput:
    """An input to publish for an agent of the registry. `name`: the caller's or a new id of it; `signs`:
    whether the agent's inputs need a signature; `plain`: what was sealed of it here, by the tokens in
    `value`."""

    agent: str
    signs: bool
    session: str
    name: str
    value: bytes
    wait_s: float
    plain: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """How long a request waits for its decision, in seconds, if it does not say, and at most."""

    default_s: float
    longest_s: float

    def resolve(self, deadline_ms: object) -> float:
        """The wait of a request with this `deadline_ms`; None: it has none."""
        if not isinstance(deadline_ms, int):
            return self.default_s
        return min(max(deadline_ms / 1000, SHORTEST_WAIT_S), self.longest_s)


def prepare_action(
    body: bytes, context: RequestContext, registry: RegistryView, limits: WaitLimits
) -> PreparedInput:
    """The action of POST /v1/evaluate. Raises HttpError."""
    fields = read_fields(body, ProposedAction)
    mandate = fields.pop(MANDATE_FIELD, None)
    if mandate is not None:
        digest = compute_mandate_digest(mandate)
        fields["mandate_digest"] = _unify(fields.get("mandate_digest"), digest, "mandate_digest")
    agent, session = bind(fields, context, registry)
    fields["action_id"] = fields.get("action_id") or context.make_id("action")
    mode = fields.get("mode")
    if mode == "SHADOW" and not registry.is_in_shadow(agent.tenant):
        raise HttpError(
            422, "not_in_shadow", f"the tenant {agent.tenant} is not in shadow: its operator decides that"
        )
    if isinstance(mode, str):
        fields["mode"] = MODES.get(mode, mode)
    wait_s = limits.resolve(fields.get("deadline_ms"))
    if fields.get("deadline_ms") is None:
        fields["deadline_ms"] = int(1000 * wait_s)
    value = serialize_checked(fields, ProposedAction)
    return PreparedInput(agent.id, agent.keys is not None, session, str(fields["action_id"]), value, wait_s)


def prepare_write(
    body: bytes, context: RequestContext, registry: RegistryView, limits: WaitLimits
) -> PreparedInput:
    """The memory write of POST /v1/memory/evaluate. Raises HttpError."""
    fields = read_fields(body, ProposedMemoryWrite)
    agent, session = bind(fields, context, registry)
    name = fields["write_id"] = fields.get("write_id") or context.make_id("write")
    value = serialize_checked(fields, ProposedMemoryWrite)
    return PreparedInput(agent.id, agent.keys is not None, session, name, value, limits.default_s)


def prepare_retrieval(
    body: bytes, context: RequestContext, registry: RegistryView, limits: WaitLimits
) -> PreparedInput:
    """The items of POST /v1/retrievals/evaluate. Raises HttpError.

    The retrieval's `request_id` is the caller's, else the request's own: what an approver lets be read is the
    same retrieval once more, byte for byte.
    """
    fields = read_fields(body, ProposedRetrieval)
    name = fields.pop("request_id", None) or context.request_id
    agent, session = bind(fields, context, registry)
    value = serialize_checked({**fields, "request_id": name}, ProposedRetrieval)
    return PreparedInput(agent.id, agent.keys is not None, session, str(name), value, limits.default_s)


def prepare_outcome(
    body: bytes, context: RequestContext, registry: RegistryView, limits: WaitLimits
) -> PreparedInput:
    """The outcome of POST /v1/outcomes: of the caller's agent, or signed by an enforcement point of its
    tenant. Raises HttpError."""
    fields = read_fields(body, ActionOutcome)
    session = _unify(fields.get("session_id"), context.session, "session_id")
    reporter = _unify(fields.get("reported_by"), context.agent, "reported_by") or _find_only_agent(
        context.caller
    )
    fields |= {"session_id": session, "reported_by": reporter}
    value = serialize_checked(
        {name: content for name, content in fields.items() if content is not None}, ActionOutcome
    )
    signs = False
    if fields.get("signature") is None or not registry.is_enforcement_point(
        str(reporter), context.caller.tenant
    ):
        signs = require_agent(str(reporter), context.caller, registry).keys is not None
    name = name_outcome(str(session), str(fields["action_id"]))
    return PreparedInput(str(reporter), signs, str(session), name, value, limits.default_s)


def prepare_mandate(
    body: bytes, context: RequestContext, registry: RegistryView, limits: WaitLimits
) -> PreparedInput:
    """The mandate of POST /v1/mandates, as its issuer signed it, for an agent of the caller. Raises
    HttpError."""
    fields = read_fields(body, TaskMandate)
    agent_id = _unify(fields.get("agent_id"), context.agent, "agent_id")
    session = _unify(fields.get("session_id"), context.session, "session_id")
    value = serialize_checked(fields, TaskMandate)
    agent = require_agent(str(agent_id), context.caller, registry)
    return PreparedInput(agent.id, False, str(session), str(fields["mandate_id"]), value, limits.default_s)


def prepare_first_mandate(
    body: bytes, context: RequestContext, registry: RegistryView, limits: WaitLimits
) -> PreparedInput | None:
    """The mandate in the body of an action, which goes before it; None where there is none. Raises
    HttpError."""
    mandate = read_fields(body, ProposedAction).get(MANDATE_FIELD)
    if mandate is None:
        return None
    if not isinstance(mandate, dict):
        raise make_unreadable(Unreadable("wrong_type", f"$.{MANDATE_FIELD}", "must be a JSON object"))
    return prepare_mandate(serialize_record(mandate), context, registry, limits)


def prepare_review(body: bytes, subject_id: str, session: str, limits: WaitLimits) -> PreparedInput:
    """A reviewer's signed answer to what waits under this id; `agent` is the approver. Raises HttpError."""
    fields = read_fields(body, ReviewDecision)
    fields["subject_id"] = _unify(fields.get("subject_id"), subject_id, "subject_id")
    fields["session_id"] = _unify(fields.get("session_id"), session, "session_id")
    value = serialize_checked(fields, ReviewDecision)
    name = f"review-of:{sha256(value).hexdigest()}"
    return PreparedInput(str(fields["approver_id"]), False, session, name, value, limits.default_s)


def read_fields(body: bytes, model: type[Record]) -> dict[str, Any]:
    """The body's fields by the wire names of a record. Raises HttpError if it is not a JSON object or has a
    field twice."""
    document = parse(body) if body else Unreadable("empty", "$", "the request has no body")
    if isinstance(document, Unreadable):
        raise make_unreadable(document)
    if not isinstance(document, dict):
        raise make_unreadable(Unreadable("wrong_type", "$", "the body must be a JSON object"))
    return _rename_to_wire(document, model)


def _rename_to_wire(document: Mapping[str, Any], model: type[Record]) -> dict[str, Any]:
    """`agentId` and `agent_id` are one name; a name that no field has stays for the reader to refuse."""
    wire = {_fold_name(name): field.alias or name for name, field in model.model_fields.items()}
    by_alias: dict[str, Any] = {}
    for name, value in document.items():
        alias = wire.get(_fold_name(name), name)
        if alias in by_alias:
            raise make_unreadable(Unreadable("ambiguous_field", f"$.{alias}", "given in two spellings"))
        by_alias[alias] = value
    return by_alias


def _fold_name(name: str) -> str:
    return name.replace("_", "").lower()


def bind(fields: dict[str, Any], context: RequestContext, registry: RegistryView) -> tuple[Agent, str]:
    """The agent for whom the caller asks, and the session; both are put into the fields, with the request's
    id. Raises HttpError."""
    if fields.get("request_id") is not None:
        raise HttpError(400, "unknown_field", "the gateway gives each request its id", path="$.request_id")
    agent_id = _unify(fields.get("agent_id"), context.agent, "agent_id") or _find_only_agent(context.caller)
    if agent_id is None:
        raise HttpError(400, "missing_field", "say for which agent: agentId or X-Mnemom-Agent")
    agent = require_agent(agent_id, context.caller, registry)
    session = _unify(fields.get("session_id"), context.session, "session_id") or context.make_id("session")
    fields |= {"agent_id": agent_id, "session_id": session, "request_id": context.request_id}
    return agent, session


def find_caller_agent(context: RequestContext) -> str:
    """The agent that the request's header names, else the only one of its key. Raises HttpError."""
    agent = context.agent or _find_only_agent(context.caller)
    if agent is None:
        raise HttpError(400, "missing_field", "say for which agent: X-Mnemom-Agent")
    return agent


def _find_only_agent(caller: Caller) -> str | None:
    """The one agent that a key is bound to."""
    return next(iter(caller.agents)) if caller.agents is not None and len(caller.agents) == 1 else None


def require_agent(agent_id: str, caller: Caller, registry: RegistryView) -> Agent:
    """The caller's agent. Raises HttpError where the key is not bound to it, or its tenant has no such."""
    agent = registry.find_agent(agent_id, caller.tenant) if caller.is_bound_to(agent_id) else None
    if agent is None:
        raise HttpError(403, "agent_not_bound", "this API key does not speak for that agent")
    return agent


def _unify(in_body: object, in_header: str | None, name: str) -> str | None:
    """Return the value that body and header give for one name: they may not differ."""
    if in_body is not None and not isinstance(in_body, str):
        raise make_unreadable(Unreadable("wrong_type", f"$.{name}", "Input should be a valid string"))
    if in_body and in_header and in_body != in_header:
        raise HttpError(
            400, "ambiguous_field", "the body and the header name different ones", path=f"$.{name}"
        )
    return in_body or in_header


def serialize_checked(fields: Mapping[str, Any], model: type[Record]) -> bytes:
    """The record's bytes, once a worker could read them. Raises HttpError with the place of the error."""
    value = serialize_record(fields)
    checked = read(model, value)
    if isinstance(checked, Unreadable):
        raise make_unreadable(checked)
    return value


def encode_header(value: str | None) -> str | None:
    """An id in a header, where what is not printable ASCII is percent-encoded."""
    return unquote(value, errors="replace") if value else None
