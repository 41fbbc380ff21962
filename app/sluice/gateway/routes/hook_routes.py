"""The route that coding agents' hooks call: an event in its product's JSON, answered as the product reads it.

What waits for a person is kept in the store of idempotency keys, for 24 hours: the same call again finds it,
and the call that runs by an approval is noted in the same entry. Without the entry no approval is used.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from fastapi import Query
from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotations
from starlette.responses import Response  # noqa: TC002 - as above

from sluice.client.answers import ActionAnswer, ClientError, make_refusal
from sluice.client.input_kinds import ACTION, ESCALATIONS, MANDATE, OUTCOME
from sluice.client.mandates import compute_mandate_digest
from sluice.client.sealing import NoSealing
from sluice.client.sender import serialize_record
from sluice.gateway.decisions import refuse_sealed, seal_prepared, translate_faults
from sluice.gateway.http.http_errors import HttpError, make_not_found, make_unreadable
from sluice.gateway.idempotency import (
    RememberedRequest,
    StoredAnswer,
    compute_fingerprint,
)
from sluice.gateway.input_requests import (
    PreparedInput,
    find_caller_agent,
    prepare_action,
    prepare_mandate,
    prepare_outcome,
    require_agent,
)
from sluice.gateway.routes.answer_rendering import render_answer, write_body
from sluice.gateway.routes.callers import Callers, read_facts
from sluice.gateway.routes.deciding_routes import respond
from sluice.gateway.routes.declared_routes import declare
from sluice.hook_dialects import (
    AFTER,
    ALLOW,
    BEFORE,
    DENY,
    DIALECTS,
    MANDATE_FIELD,
    OPENED,
    OTHER,
    PROMPTED,
    VALUES_FIELD,
    HookUnreadable,
)
from sluice_topics.json_text import Unreadable, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.client.sealing import SealingView
    from sluice.gateway.decisions import Decisions
    from sluice.gateway.http.response_headers import ResponseFacts
    from sluice.gateway.idempotency import IdempotentRequests
    from sluice.gateway.input_requests import RequestContext, WaitLimits
    from sluice.gateway.registry_view import RegistryView
    from sluice.gateway.waiting_subjects import WaitingSubjects
    from sluice.hook_dialects import HookEvent

HOOK_ANSWER_SCHEMA = "sluice/hook_answer/v1"
LOOK_AGAIN_S, LONGEST_PAUSE_S = 0.1, 2.0
"""Between two looks for the end of an escalation that the gateway has not read yet: the first pause, which
doubles, and the longest."""
NO_ROOM = "mandate_without_room"
"""Why a mandate is refused of which an agent has enough in the session."""
OTHER_ARGUMENTS = "other_arguments"
"""The error of an outcome whose tool ran with other arguments than were judged: another hook changed them."""
ENDED = "ended"
"""Of what is kept of a call with an id: its outcome was reported."""
HookWait = Annotated[float, Query(ge=0, le=3600, description="seconds to wait for a person's answer")]
Waiting = Annotated[
    Literal["deny", "ask", "defer"], Query(description="the answer to a call that waits for a person")
]
MandateDigest = Annotated[
    str | None, Query(pattern="^sha256:[0-9a-f]{64}$", description="of the mandate that the calls name")
]


class HookAnswer(NamedTuple):
    """What is said to a hook, and the action's record by which a call runs; None: it does not."""

    decision: str
    reason: str
    record: Mapping[str, Any] | None = None


class AskedCall(NamedTuple):
    """A call that a hook asks about. `agent`: the registered one that calls; `name`: of this request of the
    call, the same if the hook asks twice; `alike`: of all calls like it in the session and folder; `runs`:
    under which the outcome finds the action; `digest`: of tool and arguments."""

    event: HookEvent
    context: RequestContext
    agent: str
    root: str
    mandate: str | None
    name: str
    alike: str
    runs: str
    digest: str


class ParkedCall(NamedTuple):
    """What is kept of a call that waits for a person, or waited. `entry`: as it is kept; `record`: its first
    verdict; `used_by`: the name of the call that runs by its approval; None: none does."""

    entry: bytes
    record: Mapping[str, Any]
    used_by: str | None


