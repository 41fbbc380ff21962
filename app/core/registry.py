"""The registry: who and what is known. Loaded whole, each entry with its hash.

File: {"entries": [{"kind", "id", "revision", "spec"}]}. Of one kind and id the highest revision counts, but
of facts all do, each for its time; the same revision twice is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from app.core.errors import CanonicalError, RegistryError
from app.core.known_bad import found_bad
from app.core.ledger.canonical import digest
from app.core.patterns import PatternError
from app.core.registry_entries import EntryFile, RegistryFile
from app.core.registry_readers import READERS, WrongIdError, keep_first, put_together
from app.core.strict import first_error, json_object
from app.core.trust.keys import UnusableKeyError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.facts import Fact
    from app.core.known_bad import Known
    from app.core.quality_entries import KnownBad, Provenance, QualityOverrideEntry
    from app.core.registry_entries import (
        Agent,
        Approver,
        EnforcementPoint,
        Freeze,
        Org,
        Source,
        Tool,
    )

FACT = "fact"
"""The kind of which every revision counts, each for its time."""


class Registry:
    """All entries in force, by kind and id; a source by its tenant and its own id, overrides by tenant and
    item.

    Recorded provenance by tenant and the URI's normal form, what is known bad by tenant, subject and value:
    of several entries under one of these names the first by its key, however they came.
    """

    def __init__(self) -> None:
        self.agents: dict[str, Agent] = {}
        self.tools: dict[str, Tool] = {}
        self.orgs: dict[str, Org] = {}
        self.enforcement_points: dict[str, EnforcementPoint] = {}
        self.freezes: dict[tuple[str, str], list[Freeze]] = {}
        self.facts: dict[str, list[Fact]] = {}
        self.sources: dict[tuple[str, str], Source] = {}
        self.provenance: dict[tuple[str, str], Provenance] = {}
        self.known_bad: Known = {}
        self.overrides: dict[tuple[str, str], list[QualityOverrideEntry]] = {}
        self.approvers: dict[str, Approver] = {}

    def freezes_of(self, tenant: str, agent_id: str, session_id: str) -> tuple[Freeze, ...]:
        """The active freezes of any of the three, the tenant's first, of one subject by their keys."""
        if not self.freezes:
            return ()
        subjects = (("tenant", tenant), ("agent", agent_id), ("session", session_id))
        return tuple(one for subject in subjects for one in self.freezes.get(subject, ()))

    def known_bad_of(
        self, tenant: str, item_id: str | None, provenance_uri: Any, body_digest: str | None
    ) -> tuple[KnownBad, ...]:
        """The active entry that decides on an item, at most one: of those on its id, its content, its source
        or a place above that, every tenant's too, the first by its key."""
        if not self.known_bad:
            return ()
        return found_bad(self.known_bad, tenant, item_id, provenance_uri, body_digest)

    def reporter_tenant(self, reporter: str) -> str | None:
        """The tenant of an enforcement point or agent; None for an id that is neither."""
        known = self.enforcement_points.get(reporter) or self.agents.get(reporter)
        return None if known is None else known.tenant


def load_registry(raw: bytes) -> Registry:
    """The registry in a file's bytes. Raises RegistryError with the path and the reason."""
    try:
        file = RegistryFile.model_validate(json_object(raw))
    except ValidationError as error:
        raise RegistryError(first_error(error)) from None
    except ValueError as error:
        raise RegistryError(str(error)) from None
    return build_registry(file.entries)


def build_registry(entries: Iterable[EntryFile]) -> Registry:
    """The registry of some entries. Raises RegistryError with the place among them and the reason."""
    registry = Registry()
    for place, entry in _in_force(list(entries)):
        _add(registry, f"$.entries[{place}].spec", entry)
    return registry


def merged(parts: Iterable[Registry]) -> Registry:
    """One registry of several without an entry in common, each with what was compiled for it."""
    whole = Registry()
    for part in parts:
        for name in ("agents", "tools", "orgs", "enforcement_points", "sources", "approvers"):
            getattr(whole, name).update(getattr(part, name))
        for name in ("provenance", "known_bad"):
            for called, entry in getattr(part, name).items():
                keep_first(getattr(whole, name), called, entry)
        for name in ("freezes", "overrides"):
            for subject, together in getattr(part, name).items():
                put_together(getattr(whole, name), subject, together)
        for fact, revisions in part.facts.items():
            whole.facts.setdefault(fact, []).extend(revisions)
    return whole


def _in_force(entries: list[EntryFile]) -> list[tuple[int, EntryFile]]:
    """With their places: of facts every revision, of the others the newest."""
    newest: dict[tuple[str, ...], tuple[int, EntryFile]] = {}
    seen: set[str] = set()
    for place, entry in enumerate(entries):
        revision = f"{entry.kind}/{entry.id}@{entry.revision}"
        if revision in seen:
            raise RegistryError(f"$.entries[{place}]: {revision} is there twice")
        seen.add(revision)
        name = (revision,) if entry.kind == FACT else (entry.kind, entry.id)
        if name not in newest or entry.revision > newest[name][1].revision:
            newest[name] = (place, entry)
    return list(newest.values())


def _add(registry: Registry, path: str, entry: EntryFile) -> None:
    try:
        base = (entry.id, f"{entry.kind}/{entry.id}@{entry.revision}", digest(entry.model_dump()))
        READERS[entry.kind](registry, base, entry.spec)
    except ValidationError as error:
        raise RegistryError(first_error(error, path)) from None
    except WrongIdError as error:
        raise RegistryError(f"{path.removesuffix('.spec')}.id: {error}") from None
    except CanonicalError as error:
        raise RegistryError(f"{path}: {error}") from None
    except PatternError as error:
        raise RegistryError(f"{path}.forbidden_targets[{error.index}]: {error.message}") from None
    except UnusableKeyError as error:
        raise RegistryError(f"{path}.public_key: {error}") from None
