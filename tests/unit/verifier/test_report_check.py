"""Whatever a file holds that passes for a report, the check says what is wrong with it and raises nothing."""

from __future__ import annotations

import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.core.registry.keys import SigningKey
from sluice.verifier.report_check import ReportResult, check_report

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32)))).public.text
HASH = "sha256:" + "0a" * 32
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def check(page: bytes, envelope: bytes = b"{}") -> ReportResult:
    """The result without a head key."""
    return check_report(page, envelope, [KEY], None)


def write_page(evidence: Any, *rows: str) -> bytes:
    """A page with this evidence, and a table of rows of one cell each."""
    table = "".join(f"<tr><td>{row}</td></tr>" for row in rows)
    text = json.dumps(evidence).replace("<", "\\u003c")
    page = f'<table>{table}</table><script type="application/json" id="evidence">{text}</script>'
    return page.encode()


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_what_is_no_report_does_not_hold(page: bytes, envelope: bytes) -> None:
    result = check(page, envelope)
    assert not result.holds
    assert {finding.where for finding in result.findings} == {"signature", "page"}


@example({"rows": [{"cells": {}}], "columns": 1})
@example({"rows": [{"cells": {}, "proof": 0}], "columns": [], "proofs": {"proofs": [1], "head": None}})
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "rows": st.lists(
                st.fixed_dictionaries(
                    {"cells": st.dictionaries(st.sampled_from(["at", "id", "event_hash"]), values)},
                    optional={"proof": values},
                ),
                max_size=3,
            )
            | values,
            "columns": st.lists(st.sampled_from(["at", "id"])) | values,
            "proofs": st.fixed_dictionaries({"proofs": st.lists(values, max_size=3), "head": values})
            | values,
            "head": values,
        },
    )
)
def test_whatever_the_evidence_is_nothing_is_raised(evidence: dict[str, Any]) -> None:
    assert not check(write_page(evidence, "x")).holds


def test_a_row_that_names_a_record_needs_its_proof_and_the_table_shows_the_rows() -> None:
    rows = [{"cells": {"id": "v-1", "event_hash": HASH}, "proof": None}, {"cells": {"id": "a\u202eb"}}]
    evidence = {"columns": ["id"], "rows": rows, "proofs": None}
    unproven = check(write_page(evidence, "v-1", "a&lt;U+202E&gt;b"))
    assert [(finding.where, finding.message) for finding in unproven.findings[1:]] == [
        ("row 1", "it names a record and no proof")
    ]
    changed = check(write_page(evidence, "v-2", "a&lt;U+202E&gt;b"))
    assert changed.findings[2].message == "the table shows something else than the evidence"
    shorter = check(write_page(evidence, "v-1"))
    assert shorter.findings[2].message == "rows of the table: 1, of the evidence: 2"
