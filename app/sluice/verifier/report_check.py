"""Whether a signed report of an auditor's question is what its signer signed and what the ledger holds
(docs/audit-questions.md). It shares nothing with the code that made it.

Four things are looked at: the signature over the page's bytes, the proof of every record by the tree head,
that each row is of the record that it names, and that the table shows the rows of the evidence.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from .export import Located
from .head_check import KeyRing, decode_base64, encode_for_signing
from .head_proof_check import check_proof
from .ledger_record import NotStrict, encode_text, open_record, read_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .head_check import HeadSigners

PAYLOAD_TYPE = "application/vnd.sluice.audit-report+json"
_OF_THE_RECORD = ("partition", "sequence", "event_hash", "agent_id", "session_id", "tenant_id")
"""Columns that show a field of the record, letter for letter, where the record has it."""
_ADDED = frozenset({"agent_id", "session_id", "tenant_id"})


@dataclass(frozen=True, slots=True)
class ReportFinding:
    """What is wrong, and where: "signature", "page", "proof" or "row 7"."""

    where: str
    message: str


@dataclass(frozen=True, slots=True)
class ReportResult:
    """What a check found. `rows`, `proven`: of the report, and those of them that rest on a proven record;
    `head`: the number of the head that proves them, None without one."""

    findings: tuple[ReportFinding, ...]
    rows: int = 0
    proven: int = 0
    head: int | None = None

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


class _Page(HTMLParser):
    """The evidence in a page, and the cells of its table."""

    def __init__(self) -> None:
        super().__init__()
        self.evidence: list[str] = []
        self.rows: list[list[str]] = []
        self._within: str | None = None

    def read_evidence(self) -> dict[str, Any]:
        """The one evidence. Raises NotStrict."""
        if len(self.evidence) != 1:
            raise NotStrict("it has no evidence, or more than one")
        return read_object(self.evidence[0].encode())[0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A row, a cell, or the evidence begins."""
        if tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append("")
            self._within = tag
        elif tag == "script" and ("id", "evidence") in attrs:
            self._within = tag
            self.evidence.append("")

    def handle_endtag(self, tag: str) -> None:
        """A cell or the evidence ends."""
        if tag == self._within:
            self._within = None

    def handle_data(self, data: str) -> None:
        """The text of a cell or of the evidence."""
        if self._within == "td":
            self.rows[-1][-1] += data
        elif self._within == "script":
            self.evidence[-1] += data


def check_report(
    page: bytes, envelope: bytes, keys: Sequence[str], signers: HeadSigners | None
) -> ReportResult:
    """Check a report and its detached signature. `keys`: whose signature counts, base64 of 32 bytes;
    `signers`: as HeadCheck.

    Raises UnusableKey, and ImportError without the package `cryptography`.
    """
    findings = [ReportFinding("signature", message) for message in _check_signature(page, envelope, keys)]
    parsed = _Page()
    try:
        parsed.feed(page.decode())
        parsed.close()
        evidence = parsed.read_evidence()
        rows, columns = _read_rows(evidence), _read_columns(evidence)
    except (NotStrict, UnicodeDecodeError, IndexError) as error:
        return ReportResult((*findings, ReportFinding("page", str(error))))
    records, proof_findings = _check_proofs(evidence.get("proofs"), signers)
    findings += proof_findings
    findings += _check_rows(rows, records)
    findings += _check_table(rows, columns, [row for row in parsed.rows if row])
    proven = sum(row.get("proof") is not None for row in rows)
    return ReportResult(tuple(findings), len(rows), proven, _read_head(evidence))


def _check_signature(page: bytes, envelope: bytes, keys: Sequence[str]) -> list[str]:
    """What is wrong with it."""
    ring = KeyRing(keys)
    try:
        fields, _ = read_object(envelope)
        if fields.get("payloadType") != PAYLOAD_TYPE:
            return [f"payloadType is {str(fields.get('payloadType'))[:80]!r}"]
        payload = decode_base64(fields.get("payload"))
        listed = fields.get("signatures")
        texts = (
            [each.get("sig") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        )
        message = encode_for_signing(payload, PAYLOAD_TYPE)
        objection = ring.find_objection(message, [decode_base64(text) for text in texts], 0)
        statement, _ = read_object(payload)
    except NotStrict as error:
        return [f"it cannot be read: {error}"]
    wrong = [] if objection is None else [objection]
    digest = f"sha256:{hashlib.sha256(page).hexdigest()}"
    if statement.get("page") != digest:
        wrong.append(f"it is of another page: it signs {statement.get('page')}, and this one is {digest}")
    return wrong


def _read_rows(evidence: dict[str, Any]) -> list[dict[str, Any]]:
    rows = evidence.get("rows")
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("cells"), dict) for row in rows
    ):
        raise NotStrict("its evidence has no rows")
    return rows


