"""The tables of a demo's result about retrieved items: outcomes, a reading, an override, the posture.

The quality posture comes from the ledger alone; `sluice quality report` shows more of it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.table import Column

from app.cli.demo.demo_tables import number, table, word, wrapped
from app.cli.ledger.retrieval_line import COLOURS
from app.cli.output import percent, shown
from app.core.reports.report import CONFIDENCE, FALSE_DENY, OUTCOMES, PROVENANCE, STALE
from app.demo.inputs.panel_sessions import REPEATING
from app.demo.inputs.readings import STORY_AGAIN, STORY_CONTRACT, STORY_READ
from topics.catalog import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from app.core.reports.report import QualityReport
    from app.demo.demo_answers import AnsweredRetrieval, Answers

_BAR = "█"
_BAR_WIDTH = 20
_STORY = "story-"
_DAY_S = 24 * 3600
_ACTIONS = 2
"""Of the story's, after what it read."""


def items_table(answers: Answers) -> Table:
    """Items by outcome and what was found wrong with them."""
    decisions = [decision for read in answers.retrievals() for decision in read.decisions]
    counts = Counter((one["outcome"], _found(one), hidden(one)) for one in decisions)
    most = max(counts.values(), default=1)
    made = table(
        "Retrieved items, in the same sessions",
        "outcome",
        wrapped("found"),
        "would be",
        number("count"),
        "",
    )
    made.caption = "would be: the outcome that flag-only hides, for the class that is not enforced yet"
    for (outcome, found, would_be), times in sorted(counts.items(), key=_by_severity):
        bar = f"[{COLOURS[outcome]}]{_BAR * max(1, times * _BAR_WIDTH // most)}[/]"
        made.add_row(_word(outcome), shown(found), _word(would_be) if would_be else "", str(times), bar)
    return made


def story_table(answers: Answers) -> Table:
    """One reading, item by item, and which stage decided."""
    decisions = list(_decisions(answers, STORY_READ))
    tier = "".join(one["autonomy_tier"] for one in decisions[:1])
    made = table(
        f"One reading of session {REPEATING}, item by item, at {tier}",
        "item",
        "class",
        "outcome",
        "by",
        wrapped("why"),
    )
    made.caption = (
        "flag: served with its flags as fields; downgrade: without its body; deny: not at all\n"
        "by, in this order: controls, access, poisoning, quality (C18), content (C08)"
    )
    for decision in decisions:
        made.add_row(*_decision_cells(decision))
    return made


def override_table(answers: Answers) -> Table:
    """What a denial at high privilege led to."""
    made = table(
        "The same session at high_privilege, for a contract", "request", "item", "outcome", wrapped("why")
    )
    for decision in _decisions(answers, STORY_CONTRACT):
        made.add_row("first", _item(decision), _word(decision["outcome"]), shown(_why(decision)))
    for escalation in answers.item_escalations:
        waits = ", ".join(item["item_id"].removeprefix(_STORY) for item in escalation["items"])
        why = f"category {escalation['tool_category']}: a person is asked"
        made.add_row("", shown(waits), "[yellow]escalation[/]", shown(why))
    for decision in _decisions(answers, STORY_AGAIN):
        override = decision["override"]
        if override is not None:
            said = f"signed by {override['approver_id']}: {override['justification']}"
            made.add_row("", _item(decision), "[green]override[/]", shown(said))
        made.add_row("again", _item(decision), _word(decision["outcome"]), shown(_why(decision)))
    made.caption = "the override is a signed entry, published while the worker runs; it ends by itself"
    return made


def flags_table(answers: Answers) -> Table:
    """What the next actions of the story's session say of the flags."""
    made = table(
        "Its next actions, and the flags of what it had read",
        "action",
        "verdict",
        number("acknowledged"),
        number("not"),
        wrapped("advisory"),
    )
    acting = [one for one in answers.of(VERDICTS) if one.planned.session_id == REPEATING]
    after = [one for one in acting if one.planned.kind == "action"][1 : 1 + _ACTIONS]
    for one in after:
        flags = one.body["session"]["flags"]
        said = next(
            (each["text"] for each in one.body["advisories"] if "flags of items" in each["text"]), "-"
        )
        counts = str(len(flags["acknowledged"])), str(len(flags["outstanding"]))
        action = shown(one.planned.fields["action_id"])
        made.add_row(action, word(one.body["verdict"]), *counts, shown(said))
    made.caption = "advice, no denial; a rule of the bundle may cite what is not acknowledged"
    return made


