"""Where an item's reference leads, by what is recorded of it and who signed for it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sluice.core.metadata.provenance import Resolution, make_unverified
from sluice.core.registry.loading import load_registry
from sluice.core.registry.quality_entries import make_provenance_id
from sluice.core.retrieval.dimensions import read_facts
from sluice.core.retrieval.provenance_check import ProvenanceCheck, check_provenance, write_assertion
from sluice_topics.records.retrieval_inputs import RetrievedItem
from tests.unit.core.retrieval.quality_scene import quality_bundle
from tests.unit.core.retrieval.scene import SHIPPED, Scene, quality
from tests.unit.core.retrieval.scene import item as scene_item
from tests.unit.core.scene import entry

if TYPE_CHECKING:
    from sluice.core.registry.registry import Registry
    from sluice.core.retrieval.dimensions import ItemFacts

NOW = 1_800_000_000_000
AT = "2027-01-15T07:00:00.000Z"  # an hour before NOW
URI = "https://docs.example.com/handbook/3"
FEED = "gate-feed://prices/today"
SOURCE = "gate-source://prices/today"
HASH = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
KEY = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
FORGER = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
BUNDLE = quality_bundle(provenance_max_age_s=1000, provenance_refresh_s=100)


def source(*, key: Ed25519PrivateKey | None = KEY, tenant: str = "acme") -> dict[str, Any]:
    public = None if key is None else base64.b64encode(key.public_key().public_bytes_raw()).decode()
    return entry("source", f"{tenant}/prices", tenant_id=tenant, source_id="prices", public_key=public)


def make_recorded_hash(uri: str, digest: str = HASH, tenant: str = "acme") -> dict[str, Any]:
    return entry("provenance", make_provenance_id(tenant, uri), tenant_id=tenant, uri=uri, hash=digest)


def registry(*entries: dict[str, Any]) -> Registry:
    return load_registry(json.dumps({"entries": list(entries)}).encode())


def assertion(
    key: Ed25519PrivateKey = KEY, at: str = AT, uri: str = FEED, digest: str = HASH
) -> dict[str, Any]:
    signature = key.sign(write_assertion(at, uri, digest))
    return {"asserted_at": at, "signature": base64.b64encode(signature).decode()}


def item(uri: Any = URI, digest: Any = HASH, **fields: Any) -> RetrievedItem:
    return RetrievedItem(item_id="doc-4711", provenance_uri=uri, provenance_hash=digest, **fields)


def check_item(
    read: RetrievedItem, *entries: dict[str, Any], resolution: Resolution | None = None, tenant: str = "acme"
) -> ProvenanceCheck:
    recorded = {} if resolution is None else {("acme", read.provenance_uri): resolution}
    return check_provenance(read, tenant, registry(*entries), recorded, BUNDLE, NOW)


def resolve(age_s: float = 10, digest: str | None = HASH) -> Resolution:
    status = "unresolvable" if digest is None else "resolved"
    detail = "host not allowed" if digest is None else ""
    return Resolution(status, digest, "http", NOW - int(age_s * 1000), detail)  # type: ignore[arg-type]


def facts(read: RetrievedItem, check: ProvenanceCheck) -> ItemFacts:
    return read_facts(read, None, None, check, NOW)


@pytest.mark.parametrize("uri", [None, ""])
def test_no_reference_is_missing(uri: str | None) -> None:
    check = check_item(item(uri))
    assert (check.state.status, check.verified, check.wanted) == ("missing", False, False)


@pytest.mark.parametrize(
    ("uri", "digest", "detail"),
    [
        (5, HASH, "provenance_uri is not a string"),
        ("handbook/3", HASH, "not an absolute URI (RFC 3986)"),
        ("https://docs.example.com/a b", HASH, "not an absolute URI (RFC 3986)"),
        ("https://", HASH, "no host"),
        ("https://localhost/handbook", HASH, "not external: the host is the writer's own machine"),
        ("https://store.example.com/doc-4711", HASH, "refers to itself: doc-4711"),
        ("https://store.example.com/DOC%2D4711", HASH, "refers to itself: doc-4711"),
        ("memory://doc-4711", HASH, "refers to itself: doc-4711"),
        ("urn:memory:doc-4711", HASH, "refers to itself: doc-4711"),
        (URI + "x" * 8192, HASH, "provenance_uri has over 8192 characters"),
        (URI, None, "provenance_hash is missing"),
        (URI, "", "provenance_hash is missing"),
        (URI, "a" * 64, "provenance_hash is not sha256: and 64 lower-case hex digits"),
        (URI, HASH.upper(), "provenance_hash is not sha256: and 64 lower-case hex digits"),
        (URI, 5, "provenance_hash is not sha256: and 64 lower-case hex digits"),
    ],
)
def test_a_reference_that_can_lead_nowhere_is_unverified_and_not_asked_for(
    uri: Any, digest: Any, detail: str
) -> None:
    check = check_item(item(uri, digest), resolution=resolve())
    assert (check.state, check.verified, check.wanted) == (make_unverified(detail), False, False)


@pytest.mark.parametrize(
    "uri", ["s3://bucket/key", "urn:isbn:0451450523", "FTP://example.com/x", "file:///etc/x"]
)
def test_a_scheme_that_nobody_registered_is_that_whatever_its_hash(uri: str) -> None:
    for digest in (HASH, None):
        check = check_item(item(uri, digest))
        assert (check.state.status, check.wanted) == ("unregistered_scheme", False)


@pytest.mark.parametrize(
    ("written", "outcomes"),
    [
        ("deny", ["deny", "deny", "deny"]),
        ("downgrade", ["downgrade", "downgrade", "deny"]),
        ("flag", ["flag", "flag", "deny"]),
        ("pass", ["flag", "flag", "deny"]),
    ],
)
def test_a_scheme_that_nobody_registered_is_never_better_than_a_wrong_hash(
    written: str, outcomes: list[str]
) -> None:
    """Mend 22.14: the severer of flag and the matrix's outcome counts, and at high_privilege deny; an item
    that every cell denies was served with its body."""
    failing = {"freshness": "deny", "confidence": "deny", "provenance": written}
    matrix = {tier: {"legal_text": failing} for tier in ("sandbox", "bounded")}
    matrix["high_privilege"] = {"legal_text": dict.fromkeys(failing, "deny")}
    scene = Scene(quality=quality(action_matrix={**SHIPPED["action_matrix"], **matrix}))
    read = [
        scene.read(scene_item(provenance_uri="ftp://files.example/x"), agent_id=agent)
        for agent in ("sandbox", "bounded", "high_privilege")
    ]
    assert [one.event["outcome"] for one in read] == outcomes
    bodies = [item["body"] is not None for one in read for item in one.served["items"]]
    assert bodies == [outcome == "flag" for outcome in outcomes if outcome != "deny"]


def test_the_bundle_says_which_schemes_are_registered() -> None:
    only_sources = quality_bundle(provenance_schemes=["gate-source"])
    check = check_provenance(item(), "acme", registry(), {("acme", URI): resolve()}, only_sources, NOW)
    assert check.state.status == "unregistered_scheme"


@pytest.mark.parametrize(
    ("resolution", "status", "wanted"),
    [
        (None, "unverified", True),
        (resolve(0), "verified", False),
        (resolve(100), "verified", False),
        (resolve(100.001), "verified", True),
        (resolve(1000), "verified", True),
        (resolve(1000.001), "unverified", True),
        (resolve(10, OTHER), "unverified", False),
        (resolve(101, OTHER), "unverified", True),
        (resolve(10, None), "unverified", False),
        (resolve(101, None), "unverified", True),
        (resolve(-10), "verified", False),
    ],
)
def test_a_web_reference_is_worth_what_was_recorded_and_asked_for_again_when_that_is_old(
    resolution: Resolution | None, status: str, wanted: bool
) -> None:
    check = check_item(item(), resolution=resolution)
    assert (check.state.status, check.verified, check.wanted) == (status, status == "verified", wanted)
    assert check.resolution == resolution


def test_what_is_recorded_for_one_tenant_says_nothing_to_another() -> None:
    assert check_item(item(), resolution=resolve(), tenant="globex").state.status == "unverified"
    check = check_item(item(), make_recorded_hash(URI, tenant="globex"))
    assert (check.state.status, check.wanted) == ("unverified", True)


@pytest.mark.parametrize(("digest", "verified"), [(HASH, True), (OTHER, False)])
def test_the_registrys_hash_goes_before_whatever_was_resolved(digest: str, verified: bool) -> None:
    for resolution in (resolve(), resolve(10, OTHER), None):
        check = check_item(item(), make_recorded_hash(URI, digest), resolution=resolution)
        assert (check.verified, check.wanted, check.resolution) == (verified, False, None)
        assert [one.key for one in check.entries] == [f"provenance/{make_provenance_id('acme', URI)}@1"]


@pytest.mark.parametrize("uri", [SOURCE, FEED])
def test_a_source_is_believed_for_its_signature_or_the_registrys_hash(uri: str) -> None:
    signed = item(uri, freshness_assertion=assertion(uri=uri))
    assert check_item(signed, source()).verified
    assert check_item(item(uri), source(), make_recorded_hash(uri)).verified
    assert check_item(signed, source(), make_recorded_hash(uri)).verified
    assert not check_item(item(uri), source()).verified
    assert not check_item(item(uri, freshness_assertion=AT), source()).verified


@pytest.mark.parametrize("uri", [SOURCE, FEED])
def test_a_wrong_hash_is_not_made_good_by_a_signature_nor_a_wrong_signature_by_a_hash(uri: str) -> None:
    signed = item(uri, freshness_assertion=assertion(uri=uri))
    forged = item(uri, freshness_assertion=assertion(FORGER, uri=uri))
    wrong_hash = check_item(signed, source(), make_recorded_hash(uri, OTHER))
    assert (wrong_hash.verified, wrong_hash.state) == (
        False,
        make_unverified("wrong hash: the registry has another"),
    )
    wrong_signature = check_item(forged, source(), make_recorded_hash(uri))
    assert (wrong_signature.verified, wrong_signature.state) == (False, make_unverified("wrong signature"))


@pytest.mark.parametrize("uri", [SOURCE, FEED])
def test_a_source_that_is_not_registered_for_the_tenant_vouches_for_nothing(uri: str) -> None:
    for entries in ((), (source(tenant="globex"),), (make_recorded_hash(uri),)):
        check = check_item(item(uri, freshness_assertion=assertion(uri=uri)), *entries)
        assert (check.state, check.verified) == (make_unverified("no registered source prices"), False)
        assert check.assertion_problem is not None


@pytest.mark.parametrize(
    "given",
    [
        assertion(FORGER),
        assertion(at="2027-01-15T07:00:01.000Z") | {"asserted_at": AT},
        assertion(uri=SOURCE),
        assertion(digest=OTHER),
        assertion() | {"signature": "A" * 88},
        assertion() | {"signature": "*" * 88},
        assertion() | {"signature": ""},
        assertion() | {"signature": None},
        assertion(at="yesterday"),
        assertion() | {"asserted_at": 5},
        assertion() | {"by": "prices"},
        {"asserted_at": AT},
        {},
    ],
)
def test_an_assertion_that_is_not_exactly_what_the_source_signed_fails_twice(given: dict[str, Any]) -> None:
    read = item(FEED, timestamp=AT, freshness_assertion=given)
    check = check_item(read, source())
    assert (check.state.status, check.verified, check.asserted_ms) == ("unverified", False, None)
    assert facts(read, check).age_problem == check.assertion_problem
    assert check.assertion_problem is not None


def test_a_source_without_a_key_signs_nothing() -> None:
    check = check_item(item(FEED, freshness_assertion=assertion()), source(key=None))
    assert check.state == make_unverified("source prices has no key to check the signature with")


def test_a_signed_assertion_stands_in_the_timestamps_place() -> None:
    read = item(FEED, timestamp="2001-01-01T00:00:00Z", freshness_assertion=assertion())
    check = check_item(read, source())
    assert check.verified
    assert facts(read, check).age_ms == 3_600_000


@pytest.mark.parametrize("read", [item(), item(None), item("s3://bucket/key"), item(URI, None)])
def test_a_signed_assertion_counts_for_nothing_where_no_source_stands_behind_it(read: RetrievedItem) -> None:
    signed = read.model_copy(update={"freshness_assertion": assertion(), "timestamp": AT})
    check = check_item(signed, source(), make_recorded_hash(URI), resolution=resolve())
    assert facts(signed, check).age_problem == "no signed source identity stands behind this assertion"


def test_the_decision_rests_on_the_entry_of_the_source() -> None:
    check = check_item(item(FEED, freshness_assertion=assertion()), source(), make_recorded_hash(FEED))
    assert [one.key for one in check.entries] == [
        "source/acme/prices@1",
        f"provenance/{make_provenance_id('acme', FEED)}@1",
    ]


SPELLINGS = [
    URI + "#part",
    "https://DOCS.example.com/handbook/3",
    "https://docs.example.com:443/handbook/3",
    "https://docs.example.com/./handbook/%33",
]


@pytest.mark.parametrize("uri", SPELLINGS)
def test_the_registrys_hash_counts_however_the_reference_is_spelt(uri: str) -> None:
    assert check_item(item(uri), make_recorded_hash(URI)).verified
    elsewhere = {("acme", uri): resolve(digest=OTHER), ("acme", URI): resolve(digest=OTHER)}
    check = check_provenance(
        item(uri, OTHER), "acme", registry(make_recorded_hash(URI)), elsewhere, BUNDLE, NOW
    )
    assert check.state == make_unverified("wrong hash: the registry has another")


@pytest.mark.parametrize("uri", SPELLINGS)
def test_a_resolution_counts_however_the_reference_is_spelt(uri: str) -> None:
    assert check_provenance(item(uri), "acme", registry(), {("acme", URI): resolve()}, BUNDLE, NOW).verified


@pytest.mark.parametrize("later_s", [1, 10**9])
def test_a_request_that_waited_finds_what_was_resolved_meanwhile_as_young_as_can_be(later_s: float) -> None:
    check = check_item(item(), resolution=resolve(-later_s))
    assert (check.verified, check.wanted) == (True, False)


def test_a_reference_whose_name_is_longer_than_records_take_is_not_asked_for() -> None:
    uri = "https://docs.example.com?" + "x" * (8192 - 25)
    assert not check_item(item(uri)).wanted
    assert check_item(item(uri[:-1])).wanted
