"""Another installation: what was signed in staging, replayed in production.

Both have the same keys, agents, tools and people, and by padding the same coordinates, so every id and digest
is equal. Only the installation's id differs, or only the prefix of the topics. What was signed for production
must count.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from load.attacks.attempt import BEGAN_MS, POINT, POINT_KEY, TOOL, Attempt, entries, point_over
from sluice.client.mandates import MandateIssuer, MandateTerms, issue_mandate
from sluice.client.sender import InputSigner, delegation_grant
from sluice.core.cases.cases import run_cases
from sluice.core.decide.replay import Replay, nobody
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import HELD_INPUT, Answer
from sluice.core.registry.keys import Roots, SigningKey
from sluice.core.registry.loading import build_registry
from sluice.core.registry.registry_entries import EntryFile
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.dsse import sign
from sluice.core.trust.reduction import reduce_policy
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice.core.trust.signing import sign_review
from sluice_demo.throwaway_trust import AGENT, ThrowawayTrust
from sluice_topics.audience import Audience, record_message
from sluice_topics.catalog import ACTIONS, MANDATES, OUTCOMES, REGISTRY, REVIEWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.attacks.attempt import Extent
    from sluice.core.foundation.requests import Request

PRODUCTION = Audience("acme-production", "")
STAGING = {
    "another installation": Audience("acme-staging", ""),
    "another prefix": Audience("acme-production", "staging."),
}
SESSION, ROWS, PARTITION = "s-1", 40, 3
TRUST, CHILD_TRUST = ThrowawayTrust(), ThrowawayTrust()
ANN = SigningKey(Ed25519PrivateKey.generate())
CONSOLE = Ed25519PrivateKey.generate()
CONSOLE_PEM = CONSOLE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
WAITS = "pay"
"""A tool of tier T3: a person must approve."""


def run(extent: Extent) -> Iterator[Attempt]:
    """Every kind of signed record, from each neighbour and for production itself."""
    del extent
    for name, audience in [*STAGING.items(), ("production itself", PRODUCTION)]:
        for kind, attempt in (
            ("a proposal", _propose),
            ("an outcome", _report),
            ("a review", _review),
            ("a grant", _delegate),
            ("a mandate", _mandate),
        ):
            counts, answer = attempt(audience)
            wanted = audience == PRODUCTION
            yield Attempt(f"{kind} signed for {name}", counts == wanted, answer, harmless=wanted)
    yield from _entries_for_others()


def _propose(audience: Audience) -> tuple[bool, str]:
    production = _Production()
    return _check_allowed(production.act(signer=InputSigner(TRUST.write_pem(AGENT), audience)))


def _report(audience: Audience) -> tuple[bool, str]:
    """Forty rows were done, and an outcome says none: it lowers the total only if it counts."""
    production = _Production()
    action = production.input_record(ACTIONS, _action("honest"))
    production.replay.take(action)
    outcome: dict[str, Any] = {
        "action_id": "a-1",
        "session_id": SESSION,
        "rows_affected": 0,
        "reported_by": POINT,
    }
    outcome |= {"action_digest": action.digest, "input": action.coordinates()}
    outcome["signature"] = _base64(POINT_KEY.sign(record_message(audience, rfc8785.dumps(outcome))))
    production.replay.take(production.input_record(OUTCOMES, outcome))
    total = production.act(action_id="probe", rows_affected=0)["session"]["before"]["aggregateRowsAffected"]
    return total == 0, f"total {total}"


def _review(audience: Audience) -> tuple[bool, str]:
    production = _Production()
    opened = next(
        body for body in production.bodies(_action("honest", toolName=WAITS)) if "EscalationOpened" in body
    )
    waits = opened["EscalationOpened"]
    fields = {
        "subject_id": waits["escalation_id"],
        "session_id": SESSION,
        "decision": "approve",
        "approver_id": "ann",
        "digest": waits["action_digest"],
        "justification": "looked at it",
    }
    review = sign_review(fields, ANN, audience).model_dump(mode="json", exclude_unset=True)
    records = production.replay.take(production.input_record(REVIEWS, review)).records
    return any(record.kind == "EscalationResolved" for record in records), ", ".join(
        record.kind for record in records
    )


def _delegate(audience: Audience) -> tuple[bool, str]:
    """The child signs for production; its parent's grant is from elsewhere."""
    until = datetime.fromtimestamp(BEGAN_MS / 1000 + 600, UTC)
    parent = InputSigner(TRUST.write_pem(AGENT), audience)
    grant = delegation_grant(parent, ("signer", "child"), SESSION, until)
    signer = InputSigner(CHILD_TRUST.write_pem(AGENT), PRODUCTION)
    return _check_allowed(_Production().act("child", signer, governanceContext={"grants": [grant]}))


