"""One reference is wanted once in a while, whatever the clocks do, and no tenant wants without end."""

from __future__ import annotations

from sluice.core.quality_bundle.provenance_request import request_resolution
from sluice.stream.feeds.provenance_work import AGAIN_AFTER_MS, NEW_OF_A_TENANT, ReferenceRequests

NOW = 1_763_730_000_000
PAGE = "https://docs.example.com/page"


def is_wanted(asked: ReferenceRequests, uri: str, at_ms: int, tenant: str = "acme") -> bool:
    return bool(asked.sift([request_resolution(tenant, uri, "retrieval", at_ms)]))


def test_a_reference_is_wanted_again_after_a_while() -> None:
    asked = ReferenceRequests()
    times = (NOW, NOW + AGAIN_AFTER_MS - 1, NOW + AGAIN_AFTER_MS)
    assert [is_wanted(asked, PAGE, at) for at in times] == [True, False, True]


def test_a_clock_that_jumped_ahead_and_back_keeps_no_reference_from_being_wanted() -> None:
    asked = ReferenceRequests()
    times = (NOW + 10**10, NOW, NOW + 1)
    assert [is_wanted(asked, PAGE, at) for at in times] == [True, True, False]


def test_another_spelling_is_no_other_reference_and_another_tenant_is() -> None:
    asked = ReferenceRequests()
    assert is_wanted(asked, PAGE, NOW)
    assert not is_wanted(asked, "https://DOCS.example.com:443/./page#part", NOW)
    assert is_wanted(asked, PAGE, NOW, "globex")


def test_a_tenant_that_invents_references_is_held_to_its_share_for_a_while_and_others_are_not() -> None:
    asked = ReferenceRequests()
    assert all(is_wanted(asked, f"{PAGE}/{n}", NOW) for n in range(NEW_OF_A_TENANT))
    assert not is_wanted(asked, PAGE, NOW)
    assert is_wanted(asked, PAGE, NOW, "globex")
    assert is_wanted(asked, PAGE, NOW + AGAIN_AFTER_MS)