@dataclass(frozen=True, slots=True)
class HookRoutes:
    """The parts that the route is made of."""

    callers: Callers
    decisions: Decisions
    registry: RegistryView
    wait: WaitLimits
    subjects: WaitingSubjects
    idempotent: IdempotentRequests
    sealing: SealingView

    @declare(
        "POST /v1/hooks/{dialect}",
        "An event of a coding agent's hook, answered as its product reads it",
        {
            200: (dict[str, Any], "before a call: the decision, a denial too"),
            404: (None, "no such dialect; after a call: it was not judged here"),
            422: None,
        },
        body={"type": "object", "properties": {"hook_event_name": {"type": "string"}}},
    )
    async def answer(
        self,
        request: Request,
        dialect: str,
        wait: HookWait = 0,
        escalated: Waiting = "deny",
        mandate: MandateDigest = None,
    ) -> Response:
        """The answer to an event. Before a call every error after the log-in is a denial, with status 200."""
        context = await self.callers.identify(request)
        spoken = DIALECTS.get(dialect)
        if spoken is None:
            raise make_not_found(dialect[:64])
        if escalated not in spoken.waiting:
            raise HttpError(400, "invalid_value", f"{dialect} has no answer {escalated}", path="escalated")
        document = parse(await request.body())
        if isinstance(document, Unreadable):
            raise make_unreadable(document)
        if not isinstance(document, dict):
            raise make_unreadable(Unreadable("wrong_type", "$", "the body must be a JSON object"))
        try:
            event = spoken.read(document)
        except HookUnreadable as error:
            raise HttpError(400, "invalid_value", str(error), path=f"$.{error.field}") from None
        facts, body = read_facts(request), {} if event.kind in (AFTER, OTHER) else spoken.write_passed()
        if event.kind == BEFORE:
            asking = self._judge(event, context, dialect, facts, mandate, (wait, escalated))
            body = spoken.write(event, *(await asking)[:2])
        elif event.kind == AFTER:
            await self._seal(event, context)
            await self._report(_ask(event, context, dialect), document.get(VALUES_FIELD))
        elif event.kind in (OPENED, PROMPTED) and MANDATE_FIELD in document:
            await self._take_mandate(event, context, dialect, document[MANDATE_FIELD])
        return respond(render_answer(200, body, HOOK_ANSWER_SCHEMA), facts)

    async def _judge(
        self,
        event: HookEvent,
        context: RequestContext,
        dialect: str,
        facts: ResponseFacts,
        mandate: str | None,
        waiting: tuple[float, str],
    ) -> HookAnswer:
        """The decision on a call. `waiting`: seconds for a person, and the answer while one is waited for."""
        try:
            await self._seal(event, context)
            prompted = None if mandate else await self._find_prompted(event, context, dialect)
            call = _ask(event, context, dialect, mandate, prompted)
            facts.agent, facts.session = call.agent, event.session
            wait_s, escalated = waiting
            answered = await self._decide(call, min(wait_s, self.wait.longest_s), escalated)
        except HttpError as error:
            answered = HookAnswer(DENY, f"{error.code}: {error.message}")
        except (ClientError, RecursionError) as error:
            answered = HookAnswer(DENY, f"unreadable: {error}")
        facts.log |= {"hook": answered.decision}
        return answered

    async def _seal(self, event: HookEvent, context: RequestContext) -> None:
        """Seal the personal data in a call's arguments, before anything is kept under a digest of them.
        Raises HttpError."""
        if isinstance(self.sealing, NoSealing):
            return
        refuse_sealed({"parameters": event.arguments})
        root = find_caller_agent(context)
        agent = root if event.sub_agent is None else name_sub_agent(root, event.sub_agent)
        if self.registry.find_agent(agent, context.caller.tenant) is None:
            return
        call = {"session_id": event.session, "toolName": event.tool, "parameters": event.arguments}
        async with translate_faults():
            sealed = await self.sealing.seal("action", agent, call)
        if sealed["parameters"] != event.arguments:
            event.replace_arguments(sealed["parameters"])

    async def _take_mandate(
        self, event: HookEvent, context: RequestContext, dialect: str, mandate: Any
    ) -> None:
        """Publish the mandate that a hook has signed for a session: the agent's calls name it from here on. A
        session that goes on keeps the one that it has, and so does one that has room for no further one.
        Raises HttpError, where none counts then."""
        if not isinstance(mandate, dict):
            raise make_unreadable(Unreadable("wrong_type", f"$.{MANDATE_FIELD}", "must be a JSON object"))
        agent, store = find_caller_agent(context), self.idempotent.store
        named = _name_prompted(context, dialect, agent, event.session)
        stored = await store.get(named)
        counts = stored is not None and datetime.fromisoformat(json.loads(stored)["until"]) > datetime.now(
            UTC
        )
        if counts and event.kind == OPENED:
            return
        own = replace(context, agent=agent, session=event.session)
        prepared = prepare_mandate(serialize_record(mandate), own, self.registry, self.wait)
        record = await self.decisions.ask(MANDATE, prepared, context.request_id, context.traceparent)
        if "refusal_id" in record:
            if counts and record["reason"] == NO_ROOM:
                return
            raise HttpError(422, record["reason"], record["message"])
        entry = {"digest": compute_mandate_digest(mandate), "until": mandate["until"]}
        await store.put(named, write_body(entry).encode(), context.caller.name)

    async def _find_prompted(self, event: HookEvent, context: RequestContext, dialect: str) -> str | None:
        """The digest of the mandate that a hook has signed for the agent's session; None: there is none, or
        a sub-agent calls, for which none counts."""
        if event.sub_agent is not None:
            return None
        named = _name_prompted(context, dialect, find_caller_agent(context), event.session)
        stored = await self.idempotent.store.get(named)
        return None if stored is None else str(json.loads(stored)["digest"])

    async def _decide(self, call: AskedCall, wait_s: float, escalated: str) -> HookAnswer:
        require_agent(call.agent, call.context.caller, self.registry)
        if await self._has_ended(call):
            message = (
                "a call of this id has ended, and a further one needs an id of its own. The tool did not run"
            )
            return HookAnswer(DENY, f"ran_before: {message}")
        until = time.monotonic() + wait_s
        parked = await self._find_parked(call)
        answered = None if parked is None else await self._follow(call, parked, until, escalated)
        if answered is None:
            record = await self._evaluate(call, parked)
            if record["verdict"] == "needs_human" and record["escalationId"] is not None:
                answered = await self._follow_parked(call, until, escalated)
            elif record["verdict"] == "allowed":
                answered = HookAnswer(ALLOW, "allowed", record)
            else:
                answered = HookAnswer(DENY, make_refusal(ActionAnswer.of(record)).for_model)
        if answered.decision == ALLOW and self._is_frozen(call):
            answered = HookAnswer(DENY, "frozen: it was allowed, and is frozen now. The tool did not run")
        if answered.record is not None:
            run = {name: answered.record[name] for name in ("action_id", "agent_id", "rows_reserved")}
            run["digest"] = call.digest
            await self.idempotent.store.put(call.runs, write_body(run).encode(), call.context.caller.name)
        return answered

    async def _has_ended(self, call: AskedCall) -> bool:
        """Whether the outcome of a call of this id was reported: some models write the ids themselves, and
        one verdict must not do for a call that is made again and again."""
        stored = None if call.event.call_id is None else await self.idempotent.store.get(call.runs)
        return stored is not None and ENDED in json.loads(stored)

    def _is_frozen(self, call: AskedCall) -> bool:
        """Whether the session, the agent that calls, or the one that it is a part of, is frozen now."""
        tenant, session = call.context.caller.tenant, call.event.session
        agents = {call.agent, call.root}
        return any(self.registry.registry.find_freezes(tenant, agent, session) for agent in agents)

    async def _evaluate(self, call: AskedCall, parked: ParkedCall | None) -> dict[str, Any]:
        """The first verdict on a call; the hook that asks again about the same call gets the same. A call
        that waits for a person is parked, in place of `parked`, which is over."""
        context = replace(call.context, agent=None, session=None, idempotency=call.name)
        body = serialize_record(_propose(call))

        def prepare() -> RememberedRequest:
            made = prepare_action(body, context, self.registry, self.wait)
            named = made.agent, made.signs, made.session, made.name
            asked = compute_fingerprint(call.digest.encode(), (call.mandate or "").encode())
            return RememberedRequest(asked, *named, made.value.decode(), made.wait_s)

        async def decide(asked: RememberedRequest) -> StoredAnswer:
            named = asked.agent, asked.signs, asked.session, asked.name
            prepared = PreparedInput(*named, asked.value.encode(), asked.wait_s)
            answer = await self.decisions.ask(ACTION, prepared, context.request_id, context.traceparent)
            record = await self.decisions.fetch_first(answer, context.caller)
            is_first = answer.get("duplicate_of") is None
            if is_first and record["verdict"] == "needs_human" and record["escalationId"] is not None:
                await self._park(call, record, parked)
            return StoredAnswer(200, write_body(record), {})

        stored, _ = await self.idempotent.answer(call.name, context.caller.name, prepare, decide)
        decided_record: dict[str, Any] = json.loads(stored.body)
        return decided_record

    async def _park(self, call: AskedCall, record: Mapping[str, Any], before: ParkedCall | None) -> None:
        """Keep that a call waits, unless another like it was parked since `before` was read. Only a verdict
        that was made now is parked: an older one may have been parked, used and forgotten."""
        store, owner = self.idempotent.store, call.context.caller.name
        entry = write_body({"record": record, "used_by": None}).encode()
        if before is None:
            await store.add(call.alike, entry, owner)
        else:
            await store.replace(call.alike, before.entry, entry, owner)

    async def _find_parked(self, call: AskedCall) -> ParkedCall | None:
        stored = await self.idempotent.store.get(call.alike)
        if stored is None:
            return None
        fields = json.loads(stored)
        return ParkedCall(stored, fields["record"], fields["used_by"])

    async def _follow_parked(self, call: AskedCall, until: float, escalated: str) -> HookAnswer:
        """How a call stands that was found to wait."""
        parked = await self._find_parked(call)
        answered = None if parked is None else await self._follow(call, parked, until, escalated)
        if answered is not None:
            return answered
        message = "it waited for a person, and its approval is used, over, or forgotten. The tool did not run"
        return HookAnswer(DENY, f"not_again: {message}. Call it again to ask anew")

    async def _follow(
        self, call: AskedCall, parked: ParkedCall, until: float, escalated: str
    ) -> HookAnswer | None:
        """How an escalated action stands; None: it expired, or its approval was used by another call. Waits
        for its end until then, by the monotonic clock."""
        if parked.used_by not in (None, call.name):
            return None
        first = parked.record
        end = await self._await_end(first, until)
        if end is None:
            message = (
                f"needs_human: {first['blockReason']}. It waits for approval as {first['escalationId']}. The "
                "tool did not run. Call it again with the same arguments once a person has agreed; until "
                "then go on with what does not need it, or tell the user that it waits"
            )
            return HookAnswer(escalated, message, None if escalated == DENY else first)
        if end.verdict == "allowed":
            return await self._use(call, parked, end)
        if (end.reason or "").startswith("approval_expired"):
            return None
        return HookAnswer(DENY, make_refusal(end).for_model)

    async def _use(self, call: AskedCall, parked: ParkedCall, end: ActionAnswer) -> HookAnswer | None:
        """Let a call run by an approval; None: another call has used it, or the entry that says so is
        gone."""
        if end.record.get("narrowed") is not None:
            message = (
                "a person agreed to other arguments, which a hook does not pass on. The tool did not run"
            )
            return HookAnswer(DENY, f"narrowed: {message}")
        if parked.used_by is None:
            entry = write_body({"record": parked.record, "used_by": call.name}).encode()
            store, owner = self.idempotent.store, call.context.caller.name
            if not await store.replace(call.alike, parked.entry, entry, owner):
                now = await self._find_parked(call)
                if now is None or now.entry != entry:
                    return None
        return HookAnswer(ALLOW, "allowed: a person agreed", end.record)

    async def _await_end(self, first: Mapping[str, Any], until: float) -> ActionAnswer | None:
        an_id, pause_s = first["escalationId"], LOOK_AGAIN_S
        while True:
            left_s = until - time.monotonic()
            if self.subjects.get(ESCALATIONS, an_id) is not None:
                if left_s <= 0 or not await self.subjects.wait_for_end(ESCALATIONS, an_id, left_s):
                    return None
                left_s = 0.0
            end = await self.decisions.fetch_end(dict(first))
            left_s = min(left_s, until - time.monotonic())
            if end is not None or left_s <= 0:
                return end
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _report(self, call: AskedCall, values: Any) -> None:
        """Report what a call did. Raises HttpError: 404 where it was not judged here."""
        stored = await self.idempotent.store.get(call.runs)
        if stored is None:
            raise HttpError(404, "not_judged", f"this call of {call.event.tool[:64]} was not judged here")
        run = json.loads(stored)
        if call.event.call_id is not None:
            ended = write_body({**run, ENDED: True}).encode()
            await self.idempotent.store.put(call.runs, ended, call.context.caller.name)
        error = call.event.error
        if error is None and call.event.call_id is not None and run["digest"] != call.digest:
            error = OTHER_ARGUMENTS
        fields = {
            "action_id": run["action_id"],
            "session_id": call.event.session,
            "rows_affected": int(run["rows_reserved"]),
            "reported_by": run["agent_id"],
            "error": error,
            "values": values,
        }
        body = serialize_record({name: value for name, value in fields.items() if value is not None})
        context = replace(call.context, agent=None, session=None)
        prepared = await seal_prepared(
            self.sealing, OUTCOME, prepare_outcome(body, context, self.registry, self.wait)
        )
        await self.decisions.ask(OUTCOME, prepared, context.request_id, context.traceparent)


