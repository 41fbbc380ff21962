"""Making a mandate: what an issuer says that an agent is asked to do in a session (docs/mandates.md)."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import UTC
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client.answers import ClientError
from sluice.client.sender import derive_key_id, load_private_key, sign_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sluice.client.sender import InputSigner


class MandateIssuer(NamedTuple):
    """Who issues: `issuer_id` as in the registry, and the signer with one of the issuer's keys."""

    issuer_id: str
    signer: InputSigner


@dataclass(frozen=True, slots=True)
class MandateTerms:
    """What an agent is asked to do.

    `task`: the text, or `task_hash` alone ("sha256:..."), or a `template` of the registry, {"id": ...,
    "values": {...}}. `tools`: {"tool", "condition", "count"}, the last two where they are wanted; None:
    every tool. `destinations`: addresses, accounts, paths that the task names. `parent`: the mandate, as
    `issue_mandate` returned it, within which this one lies. `mandate_id` None: a new one.
    """

    task: str | None = None
    task_hash: str | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    destinations: Sequence[str] = ()
    template: Mapping[str, Any] | None = None
    parent: Mapping[str, Any] | None = None
    mandate_id: str | None = None


def issue_mandate(
    issuer: MandateIssuer, agent_id: str, session_id: str, until: datetime, terms: MandateTerms
) -> dict[str, Any]:
    """A signed mandate, ready to be published (`AsyncGateClient.mandate`). `until` has a time zone. Raises
    ClientError where nothing says the task."""
    if terms.task is None and terms.task_hash is None and terms.template is None:
        raise ClientError("nothing says what the task is", "Give task, task_hash or template")
    parent, tools, template = terms.parent, terms.tools, terms.template
    moment = until.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields: dict[str, Any] = {
        "mandate_id": terms.mandate_id or uuid.uuid4().hex,
        "session_id": session_id,
        "agent_id": agent_id,
        "issuer_id": issuer.issuer_id,
        "key_id": derive_key_id(load_private_key(issuer.signer.key)),
        "task": terms.task,
        "task_hash": terms.task_hash,
        "tools": None if tools is None else [_omit_null(tool) for tool in tools],
        "destinations": [*terms.destinations] or None,
        "until": moment,
        "parent": None if parent is None else compute_mandate_digest(parent),
        "template": None if template is None else dict(template),
    }
    mandate = _omit_null(fields)
    mandate["signature"] = sign_record(mandate, issuer.signer.key, issuer.signer.audience)
    if parent is not None:
        own = {name: value for name, value in parent.items() if name != "parents"}
        mandate["parents"] = [*(parent.get("parents") or ()), own]
    return mandate


def compute_mandate_digest(mandate: Mapping[str, Any]) -> str:
    """The digest by which actions, revocations and other mandates name a signed mandate. It holds only texts
    and whole numbers under ASCII names, so sorted compact JSON is its RFC 8785 form."""
    named = {name: value for name, value in mandate.items() if name != "parents"}
    written = json.dumps(named, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return "sha256:" + sha256(written.encode()).hexdigest()


def _omit_null(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}