def _by_severity(item: tuple[tuple[str, str, str], int]) -> tuple[int, int]:
    return OUTCOMES.index(item[0][0]), -item[1]


def _found(decision: dict[str, Any]) -> str:
    named = decision["flags_set"] or decision["reason_codes"]
    return ", ".join(named) or "nothing"


def _decisions(answers: Answers, request_id: str) -> Iterator[dict[str, Any]]:
    for read in answers.retrievals():
        if _is(read, request_id):
            yield from read.decisions


def _is(read: AnsweredRetrieval, request_id: str) -> bool:
    asked: str = read.planned.fields["request_id"]
    return asked == request_id


def _decision_cells(decision: dict[str, Any]) -> tuple[str, ...]:
    outcome = decision["outcome"]
    by = next((one["stage"] for one in decision["stages"] if one["outcome"] == outcome), "quality")
    would_be, why = hidden(decision), _why(decision)
    if would_be:
        by, why = "flag-only", f"would be {would_be}: {why}"
    return (
        _item(decision),
        shown(decision["content_class"]),
        _word(outcome),
        "-" if outcome == "pass" else by,
        shown(why),
    )


def hidden(decision: dict[str, Any]) -> str:
    """The outcome that flag-only hides, if it is another one."""
    would_be: str | None = decision["would_have_been"]
    return "" if would_be in (None, decision["outcome"]) else str(would_be)


def _why(decision: dict[str, Any]) -> str:
    """The record's reason; an age in days, which is how people count the age of a text."""
    reason: str = decision["reason"] or "-"
    age_s = decision["freshness_age_seconds"]
    if age_s is None or not reason.startswith("freshness: "):
        return reason
    return f"freshness: {age_s / _DAY_S:.0f} days old"


def _item(decision: dict[str, Any]) -> str:
    return shown(decision["item_id"].removeprefix(_STORY))


def _word(outcome: str) -> str:
    return f"[{COLOURS[outcome]}]{shown(outcome)}[/]"


_EVERYTHING = "all"
_FIGURES = {
    "stale": STALE,
    "provenance": PROVENANCE,
    "unsure": CONFIDENCE,
    "false deny": FALSE_DENY,
}


def posture_table(quality: QualityReport) -> Table:
    """Outcomes and rates by content class."""
    rates = [Column(name, justify="right", overflow="fold") for name in _FIGURES]
    made = table(
        "Quality report, from the ledger alone",
        Column("class", no_wrap=True),
        number("items"),
        *(number(outcome) for outcome in OUTCOMES),
        *rates,
    )
    for name, one in [*quality.by_class.items(), (_EVERYTHING, quality.overall)]:
        outcomes = (str(one.outcomes[outcome]) for outcome in OUTCOMES)
        shares = (percent(one.rates[figure.name]) for figure in _FIGURES.values())
        made.add_row(shown(name), str(one.decisions), *outcomes, *shares)
    made.caption = (
        "stale: shown although too old; false deny: what enforcing would deny of a class in flag-only"
    )
    return made


def coverage_table(quality: QualityReport) -> Table:
    """Of what stores say that they returned, how much was decided on; and what an operator is told."""
    made = table(
        "Coverage: what the stores say they returned",
        "tier",
        number("returned"),
        number("decided"),
        number("coverage"),
        number("target"),
        "",
    )
    for one in quality.coverage:
        target = "-" if one.target is None else f"{one.target:.0%}"
        mark = "[bold red]below its target[/]" if one.short else ""
        counts = str(one.rate.whole), str(one.rate.part)
        made.add_row(one.tier, *counts, percent(one.rate), target, mark)
    return made


def alarms_table(quality: QualityReport) -> Table:
    """What an operator must see."""
    made = table("Alarms", "to", "subject", Column("message", overflow="fold"))
    for alarm in quality.alarms:
        made.add_row(*(shown(alarm[name]) for name in ("recipient", "subject", "message")))
    return made