def _ask(
    event: HookEvent,
    context: RequestContext,
    dialect: str,
    mandate: str | None = None,
    prompted: str | None = None,
) -> AskedCall:
    """Name a call. `mandate`: what the hook's settings name; else `prompted`, of the session's prompts: what
    waits for a person under an earlier prompt of the session is alike. Raises HttpError where the request
    does not say for which agent it is."""
    root = find_caller_agent(context)
    agent = root if event.sub_agent is None else name_sub_agent(root, event.sub_agent)
    session = [part.encode() for part in (context.caller.name, dialect, agent, event.session)]
    call_id = event.call_id or uuid.uuid4().hex
    same = _canonicalize(event.same) if event.call_id is None else event.call_id.encode()
    digest = _canonicalize([event.tool, event.arguments])
    alike = mandate or ("" if prompted is None else "prompted")
    return AskedCall(
        event,
        context,
        agent,
        root,
        mandate or prompted,
        compute_fingerprint(b"hook call", *session, call_id.encode()),
        compute_fingerprint(b"hook parked", *session, alike.encode(), digest, event.where.encode()),
        compute_fingerprint(b"hook runs", *session, same),
        compute_fingerprint(digest),
    )


def _name_prompted(context: RequestContext, dialect: str, agent: str, session: str) -> str:
    parts = [part.encode() for part in (context.caller.name, dialect, agent, session)]
    return compute_fingerprint(b"hook mandate", *parts)


def name_sub_agent(root: str, kind: str) -> str:
    """The registered id of an agent's sub-agent of a type."""
    return f"{root}:{kind}"


def _canonicalize(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode()


def _propose(call: AskedCall) -> dict[str, Any]:
    """The action of a call, as a request of POST /v1/evaluate."""
    event = call.event
    fields: dict[str, Any] = {
        "agent_id": call.agent,
        "session_id": event.session,
        "toolName": event.tool,
        "parameters": event.arguments,
        "mode": "high_stakes",
    }
    if event.sub_agent is not None:
        fields["governanceContext"] = {
            "rootAgentId": call.root,
            "parentAgentId": call.root,
            "chainDepth": 1,
        }
    if event.starts is not None:
        fields["delegate_to"] = name_sub_agent(call.root, event.starts)
    if call.mandate is not None:
        fields["mandate_digest"] = call.mandate
    return fields