def _read_columns(evidence: dict[str, Any]) -> list[str]:
    columns = evidence.get("columns")
    if not isinstance(columns, list):
        raise NotStrict("its evidence has no columns")
    return [str(name) for name in columns]


def _read_head(evidence: dict[str, Any]) -> int | None:
    head = evidence.get("head")
    return head if type(head) is int else None


def _check_proofs(
    proofs: Any, signers: HeadSigners | None
) -> tuple[list[dict[str, Any] | None], list[ReportFinding]]:
    """The record of each proof (None: it cannot be read), and what is wrong. Each proof is checked alone, so
    that the finding names it."""
    if proofs is None:
        return [], []
    listed = proofs.get("proofs") if isinstance(proofs, dict) else None
    if not isinstance(listed, list):
        return [], [ReportFinding("proofs", "they cannot be read")]
    records: list[dict[str, Any] | None] = []
    findings = []
    whole = check_proof(json.dumps(proofs).encode(), signers)
    for number, proof in enumerate(listed):
        if not whole.holds:
            result = check_proof(json.dumps({**proofs, "proofs": [proof]}).encode(), signers)
            if not result.holds:
                findings.append(ReportFinding(f"proof {number + 1}", " ".join(result.lines)))
        records.append(_open(proof))
    return records, findings


def _open(proof: Any) -> dict[str, Any] | None:
    try:
        return open_record(Located("", 0, 0, None, encode_text(str(proof["record"])))).fields
    except (NotStrict, KeyError, TypeError):
        return None


def _check_rows(
    rows: Sequence[dict[str, Any]], records: Sequence[dict[str, Any] | None]
) -> list[ReportFinding]:
    """Whether each row is of the record whose proof it names."""
    findings, named = [], set()
    for at, row in enumerate(rows, 1):
        cells, number = row["cells"], row.get("proof")
        if number is None:
            if cells.get("event_hash") is not None:
                findings.append(ReportFinding(f"row {at}", "it names a record and no proof"))
            continue
        if type(number) is not int or not 0 <= number < len(records):
            findings.append(ReportFinding(f"row {at}", "its proof is not there"))
            continue
        named.add(number)
        record = records[number]
        if record is not None and (message := _compare(cells, record)):
            findings.append(ReportFinding(f"row {at}", message))
    gone = sorted(set(range(len(records))) - named)
    message = "no row shows its record: a row is gone"
    return [*findings, *(ReportFinding(f"proof {number + 1}", message) for number in gone)]


def _compare(cells: dict[str, Any], record: dict[str, Any]) -> str:
    """What a row says otherwise than its record; empty: nothing."""
    ids = [value for name, value in record.items() if name.endswith("_id") and isinstance(value, str)]
    if cells.get("id") not in ids:
        return f"id {cells.get('id')!r} is none of its record's"
    if cells.get("at") != record.get("decided_at"):
        return f"at is {cells.get('at')!r}, its record says {record.get('decided_at')!r}"
    for name in _OF_THE_RECORD:
        expected = record.get(name)
        if name in cells and cells[name] != expected and not (name in _ADDED and expected is None):
            return f"{name} is {cells[name]!r}, its record says {expected!r}"
    return ""


def _check_table(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], shown: Sequence[list[str]]
) -> list[ReportFinding]:
    """Whether the table shows the rows of the evidence, in their order and no others."""
    if len(shown) != len(rows):
        message = f"rows of the table: {len(shown)}, of the evidence: {len(rows)}"
        return [ReportFinding("page", message)]
    findings = []
    for at, (row, texts) in enumerate(zip(rows, shown, strict=True), 1):
        due = ["" if (value := row["cells"].get(name)) is None else str(value) for name in columns]
        if len(due) != len(texts) or not all(map(_is_shown_as, due, texts)):
            findings.append(ReportFinding(f"row {at}", "the table shows something else than the evidence"))
    return findings


def _is_shown_as(text: str, shown: str) -> bool:
    """Whether the table shows a text: character for character, or a character by its number, `<U+202E>`."""
    at = 0
    for character in text:
        number = f"<U+{ord(character):04X}>"
        if shown.startswith(character, at):
            at += 1
        elif shown.startswith(number, at):
            at += len(number)
        else:
            return False
    return at == len(shown)
