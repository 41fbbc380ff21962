"""What verbs read for a quality report: the ledger of the installation, or an export of it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.bootstrap.ledger_reading import read_topics
from sluice.cli.output import require_broker, require_record_proofs, require_settings, stop
from sluice.core.reports.ledger_values import LedgerValues
from sluice.core.reports.report_tally import NotADecisionError
from sluice.offline.record_files import read_export

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluice.adapters.kafka.kafka_read import Start
    from sluice.core.reports.ledger_values import Basis, Sink

From = Annotated[
    Path | None,
    typer.Option("--from", metavar="FILE", help="An export (`sluice ledger export`) instead of the broker."),
]


def read_or_stop(topics: Sequence[str], sinks: Mapping[str, Sink], exported: Path | None) -> Basis:
    """Read these topics, by base name, of the ledger; what cannot be read ends the command.

    Returns what was read, and how far.
    """
    values = LedgerValues(sinks)
    try:
        if exported is None:
            source = read_broker(topics, values.take)
        else:
            source = f"the export {exported.name}"
            with exported.open("rb") as lines:
                read_export(lines, topics, values.take)
    except NotADecisionError as error:
        stop(f"{error}. `sluice ledger verify` says what is wrong with the ledger.")
    except OSError as error:
        stop(f"cannot read {exported}: {error.strerror}")
    return values.basis(source)


def read_broker(
    topics: Sequence[str], take: Callable[[bytes | None], None], start: Start | int = "beginning"
) -> str:
    """Hand the values of these topics, by base name, to `take`; what cannot be read ends the command.

    Returns where they are from.
    """
    settings = require_settings()
    require_broker(read_topics(settings, topics, take, start, require_record_proofs(settings)))
    return f"the topics {settings.kafka.topic_prefix}gate.* at {settings.kafka.connection}"


def require_day(day: str | None) -> str | None:
    """A day as the report takes it; what is none ends the command."""
    if day is None:
        return None
    try:
        return date.fromisoformat(day).isoformat()
    except ValueError:
        stop(f"no day: {day}; it is like 2026-01-31, in UTC")
