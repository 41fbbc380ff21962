"""The report of an auditor's question: one page with all rows, the records behind them and their proofs, and
a detached signature (docs/audit-questions.md)."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.cli.pages import render_document
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.clock import rfc3339
from sluice.core.trust.dsse import sign
from sluice.text.plurals import count_noun
from sluice.verifier.report_check import PAYLOAD_TYPE

if TYPE_CHECKING:
    from sluice.adapters.ledger_questions import ProvenAnswer, SignedHead
    from sluice.core.reports.audit_rows import AuditQuestion
    from sluice.core.trust.dsse import Signer

SCHEMA = "sluice/audit_report/v1"
SIGNATURE = ".dsse.json"
"""Behind the name of a report's file: its signature."""


class ReportBasis(NamedTuple):
    """What a report rests on. `made_ms`: when it is made, ms since 1970."""

    installation: str
    signed: SignedHead
    made_ms: int


def write_report(question: AuditQuestion, answer: ProvenAnswer, basis: ReportBasis) -> bytes:
    """The page."""
    head = basis.signed.head
    newer = (
        f" {count_noun(answer.newer, 'newer row')} left out: no head signs them yet." if answer.newer else ""
    )
    text = (
        f"The ledger up to tree head {head.number}, signed at {head.signed_at}: "
        f"{count_noun(head.size, 'record')}, root {head.root}.{newer}"
    )
    return render_document(
        "audit_report.html",
        question=question,
        scope=describe_scope(question),
        basis=text,
        rows=[[row[name] for name in question.columns] for row, _ in answer.rows],
        evidence=_write_evidence(question, answer, basis),
    ).encode()


def sign_report(question: AuditQuestion, page: bytes, basis: ReportBasis, key: Signer) -> bytes:
    """The detached signature of a page: a DSSE envelope whose payload names the page by its SHA-256."""
    statement = {
        "schema": SCHEMA,
        "page": f"sha256:{sha256(page).hexdigest()}",
        "question": question.name,
        "installation": basis.installation,
        "head": basis.signed.head.number,
        "root": basis.signed.head.root,
        "made_at": rfc3339(basis.made_ms),
    }
    return sign(PAYLOAD_TYPE, canonical(statement), [key]).encode()


def describe_scope(question: AuditQuestion) -> str:
    """Whom and what time a question is about."""
    scope = question.scope
    parts = [f"{word} {value}" for word, value in zip(("tenant", "agent"), scope[:2], strict=True) if value]
    times = [f"{word} {at}" for word, at in (("from", scope.since), ("until before", scope.until)) if at]
    return ", ".join([*(parts or ["all tenants and agents"]), *(times or ["all times"])])


def _write_evidence(question: AuditQuestion, answer: ProvenAnswer, basis: ReportBasis) -> str:
    evidence: dict[str, Any] = {
        "schema": SCHEMA,
        "question": question.name,
        "scope": question.scope._asdict(),
        "installation": basis.installation,
        "made_at": rfc3339(basis.made_ms),
        "head": basis.signed.head.number,
        "columns": list(question.columns),
        "rows": [{"cells": row, "proof": number} for row, number in answer.rows],
        "newer": answer.newer,
        "proofs": answer.proofs,
    }
    return json.dumps(evidence).replace("<", "\\u003c")
