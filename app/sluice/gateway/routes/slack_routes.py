"""What people press in Slack: the form that shows what waits, and the answer that they give in it.

Slack signs each request with the app's secret. The user that it names is a registered approver by the
settings; the gateway signs the answer for that person (`DelegatedAnswers`), and the worker checks the rights
of both. Slack waits three seconds: an answer that takes longer is told by the message itself.

Slack: "Verifying requests from Slack", "Handling user interaction", "Modals", as of 2026.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from fastapi.responses import Response
from slack_sdk.errors import SlackClientError
from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotations

from sluice.client.input_kinds import ESCALATIONS
from sluice.core.reports.pending_subject import PendingSubject
from sluice.core.reports.value_words import add_texts, write_known_until
from sluice.gateway.decisions import NOT_THERE
from sluice.gateway.delegated_answers import PersonsAnswer, read_days
from sluice.gateway.http.http_errors import HttpError, make_unauthorized
from sluice.gateway.routes.callers import read_facts
from sluice.gateway.routes.declared_routes import ERROR_STATUSES, declare_open
from sluice.notify.reported_subject import apply_record
from sluice.notify.slack_blocks import (
    DECISION_ACTION,
    DECISION_FORM,
    FORM_CHARS,
    JUSTIFICATION,
    REMEMBER,
    build_form,
    build_notice_view,
)
from sluice.text.plurals import count_noun
from sluice.text.visible import visible_text
from sluice_topics.record_reading import find_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slack_sdk import WebClient
    from slack_sdk.signature import SignatureVerifier

    from sluice.gateway.delegated_answers import DelegatedAnswers
    from sluice.gateway.registry_view import RegistryView
    from sluice.gateway.subjects import Subjects

log = logging.getLogger(__name__)
TIMED_OUT = 504
LOOKS, LOOK_S = 5, 0.1
REMEMBER_S = 600
"""How long a signature is remembered: Slack's are refused after five minutes."""
DECISIONS = ("approve", "deny")
KEPT = ("escalation_id", "session_id", "tenant_id", "action_digest", "request_hash")
"""Of the record that opened it, in the form: the answer is to exactly what the form shows."""
_FORM: dict[str, Any] = {
    "required": True,
    "content": {
        "application/x-www-form-urlencoded": {
            "schema": {
                "type": "object",
                "properties": {"payload": {"type": "string"}},
                "required": ["payload"],
            }
        }
    },
}
LATE = "Your answer is on its way. The message in the channel will say what came of it."


class NotShownError(Exception):
    """The form is not opened; the message says why, to the person."""


@dataclass(frozen=True, slots=True)
class SlackApp:
    """Our app in Slack, as the settings name it. `approvers`: the approver's id of each Slack user, who is
    named as "U…", or with the workspace as "T…/U…". `client` gives up before Slack does; a form is answered
    within `answer_s` seconds."""

    verifier: SignatureVerifier
    approvers: Mapping[str, str]
    client: WebClient
    answer_s: float

    def find_person(self, payload: Mapping[str, Any]) -> str | None:
        """The approver who pressed something; None: nobody we know."""
        user = payload["user"]["id"]
        team = (payload.get("team") or {}).get("id")
        return self.approvers.get(f"{team}/{user}") or self.approvers.get(user)


