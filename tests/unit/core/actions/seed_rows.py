"""The rows of the seeds' table (test_seeds.py), and the bundle and the registry under which they are decided.

Each row names the section that it is from; where the seeds contradict each other the row follows what was
settled, and says so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sluice.core.actions.grading import PORT as GRADER
from sluice.core.foundation.requests import Answer
from sluice.core.policy.similarity_settings import EMBEDDING
from tests.unit.core.actions.judging_scene import (
    ALIKE,
    POLITE,
    UNPROVED,
    judgement,
    likely,
    make_resembling,
    make_score,
)
from tests.unit.core.scene import bundle, entry, make_counted

STAGES = [
    "controls",
    "fast_reject",
    "rules",
    "similarity",
    "consequence",
    "causal",
    "topology",
    "policies",
    "grader",
    "tier_auth",
]
CAUSAL = "causal"
CONSTRAINT = "Never refund more than 100 euros."
HANDBOOK = {"document": "handbook", "place": "section 2"}
POLICIES = [
    {
        "id": "limit",
        "title": "Refund limit",
        "text": "Refunds above 100 euros need a person.",
        "appliesToTools": ["note"],
        "condition": "!has(action.parameters.amount) || action.parameters.amount <= 100.0",
        "source": HANDBOOK,
    },
    {
        "id": "never",
        "title": "No refund twice",
        "text": "Nobody refunds twice.",
        "outcome": "block",
        "condition": "!has(action.parameters.again)",
        "source": HANDBOOK,
    },
    {
        "id": "minimal",
        "title": "Data minimisation",
        "text": "Only the data that the purpose needs.",
        "outcome": "block",
        "appliesToTools": ["share*"],
        "source": {"document": "GDPR", "place": "Article 5(1)(c)"},
    },
]
ASSERTED = {
    "id": "locked_fact_honored",
    "type": "invariant",
    "reason": "the statement's closing balance is locked",
    "when": "has(action.parameters.balance)",
    "condition": "action.parameters.balance == double(facts.statement.amount)",
    "facts": {"statement": {"id": "bank-stmt-2025-08"}},
}
UNRESOLVED = {
    "id": "known_supplier",
    "type": "assertion",
    "reason": "suppliers are known",
    "when": "has(action.parameters.supplier)",
    "condition": "facts.supplier.name == action.parameters.supplier",
    "facts": {"supplier": {"id": "supplier-9"}},
}
PARTS: dict[str, Any] = {
    "stages": STAGES,
    "rules": [ASSERTED, UNRESOLVED],
    "similarity": ALIKE,
    "causal": {"enabled": True},
    "policies": {"policies": POLICIES},
    "grader": {"rules": [{**POLITE, "when": "has(action.parameters.text)"}], "proof": UNPROVED},
}
SEEDS = bundle(**PARTS)
ENTRIES = (
    entry("fact", "bank-stmt-2025-08", value={"amount": 100.0}, valid_from="2025-01-01T00:00:00.000Z"),
    entry("agent", "bound", tenant_id="acme", tier="T4", constraints=[CONSTRAINT]),
    entry("agent", "lead", tenant_id="acme", tier="T3", delegates_to=["helper", "closed"]),
    entry("agent", "helper", tenant_id="acme", tier="T3", callers=["lead"]),
    entry("agent", "closed", tenant_id="acme", tier="T3", callers=[]),
    entry("org", "acme", forbidden_targets=["prod.ledger*"]),
    make_counted("note", tier="T1", action_type="MESSAGE", reversible=True),
    make_counted("share_file", tier="T1", action_type="API_CALL", reversible=True),
    make_counted("hand_over", tier="T1", action_type="DELEGATION", reversible=True),
)
HARMLESS = make_resembling((0.3,), (0.7,))
"""A probability of harm of .02."""
GONE, LATE = Answer("unavailable", None, "no key"), Answer("overrun", None, "")


class Row(NamedTuple):
    """One line of the table. `action`: fields of the proposed action; `ports`: what they answer; `outcome`:
    the real one; `gate`: the first that did not pass; `reason`: the beginning of the verdict's; `asked`: the
    ports that were asked, the encoder apart."""

    section: str
    what: str
    action: dict[str, Any]
    outcome: str
    gate: str | None = None
    reason: str | None = None
    ports: dict[str, list[Answer]] = {}  # noqa: RUF012 - never changed
    asked: tuple[str, ...] = ()
    rows_before: int = 0
    governed: bool = False
    obligations: tuple[str, ...] = ()


def text(said: str = "thank you", **more: Any) -> dict[str, Any]:
    return {"toolName": "note", "parameters": {"text": said, **more}}


BOUND: dict[str, Any] = {"agent_id": "bound", "toolName": "note", "parameters": {"to": "a customer"}}
HANDED: dict[str, Any] = {"agent_id": "lead", "toolName": "hand_over", "delegate_to": "helper"}
RUN: dict[str, Any] = {"agent_id": "chief", "toolName": "run_shell", "action_type": "CODE_EXECUTION"}
ANY: dict[str, Any] = {"agent_id": "chief", "toolName": "anything"}
SHARED: dict[str, Any] = {"toolName": "share_file", "parameters": {"file": "customers.csv"}}
ERASE: dict[str, Any] = {"agent_id": "chief", "toolName": "erase"}

STAGE_1 = "000, Outputs"
STAGE_2 = "000, The grader (qualitative rules)"
CONTRACT = "000, Performance contract"
GATE_1 = "001, Gate 1 - Fast Reject"
L1, L2, L3 = (f"001, Gate 2, Layer {number}" for number in (1, 2, 3))
GATE_2B = "001, Gate 2B - Topology Check"
GATE_3 = "001, Gate 3 - Policy RAG"
GATE_4 = "001, Gate 4 - Tier Auth"

# fmt: off
TABLE = [
    Row(STAGE_1, "all rules passed: the action proceeds", {}, "ALLOW"),
    Row(STAGE_1, "a rule failed: denied, with the fact as evidence", {"parameters": {"balance": 99.0}},
        "BLOCK", "rules", "rule_failed: locked_fact_honored"),
    Row(STAGE_1, "the fact is honoured", {"parameters": {"balance": 100.0}}, "ALLOW"),
    Row(STAGE_1, "an unresolved reference: a person", {"parameters": {"supplier": "x"}},
        "ESCALATE", "rules", "inconclusive: rule known_supplier: unresolved_fact"),
    Row(GATE_1, "a forbidden target of the org", {"parameters": {"table": "prod.ledger.2025"}},
        "BLOCK", "fast_reject", "forbidden_target"),
    Row(GATE_1, "DROP TABLE", {**ANY, "parameters": {"sql": "DROP TABLE orders"}},
        "BLOCK", "fast_reject", "forbidden_pattern"),
    Row(GATE_1, "rm -rf", {**RUN, "parameters": {"command": "rm -rf /"}},
        "BLOCK", "fast_reject", "forbidden_pattern"),
    Row(GATE_1, "irreversible above the row threshold", {**ERASE, "rows_affected": 1001},
        "BLOCK", "fast_reject", "irreversible_rows"),
    Row(L1, "below .3: pass", {}, "ALLOW", ports={EMBEDDING: [likely(0.2999)]}),
    Row(L1, ".3: on to L2", {}, "ALLOW", ports={EMBEDDING: [likely(0.3001)]}),
    Row(L1, "up to .7: on to L2", {}, "ALLOW", ports={EMBEDDING: [likely(0.6999)]}),
    Row(L1, "above .7: BLOCK", {}, "BLOCK", "similarity", "similarity: 0.70", {EMBEDDING: [likely(0.7001)]}),
    Row(L1, "the score is a model's: without it a person", {},
        "ESCALATE", "similarity", "inconclusive", {EMBEDDING: [GONE]}),
    Row(L2, "irreversible, and the session's rows count with the action's", {**ERASE, "rows_affected": 1},
        "ESCALATE", "consequence", "consequence_score", rows_before=999),
    Row(L2, "the same in a session that changed nothing is a matter of Gate 4", {**ERASE, "rows_affected": 1},
        "ESCALATE", "tier_auth", "tier_T3"),
    Row(L3, "no constraints: nobody is asked", {}, "ALLOW"),
    Row(L3, "below .5 it passes", BOUND, "ALLOW", ports={CAUSAL: [judgement(0.4999)]}, asked=(CAUSAL,)),
    Row(L3, "a confidence of .5: a person", BOUND,
        "ESCALATE", CAUSAL, f"semantic_violation: 0.50: {CONSTRAINT}", {CAUSAL: [judgement(0.5)]}, (CAUSAL,)),
    Row(L3, "a confidence of .85: denied, with reasoning", BOUND,
        "BLOCK", CAUSAL, f"semantic_violation: 0.85: {CONSTRAINT}", {CAUSAL: [judgement(0.85)]}, (CAUSAL,)),
    Row(L3, "what L1 blocks is not asked about", BOUND,
        "BLOCK", "similarity", ports={EMBEDDING: [likely(0.9)]}),
    Row(GATE_2B, "both lists agree", HANDED, "ALLOW"),
    Row(GATE_2B, "not on the orchestrator's whitelist", {**HANDED, "delegate_to": "operator"},
        "BLOCK", "topology", "not_in_delegates_to"),
    Row(GATE_2B, "not among the sub-agent's allowed callers", {**HANDED, "delegate_to": "closed"},
        "BLOCK", "topology", "not_in_callers"),
    Row(GATE_3, "an explicit condition is decided without a model", text(amount=101.0),
        "ESCALATE", "policies", "policy_violated: limit: Refund limit (handbook, section 2)"),
    Row(GATE_3, "BLOCK beats ESCALATE", text(amount=101.0, again=True),
        "BLOCK", "policies", "policy_violated: never"),
    Row(GATE_3, "a semantic policy that names the tool is judged, always", SHARED,
        "BLOCK", "policies", "policy_violated: minimal: Data minimisation (GDPR, Article 5(1)(c))",
        {GRADER: [make_score(0.2)]}, (GRADER,)),
    Row(GATE_3, "and allows what keeps it", SHARED,
        "ALLOW", ports={GRADER: [make_score(0.95)]}, asked=(GRADER,)),
    Row(STAGE_2, ".85: allowed", text(), "ALLOW", ports={GRADER: [make_score(0.85)]}, asked=(GRADER,)),
    Row(STAGE_2, "below .70: denied", text(),
        "BLOCK", "grader", "rule_failed: polite", {GRADER: [make_score(0.6999)]}, (GRADER,)),
    Row(STAGE_2, ".70 is in the band: one retry, which settles it", text(),
        "ALLOW", ports={GRADER: [make_score(0.7), make_score(0.85)]}, asked=(GRADER, GRADER)),
    Row(STAGE_2, "still in the band after one retry: a person", text(), "ESCALATE", "grader",
        "inconclusive: rule polite", {GRADER: [make_score(0.8499), make_score(0.7)]}, (GRADER, GRADER)),
    Row(STAGE_2, "a retry below .70 denies", text(), "BLOCK", "grader",
        "rule_failed: polite", {GRADER: [make_score(0.75), make_score(0.1)]}, (GRADER, GRADER)),
    Row(STAGE_2, "governed (settled): no retry in the band", text(), "ESCALATE", "grader",
        "inconclusive: rule polite", {GRADER: [make_score(0.8)]}, (GRADER,), governed=True),
    Row(STAGE_2, "governed: .85 recovers", text(),
        "ALLOW", ports={GRADER: [make_score(0.85)]}, asked=(GRADER,), governed=True),
    Row(GATE_4, "T1: ALLOW", {"toolName": "find"}, "ALLOW"),
    Row(GATE_4, "T2: ALLOW with logging", {"toolName": "change"}, "ALLOW", obligations=("log",)),
    Row(GATE_4, "T3: ESCALATE", {"toolName": "erase"}, "ESCALATE", "tier_auth", "tier_T3"),
    Row(GATE_4, "T4: ESCALATE, a VP approves", {"toolName": "pay", "agent_id": "chief"},
        "ESCALATE", "tier_auth", "tier_T4"),
    Row(GATE_4, "above the agent's registered tier", {"toolName": "pay"},
        "ESCALATE", "tier_auth", "above_agent_tier"),
]
BUDGETS = [
    (L1, {}, EMBEDDING, 50, "similarity"),
    (L3, BOUND, CAUSAL, 50, "causal"),
    (GATE_3, SHARED, GRADER, 80, "policies"),
    (CONTRACT, text(), GRADER, 80, "grader"),
]
# fmt: on
"""By section: an action, the port that is late for it, its budget in ms, and the gate that is then over."""
