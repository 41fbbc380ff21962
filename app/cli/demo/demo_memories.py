"""The tables of a demo's result that tell of memories: decisions, the quarantine, the statistics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from app.cli.demo.demo_tables import cut, number, table
from app.cli.output import shown
from app.demo.demo_answers import ENTERED
from app.demo.inputs.panel_sessions import HELD_TO_APPROVE, HELD_TO_REJECT
from topics.catalog import MEMORY_DECISIONS, SESSION_EVENTS

if TYPE_CHECKING:
    from rich.table import Table

    from app.demo.demo_answers import Answers
    from app.demo.result import MemoryStatistics

COLOURS = {"allow": "green", "quarantine": "yellow", "reject": "bold red"}
_EXAMPLES = 3
_PAST = {
    "sluice/quarantine_approved/v1": "approved",
    "sluice/quarantine_rejected/v1": "rejected",
    "sluice/quarantine_expired/v1": "expired",
    "sluice/quarantine_evicted/v1": "evicted",
}


def decisions_table(answers: Answers) -> Table:
    """Decisions by action and the beginning of their reason."""
    counts = Counter((one.body["action"], _kind(one.body)) for one in answers.of(MEMORY_DECISIONS))
    made = table(
        "Memory writes, in the same sessions", "action", cut("reason", 44), number("count"), number("trust")
    )
    made.caption = "trust: the lowest score among them; a dash where metadata ended it before there was one"
    for (action, reason), times in sorted(counts.items(), key=lambda item: (item[0][0], -item[1])):
        made.add_row(_word(action), shown(reason), str(times), _lowest(answers, action, reason))
    return made


def held_examples_table(answers: Answers) -> Table:
    """Some texts that were not let through, with what was found in them."""
    made = table("Some of them", "action", cut("content", 44), cut("found", 30), cut("in the form", 18))
    shown_so_far: Counter[str] = Counter()
    for one in answers.of(MEMORY_DECISIONS):
        found = [each for each in one.body["findings"] if not each["framed"]]
        let_through = one.body["action"] == "allow"
        if let_through or not found or shown_so_far[one.body["action"]] == _EXAMPLES:
            continue
        shown_so_far[one.body["action"]] += 1
        content = " ".join(one.planned.fields["content"].split())
        made.add_row(_word(one.body["action"]), shown(content), found[0]["id"], found[0]["form"])
    return made


def quarantine_table(answers: Answers) -> Table:
    """The story's two held memories to their end, and what became of the others."""
    made = table("The quarantine", "memory", "what happened", "by", cut("why", 44))
    for name in (HELD_TO_APPROVE, HELD_TO_REJECT):
        for event in answers.quarantine:
            if event["write_id"] == name:
                made.add_row(shown(name), *map(shown, _event_cells(event)))
    for refused in answers.of(SESSION_EVENTS):
        if refused.planned.kind == "review":
            again = f"{refused.body['reason']}: a review counts once"
            made.add_row("the same review again", "refused", "", shown(again))
    ended = Counter(_PAST[one["schema"]] for one in answers.quarantine if one["schema"] != ENTERED)
    counts = ", ".join(f"{count} {word}" for word, count in sorted(ended.items()))
    released = f"{len(answers.admitted)} memories released to gate.memory.admitted, each once"
    made.caption = f"all together: {counts}; {released}"
    return made


def statistics_table(counted: MemoryStatistics) -> Table:
    """Seed 003's statistics as the worker keeps them, and whether the ledger has the same."""
    live = counted.live.fields()
    made = table("Statistics, as the worker keeps them", *(number(name) for name in live))
    made.add_row(*map(str, live.values()))
    equal, otherwise = "equal to a recount of the ledger", "[bold red]the ledger says otherwise[/]"
    made.caption = equal if counted.equal else otherwise
    return made


def _event_cells(event: dict[str, Any]) -> tuple[str, str, str]:
    if event["schema"] == ENTERED:
        return "entered", "", event["reason"]
    why = event.get("justification") or event.get("reason") or ""
    return _PAST[event["schema"]], event.get("approver_id") or "time", why


def _kind(body: dict[str, Any]) -> str:
    reason: str = body["reason"]
    if reason.startswith("finding: "):
        found = next((one for one in body["findings"] if reason.endswith(one["id"])), None)
        return reason if found is None else f"found: {found['kind']}"
    return reason


def _lowest(answers: Answers, action: str, reason: str) -> str:
    totals = [
        one.body["trustScore"]["total"]
        for one in answers.of(MEMORY_DECISIONS)
        if (one.body["action"], _kind(one.body)) == (action, reason) and one.body["trustScore"]
    ]
    return f"{min(totals):.3f}" if totals else "-"


def _word(action: str) -> str:
    return f"[{COLOURS[action]}]{shown(action)}[/]"
