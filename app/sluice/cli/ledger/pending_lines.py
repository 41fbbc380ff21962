"""What waits for a person, on the screen of a terminal: a line in a list, or all that topics hold of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from rich.text import Text

from sluice.cli.ledger.record_words import describe_escalation_event, describe_memory_event
from sluice.cli.output import clean, console, make_visible, print_line, quote, read_clock_ms
from sluice.core.foundation.clock import read_milliseconds, span
from sluice.core.reports.pending_subject import is_blocked
from sluice.core.reports.value_words import describe_values
from sluice.text.plurals import count_noun
from sluice_topics.record_reading import find_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from sluice.cli.ledger.pending_subjects import WholeEscalation, WholeMemory
    from sluice.core.reports.pending_subject import PendingSubject
    from sluice_topics.records import MemoryDecision
    from sluice_topics.records.memory import MemoryFinding

_COLOURS = {"waiting": "yellow", "approved": "green", "never held": "white"}
"""Of how it stands; red where it is not there."""
SHOWN = 4000
"""Characters of a content on the screen; `--json` has all."""


def describe_state(subject: PendingSubject) -> str:
    """A word: how it stands, or how it ended."""
    blocked = ", and blocked all the same" if is_blocked(subject.records[-1]) else ""
    return f"{subject.status}{blocked}"


def describe_rest(expires_at: str, now_ms: int) -> str:
    """Describe how long it still waits, or since when it is over."""
    ms = read_milliseconds(expires_at) - now_ms
    return f"expires in {span(ms)}" if ms > 0 else f"over since {span(-ms)}"


def print_escalations(waiting: Sequence[PendingSubject], now_ms: int) -> None:
    """Two lines each, and how many they are."""
    for subject in waiting:
        print_line(f"[bold]{clean(subject.subject_id)}[/] {_describe_wait(subject, now_ms)}")
        print_line(f"  {_describe_owner(subject)}: {clean(subject.opened['reason'])}")
    print_line(f"{len(waiting)} waiting" if waiting else "[green]Nothing waits.[/]")


def print_memories(waiting: Sequence[PendingSubject], now_ms: int) -> None:
    """Two lines each, and how many they are."""
    for subject in waiting:
        rest = describe_rest(subject.fields["expires_at"], now_ms)
        print_line(f"[bold]{clean(subject.subject_id)}[/] trust {subject.fields['trust']:.3f}, {rest}")
        print_line(f"  {_describe_owner(subject)}: {clean(subject.fields['reason'])}")
    print_line(f"{len(waiting)} held" if waiting else "[green]Nothing is held.[/]")


def print_escalation(whole: WholeEscalation, to: Console, most: int) -> None:
    """State, whose it is, what gates said, events, and the action, at most so many characters of it."""
    subject, state = whole.subject, describe_state(whole.subject)
    waits = f", {_describe_wait(subject, read_clock_ms())}" if state == "waiting" else ""
    colour = _COLOURS.get(state, "red")
    print_line(f"[bold]{clean(subject.subject_id)}[/] [{colour}]{state}[/]{waits}", to)
    print_line(f"  {_describe_owner(subject)}", to)
    for verdict in (whole.verdict, whole.resolved):
        for gate in () if verdict is None else verdict["gateResults"]:
            if verdict is not None and not gate["passed"]:
                reasons = gate["detail"].get("reasons") or [gate["failureReason"]]
                for reason in reasons:
                    print_line(f"  {verdict['decided_at']} {clean(gate['gate'])}: {clean(reason)}", to)
    _print_values(whole, to, most)
    for event in subject.records:
        print_line(f"  {event['decided_at']} {clean(describe_escalation_event(event))}", to)
    if state == "waiting" and subject.fields.get("approvals"):
        _print_approved(whole, to, most)
    if whole.action is None:
        print_line(f"  [red]no action:[/] {clean(whole.no_action)}", to)
        return
    what = "action" if subject.is_action else "retrieval"
    print_line(f"  {what}, {subject.digest}:", to)
    to.print(quote(_indent(orjson.loads(whole.action)), most), soft_wrap=True, highlight=False)


def print_memory(whole: WholeMemory, now_ms: int, *, to: Console = console, most: int = SHOWN) -> None:
    """State, whose it is, score, findings, events, content."""
    subject = whole.subject
    is_waiting = subject is not None and subject.status == "waiting"
    waits = f", {describe_rest(subject.fields['expires_at'], now_ms)}" if subject and is_waiting else ""
    state = f"[{_COLOURS.get(whole.state, 'red')}]{whole.state}[/]{waits}"
    print_line(f"[bold]{clean(whole.memory_id)}[/] {state}", to)
    if subject is not None:
        print_line(f"  {_describe_owner(subject)}, write {clean(subject.name)}", to)
    if whole.decision is not None:
        _print_decision(whole.decision, to)
    for event in () if subject is None else subject.records:
        print_line(f"  {event['decided_at']} {clean(describe_memory_event(event))}", to)
    _print_content(whole, to, most)


def _print_decision(decision: MemoryDecision, to: Console) -> None:
    print_line(f"  {decision.decided_at} decided: [bold]{decision.action}[/], {clean(decision.reason)}", to)
    score = decision.trust_score
    if score is not None:
        print_line(f"  trust {score.total:.3f}, without caps {score.uncapped:.3f}", to)
    if score is not None and score.dimensions is not None:
        named = score.dimensions.model_dump(by_alias=True)
        print_line("    " + ", ".join(f"{name} {value:.3f}" for name, value in named.items()), to)
    for cap in [] if score is None else score.caps:
        print_line(f"    at most {cap.value:.3f}: {clean(cap.by)}", to)
    for fault in decision.quality_faults:
        print_line(f"  quality: {clean(fault.field)}: {clean(fault.problem)}", to)
    for finding in decision.findings:
        print_line(_describe_finding(finding), to)


def _describe_finding(finding: MemoryFinding) -> str:
    framed = ", framed" if finding.framed else ""
    field = "" if finding.field is None else f"in {clean(finding.field)}, "
    where = f"{field}{clean(finding.form)} {finding.start}-{finding.end}{framed}"
    what = f"{finding.weight} [bold]{clean(finding.id)}[/] ({clean(finding.kind)}, {where})"
    return f"  {what}: {clean(finding.reason)}"


def _describe_owner(subject: PendingSubject) -> str:
    opened = subject.opened
    if "source_id" in opened:
        own = f"source {clean(opened['source_id'])} ({opened['source_type']})"
    else:
        own = f"{'action' if subject.is_action else 'request'} {clean(subject.name)}"
    return (
        f"tenant {clean(opened['tenant_id'])}, agent {clean(opened['agent_id'])}, "
        f"session {clean(opened['session_id'])}, {own}"
    )


def _print_content(whole: WholeMemory, to: Console, most: int) -> None:
    if whole.content is None:
        to.print(Text.assemble(("  no content: ", "red"), make_visible(whole.no_content)), soft_wrap=True)
        return
    decision, subject = whole.decision, whole.subject
    digest = decision.content_digest if decision else None if subject is None else subject.digest
    print_line(f"  content, {count_noun(len(whole.content), 'character')}, {digest}:", to)
    to.print(quote(whole.content, most), soft_wrap=True, highlight=False)


def _print_values(whole: WholeEscalation, to: Console, most: int) -> None:
    """Print the looked-up values that did not simply pass."""
    action = None if whole.action is None else find_call(orjson.loads(whole.action))
    values = whole.subject.opened.get("values") or ()
    for words in describe_values(values, whole.subject.agent, None if action is None else action[1]):
        print_line(f"  {clean(words.sentence)}", to)
        if words.value is not None:
            to.print(quote(words.value, most), soft_wrap=True, highlight=False)


def _print_approved(whole: WholeEscalation, to: Console, most: int) -> None:
    """Print what exactly the approvals so far are for."""
    if not whole.subject.is_narrowed:
        print_line("  approved so far: exactly what waits", to)
        return
    print_line(
        "  approved so far: [bold]other parameters[/]; an approval for others starts the count again:", to
    )
    if whole.approved is None:
        print_line("  [red]the answer that has them is no longer there[/]", to)
        return
    to.print(quote(_indent(whole.approved), most), soft_wrap=True, highlight=False)


def _indent(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _describe_wait(subject: PendingSubject, now_ms: int) -> str:
    """Describe what it needs, and how long it still waits."""
    fields = subject.fields
    needed = fields.get("quorum")
    quorum = f", {fields.get('approvals', 0)} of {count_noun(needed, 'approval')}" if needed else ""
    quorum += " for other parameters" if subject.is_narrowed else ""
    of = fields["tier"] if subject.is_action else count_noun(len(fields["items"]), "item")
    role = f"{subject.role}{_describe_turn(subject, now_ms)}"
    return f"{of}, needs {role}{quorum}, {describe_rest(fields['expires_at'], now_ms)}"


def _describe_turn(subject: PendingSubject, now_ms: int) -> str:
    """Which group has it, and when the next one gets it."""
    turn = subject.turn
    if not turn:
        return ""
    following = ""
    if turn["next_at"] is not None:
        in_ms = max(0, read_milliseconds(turn["next_at"]) - now_ms)
        following = f", then {clean(turn['next_group'])} in {span(in_ms)}"
    return f" of {clean(turn['group'])}{following}"
