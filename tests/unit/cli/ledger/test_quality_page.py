"""The report as a page: complete in itself, texts of records escaped, every number of the report on it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from sluice.cli.quality.charts import list_days
from sluice.cli.quality.page import write_page
from sluice.core.reports.ledger_values import DECISION, LedgerValues
from sluice.core.reports.report import QualityReport, build_quality_report
from sluice.core.reports.report_tally import QualityTally
from tests.quality_ledger import alarm, decision, flag_only, report

AT = "2026-04-01T08:00:00.000Z"
HOSTILE = (
    '</title><script src="https://evil.example/x.js">alert(1)</script>\u202e\x00"\'><img src=x>${style}$$'
)
VOID = {"meta", "link", "img", "br"}


class Outline(HTMLParser):
    """Elements and attributes as a browser's tokenizer sees them; every end tag must fit."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.misfits: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.misfits += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.misfits.append(f"/{tag}")


def whole(content_class: str | None = "legal_text") -> QualityReport:
    tally = QualityTally()
    for day in (0, 1, 3):
        tally.count_decision(decision(day, content_class, "deny", flags_set=["stale"]))
        tally.count_decision(decision(day, content_class))
        tally.count_decision(flag_only(day, "deny", "public_reference"))
    tally.count_report(report(0, "high_privilege", 10, 9))
    tally.count_report(report(0, "bounded", 10, 10))
    tally.count_alarm(alarm(16, content_class or "none"))
    return build_quality_report(tally)


@pytest.mark.parametrize(
    "report", [whole(), whole(HOSTILE), whole(None), build_quality_report(QualityTally())]
)
def test_every_element_is_closed_and_every_id_is_there_once(report: QualityReport) -> None:
    outline = Outline(write_page(report, AT))
    assert outline.misfits == []
    ids = [value for name, value in outline.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    named = {
        one
        for name, value in outline.attributes
        if name == "aria-labelledby"
        for one in (value or "").split()
    }
    assert named <= set(ids)


@pytest.mark.parametrize("report", [whole(), whole(HOSTILE)])
def test_it_fetches_nothing_and_runs_nothing(report: QualityReport) -> None:
    text = write_page(report, AT)
    outline = Outline(text)
    assert not {"script", "img", "link", "iframe", "object"} & set(outline.names)
    assert not {"src", "href", "onload", "onclick", "style"} & {name for name, _ in outline.attributes}
    assert set(re.findall(r"url\(([^)]*)\)", text)) <= {"#p-flag", "#p-downgrade", "#p-deny", "#p-short"}
    assert "default-src 'none'" in text


def test_what_a_record_says_stays_text() -> None:
    text = write_page(whole(HOSTILE), AT)
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "&lt;U+202E&gt;" in text
    assert text.count("${style}$$") >= 1


def test_every_chart_says_in_words_what_it_shows() -> None:
    text = write_page(whole(), AT)
    charts = re.findall(
        r'<svg viewBox="[^"]*" role="img"[^>]*><title[^>]*>[^<]+</title><desc[^>]*>([^<]+)<', text
    )
    assert len(charts) == text.count('role="img"') >= 6
    assert any("high_privilege: 90.00%, ▲ below 100%" in told for told in charts)


def test_key_figures_stand_beside_their_targets() -> None:
    tiles = dict(
        re.findall(r'<span class="name">([^<]*)</span><strong>([^<]*)</strong>', write_page(whole(), AT))
    )
    assert tiles["Decisions"] == "9"
    assert tiles["Coverage bounded"] == "100%"
    assert tiles["Coverage high_privilege"] == "90.00%"
    assert tiles["Stale retrievals"] == "33.33%"
    assert tiles["False denies"] == "100%"


def test_the_tables_have_every_day_and_class() -> None:
    text = write_page(whole(), AT)
    for cell in ("2026-03-01", "2026-03-02", "2026-03-04"):
        assert f">{cell}</th>" in text
    assert ">2026-03-03</th>" not in text
    assert "<caption>By day and content class</caption>" in text


def test_days_without_a_decision_have_their_place_and_only_the_last_ones_fit() -> None:
    assert list_days("2026-02-27", "2026-03-02", 92) == [
        "2026-02-27",
        "2026-02-28",
        "2026-03-01",
        "2026-03-02",
    ]
    assert list_days("2025-01-01", "2026-03-02", 2) == ["2026-03-01", "2026-03-02"]
    assert list_days("0001-01-01", "0001-01-02", 92) == ["0001-01-01", "0001-01-02"]


def test_coverage_below_its_target_has_no_colour_of_an_outcome() -> None:
    """Mend 17: a bar that falls short was drawn as a denial is."""
    style = write_page(whole(), AT).partition("</style>")[0]
    (short,) = re.findall(r"\.c-short \{ fill: ([^;]*);", style)
    (met,) = re.findall(r"\.c-met \{ fill: ([^;]*);", style)
    outcomes = set(re.findall(r"\.[of]-(?:pass|flag|downgrade|deny)[^{]*\{ fill: ([^;]*);", style))
    assert len(outcomes) >= 4
    assert not {short, met} & outcomes


def test_a_single_day_is_drawn_as_bars() -> None:
    """Mend 17: it was a line of one point, and one column as wide as the card."""
    tally = QualityTally()
    tally.count_decision(decision(0, "legal_text", "deny", flags_set=["stale", "provenance_unverified"]))
    tally.count_decision(decision(0, "product_pricing"))
    text = write_page(build_quality_report(tally), AT)
    drift = text.partition("<h2>Drift</h2>")[2].partition("</section>")[0]
    assert 'class="line' not in drift
    assert drift.count('class="c-rate"') == 2 * 2
    assert 'width="560"' in drift
    assert "1 of 2" in drift
    assert "2026-03-01" in text.partition("<h2>Outcomes by day</h2>")[2]


def test_it_names_its_ledger_and_how_far_that_was_read() -> None:
    """Mend 17: which installation, and the heads that an auditor compares with those of his copy."""
    tally = QualityTally()
    values = LedgerValues({DECISION: tally.count_decision})
    hashes = {(0, 5): "sha256:" + "05" * 32, (0, 9): "sha256:" + "09" * 32, (3, 2): "sha256:" + "32" * 32}
    for (partition, sequence), event_hash in reversed(hashes.items()):
        place = {"partition": partition, "sequence": sequence, "event_hash": event_hash}
        values.take(json.dumps({**decision(), **place, "environment": "staging"}))
    report = build_quality_report(tally, values.basis("the export of <June>"))
    foot = write_page(report, AT).partition("<footer>")[2]
    assert "the export of &lt;June&gt;; installation: staging" in foot
    assert hashes[0, 9] in foot
    assert hashes[3, 2] in foot
    assert hashes[0, 5] not in foot
    assert report.fields()["ledger"]["heads"][0] == {
        "partition": 0,
        "sequence": 9,
        "event_hash": hashes[0, 9],
    }


def test_it_speaks_of_no_seed_and_no_file() -> None:
    text = write_page(whole(), AT).partition("</style>")[2].lower()
    assert [word for word in ("seed 0", "c18", "c08", "docs/", "product.md") if word in text] == []
