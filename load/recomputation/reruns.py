"""Every fault run ends so: its decisions are executed again from what lies on the broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from load.installations.faulty_worker import Poison, SlowProbe
from load.recomputation import figures
from sluice.adapters.kafka.kafka_evidence import KafkaEvidence
from sluice.adapters.ledger_reruns import rerun_all
from sluice.bootstrap.parts import build_decision_settings
from sluice.core.rerun.recomputation import ERASED_OF_SESSION
from sluice.core.rerun.rerun_result import RerunTally
from sluice.core.rerun.walk import DECISION_TOPICS
from sluice.settings.reader import load_settings

if TYPE_CHECKING:
    from load.installations.installation import Evidence, TestInstallation
    from load.recomputation.figures import RunFigure
    from sluice.core.actions.stage import Stage
    from sluice.core.rerun.policy_then import DecisionSettings

OF_SESSION = "the session's "
"""So a rerun names what it believed of a session that it could not follow."""
SEED = 1
SHOWN = 5


async def execute_again(evidence: Evidence) -> list[RunFigure]:
    """All decisions, each in its session. Evidence that is gone counts as not identical."""
    installation = evidence.installation
    topics = {installation.real(base) for base in DECISION_TOPICS}
    decisions = sum(record.topic in topics for record in evidence.ledger)
    tally = RerunTally()
    began = time.monotonic()
    kafka = KafkaEvidence(installation.cluster, installation.prefix)
    tally.take([rerun async for rerun in rerun_all(kafka, read_decision_settings(installation))])
    differing = [rerun for rerun in tally.reruns if rerun.status != "erased"]
    for rerun in differing[:SHOWN]:
        print(f"  rerun {rerun.id}: {rerun.status} {rerun.differences or rerun.missing}")
    unchecked = sum(
        count
        for why, count in tally.not_checked.items()
        if why.startswith(OF_SESSION) and why != ERASED_OF_SESSION
    )
    if unchecked:
        print(f"  not checked: {dict(tally.not_checked)}")
    return [
        figures.exactly("reruns", tally.total, decisions, "decisions"),
        figures.some("reruns_identical", tally.counts["identical"], "decisions"),
        figures.none("reruns_not_identical", len(differing), "decisions"),
        figures.none("reruns_without_session", unchecked, "records"),
        figures.report("reruns_took", round(time.monotonic() - began, 1), "s"),
    ]


def read_decision_settings(installation: TestInstallation) -> DecisionSettings:
    """The settings and the stages of the installation's workers."""
    own: dict[str, Stage] = {SlowProbe.name: SlowProbe(), Poison.name: Poison()}
    return build_decision_settings(load_settings(environment=installation.settings), own)
