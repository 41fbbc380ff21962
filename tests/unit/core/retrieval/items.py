"""Items of every kind for property tests: good ones, bad ones, and what nobody should ever send."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.unit.core.retrieval.scene import HASH, OLD, OTHER_HASH, POISONED, SUSPECT, TERMS, TEXT, TIERS

CLASSES = ("legal_text", "product_pricing", "internal_policy", "public_reference")
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        "",
        0,
        -0.0,
        1e308,
        1e-320,
        -1e300,
        2**53,
        10**400,
        True,
        [],
        {},
        [1],
        {"a": None},
        "\x00",
        "é" * 300,
    ]
)
TIMES = st.sampled_from(
    [OLD, "2025-11-20T10:00:00Z", "2025-11-21T12:59:59.999Z", "2999-01-01T00:00:00Z", "yesterday"]
)
URIS = st.sampled_from(
    [
        TERMS,
        "https://elsewhere.example/a",
        "http://127.0.0.1/x",
        "gate-source://crm/1",
        "gate-feed://nobody/1",
        "ftp://files.example/x",
        "memory:i-1",
        "https://",
    ]
)
ASSERTIONS = st.sampled_from(
    [OLD, "2025-11-21T12:00:00Z", {"asserted_at": "2025-11-21T12:00:00Z", "signature": "A" * 88}, {}]
)
BODIES: st.SearchStrategy[Any] = st.sampled_from([TEXT, SUSPECT, POISONED]) | st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
ITEMS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "item_id": st.sampled_from(["i-1", "i-2", "#", "\x01" * 256, "urn:x:1"])
        | st.text(min_size=1, max_size=5)
    },
    optional={
        "content_class": st.sampled_from(CLASSES) | ODD,
        "timestamp": TIMES | ODD,
        "confidence_score": st.sampled_from([0, 0.5, 0.6, 0.9, 1]) | ODD,
        "provenance_uri": URIS | ODD,
        "provenance_hash": st.sampled_from([HASH, OTHER_HASH]) | ODD,
        "freshness_assertion": ASSERTIONS | ODD,
        "body": BODIES | ODD,
    },
)
REQUESTS = st.fixed_dictionaries(
    {
        "items": st.lists(ITEMS, min_size=1, max_size=4),
        "agent_id": st.sampled_from([*TIERS, "untiered", "lawyer", "trial", "other", "nobody"]),
    },
    optional={
        "request_id": st.sampled_from(["r-1", "r-2", "\x7f" * 256]),
        "autonomy_tier": st.sampled_from(TIERS),
        "tool_category": st.sampled_from(["payment", "search"]),
        "toolName": st.just("find"),
        "traceId": st.just("t-1"),
    },
)
