"""What to do with a demo that was left running."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from app.cli.output import console, errors
from app.cli.quality_page.page import page

if TYPE_CHECKING:
    from rich.console import Console

    from app.core.retrieval.report import QualityReport
    from app.demo.kept import Kept
    from app.demo.place import Place

_ACTION = (
    '{"action_id":"mine-1","agent_id":"sql_agent","session_id":"mine","toolName":"sql",'
    '"parameters":{"query":"DROP TABLE users"}}'
)


_RETRIEVAL = (
    '{"request_id":"mine-2","agent_id":"legal_consultant_agent","session_id":"mine","items":[{"item_id":"i1",'
    '"content_class":"legal_text","timestamp":"2020-01-01T00:00:00Z","confidence_score":0.9,'
    '"body":"The lease ends in May."}]}'
)
PAGE = "quality.html"


def write_page(place: Place, quality: QualityReport, written_at: str) -> None:
    """The quality report as one page, beside the worker's log."""
    (place.folder / PAGE).write_text(page(quality, written_at), encoding="utf-8")


def say_how_to_use(teller: Console, place: Place, flag_only: str) -> None:
    """Exact commands to watch, publish, promote the class in flag-only, and stop."""
    lines = ["", "Broker and worker go on. In another terminal, in this folder:", ""]
    lines += [f"  export {name}={quote(value)}" for name, value in place.for_commands().items()]
    lines += [
        "",
        "  .venv/bin/sluice watch gate.verdicts gate.escalations      # leave it running",
        f"  echo '{_ACTION}' \\",
        "    | .venv/bin/sluice publish -",
        "  .venv/bin/sluice ledger verify",
        "  .venv/bin/sluice rerun --sample 20",
        "  .venv/bin/sluice quarantine list",
        "  .venv/bin/sluice quarantine stats --recount",
        "  .venv/bin/sluice watch gate.memory.quality_decision        # leave it running",
        f"  echo '{_RETRIEVAL}' \\",
        "    | .venv/bin/sluice publish - --topic gate.memory.retrievals.proposed",
        "  .venv/bin/sluice quality report",
        f"  .venv/bin/sluice quality promote {flag_only}",
        f"  .venv/bin/sluice bundle sign mine.json --key {place.keys}/owner.pem --out mine.dsse.json",
        "  .venv/bin/sluice bundle publish mine.dsse.json             # in force half a second later",
        "",
        f"The quality report as a page: {place.folder / PAGE}",
        f"The worker's log: {place.log}",
        "To stop worker and broker and remove their files: .venv/bin/sluice demo --stop",
    ]
    for line in lines:
        teller.print(line, markup=False, highlight=False, soft_wrap=True)


def say_stopped(stopped: Kept | None) -> None:
    """What `--stop` did."""
    if stopped is None:
        errors.print("No demo was left running.")
    else:
        console.print(f"{stopped.run} stopped, its files removed.", highlight=False)
