"""The page of an auditor's questions: an admin asks about the own tenant, and nobody else does."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from load.installations import neutral_policy
from sluice.gateway.pages.audit import QUESTIONS
from sluice_demo.throwaway_trust import OWNER
from tests.kafka.pages_installation import (
    PATIENT_AGENT,
    answer,
    is_accessible,
    load_until,
    read_text,
    runs_nothing,
)

if TYPE_CHECKING:
    from tests.kafka.pages_installation import PageInstallation

pytestmark = [pytest.mark.kafka, pytest.mark.browser]


def test_an_admin_asks_and_gets_the_rows_as_a_table_and_as_csv(at: PageInstallation) -> None:
    waits, held = at.escalate(), at.hold()
    with at.visit("olga") as page:
        answer(page, f"/review/escalations/{waits['escalation_id']}", "Approve", "an order of ours")
        read_text(page).to_contain_text("Your answer counted")
    with at.visit("rita") as page:
        answer(page, f"/review/quarantine/{held['memory_id']}", "Reject", "nobody said so")
        read_text(page).to_contain_text("Your answer counted")
    with at.visit("ada") as page:
        page.goto("/review/audit")
        page.get_by_label("Question").select_option("approvals")
        page.get_by_label("From, in UTC").fill("2020-01-01 00:00")
        page.get_by_role("button", name="Ask").click()
        row = page.get_by_role("row").filter(has_text="an order of ours")
        load_until(page, row)
        expect(row).to_contain_text(OWNER)
        expect(row).to_contain_text("alone")
        expect(page.get_by_role("row").filter(has_text="nobody said so")).to_contain_text("rejected")
        is_accessible(page, "approvals")
        with page.expect_download() as downloading:
            page.get_by_role("link", name="as CSV").click()
        text = downloading.value.path().read_text(encoding="utf-8")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert {row["justification"] for row in rows} >= {"an order of ours", "nobody said so"}
        assert all(row["event_hash"].startswith("sha256:") for row in rows)


def test_every_question_is_answered_within_the_tenant_and_runs_nothing(at: PageInstallation) -> None:
    at.attempt_all()
    for name in QUESTIONS:
        path = f"/review/audit?question={name}&agent={neutral_policy.AGENT}&last=hour"
        with at.visit("ada") as page:
            opened = page.goto(path)
            assert opened is not None
            assert opened.status == 200
            expect(page.locator("#progress")).to_contain_text("Looked through")
            runs_nothing(page, path)
            is_accessible(page, name)
        with at.visit("oda") as page:
            page.goto(path)
            expect(page.get_by_text("Nothing of your tenant answers this.")).to_be_visible()
            page.goto(f"/review/audit?question={name}&last=hour{'&agent=x' if name == 'activity' else ''}")
            shown = page.inner_text("main")
            assert neutral_policy.AGENT not in shown
            assert PATIENT_AGENT not in shown


def test_who_is_no_admin_may_not_ask_and_a_wrong_question_is_refused(at: PageInstallation) -> None:
    for who, path, status in (
        ("olga", "audit", 403),
        ("olga", "audit/rows.csv?question=approvals", 403),
        ("ada", "audit?question=policy", 400),
        ("ada", "audit?question=activity", 400),
        ("ada", "audit?question=approvals&from=yesterday", 400),
    ):
        with at.visit(who) as page:
            opened = page.goto(f"/review/{path}")
            assert opened is not None
            assert opened.status == status, path
