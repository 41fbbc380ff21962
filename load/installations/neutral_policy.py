"""A neutral policy for the fault runs: every decision follows from what its input says.

Allowed: every action, but for a purge (which cannot be undone) of more than `PURGE_LIMIT` rows; every memory
write, but for those without metadata, with the words `ATTACK`, or derived from what is not trusted. Whatever
is known of its source, a write with nothing else against it stays above the write threshold. What retrieved
items come to is in load/installations/quality_policy.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

from load.installations import quality_policy
from sluice.core.actions.causal import JUDGE, JUDGE_IN_CONTEXT
from sluice.core.actions.grading import GRADE, GRADE_IN_CONTEXT
from sluice.offline.bundle_source import SHIPPED, read_whole_bundle
from sluice_topics.records.inputs import ActionType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice_demo.throwaway_trust import ControlRecord, ThrowawayTrust

TENANT = "load"
AGENT = "load-agent"
UNSIGNED_FACTOR = 2
READ_TOOL = "load.read"
PURGE_TOOL = "load.purge"
PURGE_LIMIT = 1000
NO_PURGE_AFTER_READING = {
    "id": "read-then-purge",
    "reason": "what was just read is not purged",
    "first": f"action.tool == '{READ_TOOL}'",
    "then": f"action.tool == '{PURGE_TOOL}'",
    "within_ms": 3_600_000,
}
"""For an installation whose stages name the gate `sequence`."""
BUNDLE = "load.neutral"
EXEMPT_SOURCE = "load-feed"
ATTACK, DOUBT = "obey the load run", "mind the load run"
WRITE_THRESHOLD, QUARANTINE_THRESHOLD = 0.5, 0.3
REVIEW_AFTER_MS = 6000
MOST_HELD = 3
"""Of a partition, in the runs that want memories evicted."""
STAGES = ("controls", "fast_reject", "poison", "slow_probe", "consequence", "tier_auth")
ASKING = (
    *("controls", "poison", "slow_probe", "inbound", "similarity", "consequence", "causal", "policies"),
    *("grader", "tier_auth"),
)
CLERK = "load-clerk"
"""The agent whose inputs are judged by a model."""
MODEL_MS, ENCODER_MS = 3_000, 60_000

_T2 = {"reversible": "T2", "irreversible": "T2", "unknown": "T2"}

LETTERS = "-letters-"
"""In the names of sessions of persons who are erased (load/erasures.py); they have a recount of their own."""


def is_of_persons(key: bytes | None) -> bool:
    """Whether a record is of a session in which letters to such persons are written."""
    return key is not None and LETTERS.encode() in key


def entries(revision: int = 1, tenant: str = TENANT) -> list[dict[str, Any]]:
    """One tenant's agents, two tools, a memory source that brings no metadata, and a recorded reference."""
    exempt = {
        "tenant_id": tenant,
        "source_id": EXEMPT_SOURCE,
        "quality_exempt": True,
        "reason": "a feed of the fault runs",
    }
    specs: dict[tuple[str, str], dict[str, Any]] = {
        ("agent", AGENT): {"tenant_id": tenant, "tier": "T2", "autonomy_tier": "sandbox"},
        ("tool", READ_TOOL): _tool("T1", "DATABASE_READ", reversible=True),
        ("tool", PURGE_TOOL): _tool("T2", "DATABASE_WRITE", reversible=False),
        ("source", f"{tenant}/{EXEMPT_SOURCE}"): exempt,
        **quality_policy.make_changing(tenant),
    }
    return [
        {"kind": kind, "id": name, "revision": revision, "spec": spec} for (kind, name), spec in specs.items()
    ]


def bundle(
    revision: int = 1, purge_limit: int = PURGE_LIMIT, stages: Sequence[str] = STAGES
) -> dict[str, Any]:
    """No patterns, and a consequence score that is always zero."""
    action_type = {"risk": 0, "reversible": None, "rows_upper_bound": 100, "tier": _T2}
    return {
        "id": BUNDLE,
        "revision": revision,
        "description": "Neutral policy of the fault runs and benchmarks.",
        "stages": list(stages),
        "action_types": dict.fromkeys(get_args(ActionType), action_type),
        "irreversible_row_threshold": purge_limit,
        "consequence": {
            "weights": {"reversibility": 0, "rows": 1000, "action_type": 0},
            "reversibility": {"reversible": 0, "irreversible": 0, "unknown": 0},
            "row_steps": [{"from_rows": 0, "score": 0}],
            "escalate_at": 1000,
            "block_at": 1001,
        },
        "escalation_ttl_ms": 3_600_000,
        "outcomes": {"unsigned_factor": UNSIGNED_FACTOR},
        "memory": _memory(),
        "sequence": {"rules": [NO_PURGE_AFTER_READING]},
    }


