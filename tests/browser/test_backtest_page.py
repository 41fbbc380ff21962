"""The page of a back-test in a real browser: it opens without a complaint and shows its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.cli.backtest.backtest_page import write_backtest_page
from tests.browser.test_quality_report import DESK, PHONE, SMALLEST_PX, chromium, measure, open_escalation
from tests.unit.cli.backtest.test_backtest_report import make_report

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["chromium"]


def test_the_page_opens_without_a_complaint_and_fits(chromium: str, tmp_path: Path) -> None:
    page = write_backtest_page(make_report(changed="0"), "2026-04-01T08:00:00.000Z")
    file = tmp_path / "backtest.html"
    file.write_text(page, encoding="utf-8")
    run = open_escalation(chromium, tmp_path, "--dump-dom", file.as_uri())
    assert "<h1>Back-test of a policy</h1>" in run.stdout
    assert "CONSOLE" not in run.stderr
    for width in (PHONE, DESK):
        measured = measure(chromium, tmp_path, page, width)
        assert measured["width"] <= width
        assert measured["smallest"] >= SMALLEST_PX
        assert measured["outside"] == []
        assert (measured["pale"], measured["spilled"]) == ([], 0)
