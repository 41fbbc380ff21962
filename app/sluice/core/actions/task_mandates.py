"""Mandates on their way into a session: what an issuer says that an agent was asked to do there.

A mandate counts if a registered issuer of the agent's tenant signed it for this installation, and not with a
key that an agent signs with. One that names a parent carries the mandates above it, each signed as well and
each within the one above. What is kept in the session is all that decisions need: a template is filled in
here, and the conditions of the mandates above stand beside its own.

What ends a mandate before its time, a revocation or a key that counts no longer, is looked up when an action
names it (`check_standing`), and the verdict says it.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.input_record import mandate_event_id
from sluice.core.foundation.refusals import Objection, refuse
from sluice.core.policy.kind import AnswerKind, Kind
from sluice.core.registry.agent_keys import find_key
from sluice.core.registry.keys import digest_mandate, is_mandate_of
from sluice.core.registry.registry_entries import collect_hashes
from sluice.core.rules.rule import Rule
from sluice.core.rules.rule_set import RuleSet
from sluice.core.state.decision import Decision
from sluice.core.state.expiry import make_time_records
from sluice.core.state.session import who
from sluice.core.state.session_view import SessionView
from sluice_topics.catalog import MANDATES, SESSION_EVENTS
from sluice_topics.records import MandateRecorded, TaskMandate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.policy import PointParts
    from sluice.core.registry.mandates import Issuer, RegisteredTask
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import Entry
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import SessionState
    from sluice.core.state.session_view import ActionSeen
    from sluice_topics.records.mandates import SignedMandate

SCHEMA = "sluice/mandate_recorded/v1"
HAS_BEEN_LATER = "the session has been later than that"
UNKNOWN_AGENT = "unknown_agent"
COMPILED_CONDITIONS = 1024
EVERY_CALL = "true"


class _RefusedError(Exception):
    """Why a mandate does not count."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.why = Objection(reason, message)


class _Scope(NamedTuple):
    """What one mandate of a chain says, its template filled in, and the registry entries it rests on."""

    mandate: SignedMandate
    digest: str
    task: str | None
    task_hash: str
    tools: tuple[dict[str, Any], ...] | None
    destinations: tuple[str, ...]
    values: Mapping[str, str] | None
    until_ms: int
    entries: tuple[Entry, ...]

    def make_fields(self) -> dict[str, Any]:
        """The fields of a ScopeSeen."""
        recorded: dict[str, Any] = {
            "digest": self.digest,
            "agent_id": self.mandate.agent_id,
            "issuer_id": self.mandate.issuer_id,
            "key_id": self.mandate.key_id,
            "tools": None if self.tools is None else [*self.tools],
            "destinations": [*self.destinations],
        }
        return recorded if self.values is None else {**recorded, "values": dict(self.values)}


@lru_cache(maxsize=COMPILED_CONDITIONS)
def compile_condition(condition: str) -> RuleSet:
    """A condition of a mandate's tool. Raises BundleError."""
    return RuleSet([Rule(id="mandate", type="invariant", reason="a mandate", condition=condition)])


def record_mandate(
    parts: PointParts, input_record: InputRecord, mandate: TaskMandate, state: SessionState, _: Shared
) -> Decision:
    """Keep a mandate in its session, or refuse it. The same one again is kept once."""
    view = SessionView(state, parts.limits, input_record.timestamp_ms)
    records = make_time_records(view)
    registry, agent = parts.policy.registry, parts.policy.registry.agents.get(mandate.agent_id)
    why = None if agent is not None else Objection(UNKNOWN_AGENT, f"{mandate.agent_id} is not registered")
    fields: dict[str, Any] = {}
    if agent is not None:
        try:
            scopes = _read_chain(registry, mandate, agent.tenant, view.now)
            _check_span(scopes, view.now, parts.limits.idle_timeout_ms)
            fields = _describe(scopes)
        except _RefusedError as error:
            why = error.why
        else:
            no_room = view.remember_mandate(who(agent.tenant, agent.id), fields)
            why = None if no_room is None else Objection("mandate_without_room", no_room)
    if agent is None or why is not None:
        objection = why or Objection(UNKNOWN_AGENT, "")
        session = mandate.session_id
        records.append(refuse(input_record.coordinates(), view.now, session, mandate.mandate_id, objection))
        return Decision(view.changes(), records)
    body = {
        "schema": SCHEMA,
        "mandate_event_id": mandate_event_id(input_record.decision_id),
        "mandate_id": mandate.mandate_id,
        "session_id": mandate.session_id,
        "agent_id": mandate.agent_id,
        "tenant_id": agent.tenant,
        "mandate": fields,
        "registry_hashes": {**fields["entries"], **collect_hashes(agent)},
        "decided_at": rfc3339(input_record.timestamp_ms),
        "input": input_record.coordinates(),
    }
    records.append(OutRecord(SESSION_EVENTS, "MandateRecorded", body, mandate.session_id))
    return Decision(view.changes(), records)


