"""An auditor's questions about a mixed run on a real broker whose every answer is known; the signed report,
and what of it cannot be changed unseen."""

from __future__ import annotations

import asyncio
import csv
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from load.installations import neutral_policy
from load.installations.approvers import approver, entry
from sluice.cli.ledger.audit_report import SIGNATURE
from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key
from sluice.core.foundation.canonical import canonical
from sluice.core.registry.keys import SigningKey
from sluice.core.reports.audit_questions import QUESTIONS, build_answer_schema
from sluice.core.trust.dsse import Envelope, read_envelope, sign
from sluice.verifier.report_check import PAYLOAD_TYPE
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import (
    DEAD_LETTERS,
    ESCALATIONS,
    MEMORY_WRITES,
    OUTCOMES,
    POLICY_EVENTS,
    QUARANTINE,
    REVIEWS,
    SESSION_EVENTS,
    VERDICTS,
)
from tests.kafka import installation as install
from tests.kafka import memories
from tests.unit.core.actions.escalation_scene import answer_signed_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
TOOL, HASTY_AGENT, HASTY_MS = "load.refund", "hasty-agent", 1500
KEYS = {name: SigningKey(Ed25519PrivateKey.generate()) for name in ("ann", "ben")}
STAGES = ("controls", "fast_reject", "consequence", "tier_auth")
SESSION = "audited"


@dataclass
class Run:
    """A run that is over: its installation, the keys of its heads and of the auditor, and what it wrote."""

    installation: TestInstallation
    head_key: SigningKey
    key: SigningKey
    written: dict[str, int]

    def ask(self, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of `sluice audit`."""
        result = CliRunner().invoke(cli, ["audit", *words], env=self.installation.settings)
        return result.exit_code, result.stdout, result.stderr

    def answer(self, *words: str) -> list[dict[str, Any]]:
        """The rows of an answer as JSON, which fits its schema."""
        code, out, complaint = self.ask(*words, "--json")
        assert code == 0, complaint
        answer = json.loads(out)
        Draft202012Validator(build_answer_schema()).validate(answer)
        assert answer["count"] == len(answer["rows"])
        return list(answer["rows"])

    def report(self, file: Path, *words: str) -> str:
        """Write a report; what the command says."""
        key = str(self.installation.folder / "auditor.pem")
        code, _, complaint = self.ask(*words, "--report", str(file), "--key", key)
        assert code == 0, complaint
        return complaint

    def check(self, file: Path) -> dict[str, Any]:
        """What `sluice audit check` finds."""
        keys = ["--key", self.key.public.text, "--head-key", self.head_key.public.text]
        code, out, complaint = self.ask("check", str(file), *keys, "--json")
        assert code in {0, 1}, complaint
        found: dict[str, Any] = json.loads(out)
        assert (code == 0) == found["holds"]
        return found


@pytest.fixture(scope="module")
def run(kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run for all tests here; its worker has stopped."""
    folder = tmp_path_factory.mktemp("audit")
    made = install.make_small_installation(
        kafka, folder, module_prefix.rstrip("."), STAGES, SLUICE_WORKER__TIMER_INTERVAL_S="0.2"
    )
    asyncio.run(publish_policy(kafka, made.prefix, _list_policy(made)))
    heads, key = (make_private_key(folder / f"{name}.pem") for name in ("heads", "auditor"))
    made.settings["SLUICE_HEADS__SIGNING_KEY"] = str(folder / "heads.pem")
    for worker in install.run_worker(made):
        written = _act(made, worker)
    unanswered = install.publish(made, [install.action(SESSION, "a-9")])
    assert len(unanswered) == 1
    signed = CliRunner().invoke(cli, ["ledger", "sign-heads", "--once"], env=made.settings)
    assert signed.exit_code == 0, signed.stderr
    return Run(made, heads, key, written)


def _list_policy(made: TestInstallation) -> list[Any]:
    hasty = {**neutral_policy.bundle(stages=STAGES), "id": "load.hasty", "escalation_ttl_ms": HASTY_MS}
    tool = {"tier": "T3", "action_type": "PAYMENT", "reversible": False, "trusts_row_claims": True}
    agent = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "policy_bundle_id": "load.hasty"}
    return [
        *(approver(made.trust, name, key, ["approver", "reviewer"]) for name, key in KEYS.items()),
        made.trust.sign_bundle(json.dumps(hasty).encode()),
        *made.trust.sign_entries([entry("agent", HASTY_AGENT, **agent), entry("tool", TOOL, **tool)]),
    ]


