"""Everything that a run of the demo publishes, made before anything is sent."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003 - a dataclass's field
from typing import TYPE_CHECKING, Any

import orjson

from app.core.actions.stages import load_bundle
from app.core.foundation.clock import milliseconds_of, rfc3339
from app.core.foundation.strict import json_object
from app.core.quality_bundle.quality_bundle import load_quality_bundle
from app.core.registry.loading import neutral_entries
from app.core.registry.quality_entries import provenance_id
from app.demo.inputs.demo_config import load_library, load_recipe
from app.demo.inputs.panel_sessions import load_writes, make_sessions, with_memories
from app.demo.inputs.plan import make_plan, retrieval_of
from app.demo.inputs.readings import (
    ALTERED,
    VERIFIED,
    ItemStore,
    Reading,
    digest_of,
    story,
    uri_of,
    with_retrievals,
)
from app.demo.inputs.throwaway_trust import ThrowawayTrust
from app.offline.bundle_source import whole_bundle
from app.offline.panels import load_panel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from app.demo.inputs.demo_config import ClassSource, ReadingLibrary, Recipe
    from app.demo.inputs.panel_sessions import PlannedSession
    from app.demo.inputs.plan import Planned
    from app.demo.inputs.throwaway_trust import ControlRecord
    from app.offline.panels import ActionRow


_DAY_MS = 24 * 3600 * 1000
_HIDDEN = frozenset({"downgrade", "deny"})


def half_rolled_out(shipped: bytes, library: ReadingLibrary, now_ms: int) -> bytes:
    """The document with the library's class in flag-only, and with its cases expecting that."""
    document, rollout = json_object(shipped), library.rollout
    since = rfc3339(now_ms - rollout.days * _DAY_MS)
    classes = {**document["rollout"], rollout.flag_only: {"mode": "flag_only", "since": since}}
    cases = [_under_flag_only(case, rollout.flag_only) for case in document["cases"]]
    return orjson.dumps({**document, "rollout": classes, "cases": cases})


def _under_flag_only(case: dict[str, Any], flag_only: str) -> dict[str, Any]:
    expect = case["expect"]
    if case["item"].get("content_class") != flag_only or expect["outcome"] not in _HIDDEN:
        return case
    return {**case, "expect": {**expect, "outcome": "flag", "would_have_been": expect["outcome"]}}


TENANT = "demo-generated"


def generated_registry(rows: Iterable[ActionRow], library: ReadingLibrary, feed_key: str) -> bytes:
    """The registry file's bytes: the rows' agents and tools, the library's sources and recorded hashes.

    `feed_key`: the public key of what feeds assert, base64.

    Of actions it says who and what exists and no more, so that the bundle alone decides; of items it says
    where they come from. The row estimates, which the demo makes up, count as they are. The tenant's name
    says that the registry is generated.
    """
    rows = list(rows)
    neutral = neutral_entries(TENANT, [row.agent for row in rows], [row.tool for row in rows])
    entries = [entry.model_dump() for entry in neutral]
    for entry in entries:
        if entry["kind"] == "agent":
            entry["spec"]["autonomy_tier"] = library.tiers.of(entry["id"])
        elif entry["kind"] == "tool":
            entry["spec"]["trusts_row_claims"] = True
    entries += [_source(one, feed_key) for one in library.source if one.source_id is not None]
    entries += [_recorded(uri, text) for uri, text in _references(library)]
    entries += [_known_bad(one.item_id, one.reason) for one in library.known_bad]
    return json.dumps({"entries": entries}, indent=1).encode()


def _source(source: ClassSource, feed_key: str) -> dict[str, Any]:
    spec = {"tenant_id": TENANT, "source_id": source.source_id}
    key = {"public_key": feed_key} if source.by == "signed" else {}
    return _entry("source", f"{TENANT}/{source.source_id}", spec | key)


