"""A registry for the demo, generated: of actions it says who and what exists and no more, so that what is
decided is the bundle's doing alone; of items it says where they come from.

The tenant's name says that it is generated.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from app.core.neutral_registry import neutral_entries
from app.core.quality_entries import provenance_id
from app.demo.items import ALTERED, VERIFIED, digest_of, uri_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.demo.library import Library, Source
    from app.offline.panel import Row

TENANT = "demo-generated"


def generated_registry(rows: Iterable[Row], library: Library, feed_key: str) -> bytes:
    """The registry file's bytes: the rows' agents and tools, the library's sources and recorded hashes.

    `feed_key`: the public key of what feeds assert, base64.
    """
    rows = list(rows)
    neutral = neutral_entries(TENANT, [row.agent for row in rows], [row.tool for row in rows])
    entries = [entry.model_dump() for entry in neutral]
    for entry in entries:
        if entry["kind"] == "agent":
            entry["spec"]["autonomy_tier"] = library.tiers.of(entry["id"])
    entries += [_source(one, feed_key) for one in library.source if one.source_id is not None]
    entries += [_recorded(uri, text) for uri, text in _references(library)]
    entries += [_known_bad(one.item_id, one.reason) for one in library.known_bad]
    return json.dumps({"entries": entries}, indent=1).encode()


def _source(source: Source, feed_key: str) -> dict[str, Any]:
    spec = {"tenant_id": TENANT, "source_id": source.source_id}
    key = {"public_key": feed_key} if source.by == "signed" else {}
    return _entry("source", f"{TENANT}/{source.source_id}", spec | key)


def _references(library: Library) -> Iterator[tuple[str, str]]:
    """URI and text of what is recorded: everything that comes from a source which signs nothing."""
    told = [one for one in library.story.items if one.reference in (VERIFIED, ALTERED)]
    for one in (*library.text, *told):
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