def _act(made: TestInstallation, worker: WorkerProcess) -> dict[str, int]:
    """The mixed run."""
    actions = [
        install.action(SESSION, "a-1"),
        install.action(SESSION, "a-2", toolName=neutral_policy.PURGE_TOOL, rows_affected=5000),
        install.action(SESSION, "a-3", toolName="load.unheard"),
        *(install.action(SESSION, f"r-{number}", toolName=TOOL) for number in (1, 2)),
        install.action(SESSION, "r-3", toolName=TOOL, agent_id=HASTY_AGENT),
    ]
    install.publish(made, actions)
    install.publish(made, [(SESSION.encode(), b"no JSON")])
    outcome = {"action_id": "a-1", "session_id": SESSION, "rows_affected": 4, "reported_by": "x"}
    install.wait_for(made, VERDICTS, SESSION, 6, worker)
    install.publish(made, [outcome, {**outcome, "action_id": "never"}], OUTCOMES)
    opened = {
        record["action_id"]: record for record in install.wait_for(made, ESCALATIONS, SESSION, 3, worker)
    }
    answers = [_answer(made, opened["r-1"], "ann"), _answer(made, opened["r-2"], "ben", "deny")]
    install.publish(made, answers, REVIEWS)
    install.publish(made, [memories.write(SESSION, "w-1", content=neutral_policy.DOUBT)], MEMORY_WRITES)
    (entered,) = install.wait_for(made, QUARANTINE, SESSION, 1, worker)
    review = {"subject_id": entered["memory_id"], "digest": entered["content_digest"]}
    install.publish(made, [_answer(made, opened["r-1"], "ann", **review)], REVIEWS)
    install.wait_for(made, QUARANTINE, SESSION, 2, worker)
    install.wait_for(made, ESCALATIONS, SESSION, 6, worker)
    before = len(install.read_stored(made, POLICY_EVENTS))
    stricter = {"tier": "T3", "action_type": "DATABASE_READ", "reversible": True, "trusts_row_claims": True}
    changed = [{**entry("tool", neutral_policy.READ_TOOL, **stricter), "revision": 2}]
    asyncio.run(publish_policy(made.bootstrap_servers, made.prefix, made.trust.sign_entries(changed)))
    install.write(made, POLICY_EVENTS, before + made.partitions, worker)
    install.publish(made, [install.action(SESSION, "a-4")])
    install.wait_for(made, VERDICTS, SESSION, 8, worker)
    install.write(made, DEAD_LETTERS, 1, worker)
    install.wait_for(made, SESSION_EVENTS, SESSION, 2, worker)
    return {"policy events": len(install.read_stored(made, POLICY_EVENTS))}


def _answer(
    made: TestInstallation, opened: dict[str, Any], by: str, decision: str = "approve", **changed: Any
) -> dict[str, Any]:
    return answer_signed_by(KEYS[by], opened, by, decision, audience=made.audience, **changed)


