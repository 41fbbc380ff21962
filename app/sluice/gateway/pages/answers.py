"""People's answers to what waits: each is signed and published by itself, and its own result is shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client.input_kinds import ESCALATIONS, QUARANTINE
from sluice.core.reports.value_words import write_known_until
from sluice.gateway import subjects
from sluice.gateway.delegated_answers import PersonsAnswer, read_days
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.pages import rendering
from sluice.gateway.pages.forms import read_fields, read_form
from sluice.gateway.pages.page_views import ROOT, PageViews, Visit
from sluice.gateway.routes.callers import read_facts

if TYPE_CHECKING:
    from starlette.responses import Response

    from sluice.core.reports.pending_subject import PendingSubject
    from sluice.gateway.pages.log_ins import Said, Session
    from sluice.gateway.pages.visitors import Visitors

SHOWN_WITHIN_S = 5.0
"""How long the next page waits until the reader of what waits knows of an end."""
MOST_AT_ONCE = 500
"""Answers of one form."""
FIELDS_BESIDE = 8
SENT_TOGETHER = 16
ONE_BY_ONE = "T4"
_OUTCOMES = {"ALLOW": "is allowed", "BLOCK": "is denied"}
_DECISIONS = {"approve": "approve", "deny": "deny", "reject": "reject"}


class AnswerResult(NamedTuple):
    """What became of one answer. `notice`: "good" or "bad", and in words; `is_over`: it ended what waited."""

    an_id: str
    name: str
    notice: Said
    is_over: bool


@dataclass(frozen=True, slots=True)
class AnswerPages:
    """The parts that the pages of answers are made of."""

    visitors: Visitors
    views: PageViews
    together: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SENT_TOGETHER))

    async def answer(self, visit: Visit) -> Response:
        """A person's answer: it is signed and published, and the next page says what became of it."""
        form = await read_form(visit.request)
        self.visitors.check(visit.request, form, visit.session)
        base = ESCALATIONS if visit.request.url.path.startswith(f"{ROOT}/escalations/") else QUARANTINE
        narrowed = form.get("parameters", "") if form.get("decision") == "approve" else ""
        try:
            result = await self._answer(visit, base, visit.an_id, (form, subjects.parse_narrowed(narrowed)))
            if result.is_over:
                await self.views.subjects.waiting.wait_for_end(base, visit.an_id, SHOWN_WITHIN_S)
            notice = result.notice
        except HttpError as error:
            notice = _describe_failure(error)
        await self.visitors.add_notice(visit.session, notice)
        query = visit.request.url.query
        return rendering.redirect(visit.request.url.path + (f"?{query}" if query else ""))

    async def answer_many(self, visit: Visit) -> Response:
        """One reason for many escalations: each gets a review of its own, and its own result. Raises
        HttpError."""
        fields = await read_fields(visit.request, MOST_AT_ONCE + FIELDS_BESIDE)
        form = dict(fields)
        self.visitors.check(visit.request, form, visit.session)
        chosen = dict.fromkeys(an_id for name, text in fields if name == "subject" for an_id in text.split())
        if len(chosen) > MOST_AT_ONCE:
            raise HttpError(400, "too_many", f"answer at most {MOST_AT_ONCE} at once")
        results = list(await asyncio.gather(*(self._answer_in_bulk(visit, an_id, form) for an_id in chosen)))
        await self._settle([result.an_id for result in results if result.is_over])
        return self.views.render(
            visit, "answers.html", given=results, form=form, query=visit.request.url.query
        )

    async def _answer_in_bulk(self, visit: Visit, an_id: str, form: dict[str, str]) -> AnswerResult:
        subject = self.views.subjects.find_waiting(ESCALATIONS, an_id, visit.caller)
        own_page = None if subject is None or form.get("decision") != "approve" else _describe_alone(subject)
        if subject is not None and own_page is not None:
            message = f"Not sent: an action {own_page} is approved on its own page."
            return AnswerResult(an_id, subject.name, ("bad", message), is_over=False)
        async with self.together:
            try:
                return await self._answer(visit, ESCALATIONS, an_id, (form, None))
            except HttpError as error:
                name = "" if subject is None else subject.name
                return AnswerResult(an_id, name or an_id, _describe_failure(error), is_over=False)

    async def _answer(
        self, visit: Visit, base: str, an_id: str, answer_fields: tuple[dict[str, str], dict[str, Any] | None]
    ) -> AnswerResult:
        """Give an answer. `answer_fields`: the form, and parameters for the action's. Raises HttpError."""
        subject = self.views.subjects.find_waiting(base, an_id, visit.caller)
        if subject is None:
            notice = ("bad", "It has ended already: your answer was not sent.")
            return AnswerResult(an_id, an_id, notice, is_over=False)
        form, narrowed = answer_fields
        if narrowed is not None:
            narrowed = await self.views.subjects.seal_narrowed(subject.fields, narrowed)
        answer = _read_answer(form, narrowed, visit.session)
        against = visit.session.account.object_to(subject.role)
        if against is not None:
            return AnswerResult(an_id, subject.name, ("bad", f"Refused: {against}."), is_over=False)
        request_id = read_facts(visit.request).request_id
        record = await self.views.people.give(subject, answer, request_id)
        is_over = "refusal_id" not in record and "quorum" not in record
        return AnswerResult(an_id, subject.name, _describe_result(record), is_over)

    async def _settle(self, ids: list[str]) -> None:
        """Wait a while until the reader of what waits knows of these ends."""
        waiting = self.views.subjects.waiting
        try:
            async with asyncio.timeout(SHOWN_WITHIN_S):
                for an_id in ids:
                    await waiting.wait_for_end(ESCALATIONS, an_id, SHOWN_WITHIN_S)
        except TimeoutError:
            return


def _read_answer(form: dict[str, str], narrowed: dict[str, Any] | None, session: Session) -> PersonsAnswer:
    """The answer that a form has. Raises HttpError where it has none."""
    decision, why = _DECISIONS.get(form.get("decision", "")), form.get("justification", "").strip()
    if decision is None or not why:
        raise HttpError(400, "missing_field", "say why, and choose an answer")
    days = form.get("remember_days", "") if decision == "approve" else ""
    return PersonsAnswer(
        session.account.approver_id,
        "browser",
        decision,  # type: ignore[arg-type]
        why,
        narrowed,
        read_days(days),
    )


def _describe_alone(subject: PendingSubject) -> str | None:
    """Why an approval of it is given on its own page; None: it may be given with others."""
    if subject.is_narrowed:
        return "with other parameters"
    return f"of tier {ONE_BY_ONE}" if subject.fields.get("tier") == ONE_BY_ONE else None


def _describe_failure(error: HttpError) -> Said:
    return "bad", f"{error.code}: {error.message}"


def _describe_result(record: dict[str, Any]) -> Said:
    """Describe the result of an answer, for the next page."""
    if "refusal_id" in record:
        return "bad", f"Refused: {record['reason']}: {record['message']}"
    if "quorum" in record:
        again = " The count started again." if record.get("dropped") else ""
        return "good", f"Counted: approval {record['approvals']} of {record['quorum']}.{again}"
    came_to = record.get("outcome")
    outcome = f" The action {_OUTCOMES.get(came_to, f'came to {came_to}')}." if came_to else ""
    until = record.get("known_until")
    until_text = f" {write_known_until(until)}" if until else ""
    return "good", f"Your answer counted.{outcome}{until_text}"
