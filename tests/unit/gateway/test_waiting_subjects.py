"""What opens and what ends: each record of the topics that the gateway follows is one of them, or neither."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sluice.core.reports.pending_subject import ENDS, OPENS, PendingSubject
from sluice.gateway.pages.queue import SORTS, Query, build_rows, list_rows
from sluice.gateway.pages.rendering import render_page
from sluice.gateway.waiting_subjects import ID_FIELDS
from sluice_topics.catalog import BY_NAME, get_wire_schema
from tests.unit import records
from tests.unit.escalation_records import ledger_records


def test_every_record_of_the_topics_is_known() -> None:
    """Words of the records' names: a new kind of opening or end must be listed."""
    schemas = {str(get_wire_schema(record)) for topic in ID_FIELDS for record in BY_NAME[topic].records}
    assert schemas >= OPENS.keys() | ENDS
    opening = ("_opened/", "_entered/")
    ending = ("_resolved/", "_expired/", "_approved/", "_rejected/", "_evicted/")
    assert {one for one in schemas if any(word in one for word in opening)} == OPENS.keys()
    assert {one for one in schemas if any(word in one for word in ending)} == ENDS


RECORDS = ledger_records(lambda schema, **fields: {"schema": schema, **fields})
OTHER = "sha256:" + "1" * 64


def make_counted(by: str, parameters: str, approvals: int, *dropped: str) -> dict[str, Any]:
    """ApprovalCounted of an approver."""
    more = {"dropped": list(dropped) or None, "approved_parameters": parameters, "approvals": approvals}
    return {**RECORDS["ApprovalCounted"], **more, "approver_id": by, "own_key": None, "input": {"offset": 7}}


PAY = {"toolName": "pay", "parameters": {"amount": 500}}


def show_text(
    subject: PendingSubject, approved: dict[str, Any] | None, content: dict[str, Any] | None = None
) -> str:
    """The page of an escalation, as a browser gets it."""
    session = SimpleNamespace(csrf="c", account=SimpleNamespace(approver_id="cyd", name="Cyd", roles=()))
    context: dict[str, Any] = {
        "session": session,
        "said": (),
        "counts": {},
        "delegate": SimpleNamespace(id="gateway"),
    }
    about: dict[str, Any] = {"content": content or PAY, "verdict": None}
    about |= {"approved": approved, "is_narrowed": subject.is_narrowed, "now_ms": 0}
    return bytes(render_page("escalation.html", one=subject.fields, **context, **about).body).decode()


def test_the_page_says_what_exactly_the_approvals_so_far_are_for() -> None:
    """Mend 22.1: who has approved which parameters so far; the form has the same ones."""
    subject = PendingSubject.of([{**RECORDS["EscalationOpened"], "quorum": 2}])
    assert "Approved so far" not in show_text(subject, None)
    subject = subject.apply(make_counted("ann", subject.fields["parameters_digest"], 1))
    assert "1 of 2, by ann, for\nexactly what waits" in show_text(subject, None)
    subject = subject.apply(make_counted("ben", OTHER, 1, "ann"))
    assert (subject.fields["approved_by"], subject.fields["last_approval"]) == (["ben"], {"offset": 7})
    text = show_text(subject, {"amount": 1})
    assert "1 of 2, by ben, for\n<strong>other parameters</strong>" in text
    assert "with others, or none, the count starts again" in text
    assert '>{"amount": 1}</textarea>' in text
    listing = list_rows(build_rows([subject], lambda _: None), Query())
    about: dict[str, Any] = {"listing": listing, "query": listing.query, "sorts": SORTS, "now_ms": 0}
    listed = bytes(render_page("escalations.html", said=(), counts={}, session=None, **about).body).decode()
    assert "1 of 2 for other parameters" in listed


@pytest.mark.parametrize(
    "content",
    [
        PAY,
        {"tool_name": "pay", "parameters": {"amount": 500}},
        {"proposed_action": {"action": "pay", "value": {"amount": 500}}},
    ],
)
def test_the_page_shows_an_action_in_each_form_that_is_read(content: dict[str, Any]) -> None:
    text = show_text(PendingSubject.of([RECORDS["EscalationOpened"]]), None, content)
    assert "<dd>pay</dd>" in text
    assert "&#34;amount&#34;: 500" in text.partition("<h3>Parameters</h3>")[2].partition("</pre>")[0]


def test_a_retrieval_that_names_its_tool_is_shown_as_one() -> None:
    subject = PendingSubject.of([records.ledger_records()["RetrievalEscalationOpened"]])
    text = show_text(subject, None, {"toolName": "files.read", "items": [{"item_id": "i-1"}]})
    assert "Items that were denied" in text
    assert "<h3>Parameters</h3>" not in text