def _references(library: ReadingLibrary) -> Iterator[tuple[str, str]]:
    """URI and text of what is recorded: everything that comes from a source which signs nothing."""
    referring = [one for one in library.story.items if one.reference in (VERIFIED, ALTERED)]
    for one in (*library.text, *referring):
        if library.source_of(one.content_class).by == "recorded":
            yield uri_of(library, one.content_class, one.text), one.text


def _recorded(uri: str, text: str) -> dict[str, Any]:
    spec = {"tenant_id": TENANT, "uri": uri, "hash": digest_of(text)}
    return _entry("provenance", provenance_id(TENANT, uri), spec)


def _known_bad(item_id: str, reason: str) -> dict[str, Any]:
    spec = {"tenant_id": TENANT, "subject": "item", "value": item_id, "reason": reason}
    return _entry("known_bad", item_id, spec)


def _entry(kind: str, an_id: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "id": an_id, "revision": 1, "spec": spec}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run is given. `home` keeps its files, `broker_home` those of `sluice broker`, `config` panel,
    recipe and library; `bundle` and `quality` are what ships; `now` gives RFC 3339.
    """

    run: str
    home: Path
    broker_home: Path
    config: Path
    bundle: Path
    quality: Path
    environment: Mapping[str, str]
    keep: bool
    now: Callable[[], str]
    trust: ThrowawayTrust = field(default_factory=ThrowawayTrust)


@dataclass(frozen=True, slots=True)
class Material:
    """What is published, and from what it was made.

    `opening` comes first and is answered before the `plan` goes on: the story reads before it acts.
    """

    rows: Sequence[ActionRow]
    writes: Sequence[dict[str, Any]]
    sessions: Sequence[PlannedSession]
    opening: Sequence[Planned]
    plan: Sequence[Planned]
    recipe: Recipe
    library: ReadingLibrary
    bundle: bytes
    quality: bytes
    policy: Sequence[ControlRecord]

    @property
    def retrievals(self) -> list[Planned]:
        """All that is to be read, but for what is asked again."""
        return [one for one in (*self.opening, *self.plan) if one.kind == "retrieval"]


def prepare(wish: RunOptions) -> Material:
    """Make everything that will be published. The same wish gives the same bytes."""
    recipe, library = load_recipe(wish.config / "recipe.toml"), load_library(wish.config / "retrievals.toml")
    rows, writes = load_panel(wish.config / "actions.jsonl"), load_writes(wish.config / "memory_writes.jsonl")
    now, trust = wish.now(), wish.trust
    now_ms = milliseconds_of(now)
    sequence = json_object((wish.config / "sequence.json").read_bytes())
    bundle = _adapted(whole_bundle(wish.bundle), recipe, sequence)
    quality = half_rolled_out(wish.quality.read_bytes(), library, now_ms)
    store = ItemStore(library, trust.feed, now_ms)
    acting = make_sessions(rows, load_bundle(bundle), recipe, _drawing(recipe.seed))
    reading = Reading(library, load_quality_bundle(quality), store, _drawing(f"{recipe.seed} retrievals"))
    sessions = with_retrievals(with_memories(acting, writes, now), reading)
    opening = [retrieval_of(fields, now) for fields in story(sessions, library, store)]
    registry = generated_registry(rows, library, trust.feed.public.text)
    policy = [*trust.policy(bundle, registry), trust.quality_bundle(quality)]
    plan = make_plan(sessions, now)
    return Material(rows, writes, sessions, opening, plan, recipe, library, bundle, quality, policy)


def _drawing(seed: int | str) -> random.Random:
    return random.Random(seed)  # noqa: S311 - seeded, so that two runs draw the same


def _adapted(bundle: bytes, recipe: Recipe, sequence: dict[str, Any]) -> bytes:
    """The bundle with the recipe's time for reviews, since nobody waits an hour for a demo, and with the gate
    `sequence` before the last one."""
    document = json_object(bundle)
    memory = {**document.get("memory", {}), "quarantineReviewMs": int(recipe.review_s * 1000)}
    *stages, last = document["stages"]
    adapted = {"memory": memory, "stages": [*stages, "sequence", last], "sequence": sequence}
    return orjson.dumps({**document, **adapted})
