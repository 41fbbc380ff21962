"""A standing grant prepared on a page: what the person chose, as a command and as an entry to sign.

The gateway does not sign it: a worker refuses a grant of a delegate (`own_key_needed`), because it lets
through what nobody has seen yet.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode
from uuid import uuid4

import orjson
from pydantic import ValidationError

from sluice.client.input_kinds import ESCALATIONS
from sluice.core.actions.standing_grants import condition_of
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import BundleError
from sluice.core.registry.agent_grants import LONGEST_GRANT_MS, MOST_USES, AgentGrantSpec
from sluice.gateway.action_summary import summarize
from sluice.gateway.http.http_errors import HttpError, make_not_found
from sluice.gateway.pages import rendering
from sluice.gateway.pages.forms import read_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from sluice.gateway.pages.page_views import PageViews, Visit

HIGHEST_TIER = "T4"
DAY_MS = 24 * 3600 * 1000
MOST_DAYS = LONGEST_GRANT_MS // DAY_MS


class GrantOptions(NamedTuple):
    """What a person filled in, as it was typed. `uses`: in all sessions together."""

    uses: str = "20"
    days: str = "1"
    when: str = ""
    why: str = ""

    @classmethod
    def of(cls, params: Mapping[str, str]) -> GrantOptions:
        """Read the query of a page's address."""
        return cls(*(params.get(name, default).strip() for name, default in cls._field_defaults.items()))

    @property
    def address(self) -> str:
        """The query of a page's address."""
        return urlencode(self._asdict())


@dataclass(frozen=True, slots=True)
class Grants:
    """The parts that the pages of grants are made of."""

    views: PageViews

    async def prepare(self, visit: Visit) -> Response:
        """The grants that exist, the form, and with its fields the command. Raises HttpError: 404."""
        opened, tool = await self._require_waiting(visit)
        options, wrong = GrantOptions.of(visit.request.query_params), None
        if options.why:
            try:
                self._build_entry(visit, opened, tool, options)
            except HttpError as error:
                wrong = error.message
        grants = self.views.people.list_grants(visit.caller.tenant, str(opened["agent_id"]), tool)
        about = {
            "tool": tool,
            "wish": options,
            "wrong": wrong,
            "given": grants,
            "why_none": _explain_refusal(opened, tool, visit),
        }
        return self.views.render(
            visit, "grant.html", one=opened, most_uses=MOST_USES, most_days=MOST_DAYS, **about
        )

    async def download_entry(self, visit: Visit) -> Response:
        """The entry as a file to sign. Raises HttpError."""
        opened, tool = await self._require_waiting(visit)
        entry = self._build_entry(visit, opened, tool, GrantOptions.of(visit.request.query_params))
        value = orjson.dumps({"entries": [entry]}, option=orjson.OPT_INDENT_2) + b"\n"
        return rendering.serve_download(value, f"{entry['id']}.json")

    async def _require_waiting(self, visit: Visit) -> tuple[Mapping[str, Any], str]:
        """Return the fields of an escalation that waits, and its tool; "" where none can be read."""
        subject = self.views.subjects.find_waiting(ESCALATIONS, visit.an_id, visit.caller)
        if subject is None:
            raise make_not_found(f"{visit.an_id}, which may have ended,")
        content = summarize(await self.views.subjects.fetch_content(subject.fields), None)
        return subject.fields, "" if content is None else content.tool

    def _build_entry(
        self, visit: Visit, opened: Mapping[str, Any], tool: str, options: GrantOptions
    ) -> dict[str, Any]:
        """The entry that the wish asks for. Raises HttpError where it would be refused."""
        why_none = _explain_refusal(opened, tool, visit)
        if why_none is not None:
            raise HttpError(409, "no_grant", why_none)
        days = read_number(options.days)
        if not 1 <= days <= MOST_DAYS:
            raise HttpError(400, "invalid_value", f"days: a whole number from 1 to {MOST_DAYS}")
        try:
            condition_of(options.when or "true")
            spec = AgentGrantSpec(
                tenant_id=visit.caller.tenant,
                agent_id=opened["agent_id"],
                tool=tool,
                when=options.when or None,
                uses=read_number(options.uses),
                approver_id=visit.session.account.approver_id,
                expires_at=rfc3339(time.time_ns() // 1_000_000 + days * DAY_MS),
                justification=options.why,
            )
        except BundleError as error:
            raise HttpError(400, "invalid_value", f"condition: {error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            message = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise HttpError(400, "invalid_value", message) from None
        body = spec.model_dump(mode="json", exclude_none=True)
        return {"kind": "agent_grant", "id": f"grant-{uuid4()}", "revision": 1, "spec": body}


def _explain_refusal(opened: Mapping[str, Any], tool: str, visit: Visit) -> str | None:
    """Why the person cannot grant what is like this escalation; None: it can be tried."""
    if not visit.session.account.decides:
        return "your log-in only reads"
    if "action_id" not in opened:
        return "there are no grants for retrievals"
    if opened.get("tier") == HIGHEST_TIER:
        return f"an action of tier {HIGHEST_TIER} is approved one by one"
    if (opened.get("quorum") or 1) > 1:
        return "an action that needs several approvals is approved one by one"
    return None if tool else "its action can no longer be read"
