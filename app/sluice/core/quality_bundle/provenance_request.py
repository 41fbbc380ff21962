"""ProvenanceWanted: a request to the resolvers for a reference whose recorded resolution is missing or old.

The current decision does not wait for it: it uses what is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.metadata.provenance import MAX_URI_CHARACTERS, RESOLVABLE, spell
from sluice_topics.catalog import PROVENANCE_WANTED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from sluice.core.metadata.provenance import Resolution
    from sluice.core.quality_bundle.quality_bundle import QualityBundle

SCHEMA = "sluice/provenance_wanted/v1"


def is_resolution_due(
    tenant: str, uri: str, recorded: Mapping[tuple[str, str], Resolution], bundle: QualityBundle, now_ms: int
) -> bool:
    """Whether a reference leads over the network and its recorded resolution is missing or old."""
    if len(uri) > MAX_URI_CHARACTERS:
        return False
    scheme, name, _ = spell(uri)
    if scheme not in RESOLVABLE or len(name) > MAX_URI_CHARACTERS:
        return False
    resolution = recorded.get((tenant, name))
    return resolution is None or bundle.wants_again(resolution, now_ms)


def request_resolution(tenant: str, uri: str, by: Literal["write", "retrieval"], now_ms: int) -> OutRecord:
    """The request; its partition is that of (tenant, uri), whichever partition decided and however the URI
    was written."""
    uri = spell(uri).name
    body = {
        "schema": SCHEMA,
        "tenant_id": tenant,
        "uri": uri,
        "wanted_by": by,
        "decided_at": rfc3339(now_ms),
    }
    return OutRecord(PROVENANCE_WANTED, "ProvenanceWanted", body, orjson.dumps([tenant, uri]).decode())
