"""Every fault run ends so: its decisions are executed again from what lies on the broker."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from app.adapters.kafka_evidence import KafkaEvidence
from app.adapters.kafka_rerun import rerun_all, rerun_sample
from app.core.actions.stages import shipped_stage
from load import figures
from load.worker import Poison, SlowProbe
from topics.catalog import MEMORY_DECISIONS, QUALITY_DECISIONS, VERDICTS

if TYPE_CHECKING:
    from app.core.actions.stage import Stage
    from app.core.ledger.rerun_result import Rerun
    from load.figures import Figure
    from load.ledger_read import Evidence

MOST = 60_000
"""Of more decisions a sample of so many is executed: 40 s at the 1 500 a second that two busy cores gave."""
SEED = 1
SHOWN = 5


async def executed_again(evidence: Evidence) -> list[Figure]:
    """All decisions, or a sample of `MOST`. Evidence that is gone counts as not identical."""
    topics = {evidence.site.real(base) for base in (VERDICTS, MEMORY_DECISIONS, QUALITY_DECISIONS)}
    decisions = sum(record.topic in topics for record in evidence.ledger)
    found: Counter[str] = Counter()
    began = time.monotonic()
    for one in await _reruns(evidence, decisions):
        found[one.status] += 1
        if one.status != "identical" and found.total() - found["identical"] <= SHOWN:
            print(f"  rerun {one.id}: {one.status} {one.differences or one.missing}")
    return [
        figures.exactly("reruns", found.total(), min(decisions, MOST), "decisions"),
        figures.some("reruns_identical", found["identical"], "decisions"),
        figures.none("reruns_not_identical", found.total() - found["identical"], "decisions"),
        figures.reported("reruns_took", round(time.monotonic() - began, 1), "s"),
    ]


async def _reruns(evidence: Evidence, decisions: int) -> list[Rerun]:
    site = evidence.site
    kafka = KafkaEvidence(site.bootstrap_servers, site.prefix)
    if decisions > MOST:
        return await rerun_sample(kafka, stage_of, MOST, SEED)
    return [one async for one in rerun_all(kafka, stage_of)]


def stage_of(name: str) -> Stage:
    """The stages of a load worker, by name. Raises UnknownStageError."""
    own: dict[str, Stage] = {SlowProbe.name: SlowProbe(), Poison.name: Poison()}
    return own[name] if name in own else shipped_stage(name)
