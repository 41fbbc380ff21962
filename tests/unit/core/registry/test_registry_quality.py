"""What the registry says of retrieved items: recorded provenance, known bad ones, overrides, source keys."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.foundation.errors import RegistryError
from sluice.core.policy.policy import DEFAULT_QUALITY, Policy
from sluice.core.registry.loading import build_registry, load_registry, merge_registries
from sluice.core.registry.quality_entries import LONGEST_COMPARED, MOST_SEGMENTS, make_provenance_id
from sluice.core.registry.registry_entries import NO_ORG, EntryFile
from tests.unit.core.scene import POINT_KEY, entry, public_key

if TYPE_CHECKING:
    from sluice.core.registry.registry import Registry

DIGEST = "sha256:" + "ab" * 32
URI = "https://wiki.example/prices"
WHY = "seen to be poisoned"


def load(*entries: dict[str, Any]) -> Registry:
    return load_registry(json.dumps({"entries": list(entries)}).encode())


def make_recorded(tenant: str = "acme", uri: str = URI, revision: int = 1, **spec: Any) -> dict[str, Any]:
    name = f"{tenant}/{sha256(uri.encode()).hexdigest()}"
    return entry("provenance", name, revision, **{"tenant_id": tenant, "uri": uri, "hash": DIGEST, **spec})


def bad(name: str = "b1", subject: str = "item", value: str = "doc-1", **spec: Any) -> dict[str, Any]:
    fields = {"tenant_id": None, "subject": subject, "value": value, "reason": WHY}
    return entry("known_bad", name, **{**fields, **spec})


def override(name: str = "o1", revision: int = 1, **spec: Any) -> dict[str, Any]:
    fields = {
        "tenant_id": "acme",
        "item_id": "doc-1",
        "approver_id": "ann",
        "expires_at": "2026-01-02T00:00:00.000Z",
        "justification": "read and still right",
    }
    return entry("quality_override", name, revision, **{**fields, **spec})


def test_a_recorded_hash_is_found_by_tenant_and_uri() -> None:
    found = load(make_recorded(), make_recorded("globex", hash="sha256:" + "cd" * 32)).provenance
    assert {name: one.recorded_hash[:9] for name, one in found.items()} == {
        ("acme", URI): "sha256:ab",
        ("globex", URI): "sha256:cd",
    }
    assert found["acme", URI].key == f"provenance/{make_provenance_id('acme', URI)}@1"


def test_a_reference_has_one_entry_whatever_it_is_called() -> None:
    with pytest.raises(
        RegistryError, match=r"\$\.entries\[0\]\.id: the id of this reference's entry is acme/"
    ):
        load(entry("provenance", "acme/prices", tenant_id="acme", uri=URI, hash=DIGEST))


def names(registry: Registry, tenant: str = "acme", **item: Any) -> list[str]:
    known = registry.find_known_bad(tenant, item.get("item_id"), item.get("uri"), item.get("digest"))
    return [one.id for one in known]


def test_two_spellings_of_one_reference_leave_one_hash_whichever_comes_first() -> None:
    spellings = [
        make_recorded(),
        make_recorded(uri="https://WIKI.example:443/prices", hash="sha256:" + "cd" * 32),
    ]
    first = min(spellings, key=lambda one: f"provenance/{one['id']}@1")
    parts = [build_registry([EntryFile.model_validate(one)]) for one in spellings]
    known = (
        load(*spellings),
        load(*reversed(spellings)),
        merge_registries(parts),
        merge_registries(reversed(parts)),
    )
    for registry in known:
        ((name, one),) = registry.provenance.items()
        assert (name, one.id, one.recorded_hash) == (("acme", URI), first["id"], first["spec"]["hash"])


def test_an_item_is_known_bad_by_its_id_its_content_and_its_source() -> None:
    found = load(bad("b1"), bad("b2", "content", DIGEST), bad("b3", "source", "https://wiki.example"))
    assert names(found, item_id="doc-1") == ["b1"]
    assert names(found, digest=DIGEST) == ["b2"]
    assert names(found, uri=URI) == ["b3"]
    assert names(found, item_id="doc-2", uri="https://wiki.example.org/", digest="sha256:" + "0" * 64) == []
    assert names(found, item_id=None, uri=17, digest=None) == []


@pytest.mark.parametrize(
    ("value", "uri", "known"),
    [
        (URI, URI, True),
        (URI, "HTTPS://Wiki.Example:443/x/../prices/2026?v=2#top", True),
        (URI, "https://wiki.example/prices-of-others", False),
        ("https://WIKI.example/", URI, True),
        ("https://wiki.example/PRICES", URI, False),
        ("gate-source://crm", "gate-source://crm/accounts/7", True),
        ("gate-source://crm/accounts", "gate-source://crm/contacts", False),
    ],
)
def test_a_bad_source_is_all_that_lies_below_it(value: str, uri: str, known: bool) -> None:
    assert names(load(bad("b1", "source", value)), uri=uri) == (["b1"] if known else [])


def test_a_place_is_not_hidden_by_padding() -> None:
    found = load(bad("b1", "source", "https://wiki.example/prices"))
    padded = f"https://wiki.example/{'x/../' * 2000}prices"
    assert names(found, uri=padded) == ["b1"]
    assert names(found, uri=padded.replace("wiki", "other")) == []


@pytest.mark.parametrize("turn", [1, -1])
def test_of_many_entries_one_decides_the_first_by_its_key(turn: int) -> None:
    bads = [
        bad("b4"),
        bad("b3", "content", DIGEST),
        bad("b2", "source", "https://wiki.example"),
        bad("b1", "source", URI, tenant_id="globex"),
    ][::turn]
    found = merge_registries(build_registry([EntryFile.model_validate(one)]) for one in bads)
    assert names(found, item_id="doc-1", uri=URI, digest=DIGEST) == ["b2"]
    assert names(found, "globex", item_id="doc-1", uri=URI, digest=DIGEST) == ["b1"]


DEEP = "/a" * (MOST_SEGMENTS - 3) + "/prices"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (DEEP, []),
        (f"{DEEP}?{'/' * MOST_SEGMENTS}", []),
        (f"/a{DEEP}", ["b01"]),
        ("/" + "a" * LONGEST_COMPARED, ["b01"]),
        ("/" + "a/" * LONGEST_COMPARED, ["b01"]),
    ],
)
def test_what_is_too_long_to_take_apart_is_bad_where_anything_of_its_host_is(
    path: str, told: list[str]
) -> None:
    found = load(
        *(bad(f"b{place:02}", "source", f"https://wiki.example/bad/{place}") for place in range(20, 0, -1)),
        bad("b00", "source", "https://wiki.example/bad", tenant_id="globex"),
    )
    assert names(found, uri=f"https://wiki.example{path}") == told
    assert names(found, uri=f"https://other.example{path}") == []


def test_what_is_bad_for_one_tenant_is_not_therefore_for_another() -> None:
    found = load(bad("b1", tenant_id="globex"), bad("b2", value="doc-2"))
    assert names(found, item_id="doc-1") == []
    assert names(found, "globex", item_id="doc-1") == ["b1"]
    assert names(found, "globex", item_id="doc-2") == ["b2"]


def test_a_newer_revision_lifts_it() -> None:
    again = {**bad(active=False), "revision": 2}
    assert load(bad(), again).known_bad == {}
    assert load(override(), override(revision=2, active=False)).overrides == {}


def test_overrides_of_one_item_stand_in_the_order_of_their_keys() -> None:
    parts = [build_registry([EntryFile.model_validate(override(name))]) for name in ("o2", "o1", "o3")]
    found = merge_registries(parts).overrides["acme", "doc-1"]
    assert [one.id for one in found] == ["o1", "o2", "o3"]
    assert found[0].expires_ms == 1_767_312_000_000
    assert (found[0].agent_id, found[0].session_id, found[0].body_digest) == (None, None, None)


def test_parts_merge_into_what_the_whole_says() -> None:
    entries = [make_recorded(), bad("b1"), bad("b2"), bad("b3", "source", URI), override()]
    whole = load(*entries)
    parts = merge_registries(build_registry([EntryFile.model_validate(one)]) for one in reversed(entries))
    assert (parts.provenance, parts.known_bad, parts.overrides) == (
        whole.provenance,
        whole.known_bad,
        whole.overrides,
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (make_recorded(hash="ab"), r"\.spec\.hash"),
        (make_recorded("unregistered"), r"\.spec\.tenant_id"),
        (bad(reason="bad"), r"\.spec\.reason"),
        (bad(subject="agent"), r"\.spec\.subject"),
        (bad(subject="source", value="wiki.example"), "an absolute URI"),
        (bad(subject="content", value="ab"), "sha256:<hex>"),
        (bad(value=""), r"\.spec\.value"),
        (override(justification="because"), r"\.spec\.justification"),
        (override(expires_at="2026-02-30T00:00:00.000Z"), r"\.spec\.expires_at"),
        (override(body_digest="ab"), r"\.spec\.body_digest"),
        (entry("agent", "a", tenant_id="acme", tier="T1", autonomy_tier="free"), r"\.spec\.autonomy_tier"),
        (entry("source", "acme/crm", tenant_id="acme", source_id="crm", public_key="AAAA"), r"\.public_key"),
    ],
)
def test_an_entry_that_says_nothing_usable_is_refused_with_the_place(
    wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(RegistryError, match=message):
        load(wrong)


def test_agents_sources_and_tenants_say_what_retrievals_need() -> None:
    limits: dict[str, Any] = {"autonomy_tier": "bounded", "content_classes": ["legal_text"]}
    found = load(
        entry("agent", "a", tenant_id="acme", tier="T1", **limits),
        entry("agent", "b", tenant_id="acme", tier="T1"),
        entry("source", "acme/crm", tenant_id="acme", source_id="crm", public_key=public_key(POINT_KEY)),
        entry("org", "acme", quality_bundle_id="strict"),
    )
    limited, free = found.agents["a"], found.agents["b"]
    assert (limited.autonomy_tier, limited.content_classes) == ("bounded", frozenset({"legal_text"}))
    assert (free.autonomy_tier, free.content_classes) == (None, None)
    assert found.sources["acme", "crm"].public_key is not None
    policy = Policy({}, found, "sluice.default")
    assert policy.find_quality(found.orgs["acme"]) == ("strict", None)
    assert policy.find_quality(NO_ORG) == (DEFAULT_QUALITY, None)
