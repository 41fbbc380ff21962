"""An agent's page, and the freeze that a person asks for there or on a session's page.

The gateway signs a freeze for the person. A thaw needs the own key of an approver: a page shows the command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sluice.client.input_kinds import VERDICTS
from sluice.core.trust.freezing import FreezeSubject
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.pages import rendering
from sluice.gateway.pages.forms import read_form
from sluice.gateway.pages.page_views import ROOT, PageViews, Visit

if TYPE_CHECKING:
    from starlette.responses import Response

    from sluice.gateway.pages.log_ins import Said
    from sluice.gateway.pages.visitors import Visitors

PAGES = {"agent": "agents", "session": "sessions"}
"""The page of each kind of subject."""
LONGEST_REASON = 256


@dataclass(frozen=True, slots=True)
class Freezes:
    """The parts that the pages of freezes are made of."""

    visitors: Visitors
    views: PageViews

    async def show_agent(self, visit: Visit) -> Response:
        """An agent: its entry, the freezes on it, its newest decisions. Raises HttpError."""
        name = visit.request.query_params.get("id", "")
        agent = self.views.people.require_agent(name, visit.caller.tenant)
        verdicts = await self.views.subjects.fetch_newest(VERDICTS, visit.caller)
        own = [verdict for verdict in verdicts if verdict["agent_id"] == name]
        frozen = self.views.people.list_freezes(visit.caller.tenant, name, "")
        return self.views.render(visit, "agent.html", agent=agent, found=own[:100], frozen=frozen)

    async def freeze(self, visit: Visit) -> Response:
        """Freeze what a form names, and show its page, which says what became of it. Raises HttpError."""
        form = await read_form(visit.request)
        self.visitors.check(visit.request, form, visit.session)
        kind, name = form.get("kind", ""), form.get("id", "")
        if kind not in PAGES or not name:
            raise HttpError(400, "invalid_value", "only an agent or a session is frozen here")
        notice = await self._freeze(visit, FreezeSubject(kind, name), form)  # type: ignore[arg-type]
        await self.visitors.add_notice(visit.session, notice)
        return rendering.redirect(f"{ROOT}/{PAGES[kind]}?{urlencode({'id': name})}")

    async def _freeze(self, visit: Visit, subject: FreezeSubject, form: dict[str, str]) -> Said:
        reason, account = form.get("reason", "").strip(), visit.session.account
        if not account.decides:
            return "bad", "Refused: your log-in only reads."
        if not reason or len(reason) > LONGEST_REASON or form.get("confirmed") != "yes":
            return "bad", f"Not sent: say why, in at most {LONGEST_REASON} characters, and confirm it."
        if subject.kind == "agent":
            self.views.people.require_agent(subject.id, account.tenant_id)
        try:
            refused = await self.views.people.freeze(subject, reason, account.approver_id, account.tenant_id)
        except HttpError as error:
            return "bad", f"{error.code}: {error.message}"
        if refused:
            return "bad", f"Refused: {'; '.join(refused)}"
        return "good", f"Frozen: {subject}. Every worker denies what it proposes from now on."
