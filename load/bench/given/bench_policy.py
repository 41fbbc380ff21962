"""What every benchmark decides under: the shipped bundle with eight rules more, the shipped quality bundle,
all shipped stages.

A working installation's registry: one agent, every tool of the panel registered with tier T2. So most actions
are allowed and counted, and Gate 1 blocks some.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from load.bench.given import items
from load.bench.given.action_events import AGENT, MAX_ID, panel
from load.sites import quality_policy
from sluice.bootstrap.parts import build_decision_point
from sluice.core.actions.plan import plans
from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.strict import json_object
from sluice.core.memory.plan import plan_writes
from sluice.core.policy.policy import PointParts, Policy
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.registry.loading import load_registry
from sluice.core.retrieval.plan import plan_retrievals
from sluice.offline.bundle_source import whole_bundle
from sluice.settings.reader import Settings
from sluice.shipped import SHIPPED_FILES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.cli.demo.throwaway_trust import ControlRecord, ThrowawayTrust
    from sluice.core.decide.decision_point import DecisionPoint

BUNDLE = "load.bench"
TENANT = "bench"
LIKENED = "load.bench.likened"
"""An agent, and the bundle that it has."""
SHIPPED = SHIPPED_FILES / "bundles" / "default.json"
LIBRARY = SHIPPED_FILES / "bundles" / "content" / "library.json"
PATIENCE_MS = 600_000
"""No answer is late here: what is late is not measured."""
_TOOL = {"tier": "T2", "action_type": "OTHER", "reversible": True, "trusts_row_claims": True}
RULES = Path(__file__).with_name("rules.json")


GRADED = {
    "budget_ms": PATIENCE_MS,
    "proof": {"required": False},
    "rules": [
        {
            "id": "of_the_bench",
            "reason": "only what was asked for",
            "criterion": "The action does only what was asked for.",
            "when": "has(action.parameters.judged)",
        }
    ],
}


def document(
    rules: list[dict[str, Any]] | None = None,
    *,
    similarity: bool = False,
    likened: bool = False,
    grader: bool = False,
) -> bytes:
    """The shipped bundle and these rules, or the eight of rules.json; without its cases, which more rules
    could change. `similarity`: memory writes ask the encoder too; `likened`: actions do; `grader`: actions
    with a parameter "judged" ask a model."""
    more = json.loads(RULES.read_bytes()) if rules is None else rules
    shipped = json_object(whole_bundle(SHIPPED))
    if similarity:
        library = json.loads(LIBRARY.read_bytes())["similarity"]
        asked = {"similarity": {**library, "enabled": True, "budget_ms": PATIENCE_MS}}
        shipped["memory"] = {**shipped.get("memory", {}), **asked}
    if likened:
        shipped["similarity"] |= {"enabled": True, "mode": "enforce", "budget_ms": PATIENCE_MS}
    if grader:
        shipped["grader"] = GRADED
    return orjson.dumps({**shipped, "id": BUNDLE, "rules": [*shipped.get("rules", []), *more], "cases": []})


def registry(more: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """The registry file; `more`: entries beside those that every benchmark has."""
    names = sorted({row.tool[:MAX_ID] for row in panel()})
    entries = [
        _entry("org", TENANT, {"enforcement": "enforce", "forbidden_targets": []}),
        _entry(
            "agent", AGENT, {"tenant_id": TENANT, "tier": "T3", "tools": None, "autonomy_tier": "bounded"}
        ),
        *(_entry("tool", name, dict(_TOOL)) for name in names),
        *items.entries(TENANT),
        *more,
    ]
    return json.dumps({"entries": entries}).encode()


def policy(
    rules: list[dict[str, Any]] | None = None,
    *,
    similarity: bool = False,
    more: Sequence[Mapping[str, Any]] = (),
) -> Policy:
    """The policy itself, compiled anew."""
    bundle = load_bundle(document(rules, similarity=similarity))
    quality = load_quality_bundle(items.QUALITY.read_bytes())
    return Policy({BUNDLE: bundle}, load_registry(registry(more)), BUNDLE, {quality.id: quality}, quality.id)


def point() -> DecisionPoint:
    """A decision point that has decided nothing yet."""
    return point_of(policy())


def point_of(under: Policy) -> DecisionPoint:
    """The same under a policy that is compiled already."""
    return build_decision_point(Settings(), under, {})


def parts(rules: list[dict[str, Any]] | None = None) -> PointParts:
    """What a decision point decides with, for measuring one stage of it."""
    under, limits = policy(rules), Settings().limits()
    ways = plans(under, {}), plan_writes(under), plan_retrievals(under, TENANT)
    return PointParts(under, limits, time.perf_counter_ns, TENANT, *ways)


def records(
    trust: ThrowawayTrust,
    *,
    similarity: bool = False,
    likened: bool = False,
    grader: bool = False,
    beside: bool = False,
    more: Sequence[Mapping[str, Any]] = (),
) -> list[ControlRecord]:
    """The policy as it is published. `likened`: all actions are compared with known ones; `beside`: those of
    the agent LIKENED are, by a bundle of its own."""
    judging = json_object(items.QUALITY.read_bytes())
    second = []
    if beside:
        spec = {"tenant_id": TENANT, "tier": "T3", "tools": None, "policy_bundle_id": LIKENED}
        more = [*more, _entry("agent", LIKENED, spec)]
        second = [trust.bundle(orjson.dumps({**orjson.loads(document(likened=True)), "id": LIKENED}))]
    return [
        *trust.policy(document(similarity=similarity, likened=likened, grader=grader), registry(more)),
        quality_policy.signed(trust, judging),
        *second,
    ]


def environment(trust: ThrowawayTrust) -> dict[str, str]:
    """The settings of a worker under this policy."""
    return {
        "SLUICE_POLICY__ROOT_KEYS": json.dumps([trust.root_key]),
        "SLUICE_POLICY__INSTALLATION": trust.installation,
        "SLUICE_POLICY__DEFAULT_BUNDLE": BUNDLE,
    }


def _entry(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "id": name, "revision": 1, "spec": spec}
