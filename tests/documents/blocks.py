"""The fenced blocks of README.md and docs/*.md, and which of them are not run, with the reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
RUN, RECORD, PROGRAM = "sh", "json", "python"
CLIENT = "from sluice.client"
"""Begins the programs of agents, which run as the commands do."""

NOT_RUN = {
    ("README.md", "make demo"): "sets an environment up and runs the tests; CI calls both",
    ("README.md", "make test ARGS"): "names what a developer calls; CI calls the most of it",
    ("README.md", "flowchart LR"): "a drawing",
    (
        "README.md",
        "python docs/examples/payment.py",
    ): "waits for a person; tests/kafka/test_init.py runs it, and answers as the next block does",
    ("README.md", "sluice escalations list --role vp"): "as above",
    (
        "docs/other-languages.md",
        "public ",
    ): "bytes that are signed; tests/unit/client/test_client_parts.py checks them",
    (
        "docs/mcp-server-requests.md",
        "agent = ",
    ): "a file of options; tests/adapters/test_mcp_server_requests.py reads it",
    ("docs/mcp.md", "umask 077"): "serves until it is stopped; tests/kafka/test_mcp.py serves so",
    ("docs/mcp.md", "[listen]"): "a file of options; tests/adapters/test_mcp_listening.py reads it",
    (
        "docs/signing-agents.md",
        "grant = ",
    ): "two lines of two agents; tests/unit/core/actions/test_delegation.py runs them",
    (
        "docs/other-languages.md",
        "(cd docs/",
    ): "fetches packages; tests/kafka/test_other_languages.py does, and runs them",
    (
        "docs/other-languages.md",
        "const client",
    ): "TypeScript; tests/kafka/test_other_languages.py runs the example, which is made so",
    (
        "docs/mandates.md",
        "from datetime",
    ): "an issuer's key; tests/unit/core/actions/test_task_mandates.py runs it",
    ("docs/mandates.md", "with in_session"): "tests/kafka/test_mandates.py does it on a broker",
    ("docs/mandates.md", "sluice mandate"): "needs an issuer's key; tests/kafka/test_mandates.py runs it",
    ("docs/hooks.md", "{"): "a product's settings; tests/unit/cli/machine/test_hook.py reads them",
    ("docs/hooks.md", "[[hooks"): "as above",
    (
        "docs/mcp-server-requests.md",
        "{",
    ): "a rule; tests/adapters/test_mcp_server_requests.py judges by it",
    ("docs/mcp.md", "{"): "the configuration of an agent's host; tests/kafka/test_mcp.py starts it so",
    (
        "docs/approvals.md",
        "sluice escalations show",
    ): "needs an escalation's id and an approver's key; tests/kafka/test_approvals.py answers so",
    (
        "docs/standing-grants.md",
        "sluice escalations approve",
    ): "needs an escalation's id and an approver's key; tests/kafka/test_approvals.py grants so",
    (
        "docs/standing-grants.md",
        "sluice escalations grant",
    ): "needs an escalation's id and an approver's key; tests/kafka/test_approvals.py grants so",
    (
        "docs/notifications.md",
        "[slack]",
    ): "settings; tests/kafka/test_notifications.py starts a notifier with such",
    ("docs/notifications.md", "{"): "a webhook's body; tests/kafka/test_notifications.py takes such",
    (
        "docs/notifications.md",
        "import base64",
    ): "a receiver's check; tests/kafka/test_notifications.py runs it",
    (
        "docs/running-models.md",
        "sluice grader prove",
    ): "needs a model's key; tests/unit/offline/test_golden_set.py proves a model on loopback",
    (
        "docs/install.md",
        "python3.11 -m venv",
    ): "installs for the machine; tests/kafka/test_wheel.py does the same in an empty environment",
    ("docs/guard-your-agent.md", "from "): "packages of frameworks; tests/frameworks runs it in theirs",
    ("docs/install.md", "docker build"): "needs Docker; tests/unit/test_image.py runs the stages' commands",
    (
        "docs/kubernetes.md",
        "helm install",
    ): "needs a cluster; tests/unit/test_chart.py reads what is installed",
    ("docs/kubernetes.md", "kubectl --namespace"): "needs a cluster with the chart's objects",
    ("docs/archive.md", "manifest/"): "the folders of an archive",
    (
        "docs/tree-heads.md",
        "sluice keys new heads",
    ): "signs until it is stopped; tests/kafka/test_tree_heads.py signs so",
    ("docs/tree-heads.md", "sluice ledger verify"): "needs a head key; the same file verifies so",
    ("docs/tree-heads.md", "sluice ledger prove"): "needs a decision's id; the same file proves so",
    (
        "docs/tree-heads.md",
        "sluice ledger consistency",
    ): "two people's commands; tests/unit/verifier/test_witnesses.py co-signs so",
    (
        "docs/tree-heads.md",
        "sluice ledger check-proof stamped-heads.jsonl",
    ): "needs an authority; tests/adapters/test_head_stamps.py has one",
    (
        "docs/tree-heads.md",
        '{"schema"',
    ): "a payload's form; tests/unit/core/trust/test_tree_heads.py holds it",
    ("docs/architecture.md", "flowchart TB"): "a drawing; tests/unit/test_architecture.py holds it current",
    ("docs/architecture_before.md", "flowchart TB"): "a drawing of a tree that is no more",
    (
        "docs/policy.md",
        "INFO sluice.stream",
    ): "a worker's log; tests/unit/stream/test_policy_log.py holds the lines",
    (
        "docs/relaxing-policy.md",
        "ERROR sluice.stream",
    ): "a log of a worker that stops; tests/kafka/test_policy_loss.py holds the lines",
    (
        "docs/relaxing-policy.md",
        "sluice registry accept-loss",
    ): "needs control topics that lost something; tests/kafka/test_policy_loss.py accepts a loss so",
    ("docs/aarm.md", "pytest"): "the suite itself runs it",
    (
        "docs/freezing.md",
        "sluice freeze",
    ): "needs the owner's key and would stop the examples; tests/kafka/test_freeze.py freezes so",
    (
        "docs/freezing.md",
        "from sluice.bootstrap",
    ): "a cluster of nobody's; tests/kafka/test_freeze_in_flight.py connects so",
    (
        "docs/freezing.md",
        "sluice thaw",
    ): "needs two people's keys; tests/kafka/test_freeze.py thaws so",
    (
        "docs/erasure.md",
        "sluice keys seal",
    ): "waits for the broker's cleaner, 7 minutes; tests/kafka/test_erase.py erases so",
    ("docs/erasure.md", "{"): "a part of a bundle; tests/kafka/test_sealing_edges.py publishes one like it",
    (
        "docs/erasure.md",
        "from sluice.bootstrap",
    ): "settings of nobody's; tests/kafka/test_sealing_edges.py makes a client so",
    ("docs/adding-a-gate.md", "# app/"): "the tree's own code; tests/unit/test_adding_a_gate.py compares it",
    ("docs/adding-a-gate.md", "{"): "a part of a bundle; tests/unit/test_adding_a_gate.py decides under it",
    (
        "docs/secured-kafka.md",
        "from sluice.client",
    ): "a cluster of nobody's; tests/kafka/test_secured_kafka.py connects so",
    (
        "docs/secured-kafka.md",
        "sluice broker start --secured",
    ): "a broker beside the others; tests/kafka/test_broker.py starts one and logs in by its files",
    (
        "docs/first-installation.md",
        "sluice keys new gateway-people",
    ): "a person edits a file in its middle; tests/kafka/test_delegated_answers.py publishes such an entry",
    (
        "docs/observability.md",
        "rule_files:",
    ): "Prometheus is not there; the rules are held by their own tests",
    ("docs/secured-kafka.md", "kafka-configs.sh"): "likewise; the same file sets every role's ACLs",
    (
        "docs/secured-kafka.md",
        "[kafka]",
    ): "settings; tests/unit/client/test_kafka_connection.py reads such",
    ("docs/rules.md", "{"): "each example is loaded and decided by tests/unit/core/rules/test_rules_guide.py",
    ("docs/rules.md", "action.parameters.l.all"): "each condition is refused there as well",
}
"""Blocks that neither run nor are read as records, by document and beginning."""


@dataclass(frozen=True, slots=True)
class Block:
    """`line`: of the fence, from 1; `kind`: what stands behind it."""

    document: str
    line: int
    kind: str
    text: str

    @property
    def is_run(self) -> bool:
        """Whether it runs in the order of its document: a command or an agent's program."""
        is_program = self.kind == PROGRAM and self.text.startswith(CLIENT)
        return (is_program or self.kind == RUN) and self.why_not_run is None

    @property
    def name(self) -> str:
        """Where a person finds it."""
        return f"{self.document}:{self.line}"

    @property
    def why_not_run(self) -> str | None:
        """The reason, if it is listed."""
        listed = (
            reason
            for (document, start), reason in NOT_RUN.items()
            if self.document == document and self.text.startswith(start)
        )
        return next(listed, None)


def documents() -> list[str]:
    """README and the guides; what docs/reference has is generated, and decisions are history."""
    return ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


def blocks(document: str) -> list[Block]:
    """In their order, without the indentation of a list."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found = []
    for one in _FENCE.finditer(text):
        indent = len(one["indent"])
        lines = "".join(line[indent:] for line in one["text"].splitlines(keepends=True))
        line = text[: one.start()].count("\n") + 1
        found.append(Block(document, line, one["kind"].strip(), lines))
    return found
