"""Answers of people who log in at the gateway, on its pages, by Slack or by a program: it signs for them.

The gateway is a registered delegate (the registry's kind `delegate`, with roles). It says who answered and by
which channel, and signs that with its own key. The worker checks the person's rights and the delegate's; this
module decides nothing. Who the person is, the caller must know: from a session, or from a signed request.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from sluice.core.foundation.canonical import canonical
from sluice.core.trust.signing import signed_review
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.input_requests import PreparedInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.registry.agent_keys import Delegate
    from sluice.core.registry.keys import SigningKey
    from sluice.gateway.decisions import Decisions
    from sluice.gateway.registry_view import RegistryView
    from sluice_topics.records.base import Channel

DIGESTS = ("action_digest", "request_hash", "content_digest")
"""Of what waits, by the kinds of records that opened it."""
SUBJECTS = ("escalation_id", "memory_id")


@dataclass(frozen=True, slots=True)
class PersonsAnswer:
    """What a person says to what waits. `person`: the id of a registered approver. `parameters`: with an
    approval of an action, those with which it may run instead."""

    person: str
    channel: Channel
    decision: Literal["approve", "deny", "reject"]
    justification: str
    parameters: dict[str, Any] | None = None


class DelegatedAnswers:
    """Signs and publishes answers as this gateway's delegate."""

    def __init__(
        self, key: SigningKey | None, registry: RegistryView, decisions: Decisions, wait_s: float
    ) -> None:
        """`key`: the one that the delegate's entry names; None: this gateway signs for nobody. An answer
        waits `wait_s` seconds for the worker."""
        self._key = key
        self._registry = registry
        self._decisions = decisions
        self._wait_s = wait_s

    def delegate(self, tenant: str) -> Delegate | None:
        """The delegate as which this gateway signs for people of a tenant; None where there is none."""
        if self._key is None:
            return None
        for one in self._registry.registry.delegates.values():
            if one.roles and tenant in one.tenants and any(key.id == self._key.keyid for key in one.keys):
                return one
        return None

    async def give(self, opened: Mapping[str, Any], answer: PersonsAnswer, request_id: str) -> dict[str, Any]:
        """Publish a person's answer to what a record opened, and wait for the record that says what became of
        it: it counted, or InputRefused says why not.

        Raises HttpError: 503 `no_delegate` where this gateway signs for nobody of the tenant, 400 for an
        answer that is none.
        """
        delegate = self.delegate(str(opened["tenant_id"]))
        if delegate is None or self._key is None:
            told = "this gateway is no registered delegate for people of this tenant: answer in a terminal"
            raise HttpError(503, "no_delegate", told)
        subject = str(next(opened[name] for name in SUBJECTS if name in opened))
        fields = {
            "subject_id": subject,
            "session_id": opened["session_id"],
            "decision": answer.decision,
            "approver_id": answer.person,
            "digest": next(opened[name] for name in DIGESTS if name in opened),
            "justification": answer.justification,
            "delegate": {"id": delegate.id, "channel": answer.channel, "key_id": self._key.keyid},
        }
        if answer.parameters is not None:
            fields["parameters"] = answer.parameters
        try:
            review = signed_review(fields, self._key, self._registry.registry.audience)
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(map(str, ("$", *first["loc"])))
            raise HttpError(400, "invalid_value", first["msg"], path=path) from None
        value = canonical(review.model_dump(mode="json", by_alias=True, exclude_unset=True))
        name = f"review-of:{sha256(value).hexdigest()}"
        session = str(opened["session_id"])
        prepared = PreparedInput(answer.person, False, session, name, value, self._wait_s)
        return await self._decisions.review(prepared, subject, request_id)