def records(trust: ThrowawayTrust, began_ms: int, stages: Sequence[str] = STAGES) -> list[ControlRecord]:
    """The policy as it is published; `began_ms`: when, since one override in it soon expires."""
    registry = {"entries": [*entries(), *quality_policy.make_standing(trust, TENANT, began_ms)]}
    policy = trust.make_policy(json.dumps(bundle(stages=stages)).encode(), json.dumps(registry).encode())
    return [*policy, quality_policy.sign_bundle(trust, quality_policy.document())]


def make_asking(trust: ThrowawayTrust, model: str) -> list[ControlRecord]:
    """Later revisions with which every gate that can asks the model or the encoder, about all that the agent
    `CLERK` does; the gates are `ASKING`. What the model's proof says is made up."""
    library = json.loads(read_whole_bundle(SHIPPED / "default.json"))["similarity"]
    policy = {
        "id": "load.books",
        "title": "Closed books",
        "text": "Nobody reads what was closed without saying why.",
        "source": {"document": "load/installations/neutral_policy.py", "place": "asking"},
        "appliesToTools": [READ_TOOL],
    }
    rule = {"id": "asked", "reason": "only what was asked", "criterion": "It does only what was asked for."}
    parts = {
        "inbound": {"mode": "enforce", "judge": "always", "budget_ms": MODEL_MS},
        "similarity": {**library, "enabled": True, "mode": "enforce", "budget_ms": ENCODER_MS},
        "causal": {"enabled": True, "budget_ms": MODEL_MS},
        "policies": {"budget_ms": MODEL_MS, "policies": [policy]},
        "grader": {"budget_ms": MODEL_MS, "rules": [rule]},
    }
    bodies = {"judge": "always", "budget_ms": MODEL_MS, "on_failure": "strong"}
    proof = {
        "golden": "sha256:" + "0a" * 32,
        "prompts": {
            model_prompt.name: model_prompt.version
            for model_prompt in (GRADE, GRADE_IN_CONTEXT, JUDGE, JUDGE_IN_CONTEXT)
        },
        "cases": 160,
        "agreement": 0.95,
        "flips": 1,
        "p50_ms": 40.0,
        "p99_ms": 120.0,
        "proved_at": "2026-11-01T00:00:00.000Z",
    }
    prompt = "You keep the books. Never change an entry that is closed."
    clerk = {"tenant_id": TENANT, "tier": "T2", "system_prompt": prompt}
    entries = [
        {"kind": "agent", "id": CLERK, "revision": 1, "spec": clerk},
        {"kind": "model_proof", "id": model, "revision": 1, "spec": proof},
    ]
    return [
        trust.sign_bundle(json.dumps(bundle(2, stages=ASKING) | parts).encode()),
        quality_policy.sign_bundle(trust, quality_policy.document(2) | {"content_judge": bodies}),
        *trust.sign_entries(entries),
    ]


def environment(trust: ThrowawayTrust) -> dict[str, str]:
    """The settings of a worker under this policy."""
    return {
        "SLUICE_POLICY__ROOT_KEYS": json.dumps([trust.root_key]),
        "SLUICE_POLICY__INSTALLATION": trust.installation,
        "SLUICE_POLICY__DEFAULT_BUNDLE": BUNDLE,
        "SLUICE_POLICY__DEFAULT_QUALITY_BUNDLE": quality_policy.BUNDLE,
    }


def _memory() -> dict[str, Any]:
    """A model is asked about every write, so that some of them wait while others are decided."""
    return {
        "quarantineReviewMs": REVIEW_AFTER_MS,
        "trust": {
            "writeThreshold": WRITE_THRESHOLD,
            "quarantineThreshold": QUARANTINE_THRESHOLD,
            "llmAnalysis": True,
        },
        "content": {
            "findings": [_make_finding("attack", "definite", ATTACK), _make_finding("doubt", "strong", DOUBT)]
        },
        "analysis": {"budget_ms": 60_000},
    }


def _make_finding(name: str, weight: str, words: str) -> dict[str, Any]:
    return {
        "id": f"load.{name}",
        "kind": "instruction_override",
        "weight": weight,
        "reason": f"the words that the fault runs take for {name}",
        "source": "load/installations/neutral_policy.py",
        "any": [words],
        "framed": False,
    }


def _tool(tier: str, action_type: str, *, reversible: bool) -> dict[str, Any]:
    return {
        "tier": tier,
        "action_type": action_type,
        "reversible": reversible,
        "trusts_row_claims": True,
    }
