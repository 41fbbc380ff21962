"""What to do with a demo that was left running."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from app.cli.output import console, errors

if TYPE_CHECKING:
    from rich.console import Console

    from app.demo.kept import Kept
    from app.demo.place import Place

_ACTION = (
    '{"action_id":"mine-1","agent_id":"sql_agent","session_id":"mine","toolName":"sql",'
    '"parameters":{"query":"DROP TABLE users"}}'
)


def say_how_to_use(teller: Console, place: Place) -> None:
    """Exact commands to watch, publish and stop."""
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
        f"  .venv/bin/sluice bundle sign mine.json --key {place.keys}/owner.pem --out mine.dsse.json",
        "  .venv/bin/sluice bundle publish mine.dsse.json             # in force half a second later",
        "",
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
