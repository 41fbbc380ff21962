"""The quality bundle of the fault runs, and what else their registry says of retrieved items.

Every revision that counts is stricter than the one before (the minimum of one class rises a little), so the
outcome of an item near it says which revision it was judged under.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.clock import rfc3339
from sluice.core.registry.quality_entries import make_provenance_id
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import QUALITY_BUNDLE_TYPE
from sluice_demo.throwaway_trust import OWNER
from sluice_topics.catalog import BUNDLES

if TYPE_CHECKING:
    from sluice_demo.throwaway_trust import ControlRecord, ThrowawayTrust

BUNDLE = "load.quality"
TTL_S = 631_152_000
"""Twenty years: what is young and what is old stays so for as long as these runs are run."""
NARROW = "load-narrow"
GRANTED = ("price", "trial")
"""The classes that this agent may read."""
CATEGORY = "load.payment"
POINT = "load-point"
"""The enforcement point that signs outcomes, with the reviewer's key."""
PRESS = "load-press"
RECORDED_URI = "https://load.example/recorded"
RECORDED_HASH = f"sha256:{1:064x}"
BAD_PLACE = "https://bad.load.example/dump"
BAD_ITEM = "law.fresh.sure.recorded.text.item.0"
BAD_TEXT = "a text that the fault runs know to be bad"
OVERRIDDEN = "price.old.unsure.other_hash.text.overridden.0"
EXPIRING = "law.garbled.unsure.absent.text.expiring.0"
STANDS_MS = 20 * 24 * 3600 * 1000
EXPIRES_AFTER_MS = 12_000
"""Of the second override, from the run's beginning: some of its items come before, some after."""
_LOWEST, _STEP, _STEPS = 0.7, 0.0005, 160
_SINCE = "2020-01-01T00:00:00.000Z"
"""Of the class in flag-only: long overdue, so there is one alarm in each run."""
_WINDOW_DAYS = 365


def minimum(revision: int) -> float:
    """Of the class "price" under a revision."""
    return round(_LOWEST + _STEP * min(revision, _STEPS), 4)


def document(revision: int = 1, lowest: float | None = None) -> dict[str, Any]:
    """The bundle of a revision; `lowest` is another minimum of "price" than its own."""
    modes = dict.fromkeys(("law", "price", "memo", "closed"), "enforce") | {"trial": "flag_only"}
    price = minimum(revision) if lowest is None else lowest
    return {
        "id": BUNDLE,
        "revision": revision,
        "description": "Quality bundle of the fault runs.",
        "rationale": "the minimum of one class rises with each revision",
        "ttl_by_class": {"law": None, "price": TTL_S, "memo": TTL_S, "trial": TTL_S, "closed": TTL_S},
        "min_confidence_by_class": {"law": 0.5, "price": price, "memo": 0.6, "trial": 0.8, "closed": 0.5},
        "provenance_required_by_class": dict.fromkeys(modes, True) | {"memo": False},
        "default_by_class": {"memo": "downgrade", "closed": "deny"},
        "action_matrix": _matrix(),
        "rollout": {name: {"mode": mode, "since": _SINCE} for name, mode in modes.items()},
        "rollout_window_days": _WINDOW_DAYS,
        "alarm_recipient": "load@operator.example",
        "high_impact_categories": [CATEGORY],
        "escalation_ttl_ms": 3_600_000,
        "access": {"closed": {"tenants": ["elsewhere"]}},
        "cases": [_case("deny")],
    }


def make_failing(revision: int) -> dict[str, Any]:
    """A revision whose own case fails."""
    return {**document(revision), "cases": [_case("pass")]}


def sign_bundle(trust: ThrowawayTrust, written: dict[str, Any]) -> ControlRecord:
    """The control record of a quality bundle, signed by the owner alone."""
    envelope = sign(QUALITY_BUNDLE_TYPE, json.dumps(written).encode(), [trust.owner])
    return BUNDLES, f"{written['id']}@{written['revision']}".encode(), envelope.encode()


def make_changing(tenant: str) -> dict[tuple[str, str], dict[str, Any]]:
    """By kind and id, specs of the entries about retrievals that change with the agent and its tools."""
    narrow = {"tenant_id": tenant, "tier": "T2", "autonomy_tier": "bounded", "content_classes": [*GRANTED]}
    recorded = {"tenant_id": tenant, "uri": RECORDED_URI, "hash": RECORDED_HASH}
    return {
        ("agent", NARROW): narrow,
        ("provenance", make_provenance_id(tenant, RECORDED_URI)): recorded,
    }


def make_standing(trust: ThrowawayTrust, tenant: str, began_ms: int) -> list[dict[str, Any]]:
    """Entries that stay as they are: who signs outcomes, a source with a key, what is known to be bad, two
    overrides."""
    content = "sha256:" + hashlib.sha256(BAD_TEXT.encode()).hexdigest()
    source = {"tenant_id": tenant, "source_id": PRESS, "public_key": trust.reviewer.public.text}
    point = {"tenant_id": tenant, "public_key": trust.reviewer.public.text}
    specs: dict[tuple[str, str], dict[str, Any]] = {
        ("enforcement_point", POINT): point,
        ("source", f"{tenant}/{PRESS}"): source,
        ("known_bad", "load-item"): _bad(tenant, "item", BAD_ITEM),
        ("known_bad", "load-source"): _bad(None, "source", BAD_PLACE),
        ("known_bad", "load-content"): _bad(tenant, "content", content),
        ("quality_override", "load-standing"): _override(tenant, OVERRIDDEN, began_ms + STANDS_MS),
        ("quality_override", "load-expiring"): _override(tenant, EXPIRING, began_ms + EXPIRES_AFTER_MS),
    }
    return [{"kind": kind, "id": name, "revision": 1, "spec": spec} for (kind, name), spec in specs.items()]


def _bad(tenant: str | None, subject: str, value: str) -> dict[str, Any]:
    return {"tenant_id": tenant, "subject": subject, "value": value, "reason": "bad in the fault runs"}


def _override(tenant: str, item: str, expires_ms: int) -> dict[str, Any]:
    return {
        "tenant_id": tenant,
        "item_id": item,
        "approver_id": OWNER,
        "expires_at": rfc3339(expires_ms),
        "justification": "the fault runs want it read",
    }


def _matrix() -> dict[str, dict[str, dict[str, str]]]:
    """With gaps, which the classes' defaults fill: "memo" and "closed" are in none of it."""
    return {
        "sandbox": {
            "law": _row("flag", "downgrade", "pass"),
            "price": _row("downgrade", "flag", "flag"),
            "memo": {"provenance": "flag"},
            "trial": _row("flag", "deny", "downgrade"),
        },
        "bounded": {
            "law": _row("downgrade", "deny", "deny"),
            "price": _row("deny", "downgrade", "flag"),
            "trial": _row("deny", "downgrade", "flag"),
        },
        "high_privilege": {
            "law": _row("downgrade", "deny", "deny"),
            "price": _row("deny", "deny", "deny"),
            "trial": _row("deny", "deny", "downgrade"),
        },
    }


def _row(freshness: str, confidence: str, provenance: str) -> dict[str, str]:
    return {"freshness": freshness, "confidence": confidence, "provenance": provenance}


def _case(outcome: str) -> dict[str, Any]:
    item = {
        "content_class": "price",
        "freshness_age_seconds": TTL_S + 1,
        "confidence_score": 0.9,
        "provenance": "verified",
    }
    return {"name": "an old price", "item": item, "tier": "bounded", "expect": {"outcome": outcome}}
