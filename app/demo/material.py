"""Everything that a run of the demo publishes, made before anything is sent."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003 - a dataclass's field
from typing import TYPE_CHECKING, Any

import orjson

from app.core.bundles import load_bundle
from app.core.clock import milliseconds_of
from app.core.retrieval.quality_bundle import load_quality_bundle
from app.core.strict import json_object
from app.demo.items import Store
from app.demo.library import load_library
from app.demo.memories import load_writes, with_memories
from app.demo.plan import make_plan, retrieval_of
from app.demo.quality import half_rolled_out
from app.demo.recipe import load_recipe
from app.demo.registry import generated_registry
from app.demo.retrievals import Reading, story, with_retrievals
from app.demo.sessions import make_sessions
from app.demo.trust import ThrowawayTrust
from app.offline.bundle_source import whole_bundle
from app.offline.panel import load_panel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.demo.library import Library
    from app.demo.plan import Planned
    from app.demo.recipe import Recipe
    from app.demo.sessions import Session
    from app.demo.trust import ControlRecord
    from app.offline.panel import Row


@dataclass(frozen=True, slots=True)
class Wish:
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

    rows: Sequence[Row]
    writes: Sequence[dict[str, Any]]
    sessions: Sequence[Session]
    opening: Sequence[Planned]
    plan: Sequence[Planned]
    recipe: Recipe
    library: Library
    bundle: bytes
    quality: bytes
    policy: Sequence[ControlRecord]

    @property
    def retrievals(self) -> list[Planned]:
        """All that is to be read, but for what is asked again."""
        return [one for one in (*self.opening, *self.plan) if one.kind == "retrieval"]


def prepare(wish: Wish) -> Material:
    """Make everything that will be published. The same wish gives the same bytes."""
    recipe, library = load_recipe(wish.config / "recipe.toml"), load_library(wish.config / "retrievals.toml")
    rows, writes = load_panel(wish.config / "actions.jsonl"), load_writes(wish.config / "memory_writes.jsonl")
    now, trust = wish.now(), wish.trust
    now_ms = milliseconds_of(now)
    bundle = _hurried(whole_bundle(wish.bundle), recipe)
    quality = half_rolled_out(wish.quality.read_bytes(), library, now_ms)
    store = Store(library, trust.feed, now_ms)
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


def _hurried(bundle: bytes, recipe: Recipe) -> bytes:
    """The bundle with the recipe's time for reviews: nobody waits an hour for a demo."""
    document = json_object(bundle)
    memory = document.get("memory", {})
    return orjson.dumps({**document, "memory": {**memory, "quarantineReviewMs": int(recipe.review_s * 1000)}})
