"""Load a registry from its entries, each with its hash; make the neutral registry, in which only the bundle
decides.

File: {"entries": [{"kind", "id", "revision", "spec"}]}. For one kind and id the highest revision counts; of a
fact all revisions count, each for its time. A repeated revision is refused.

In the neutral registry no tool has its own tier or type, every agent may do every tier, and the
organisation forbids nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from sluice.core.foundation.canonical import digest
from sluice.core.foundation.errors import CanonicalError, RegistryError
from sluice.core.foundation.strict import first_error, json_object
from sluice.core.registry.keys import UnusableKeyError
from sluice.core.registry.registry import Registry
from sluice.core.registry.registry_entries import EntryFile, RegistryFile
from sluice.core.registry.registry_readers import KINDS, WrongIdError, insert_sorted, keep_first
from sluice.text.expression_sets import PatternError
from sluice_topics.audience import UNNAMED, Audience

if TYPE_CHECKING:
    from collections.abc import Iterable

FACT = "fact"
"""The kind of which every revision counts, each for its time."""


def load_registry(raw: bytes) -> Registry:
    """The registry in a file's bytes. Raises RegistryError with the path and the reason."""
    try:
        file = RegistryFile.model_validate(json_object(raw))
    except ValidationError as error:
        raise RegistryError(first_error(error)) from None
    except ValueError as error:
        raise RegistryError(str(error)) from None
    return build_registry(file.entries)


def build_registry(entries: Iterable[EntryFile], audience: Audience = UNNAMED) -> Registry:
    """The registry of some entries in an installation. Raises RegistryError with the place among them and the
    reason."""
    registry = Registry(audience)
    for index, entry in _select_in_force(list(entries)):
        _add(registry, f"$.entries[{index}].spec", entry)
    return registry


_BY_ID = (
    "agents",
    "tools",
    "orgs",
    "enforcement_points",
    "delegates",
    "sources",
    "model_proofs",
    "approvers",
    "issuers",
    "tasks",
    "mandate_revocations",
)
_FIRST_COUNTS = ("provenance", "known_bad", "erasures")
_SORTED = ("freezes", "overrides", "agent_grants", "limits")
_GATHERED = ("facts", "agents_by_role")
MERGED = frozenset({*_BY_ID, *_FIRST_COUNTS, *_SORTED, *_GATHERED})
"""The tables of a registry, each of which is merged."""


def merge_registries(parts: Iterable[Registry], audience: Audience = UNNAMED) -> Registry:
    """One registry of several without an entry in common, each with what was compiled for it."""
    whole = Registry(audience)
    for part in parts:
        for name in _BY_ID:
            getattr(whole, name).update(getattr(part, name))
        for name in _FIRST_COUNTS:
            for called, entry in getattr(part, name).items():
                keep_first(getattr(whole, name), called, entry)
        for name in _SORTED:
            for subject, together in getattr(part, name).items():
                insert_sorted(getattr(whole, name), subject, together)
        for name in _GATHERED:
            for called, together in getattr(part, name).items():
                getattr(whole, name).setdefault(called, []).extend(together)
    return whole


def _select_in_force(entries: list[EntryFile]) -> list[tuple[int, EntryFile]]:
    """Entries with their places: every revision of a fact, the newest revision of the others."""
    newest: dict[tuple[str, ...], tuple[int, EntryFile]] = {}
    observed: set[str] = set()
    for index, entry in enumerate(entries):
        revision = f"{entry.kind}/{entry.id}@{entry.revision}"
        if revision in observed:
            raise RegistryError(f"$.entries[{index}]: {revision} is there twice")
        observed.add(revision)
        name = (revision,) if entry.kind == FACT else (entry.kind, entry.id)
        if name not in newest or entry.revision > newest[name][1].revision:
            newest[name] = (index, entry)
    return list(newest.values())


def _add(registry: Registry, path: str, entry: EntryFile) -> None:
    try:
        base = (entry.id, f"{entry.kind}/{entry.id}@{entry.revision}", digest(entry.model_dump()))
        KINDS[entry.kind].read(registry, base, entry.spec)
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


HIGHEST_TIER = "T4"


def make_neutral_entries(tenant: str, agents: Iterable[str], tools: Iterable[str]) -> list[EntryFile]:
    """The organisation, its agents and the tools, each in the order of the names."""
    return [
        EntryFile(
            kind="org", id=tenant, revision=1, spec={"enforcement": "enforce", "forbidden_targets": []}
        ),
        *(make_neutral_agent(tenant, agent) for agent in sorted(set(agents))),
        *(make_neutral_tool(tool) for tool in sorted(set(tools))),
    ]


def make_neutral_agent(tenant: str, agent: str, **more: str) -> EntryFile:
    """An agent that may do everything, with the further fields `more`."""
    spec = {"tenant_id": tenant, "tier": HIGHEST_TIER, **more}
    return EntryFile(kind="agent", id=agent, revision=1, spec=spec)


def make_neutral_tool(tool: str, *, trusts_row_claims: bool = False) -> EntryFile:
    """A registered tool whose entry says at most that its row estimates are true."""
    return EntryFile(kind="tool", id=tool, revision=1, spec={"trusts_row_claims": trusts_row_claims})
