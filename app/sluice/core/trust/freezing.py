"""Freezes: whom one stops, the entries that freeze or thaw it, and whether anybody knows that subject.

A freeze's entry is called after its subject: "agent/my-agent", "tenant/acme", "session/s-1", and "all" for
the whole installation. A session that is frozen for one tenant has an id that is no subject's,
"session#" with a digest: agents choose the names of sessions, and one that ends like a tenant's freeze
would take its place. So has a subject whose name is too long for an id. Other ids count too: a thaw ends
every freeze of its subject, whatever its id.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from sluice.core.registry.freezes import ALL, ASK, SESSION, FreezeBy, Subject
from sluice.core.registry.registry_entries import EntryFile, Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from sluice.core.registry.freezes import Stage
    from sluice.core.registry.registry import Registry
    from sluice.core.trust.reduction import ReducedPolicy
    from sluice.core.trust.revisions import Accepted

FREEZE: Kind = "freeze"
SUBJECTS: tuple[Subject, ...] = get_args(Subject)
FORMS = "agent/ID, session/ID, tenant/ID, or all"
_NEAR = 0.7
_LONGEST_ID = 256
"""Characters of an entry's id, and of a subject's alone."""


@dataclass(frozen=True, slots=True)
class FreezeSubject:
    """What a freeze stops. `id` is "all" where it stops everything."""

    kind: Subject
    id: str

    def __str__(self) -> str:
        """The subject as people write it; the id of its freeze's entry where that fits."""
        return ALL if self.kind == ALL else f"{self.kind}/{self.id}"


class FreezeFor(NamedTuple):
    """The person for whom a gateway signs a freeze, and the tenant whose agent or session it freezes."""

    by: FreezeBy
    tenant: str


def read_subject(text: str) -> FreezeSubject | None:
    """The subject of an entry's id as FORMS has it; None for another text."""
    if text == ALL:
        return FreezeSubject(ALL, ALL)
    kind, _, name = text.partition("/")
    return next(
        (FreezeSubject(subject, name) for subject in SUBJECTS if subject == kind != ALL and name), None
    )


def list_frozen_subjects(entries: Iterable[dict[str, Any]]) -> Iterator[FreezeSubject]:
    """The subjects that entries (kind, id, revision, spec) freeze."""
    for entry in entries:
        spec = entry["spec"]
        if entry["kind"] == FREEZE and spec.get("active", True):
            yield FreezeSubject(spec["subject"], spec["subject_id"])


def describe_unknown(registry: Registry, subject: FreezeSubject, sessions: Collection[str]) -> str | None:
    """Why nobody knows a subject, with names that are near it; None for a known one. `sessions`: those of
    which it is known that they live."""
    agents: Collection[str]
    if subject.kind == "agent":
        agents = registry.agents
    elif subject.kind == "tenant":
        agents = registry.orgs.keys() | {agent.tenant for agent in registry.agents.values()}
    else:
        agents = sessions
    if subject.kind == ALL or subject.id in agents:
        return None
    near = difflib.get_close_matches(subject.id, agents, n=3, cutoff=_NEAR)
    meant = f": did you mean {', '.join(near)}?" if near else ""
    where = "has no live session" if subject.kind == "session" else f"knows no {subject.kind}"
    return f"this installation {where} {subject.id}{meant}"


def make_freeze_entry(
    reduced: ReducedPolicy,
    subject: FreezeSubject,
    reason: str,
    person: FreezeFor | None = None,
    stage: Stage = "stop",
) -> EntryFile:
    """The entry, to be signed, that freezes a subject. `person`: for whom a gateway signs it; a session is
    then frozen for one tenant, under an id of its own."""
    more = dict[str, Any]()
    if person is not None:
        more["by"] = person.by.model_dump()
    if person is not None and subject.kind == SESSION:
        more["tenant_id"] = person.tenant
    name = _make_entry_id(subject, more.get("tenant_id"))
    newest = _find_newest(reduced).get(name)
    revision = 1 if newest is None else newest.statement.revision + 1
    if stage == ASK:
        more["stage"] = stage
    return _make_entry(name, revision, subject, reason, active=True, **more)


def make_asking_entries(reduced: ReducedPolicy, subject: FreezeSubject, reason: str) -> list[EntryFile]:
    """The entries, to be signed, that have a person agree to all that a subject does: the next revision of
    each that stops it, or the first one."""
    stops = [entry for entry in _list_freezes(reduced, subject) if entry.document["spec"].get("stage") != ASK]
    if not stops:
        return [make_freeze_entry(reduced, subject, reason, stage=ASK)]
    return [
        _make_entry(
            entry.statement.id,
            entry.statement.revision + 1,
            subject,
            reason,
            active=True,
            stage=ASK,
            **{
                name: entry.document["spec"][name]
                for name in ("tenant_id",)
                if name in entry.document["spec"]
            },
        )
        for entry in stops
    ]


def make_thaw_entries(reduced: ReducedPolicy, subject: FreezeSubject, reason: str) -> list[EntryFile]:
    """The entries, to be signed, that end every freeze of a subject; empty where it is not frozen."""
    return [
        _make_entry(entry.statement.id, entry.statement.revision + 1, subject, reason, active=False)
        for entry in _list_freezes(reduced, subject)
    ]


def _list_freezes(reduced: ReducedPolicy, subject: FreezeSubject) -> list[Accepted]:
    """The entries in force that freeze exactly this subject."""
    newest = _find_newest(reduced).values()
    return [entry for entry in newest if [subject] == list(list_frozen_subjects([entry.document]))]


def _make_entry_id(subject: FreezeSubject, tenant: str | None) -> str:
    """Its own for each subject and tenant; no `read_subject` reads one with a digest."""
    if tenant is None and len(str(subject)) <= _LONGEST_ID:
        return str(subject)
    named = json.dumps([tenant, subject.id]).encode()
    return f"{subject.kind}#{hashlib.sha256(named).hexdigest()}"


def _find_newest(reduced: ReducedPolicy) -> dict[str, Accepted]:
    newest: dict[str, Accepted] = {}
    for entry in reduced.entries.values():
        before = newest.get(entry.statement.id)
        if entry.kind == FREEZE and (before is None or before.statement.revision < entry.statement.revision):
            newest[entry.statement.id] = entry
    return newest


def _make_entry(
    name: str, revision: int, subject: FreezeSubject, reason: str, *, active: bool, **more: Any
) -> EntryFile:
    spec = {"subject": subject.kind, "subject_id": subject.id, "reason": reason, "active": active, **more}
    return EntryFile(kind=FREEZE, id=name, revision=revision, spec=spec)
