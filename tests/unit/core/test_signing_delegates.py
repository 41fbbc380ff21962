"""A registered delegate signs for the agents of its tenants, and for no others."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.foundation.clock import rfc3339
from sluice_topics.catalog import ACTIONS, MEMORY_WRITES, OUTCOMES, RETRIEVALS
from tests.unit.core.scene import START, entry
from tests.unit.core.signing_scene import NEXT, SIGNERS, STRANGE, Signing, answer_of, key_entry, key_id

GATEWAY = "gateway-1"


def delegate(*keys: dict[str, str], tenants: tuple[str, ...] = ("acme",)) -> dict[str, Any]:
    """The gateway's entry."""
    return entry("delegate", GATEWAY, 1, tenants=[*tenants], keys=[*keys])


def case_with(*entries: dict[str, Any]) -> Signing:
    """Agents that sign, and these entries."""
    return Signing(entries=(*SIGNERS, *entries))


def test_what_a_delegate_signed_counts_and_names_it() -> None:
    case = case_with(delegate(key_entry(STRANGE)))
    found = case.verdict(case.sign(case.make(ACTIONS), STRANGE))
    assert (found["verdict"], case.totals()) == ("allowed", (1, 1))
    assert (found["signature"]["delegate"], found["signature"]["key_id"]) == (GATEWAY, key_id(STRANGE))
    assert f"delegate/{GATEWAY}@1" in found["registry_hashes"]


@pytest.mark.parametrize("topic", [MEMORY_WRITES, RETRIEVALS])
def test_decisions_on_content_name_the_delegate_too(topic: str) -> None:
    case = case_with(delegate(key_entry(STRANGE)))
    answer = answer_of(case.put(case.sign(case.make(topic), STRANGE)))
    assert answer["signature"]["delegate"] == GATEWAY
    assert f"delegate/{GATEWAY}@1" in answer["registry_hashes"]


def test_an_outcome_that_a_delegate_signed_settles() -> None:
    case = case_with(delegate(key_entry(STRANGE)))
    case.put(case.sign(case.make(ACTIONS), STRANGE))
    answer = answer_of(case.put(case.sign(case.make(OUTCOMES), STRANGE)))
    assert answer["schema"] == "sluice/reservation_settled/v1"


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ((), "unknown_key"),
        ((delegate(key_entry(STRANGE), tenants=("other",)),), "unknown_key"),
        ((delegate(key_entry(NEXT)),), "unknown_key"),
        ((delegate(key_entry(STRANGE, revoked_at=rfc3339(START))),), "revoked_key"),
    ],
)
def test_a_key_that_is_no_delegates_of_the_agents_tenant_counts_for_nothing(
    entries: tuple[dict[str, Any], ...], reason: str
) -> None:
    case = case_with(*entries)
    found = case.verdict(case.sign(case.make(ACTIONS), STRANGE))
    assert found["verdict"] == "denied"
    assert found["blockReason"].startswith(f"unsigned_agent: {reason}")
    assert "signature" not in found


def test_a_verdict_by_an_agents_own_key_has_no_delegate() -> None:
    case = case_with(delegate(key_entry(STRANGE)))
    found = case.verdict(case.sign(case.make(ACTIONS)))
    assert "delegate" not in found["signature"]
    assert not [one for one in found["registry_hashes"] if one.startswith("delegate/")]