def _describe(scopes: Sequence[_Scope]) -> dict[str, Any]:
    """The fields of a MandateSeen; the first scope is the mandate's own."""
    own, *above = scopes
    recorded: dict[str, Any] = {"digest": own.digest, "task_hash": own.task_hash, "until_ms": own.until_ms}
    if own.task is not None:
        recorded["task"] = own.task
    entries = collect_hashes(*(entry for scope in scopes for entry in scope.entries))
    ends = [{**scope.make_fields(), "until_ms": scope.until_ms} for scope in above]
    return {**recorded, "scopes": [own.make_fields(), *ends], "entries": entries}


def _read_chain(registry: Registry, mandate: TaskMandate, tenant: str, now_ms: int) -> list[_Scope]:
    """The scopes of a mandate and of those above it, the nearest first. Raises _RefusedError."""
    chain: list[SignedMandate] = [mandate, *reversed(mandate.parents or ())]
    scopes = [_read_scope(registry, signed_mandate, tenant, now_ms) for signed_mandate in chain]
    for below, above in zip(scopes, [*scopes[1:], None], strict=True):
        named = below.mandate.parent
        if named != (None if above is None else above.digest):
            raise _RefusedError("parent_missing", f"{below.digest} does not carry its parent {named}")
        wider = None if above is None else next(_find_wider(below, above), None)
        if wider is not None:
            raise _RefusedError("outside_parent", wider)
    return scopes


def _read_scope(registry: Registry, mandate: SignedMandate, tenant: str, now_ms: int) -> _Scope:
    issuer = registry.issuers.get(mandate.issuer_id)
    agent = registry.agents.get(mandate.agent_id)
    if issuer is None or issuer.tenant != tenant:
        raise _RefusedError("unknown_issuer", f"{mandate.issuer_id} is no issuer of this tenant")
    if agent is None or agent.tenant != tenant:
        raise _RefusedError(UNKNOWN_AGENT, f"{mandate.agent_id} is no agent of this tenant")
    key = find_key(issuer.keys, mandate.key_id, now_ms)
    wrong = key if isinstance(key, str) else _object_to_use(registry, issuer, agent.id, mandate.key_id)
    if isinstance(key, str) or wrong is not None:
        raise _RefusedError("issuer_not_entitled", wrong or "")
    if not is_mandate_of(key.public_key, mandate, registry.audience):
        audience = registry.audience
        raise _RefusedError(
            "bad_signature",
            f"not of {mandate.key_id} over this mandate for installation {audience.installation!r} and topic "
            f"prefix {audience.topic_prefix!r}",
        )
    until_ms = _read_until(mandate.until, now_ms)
    digest = digest_mandate(mandate)
    template = _find_template(registry, mandate, tenant)
    if issuer.tasks is not None and (template is None or template.id not in issuer.tasks):
        by = "without a template" if template is None else f"by the template {template.id}"
        raise _RefusedError("issuer_not_entitled", f"{issuer.id} may not issue {by}")
    task, task_hash = _read_task(mandate, template)
    tools = _list_tools(mandate, template)
    values = None if mandate.template is None else mandate.template.values
    named = [*mandate.destinations]
    if template is not None and values is not None:
        named += template.list_destinations(values)
    for tool in tools or ():
        try:
            compile_condition(tool.get("condition", EVERY_CALL))
        except BundleError as error:
            raise _RefusedError("bad_condition", f"{tool['tool']}: {error}") from None
    entries = (issuer,) if template is None else (issuer, template)
    return _Scope(
        mandate, digest, task, task_hash, tools, tuple(dict.fromkeys(named)), values, until_ms, entries
    )


def _object_to_use(registry: Registry, issuer: Issuer, agent_id: str, key_id: str) -> str | None:
    """Why this issuer may not mandate this agent with this key of its own; None if it may."""
    if issuer.agents is not None and agent_id not in issuer.agents:
        return f"{issuer.id} may not mandate {agent_id}"
    return f"{key_id} is a key with which agents sign" if registry.is_agent_key(key_id) else None


def _read_until(until: str, now_ms: int) -> int:
    try:
        until_ms = read_milliseconds(until)
    except ValueError:
        until_ms = 0
    if until_ms <= now_ms:
        raise _RefusedError("mandate_over", f"it counted until {until}")
    return until_ms


def _check_span(scopes: Sequence[_Scope], now_ms: int, idle_timeout_ms: int) -> None:
    """Raises _RefusedError for a mandate of which the counts, or those above it, may outlive its session: one
    that folds forgets what was used, and the same mandate published once more would begin anew."""
    if max(scope.until_ms for scope in scopes) > now_ms + idle_timeout_ms:
        latest = rfc3339(now_ms + idle_timeout_ms)
        raise _RefusedError("mandate_too_long", f"it counts longer than an idle session, until {latest}")