@dataclass(slots=True)
class SlackRoutes:
    """The parts that the route is made of. `signatures`: of the last minutes, and when they came."""

    app: SlackApp
    registry: RegistryView
    subjects: Subjects
    people: DelegatedAnswers
    signatures: dict[str, float] = field(default_factory=dict)
    giving: set[asyncio.Task[Any]] = field(default_factory=set)

    @declare_open(
        "POST /v1/slack/interactions",
        "What a person pressed in Slack",
        {**dict.fromkeys(ERROR_STATUSES), 200: {"description": "taken; for a form, what came of it"}},
        openapi_extra={"requestBody": _FORM},
        response_class=Response,
    )
    async def interact(self, request: Request) -> Response:
        """A button was pressed, or a form was sent."""
        payload = self._read_payload(request.headers, await request.body())
        person = self.app.find_person(payload)
        read_facts(request).caller = f"slack/{person}"
        if payload["type"] == "block_actions":
            await self._open(payload, person)
        elif payload["type"] == "view_submission" and payload["view"].get("callback_id") == DECISION_FORM:
            return _render_view(await self._answer(payload, person, read_facts(request).request_id))
        return Response()

    def _read_payload(self, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        """Raises HttpError: 401 for what Slack did not sign just now, or what came before; 400 for what is no
        interaction."""
        signature, timestamp = (
            headers.get(f"x-slack-{name}", "") for name in ("signature", "request-timestamp")
        )
        if not timestamp.isascii() or not timestamp.isdigit() or not signature.isascii():
            raise make_unauthorized("Slack signs its requests")
        if not self.app.verifier.is_valid(body, timestamp, signature):
            raise make_unauthorized("this is not signed by Slack, or too old")
        now = time.monotonic()
        self.signatures = {earlier: at for earlier, at in self.signatures.items() if now - at < REMEMBER_S}
        if signature in self.signatures:
            raise make_unauthorized("this request came before")
        self.signatures[signature] = now
        try:
            payload = json.loads(parse_qs(body.decode(), strict_parsing=True)["payload"][0])
            payload["type"], payload["user"]["id"]
        except (ValueError, KeyError, TypeError) as error:
            raise HttpError(400, "invalid_value", f"no interaction of Slack: {error}") from None
        return dict(payload)

    async def _open(self, payload: Mapping[str, Any], person: str | None) -> None:
        """Show the form; or say to the person alone why not."""
        action = payload["actions"][0]
        decision = str(action.get("action_id")).removeprefix(f"{DECISION_ACTION}_")
        if decision not in DECISIONS:
            return
        try:
            form = await self._build_form(decision, str(action.get("value")), person)
        except NotShownError as why:
            await self._whisper(payload, str(why))
            return
        try:
            await asyncio.to_thread(self.app.client.views_open, trigger_id=payload["trigger_id"], view=form)
        except (SlackClientError, OSError, HTTPException) as error:
            log.warning("slack: no form is opened: %s", error)
            await self._whisper(payload, "Slack did not open the form: press the button again.")

    async def _build_form(self, decision: str, escalation_id: str, person: str | None) -> dict[str, Any]:
        subject = await self._fetch_waiting(escalation_id)
        if subject is None and await self._has_ended(escalation_id):
            raise NotShownError("It does not wait any more. The message will say how it ended.")
        if subject is None:
            raise NotShownError("The gateway has not read of it yet: press the button again.")
        registered = None if person is None else self.registry.registry.approvers.get(person)
        opened, tenant = subject.fields, subject.tenant
        if registered is None or not registered.acts_for(tenant, time.time_ns() // 1_000_000):
            raise NotShownError("You are no registered approver of this tenant: slack.approvers names them.")
        if opened.get("own_key"):
            how = f"sluice escalations {decision} {escalation_id} --as {registered.id} --key FILE"
            raise NotShownError(f"The policy demands the approver's own key. Answer in a terminal: {how}")
        if self.people.find_delegate(tenant) is None:
            raise NotShownError("This gateway signs for nobody of this tenant. Answer in a terminal.")
        content = await self.subjects.fetch_content(opened)
        shown = _write_visible(content)
        if decision == "approve" and (shown is None or len(shown) > FORM_CHARS):
            why = "can no longer be read" if shown is None else "is too long to be shown in Slack"
            told_why = f"What waits {why}, and nobody approves what nobody sees."
            raise NotShownError(f"{told_why} The review pages and `sluice escalations show` have it.")
        reported = apply_record(None, opened)
        assert reported is not None  # noqa: S101 - the record opened it
        reported = replace(
            reported,
            approvals=opened.get("approvals", 0),
            approved=opened.get("approved_parameters"),
            approved_by=tuple(opened.get("approved_by", ())),
            values=tuple(add_texts(reported.values, (find_call(content or {}) or ("", None))[1])),
        )
        private = {name: opened[name] for name in KEPT if name in opened}
        if reported.is_narrowed:
            private["last_approval"] = opened["last_approval"]
            reported = replace(
                reported, narrowed=await self._fetch_approval(subject, decision, len(shown or ""))
            )
        return build_form(decision, reported, (shown or "")[:FORM_CHARS], {**private, "decision": decision})

    async def _fetch_approval(self, subject: PendingSubject, decision: str, chars: int) -> str | None:
        """The parameters of the approvals so far, which an approval in the form is for too."""
        shown = _write_visible(await self.subjects.fetch_approved(subject))
        if decision == "approve" and (shown is None or chars + len(shown) > FORM_CHARS):
            why = "can no longer be read" if shown is None else "are too long to be shown in Slack"
            raise NotShownError(f"The parameters approved so far {why}: answer elsewhere.")
        return shown

    async def _fetch_waiting(self, escalation_id: str) -> PendingSubject | None:
        """Fetch an escalation; None where it does not wait. A message may be there before our reader has
        it."""
        for _ in range(LOOKS):
            subject = self.subjects.waiting.get(ESCALATIONS, escalation_id)
            if subject is not None:
                return subject
            await asyncio.sleep(LOOK_S)
        return None

    async def _has_ended(self, escalation_id: str) -> bool:
        """Whether the ledger has its end, or nothing of it any more."""
        try:
            return await self.subjects.decisions.fetch_escalation_end(escalation_id) is not None
        except HttpError as error:
            if error.status == NOT_THERE:
                return True
            raise

    async def _answer(
        self, payload: Mapping[str, Any], person: str | None, request_id: str
    ) -> dict[str, Any]:
        """Give the person's answer; the view that says what came of it."""
        view = payload["view"]
        opened = json.loads(view["private_metadata"])
        decision = opened.pop("decision")
        values = view["state"]["values"]
        justification = values[JUSTIFICATION][JUSTIFICATION].get("value") or ""
        days = values.get(REMEMBER, {}).get(REMEMBER, {}).get("value") or ""
        if person is None:
            return build_notice_view(
                "Not answered", "You are no registered approver: slack.approvers names them."
            )
        answer = PersonsAnswer(person, "slack", decision, justification, remember_days=read_days(days))
        giving = asyncio.create_task(self._give(opened, answer, request_id))
        self.giving.add(giving)
        giving.add_done_callback(self.giving.discard)
        await asyncio.wait([giving], timeout=self.app.answer_s)
        return giving.result() if giving.done() else build_notice_view("On its way", LATE)

    async def _give(
        self, opened: Mapping[str, Any], answer: PersonsAnswer, request_id: str
    ) -> dict[str, Any]:
        try:
            if answer.decision == "approve" and "last_approval" in opened:
                approved = await self.subjects.fetch_parameters(opened["last_approval"])
                if approved is None:
                    return build_notice_view("Not answered", "The parameters approved so far are gone.")
                answer = replace(answer, parameters=approved)
            record = await self.people.give(PendingSubject(opened), answer, request_id)
        except HttpError as error:
            if error.status == TIMED_OUT:
                return build_notice_view("On its way", LATE)
            log.warning("slack: the answer of %s is not given: %s", answer.person, error)
            return build_notice_view("Not answered", f"{error.message}. Press the button again.")
        if "refusal_id" in record:
            return build_notice_view("It does not count", f"{record['reason']}: {record['message']}")
        if "approvals" in record:
            return build_notice_view(
                "Counted", f"{record['approvals']} of {count_noun(record['quorum'], 'approval')}."
            )
        blocked = (
            f" A gate blocked it all the same: {record['blockReason']}." if record.get("blockReason") else ""
        )
        until_text = f" {write_known_until(record['known_until'])}" if record.get("known_until") else ""
        return build_notice_view(
            "Approved" if record["decision"] == "approve" else "Denied", f"It counts.{blocked}{until_text}"
        )

    async def _whisper(self, payload: Mapping[str, Any], text: str) -> None:
        """Say something to the person who pressed the button, and to nobody else in the channel."""
        channel = (payload.get("channel") or {}).get("id")
        how = {"channel": channel, "user": payload["user"]["id"], "text": text, "parse": "none"}
        try:
            await asyncio.to_thread(self.app.client.chat_postEphemeral, **how)
        except (SlackClientError, OSError, HTTPException) as error:
            log.warning("slack: %s is not told to its user: %s", text, error)


def _write_visible(content: Any) -> str | None:
    """Write content as a reader sees it; None for content that is no longer there."""
    return None if content is None else visible_text(json.dumps(content, indent=2, ensure_ascii=False))


def _render_view(view: dict[str, Any]) -> Response:
    """Render a view in place of the form."""
    body = json.dumps({"response_action": "update", "view": view})
    return Response(body, media_type="application/json")
