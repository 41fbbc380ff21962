"""Answers of people who log in at the gateway, on its pages, by Slack or by a program: it signs for them.

The gateway is a registered delegate (the registry's kind `delegate`, with roles). It says who answered and by
which channel, and signs that with its own key. The worker checks the person's rights and the delegate's; this
module decides nothing. Who the person is, the caller must know: from a session, or from a signed request.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from sluice.core.foundation.canonical import canonical
from sluice.core.registry.freezes import FreezeBy
from sluice.core.registry.keys import SigningKey
from sluice.core.trust.freezing import FreezeFor, FreezeSubject
from sluice.core.trust.signing import sign_review
from sluice.gateway.http.http_errors import HttpError, make_not_found
from sluice.gateway.input_requests import PreparedInput

if TYPE_CHECKING:
    from sluice.core.registry.agent_grants import AgentGrant
    from sluice.core.registry.agent_keys import Delegate
    from sluice.core.registry.freezes import Freeze
    from sluice.core.registry.registry_entries import Agent
    from sluice.core.reports.pending_subject import PendingSubject
    from sluice.gateway.decisions import Decisions
    from sluice.gateway.registry_view import RegistryView
    from sluice_topics.records.base import Channel

MOST_DIGITS = 3
SHOWN_WITHIN_S = 5.0
"""How long a freeze that is published waits until this gateway has read it."""
_NO_DELEGATE = "this gateway is no registered delegate for people of this tenant"
Freezer = Callable[[FreezeSubject, str, FreezeFor, SigningKey], Awaitable[list[str]]]
"""Signs and publishes a freeze with this reason for a person: why it is refused, in sentences. Raises
HttpError."""


@dataclass(frozen=True, slots=True)
class PersonsAnswer:
    """What a person says to what waits. `person`: the id of a registered approver. With an approval of an
    action, `parameters`: those with which it may run instead; `remember_days`: how long the agent's
    destinations of the tool are known by it."""

    person: str
    channel: Channel
    decision: Literal["approve", "deny", "reject"]
    justification: str
    parameters: dict[str, Any] | None = None
    remember_days: int | None = None


def read_days(text: str) -> int | None:
    """The `remember_days` that a person writes; None: nothing was written. 0, which no answer may have, for
    what is no number of days."""
    if not text.strip():
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else 0


class DelegatedAnswers:
    """Signs and publishes answers as this gateway's delegate."""

    def __init__(
        self,
        key: SigningKey | None,
        registry: RegistryView,
        decisions: Decisions,
        wait_s: float,
        freezer: Freezer | None = None,
    ) -> None:
        """`key`: the one that the delegate's entry names; None: this gateway signs for nobody. An answer
        waits `wait_s` seconds for the worker."""
        self._freezer = freezer
        self._key = key
        self._registry = registry
        self._decisions = decisions
        self._wait_s = wait_s

    def find_delegate(self, tenant: str) -> Delegate | None:
        """The delegate as which this gateway signs for people of a tenant; None where there is none."""
        if self._key is None:
            return None
        for delegate in self._registry.registry.delegates.values():
            if (
                delegate.roles
                and tenant in delegate.tenants
                and any(key.id == self._key.keyid for key in delegate.keys)
            ):
                return delegate
        return None

    async def freeze(self, subject: FreezeSubject, reason: str, person: str, tenant: str) -> list[str]:
        """Sign and publish a freeze for a person, an approver's id: why it is refused, in sentences; empty:
        it is in force. Raises HttpError: 503 where this gateway signs for nobody of the tenant, or the broker
        does not answer."""
        delegate = self.find_delegate(tenant)
        if delegate is None or self._key is None or self._freezer is None:
            raise HttpError(503, "no_delegate", f"{_NO_DELEGATE}: freeze it in a terminal")
        by = FreezeBy(approver_id=person, delegate_id=delegate.id)
        refused = await self._freezer(subject, reason, FreezeFor(by, tenant), self._key)
        if refused:
            return refused
        await self._registry.wait_until(
            lambda registry: (subject.kind, subject.id) in registry.freezes, SHOWN_WITHIN_S
        )
        return []

    def list_freezes(self, tenant: str, agent: str, session: str) -> tuple[Freeze, ...]:
        """The freezes in force on an agent or a session of a tenant, as far as this gateway has read; "" for
        none."""
        return self._registry.registry.find_freezes(tenant, agent, session)

    def list_grants(self, tenant: str, agent: str, tool: str) -> list[AgentGrant]:
        """The grants that let a tenant's agent use a tool in all its sessions now."""
        now_ms = time.time_ns() // 1_000_000
        grants = self._registry.registry.agent_grants.get((tenant, agent, tool), ())
        return [grant for grant in grants if grant.until_ms > now_ms]

    def require_agent(self, name: str, tenant: str) -> Agent:
        """A tenant's agent. Raises HttpError: 404."""
        agent = self._registry.find_agent(name, tenant)
        if agent is None:
            raise make_not_found("agent")
        return agent

    async def give(self, subject: PendingSubject, answer: PersonsAnswer, request_id: str) -> dict[str, Any]:
        """Publish a person's answer to what waits, and wait for the record that says what became of it: it
        counted, or InputRefused says why not.

        Raises HttpError: 503 `no_delegate` where this gateway signs for nobody of the tenant, 400 for an
        answer that is none.
        """
        delegate = self.find_delegate(subject.tenant)
        if delegate is None or self._key is None:
            raise HttpError(503, "no_delegate", f"{_NO_DELEGATE}: answer in a terminal")
        fields = subject.write_answer(
            answer.decision,
            answer.person,
            answer.justification,
            delegate={"id": delegate.id, "channel": answer.channel, "key_id": self._key.keyid},
            parameters=answer.parameters,
            remember_days=answer.remember_days,
        )
        try:
            review = sign_review(fields, self._key, self._registry.registry.audience)
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(map(str, ("$", *first["loc"])))
            raise HttpError(400, "invalid_value", first["msg"], path=path) from None
        value = canonical(review.model_dump(mode="json", by_alias=True, exclude_unset=True))
        name = f"review-of:{sha256(value).hexdigest()}"
        prepared = PreparedInput(answer.person, False, review.session_id, name, value, self._wait_s)
        return await self._decisions.review(prepared, review.subject_id, request_id)
