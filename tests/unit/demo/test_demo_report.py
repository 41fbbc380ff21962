"""The demo's last words: of a run that is not well, which decisions came out otherwise, and how."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from sluice.bootstrap.ledger_reading import GateCounts
from sluice.broker.process_identity import ProcessIdentity
from sluice.cli.output import print_parts
from sluice.core.reports.report import build_quality_report
from sluice.core.reports.report_tally import QualityTally
from sluice.core.rerun.rerun_result import Difference, Rerun, RerunTally
from sluice.verifier.ledger_findings import Report
from sluice_demo.answers import DemoAnswers
from sluice_demo.invoice import InvoicePayment
from sluice_demo.judged_actions import DemoJudgement
from sluice_demo.refunds import Refund
from sluice_demo.run import Examined, Result
from sluice_demo.run_location import RunLocation
from sluice_demo.tables import print_result
from sluice_demo.verb import build_summary, write_sentence

if TYPE_CHECKING:
    from sluice_demo.material import Material


SAME = Rerun("verdict", "verdict:gate.actions.proposed:0:1")
OTHER = Rerun(
    "verdict", "verdict:gate.actions.proposed:3:17", (Difference("blockReason", "tier_T3", "tier_T4"),)
)
GONE = Rerun("quality_decision", "quality:gate.memory.retrievals.proposed:1:2:0", missing=("bundle b@3",))


def result(material: Material, *reruns: Rerun) -> Result:
    """A run without answers, whose decisions came out so when they were executed again."""
    tally = RerunTally()
    tally.take(reruns)
    report = Report({}, (), len(reruns))
    examined = Examined(report, tally, GateCounts({}), build_quality_report(QualityTally()))
    place = RunLocation("demo-test", Path("kept"), "broker:9092", "", Path("keys"), "here")
    return Result(
        place,
        ProcessIdentity(1, ""),
        material,
        DemoAnswers(place.prefix),
        REFUNDS,
        (JUDGED * len(material.judged))[: len(material.judged)],
        PAYMENTS,
        examined,
    )


PAYMENTS = [
    InvoicePayment("supplier", "DE89 3704", "allowed", "trusted_result", ""),
    InvoicePayment("stranger", "GB82 WEST", "needs_human", "untrusted_read", "stood only in read_invoice"),
]
REFUNDS = [Refund("refund-1", 10, "approve", 1, "10 sent back")]
JUDGED = [
    DemoJudgement("grader", "reply hello", "allowed", "passes", ("m-1",), answered=True),
    DemoJudgement("causal", "order chair", "needs_human", "inconclusive: no answer", (), answered=False),
]


def print_text(of: Result) -> str:
    screen = Console(file=StringIO(), width=200)
    print_result(screen, of)
    print_parts(("", write_sentence(of, 1.0)), screen)
    assert isinstance(screen.file, StringIO)
    return screen.file.getvalue()


def test_a_decision_that_came_out_otherwise_is_named_with_the_field_and_both_values(
    material: Material,
) -> None:
    told = print_text(result(material, SAME, OTHER))
    row = next(line for line in told.splitlines() if OTHER.id in line)
    assert [cell for cell in ("different", "blockReason", "tier_T3", "tier_T4") if cell not in row] == []
    assert SAME.id not in told
    assert "verdicts: 1 identical, 1 different of 2" in told
    assert "1 of 2 reruns identical" in told


def test_evidence_that_is_gone_is_named(material: Material) -> None:
    row = next(line for line in print_text(result(material, SAME, GONE)).splitlines() if GONE.id in line)
    assert "bundle b@3" in row


def test_the_json_names_them_too(material: Material) -> None:
    fields = build_summary(result(material, SAME, OTHER), 1.0)
    assert (fields["well"], fields["reruns"]["verdict"]["different"]) == (False, 1)
    (named,) = fields["not_identical"]
    assert (named["id"], named["differences"][0]["field"]) == (OTHER.id, "blockReason")


@pytest.mark.parametrize(("reruns", "well"), [((SAME,), True), ((SAME, OTHER), False), ((), False)])
def test_a_run_is_well_only_if_something_was_executed_again_and_all_of_it_is_identical(
    material: Material, reruns: tuple[Rerun, ...], well: bool
) -> None:
    assert result(material, *reruns).well is well
