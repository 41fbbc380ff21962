"""The quality report's page in a real browser: nothing overflows, nothing is too small or too pale to read.

The page itself runs no script. It is framed, at a phone's and at a desk's width, by a page that measures it.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from sluice.cli.quality.page import write_page
from sluice.core.reports.report import build_quality_report
from sluice.core.reports.report_tally import QualityTally
from tests.quality_ledger import alarm, decision, flag_only, report

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PHONE, DESK = 360, 1280
SMALLEST_PX = 9.5
"""Of text in a chart, as drawn."""
CONTRAST = 4.5
"""WCAG 2.2, 1.4.3: text against what is behind it."""
PATIENCE_S = 120

MEASURE = """
const box = node => node.getBoundingClientRect();
const scale = node => node.getScreenCTM().a;
const parts = /[0-9.]+/g;
const solid = color => { const c = color.match(parts).map(Number); return c.length < 4 || c[3] > 0.99; };
const light = color => {
  const [r, g, b] = color.match(parts).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = node => {
  for (let at = node; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (solid(color)) return color;
  }
  return "rgb(255, 255, 255)";
};
const contrast = node => {
  const style = getComputedStyle(node);
  const pair = [light(node.namespaceURI.includes("svg") ? style.fill : style.color), light(behind(node))];
  return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
};
addEventListener("load", () => {
  const inside = document.querySelector("iframe").contentDocument;
  const frame = box(document.querySelector("iframe"));
  const own = node => [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
  const shown = [...inside.body.querySelectorAll("*")]
    .filter(node => own(node) && node.getClientRects().length && !node.closest("title, desc"));
  const texts = [...inside.querySelectorAll("svg[role=img] text")];
  const told = {
    width: inside.documentElement.scrollWidth,
    charts: inside.querySelectorAll("svg[role=img]").length,
    empty: [...inside.querySelectorAll("svg[role=img]")].filter(one => box(one).height < 40).length,
    smallest: Math.min(...texts.map(one => parseFloat(getComputedStyle(one).fontSize) * scale(one))),
    outside: texts.filter(one => {
      const text = box(one), card = box(one.closest("figure"));
      return text.left < card.left || text.right > card.right || text.bottom > card.bottom;
    }).map(one => one.textContent),
    pale: shown.filter(one => contrast(one) < %(contrast)s).map(one => `${one.textContent} ${contrast(one)}`),
    background: getComputedStyle(inside.body).backgroundColor,
    scrolled: [...inside.querySelectorAll(".scroll")].filter(one => one.scrollWidth > one.clientWidth)
      .map(one => one.getAttribute("aria-label")),
    spilled: [...inside.querySelectorAll("table")].filter(one => {
      const card = one.closest(".scroll"), wide = box(card);
      return getComputedStyle(card).overflowX !== "auto" || wide.left < 0 || wide.right > frame.width;
    }).length,
  };
  const out = document.createElement("script");
  out.type = "application/json";
  out.textContent = JSON.stringify(told);
  document.body.replaceChildren(out);
});
"""


@pytest.fixture(scope="module")
def chromium() -> str:
    """The browser. In CI a missing one is a failure: there the page must have been opened."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    missing = f"no browser: none of {', '.join(NAMES)}; apt-get install chromium"
    if found is None and not os.environ.get("CI"):
        pytest.skip(missing)
    return found or pytest.fail(missing)


@pytest.fixture(scope="module")
def report_page() -> str:
    """A month, six classes, one with a name that is too long and one that would be markup."""
    tally = QualityTally()
    names = ("legal_text", "product_pricing", "<b>markup</b>", "a" * 200, "internal_policy", None)
    for day in range(31):
        for place, name in enumerate(names):
            tally.count_decision(decision(day, name))
            outcome = ("flag", "downgrade", "deny")[(day + place) % 3]
            tally.count_decision(decision(day, name, outcome, flags_set=["stale", "provenance_unverified"]))
        tally.count_decision(flag_only(day, "deny", "public_reference"))
    tally.count_report(report(3, "high_privilege", 1000, 999))
    tally.count_report(report(3, "bounded", 10, 10))
    tally.count_alarm(alarm(16, "public_reference"))
    return write_page(build_quality_report(tally), "2026-04-01T08:00:00.000Z")


def open_escalation(chromium: str, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One run of the browser; what it prints and what it logs."""
    fixed = ("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0")
    own = (f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND")
    return subprocess.run(
        [chromium, *fixed, *own, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )


def measure(chromium: str, tmp_path: Path, text: str, width: int, *arguments: str) -> dict[str, Any]:
    """What the framing page measures, with the frame as wide as `width`."""
    frame = f'<iframe style="border:0;width:{width}px;height:800px" srcdoc="{html.escape(text)}"></iframe>'
    scheme = '<meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    script = f"<script>{MEASURE % {'contrast': CONTRAST}}</script>"
    file = tmp_path / "frame.html"
    file.write_text(f"<!DOCTYPE html>{scheme}<body>{frame}{script}", encoding="utf-8")
    dom = open_escalation(chromium, tmp_path, *arguments, "--dump-dom", file.as_uri()).stdout
    told = dom.partition('<script type="application/json">')[2].partition("</script>")[0]
    found: dict[str, Any] = json.loads(told)
    return found


@pytest.mark.parametrize("arguments", [(), ("--force-dark-mode",)], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_it_can_be_read_on_a_phone_and_at_a_desk_by_day_and_by_night(
    chromium: str, tmp_path: Path, report_page: str, width: int, arguments: tuple[str, ...]
) -> None:
    found = measure(chromium, tmp_path, report_page, width, *arguments)
    assert found["width"] <= width
    assert found["charts"] >= 9
    assert found["empty"] == 0
    assert found["smallest"] >= SMALLEST_PX
    assert found["outside"] == []
    assert found["pale"] == []
    assert found["spilled"] == 0
    if width == DESK:
        assert found["scrolled"] == [], "at a desk a table has room in its card"
    bright = sum(int(part) for part in found["background"].strip("rgb()").split(",")) > 3 * 128
    assert bright == (not arguments)


def test_the_page_opens_without_a_complaint_of_the_browser(
    chromium: str, tmp_path: Path, report_page: str
) -> None:
    file = tmp_path / "report.html"
    file.write_text(report_page, encoding="utf-8")
    run = open_escalation(chromium, tmp_path, "--dump-dom", file.as_uri())
    assert "<h1>Quality posture report</h1>" in run.stdout
    assert "&lt;b&gt;markup&lt;/b&gt;" in run.stdout
    assert "CONSOLE" not in run.stderr