def _find_template(registry: Registry, mandate: SignedMandate, tenant: str) -> RegisteredTask | None:
    if mandate.template is None:
        return None
    template = registry.tasks.get(mandate.template.id)
    if template is None or template.tenant != tenant:
        raise _RefusedError("unknown_task", f"there is no template {mandate.template.id} of this tenant")
    wrong = template.object_to(mandate.template.values)
    if wrong is not None:
        raise _RefusedError("wrong_values", wrong)
    return template


def _read_task(mandate: SignedMandate, template: RegisteredTask | None) -> tuple[str | None, str]:
    """The task's text, if it is there, and its hash."""
    task, claimed_hash = mandate.task, mandate.task_hash
    if task is None and template is not None and mandate.template is not None and claimed_hash is None:
        task = template.write_task(mandate.template.values)
    if task is None:
        return None, claimed_hash or ""
    due = "sha256:" + sha256(task.encode("utf-8", "surrogatepass")).hexdigest()
    if claimed_hash not in (None, due):
        raise _RefusedError("wrong_task_hash", f"the hash of the task is {due}, not {claimed_hash}")
    return task, due


def _list_tools(mandate: SignedMandate, template: RegisteredTask | None) -> tuple[dict[str, Any], ...] | None:
    """Without what is null."""
    listed = mandate.tools if template is None else template.spec.tools
    return None if listed is None else tuple(tool.model_dump(exclude_none=True) for tool in listed)


def _find_wider(below: _Scope, above: _Scope) -> Iterator[str]:
    """In what a mandate goes beyond the one above it."""
    if below.until_ms > above.until_ms:
        yield f"it counts until {rfc3339(below.until_ms)}, the one above until {rfc3339(above.until_ms)}"
    strange = next(
        (destination for destination in below.destinations if destination not in above.destinations), None
    )
    if strange is not None:
        yield f"the one above does not name the destination {strange}"
    if above.tools is None:
        return
    if below.tools is None:
        yield "it allows every tool, the one above does not"
        return
    for tool in dict.fromkeys(entry["tool"] for entry in below.tools):
        allowed = [entry for entry in above.tools if entry["tool"] == tool]
        if not allowed:
            yield f"the one above does not allow {tool}"
            continue
        mine, most = _sum_counts(below.tools, tool), _sum_counts(above.tools, tool)
        if most is not None and (mine is None or mine > most):
            yield f"the one above allows {tool} {most} times, not {'any number of' if mine is None else mine}"


def _sum_counts(tools: Sequence[Mapping[str, Any]], tool: str) -> int | None:
    """How many calls of a tool are allowed; None: any number."""
    counts = [entry.get("count") for entry in tools if entry["tool"] == tool]
    return None if None in counts else sum(count for count in counts if count is not None)


def check_standing(registry: Registry, agent_id: str, observed: ActionSeen, view: SessionView) -> ActionSeen:
    """With what the registry says now of the mandate that was seen: `void`, where somebody has ended it or
    one above it before its time, and the entries on which that rests. It is void too where its time was over
    before, and only the broker's clock has gone back."""
    mandate, agent = observed.mandate, registry.agents.get(agent_id)
    if mandate is None or agent is None:
        return observed
    entries, void = dict(mandate["entries"]), None
    for scope in mandate["scopes"]:
        revoked = registry.mandate_revocations.get(scope["digest"])
        if revoked is not None and revoked.tenant == agent.tenant:
            void = void or f"revoked by {revoked.key}: {revoked.reason}"
        else:
            revoked = None
        issuer = registry.issuers.get(scope["issuer_id"])
        void = void or _object_to_scope(registry, issuer, agent.tenant, scope, view.now)
        entries |= collect_hashes(revoked, issuer)
    if void is None and view.is_set_back and mandate["until_ms"] <= view.now:
        void = f"it counted until {rfc3339(mandate['until_ms'])}, and {HAS_BEEN_LATER}"
    return observed._replace(
        mandate={**mandate, "entries": entries, **({} if void is None else {"void": void})}
    )


def _object_to_scope(
    registry: Registry, issuer: Issuer | None, tenant: str, scope: Mapping[str, Any], now_ms: int
) -> str | None:
    """Why an issuer's mandate counts no longer. A key whose time is over issues nothing new; what it issued
    before counts, unless the key was revoked."""
    if issuer is None or issuer.tenant != tenant:
        return f"{scope['issuer_id']} is no issuer of this tenant any more"
    key = next((agent_key for agent_key in issuer.keys if agent_key.id == scope["key_id"]), None)
    if key is None or (key.revoked_ms is not None and now_ms >= key.revoked_ms):
        return f"{issuer.id} signs with {scope['key_id']} no longer"
    return _object_to_use(registry, issuer, scope["agent_id"], key.id)


MANDATE = Kind(
    "mandate",
    MANDATES,
    TaskMandate,
    attrgetter("session_id"),
    "mandate_id",
    record_mandate,
    marked_by="mandate_id",
    answer=AnswerKind(MandateRecorded, SESSION_EVENTS, "mandate_event_id", (("mandate",),)),
)
