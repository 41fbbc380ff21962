"""Mend 22.8: the ledger says which policy is in force, in each partition, from each start and change on."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from load.sites import neutral_policy
from load.sites.site import gather
from sluice.cli.demo.throwaway_trust import publish_policy
from sluice.verifier.export import Located
from sluice.verifier.verify import verify
from sluice_topics.catalog import POLICY_EVENTS
from sluice_topics.records import PolicyInForce
from tests.kafka.installation import running, site_on, stored, until

if TYPE_CHECKING:
    from pathlib import Path

    from load.sites.site import Site
    from sluice.verifier.ledger_findings import LedgerFinding

pytestmark = pytest.mark.kafka


@pytest.fixture
def site(kafka: str, prefix: str, tmp_path: Path) -> Site:
    return site_on(kafka, tmp_path, prefix.rstrip("."), SLUICE_POLICY__REFRESH_S="0.05")


def _said(site: Site) -> dict[int, list[PolicyInForce]]:
    """Each partition's records of the policy in force, in their order."""
    found: dict[int, list[PolicyInForce]] = {}
    for one in stored(site, POLICY_EVENTS):
        found.setdefault(one.partition, []).append(PolicyInForce.model_validate_json(one.value or b""))
    return found


def _findings(site: Site) -> list[LedgerFinding]:
    ledger = asyncio.run(gather(site)).ledger
    located = (Located(one.topic, one.partition, one.offset, one.key, one.value) for one in ledger)
    return [*verify(located).findings]


def _tool(name: str, revision: int, tier: str) -> dict[str, Any]:
    spec = {"tier": tier, "action_type": "DATABASE_WRITE", "reversible": False}
    return {"kind": "tool", "id": name, "revision": revision, "spec": spec}


def _publish(site: Site, *entries: dict[str, Any]) -> None:
    records = site.trust.entries(entries)
    asyncio.run(publish_policy(site.bootstrap_servers, site.prefix, records))


def test_each_start_and_each_change_is_recorded_and_nothing_in_between(site: Site) -> None:
    for worker in running(site, "first"):
        started = _said(site)
        assert sorted(started) == [*range(site.partitions)]
        assert all(one.sequence == 1 and one.trigger == "start" for (one,) in started.values())
        assert len({one.digest for (one,) in started.values()}) == 1
        assert started[0][0].kinds["bundle"] == 1
        _publish(site, _tool("wipe", 1, "T3"))
        until(lambda: all(len(one) == 2 for one in _said(site).values()), worker)
        changed = _said(site)[0][1]
        assert (changed.trigger, changed.previous) == ("change", started[0][0].digest)
        assert [(one.entry, one.before, one.now) for one in changed.added.named] == [("tool/wipe", None, 1)]
    for _ in running(site, "second"):
        again = _said(site)
    assert [len(one) for one in again.values()] == [3] * site.partitions
    assert all(one[2].digest == one[2].previous == changed.digest for one in again.values())
    assert all(one[2].added.total == one[2].gone.total == 0 for one in again.values())
    assert _findings(site) == []
    agent = f"agent/{neutral_policy.AGENT}"
    assert agent in {entry.entry for entry in again[0][0].added.named}
    assert json.loads(stored(site, POLICY_EVENTS)[0].value or b"")["input"] is None