def _mandate(audience: Audience) -> tuple[bool, str]:
    """An issuer's word on what the honest agent is asked to do."""
    until = datetime.fromtimestamp(BEGAN_MS / 1000 + 600, UTC)
    issuer = MandateIssuer("console", InputSigner(CONSOLE_PEM, audience))
    mandate = issue_mandate(issuer, "honest", SESSION, until, MandateTerms(task="Read"))
    production = _Production()
    (record,) = production.replay.take(production.input_record(MANDATES, mandate)).records
    return record.kind == "MandateRecorded", record.body.get("reason") or record.kind


def _entries_for_others() -> Iterator[Attempt]:
    """A registry entry that names the installations that it is for."""
    for where, wanted in (("acme-staging", False), (PRODUCTION.installation, True)):
        spec = {"tenant_id": "acme", "tier": "T4"}
        entry = {"kind": "agent", "id": "mighty", "revision": 1, "spec": spec, "installations": [where]}
        value = sign(PAYLOAD_TYPES[REGISTRY], json.dumps(entry).encode(), [TRUST.owner]).encode()
        lines = [TRUST.make_approver(), (REGISTRY, b"agent/mighty@1", value)]
        records = [InputRecord(topic, 0, n, BEGAN_MS, key, it) for n, (topic, key, it) in enumerate(lines)]
        compiled = CompileCache(partial(run_cases, stages=None), PRODUCTION)
        reduced = reduce_policy(records, Roots([TRUST.root_key]), compiled)
        counts = "mighty" in reduced.registry.agents
        answer = "in force" if counts else reduced.refused[0].code
        yield Attempt(f"a registry entry for {where}", counts == wanted, answer, harmless=wanted)


class _Production:
    """Production, from its first input on: coordinates repeat in every attempt."""

    def __init__(self) -> None:
        more = [
            _entry("agent", "signer", tier="T3", keys=[_key(TRUST)], delegates_to=["child"]),
            _entry("issuer", "console", keys=[{"public_key": SigningKey(CONSOLE).public.text}]),
            _entry("agent", "child", tier="T3", keys=[_key(CHILD_TRUST)], callers=["signer"]),
            {"kind": "tool", "id": WAITS, "revision": 1, "spec": {"tier": "T3", "reversible": True}},
            {
                "kind": "approver",
                "id": "ann",
                "revision": 1,
                "spec": {"public_key": ANN.public.text, "roles": ["approver"]},
            },
        ]
        read = [EntryFile.model_validate(file) for file in [*entries(), *more]]
        self.replay = Replay(point_over(build_registry(read, PRODUCTION)), self._answer)
        self._next: dict[str, int] = {}
        self._values: dict[tuple[str, int], bytes] = {}

    def input_record(self, topic: str, fields: dict[str, Any]) -> InputRecord:
        offset = self._next.get(topic, 0)
        self._next[topic] = offset + 1
        value = self._values[topic, offset] = json.dumps(fields).encode()
        return InputRecord(topic, PARTITION, offset, BEGAN_MS + 1000 * offset, SESSION.encode(), value)

    def act(self, agent: str = "signer", signer: InputSigner | None = None, **changed: Any) -> dict[str, Any]:
        """The verdict on an action, signed where there is a signer."""
        fields = _action("honest" if signer is None else agent, **changed)
        input_record = self.input_record(ACTIONS, fields)
        if signer is not None:
            header = signer.make_header(
                ACTIONS, SESSION, input_record.value or b"", input_record.timestamp_ms
            )
            input_record = replace(input_record, signature_header=header[1])
        return next(
            record.body for record in self.replay.take(input_record).records if record.kind == "Verdict"
        )

    def _answer(self, request: Request) -> Answer:
        """Earlier inputs are there; nothing else is."""
        if request.port != HELD_INPUT:
            return nobody(request)
        payload: Any = request.payload
        return Answer("answered", self._values[payload["topic"], payload["offset"]])

    def bodies(self, fields: dict[str, Any]) -> list[dict[str, Any]]:
        """Each record of an action by its kind."""
        return [
            {record.kind: record.body}
            for record in self.replay.take(self.input_record(ACTIONS, fields)).records
        ]


def _check_allowed(verdict: dict[str, Any]) -> tuple[bool, str]:
    return verdict["verdict"] == "allowed", verdict["blockReason"] or verdict["verdict"]


def _action(agent: str, **changed: Any) -> dict[str, Any]:
    fields = {"action_id": "a-1", "agent_id": agent, "session_id": SESSION, "toolName": TOOL}
    return {**fields, "parameters": {}, "mode": "high_stakes", "rows_affected": ROWS, **changed}


def _entry(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "id": name, "revision": 1, "spec": {"tenant_id": "acme", **spec}}


def _key(trust: ThrowawayTrust) -> dict[str, str]:
    return {"public_key": trust.agent.public.text}


def _base64(signature: bytes) -> str:
    return base64.b64encode(signature).decode()