def pick(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """These cells of each row."""
    return [tuple(row[name] for name in names) for row in rows]


def test_what_the_agent_did(run: Run) -> None:
    rows = run.answer("activity", "--agent", neutral_policy.AGENT)
    verdicts = [row for row in rows if row["kind"] == "verdict"]
    assert pick(verdicts, "subject", "decision") == [
        ("a-1", "ALLOW"),
        ("a-2", "BLOCK"),
        ("a-3", "BLOCK"),
        ("r-1", "ESCALATE"),
        ("r-2", "ESCALATE"),
        ("a-4", "ESCALATE"),
    ]
    kinds = [row["kind"] for row in rows]
    assert kinds.count("reservation_settled") == 1
    assert kinds.count("memory_decision") == 1
    assert kinds.count("escalation_resolved") == 2
    assert "r-3" not in {row["subject"] for row in rows}
    assert [row["sequence"] for row in rows] == sorted(row["sequence"] for row in rows)


def test_who_answered(run: Run) -> None:
    rows = run.answer("approvals")
    assert pick(rows, "approver_id", "answer", "together_with", "came_to") == [
        ("ann", "approved", "alone", "ALLOW"),
        ("ben", "denied", "alone", "BLOCK"),
        ("ann", "approved", "alone", "admitted"),
    ]
    assert run.answer("approvals", "--tenant", "another") == []
    assert run.answer("approvals", "--until", "2020-01-01") == []


def test_what_changed_in_policy_and_in_decisions(run: Run) -> None:
    rows = run.answer("policy")
    (entered,) = [row for row in rows if row["id"] == f"tool/{neutral_policy.READ_TOOL}@2"]
    assert (entered["state"], entered["signed_by"]) == ("in force", "owner")
    assert len([row for row in rows if row["kind"] == "policy_in_force"]) == run.written["policy events"]
    counted = [row for row in rows if row["kind"] == "decisions"]
    by_change: dict[Any, dict[Any, tuple[int, int]]] = {}
    for row in counted:
        change = by_change.setdefault(row["policy_now"], {})
        change[row["gate"], row["outcome"]] = row["decisions_before"], row["decisions_after"]
    last = list(by_change.values())[-1]
    assert last["none", "allowed"][1] == 0
    assert last["tier_auth", "needs_human"][1] == 1


def test_which_model_was_asked_and_what_it_decided(run: Run) -> None:
    assert pick(run.answer("models"), "subject", "gate", "port", "decisive") == [
        ("w-1", "memory", "analysis", "no")
    ]


def test_what_was_overridden(run: Run) -> None:
    rows = run.answer("overrides")
    assert pick(rows[:2], "what", "gates_said", "came_to", "by") == [
        ("approval", "ESCALATE", "ALLOW", "ann"),
        ("review", "quarantine", "admitted", "ann"),
    ]
    assert {row["what"] for row in rows[2:]} == {"quality override signed"}  # of the neutral policy
    of_agent = run.answer("overrides", "--agent", neutral_policy.AGENT)
    assert of_agent == rows[:2]


def test_what_was_not_decided(run: Run) -> None:
    rows = run.answer("undecided")
    assert sorted(set(pick(rows, "kind", "what"))) == [
        ("dead_letter", "the input could not be read"),
        ("escalation_expired", "nobody answered in time"),
        ("input", "no record answers the input"),
        ("input_refused", "the input was refused"),
        ("verdict", "denied or left open without a judgement"),
    ]
    assert {row["subject"] for row in rows if row["kind"] == "verdict"} == {"a-3"}


def test_the_table_and_the_csv_have_what_the_json_has(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    for name in QUESTIONS:
        words = [name, *(["--agent", neutral_policy.AGENT] if name == "activity" else [])]
        rows = run.answer(*words)
        code, out, complaint = run.ask(*words)
        assert code == 0, complaint
        assert f"{len(rows)} row" in out
        assert run.ask(*words, "--csv", str(file))[0] == 0
        with file.open(newline="", encoding="utf-8") as lines:
            read = list(csv.DictReader(lines))
        assert [row["event_hash"] for row in read] == [row["event_hash"] or "" for row in rows]
    assert run.ask("activity")[0] == 2


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_report_holds_with_all_its_rows_proven(run: Run, name: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    words = [name, *(["--agent", neutral_policy.AGENT] if name == "activity" else [])]
    rows = run.answer(*words)
    run.report(file, *words)
    found = run.check(file)
    assert found["findings"] == []
    assert (found["rows"], found["proven"]) == (len(rows), sum(row["event_hash"] is not None for row in rows))
    assert (found["head"], found["head_keys"]) == (1, True)
    stranger = SigningKey(Ed25519PrivateKey.generate()).public.text
    assert run.ask("check", str(file), "--key", stranger)[0] == 1


def test_a_package_in_the_brokers_place_answers_the_same(run: Run, tmp_path: Path) -> None:
    package, file = str(tmp_path / "evidence.zip"), tmp_path / "report.html"
    code, _, complaint = run.ask("export", "--since", "2020-01-01", "--out", package)
    assert code == 0, complaint
    for name in ("approvals", "policy", "models", "overrides"):
        assert run.answer(name, "--from", package) == run.answer(name)
    run.report(file, "overrides", "--from", package)
    assert run.check(file)["findings"] == []


def _change_page(change: Callable[[str], str]) -> Callable[[Path, SigningKey], None]:
    def tamper(file: Path, _key: SigningKey) -> None:
        page = file.read_text(encoding="utf-8")
        changed = change(page)
        assert changed != page
        file.write_text(changed, encoding="utf-8")

    return tamper


def _sign_again(change: Callable[[dict[str, Any]], None]) -> Callable[[Path, SigningKey], None]:
    """As whoever has the auditor's key would: the evidence and the table changed alike, and signed."""

    def tamper(file: Path, key: SigningKey) -> None:
        from hashlib import sha256  # noqa: PLC0415 - one test's

        page = file.read_text(encoding="utf-8")
        start = page.index('id="evidence">') + len('id="evidence">')
        end = page.index("</script>", start)
        evidence = json.loads(page[start:end])
        change(evidence)
        rows = "\n".join(
            "<tr>"
            + "".join(
                f"<td>{'' if (cell := row['cells'][name]) is None else cell}</td>" for name in row["cells"]
            )
            + "</tr>"
            for row in evidence["rows"]
        )
        body = (
            page[: page.index("<tbody>") + len("<tbody>\n")] + rows + page[page.index("\n</tbody>") : start]
        )
        page = body + json.dumps(evidence).replace("<", "\\u003c") + page[end:]
        file.write_text(page, encoding="utf-8")
        envelope = read_envelope(file.with_name(file.name + SIGNATURE).read_bytes())
        assert isinstance(envelope, Envelope)
        statement = json.loads(envelope.payload)
        statement["page"] = f"sha256:{sha256(page.encode()).hexdigest()}"
        signed = sign(PAYLOAD_TYPE, canonical(statement), [key]).encode()
        file.with_name(file.name + SIGNATURE).write_bytes(signed)

    return tamper


def _alter_record(evidence: dict[str, Any]) -> None:
    proof = evidence["proofs"]["proofs"][0]
    proof["record"] = proof["record"].replace('"approver_id":"ann"', '"approver_id":"eve"')
    evidence["rows"][0]["cells"]["approver_id"] = "eve"


def _put_other_hash(evidence: dict[str, Any]) -> None:
    evidence["rows"][0]["cells"]["event_hash"] = "sha256:" + "0" * 64


def _drop_row(evidence: dict[str, Any]) -> None:
    del evidence["rows"][0]


def _put_other_agent(evidence: dict[str, Any]) -> None:
    evidence["rows"][0]["cells"]["agent_id"] = "another"


def _swap_path(evidence: dict[str, Any]) -> None:
    proof = evidence["proofs"]["proofs"][0]
    name = "path" if proof["path"] else "partition_path"
    proof[name] = ["sha256:" + "1" * 64, *proof[name][1:]]


def _cut_signature(file: Path, _key: SigningKey) -> None:
    envelope = file.with_name(file.name + SIGNATURE)
    fields = json.loads(envelope.read_bytes())
    fields["signatures"] = []
    envelope.write_text(json.dumps(fields), encoding="utf-8")


@pytest.mark.parametrize(
    ("tamper", "where"),
    [
        (_change_page(lambda page: page.replace("<td>approved</td>", "<td>denied</td>", 1)), "signature"),
        (_change_page(lambda page: page.replace("<td>ann</td>", "<td>eve</td>", 1)), "row 1"),
        (_change_page(lambda page: page + "\n"), "signature"),
        (_cut_signature, "signature"),
        (_sign_again(_alter_record), "proof 1"),
        (_sign_again(_put_other_hash), "row 1"),
        (_sign_again(_put_other_agent), "row 1"),
        (_sign_again(_drop_row), "proof 1"),
        (_sign_again(_swap_path), "proof 1"),
    ],
)
def test_every_tampering_with_a_report_is_found(
    run: Run, tmp_path: Path, tamper: Callable[[Path, SigningKey], None], where: str
) -> None:
    file = tmp_path / "report.html"
    run.report(file, "approvals")
    tamper(file, run.key)
    found = run.check(file)
    assert not found["holds"]
    assert where in {finding["where"] for finding in found["findings"]}
    assert ("signature" in {finding["where"] for finding in found["findings"]}) == (
        not getattr(tamper, "__qualname__", "").startswith("_sign_again")
    )


def test_a_report_needs_a_key_and_a_head_that_the_ledger_fits(run: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "report.html")
    assert run.ask("overrides", "--report", file)[0] == 2
    key = ["--key", str(run.installation.folder / "auditor.pem")]
    stranger = SigningKey(Ed25519PrivateKey.generate()).public.text
    code, _, complaint = run.ask("overrides", "--report", file, *key, "--head-key", stranger)
    assert (code, "no known key" in complaint or "key" in complaint) == (1, True)
