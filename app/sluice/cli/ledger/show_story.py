"""A decision's story on the screen: the word and the reason first, then gates, what followed, its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sluice.cli.ledger.record_words import POLICY, describe_policy, read_first, read_objects
from sluice.cli.output import console, make_visible
from sluice.core.decide.kinds import DECISIONS
from sluice.core.foundation.chain import hash_holds
from sluice.core.foundation.clock import read_milliseconds, span
from sluice.offline.story import OWN_IDS
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import ModuleType

    from sluice.offline.story import Story, StoryEvent

LONGEST = 600
"""Characters of a value on the screen; `--json` has all."""
_GOOD, _BAD, _OPEN = "bold green", "bold red", "bold yellow"
_STYLES = {
    **dict.fromkeys(("allowed", "allow", "pass"), _GOOD),
    **dict.fromkeys(("denied", "reject", "deny", "unreadable"), _BAD),
    **dict.fromkeys(("needs_human", "quarantine", "flag", "downgrade"), _OPEN),
}
_MARKS = {"passed": "green", "failed": "red", "observed": "yellow", "idle": "dim"}
_WHO = ("agent", "tenant", "session")
_NAMES = ("id", "reason")
_BUNDLES = (("policy_bundle_id", "bundle_hash"), ("quality_bundle_id", "quality_bundle_hash"))
_TOTALS = (("rows", "aggregateRowsAffected"), ("actions", "aggregateActionCount"))
_FIRST_NAMES = (
    *("reason", "message", "justification", "approver_id", "reported_by", "reserved", "actual"),
    *("aggregateRowsAffected", "lowered", "reported", "covered", "uncovered"),
    *("required_role", "group", "from_group", "next_group", "next_at", "expires_at", "escalation_id"),
)
"""Of an event that followed, what a reader wants first; `--json` has all."""


def print_story(story: Story, input_fields: Any, now_ms: int) -> None:
    """Print the story. `input_fields`: the input as it was published, None where it is no longer there."""
    fields = story.decision.fields
    console.print(_write_headline(story.decision, now_ms), soft_wrap=True)
    facts = _explain(fields), _describe_agent(fields), _describe_input(fields, input_fields)
    console.print(_build_facts(*facts))
    for title, rows in (
        ("gates", _describe_gates(fields)),
        ("rules", (make_visible(_write_text(rule)) for rule in read_objects(fields, "rule_results"))),
        ("dimensions", _describe_dimensions(fields)),
        ("findings", _describe_findings(fields)),
        ("what followed", _describe_followed(story)),
    ):
        lines = [_shorten(row) for row in rows]
        if lines:
            console.print(Text(title, style="bold"))
            console.print(Padding(Group(*lines), (0, 0, 0, 2)))
    basis = _describe_remarks(fields), _describe_basis(fields), _describe_place(story.decision)
    console.print(_build_facts(*basis))


def _read_word(decision: StoryEvent) -> str:
    if decision.schema.startswith("sluice/dead_letter"):
        return "unreadable"
    words = (decision.fields.get(name) for name in ("verdict", "action", "outcome"))
    kind = decision.schema.removeprefix("sluice/").partition("/")[0]
    return next((word for word in words if isinstance(word, str)), kind)


def _write_headline(decision: StoryEvent, now_ms: int) -> Text:
    fields = decision.fields
    word = _read_word(decision)
    line = Text.assemble((word.upper(), _STYLES.get(word, "bold")), "  ", make_visible(_read_own_id(fields)))
    if (at := fields.get("decided_at")) is not None:
        line.append(f"  {_describe_age(str(at), now_ms)}", style="dim")
    return line


def _read_own_id(fields: dict[str, Any]) -> str:
    return str(read_first(fields, (*OWN_IDS, "escalation_id")) or "-")


def _describe_age(at: str, now_ms: int) -> str:
    try:
        ms = now_ms - read_milliseconds(at)
    except ValueError:
        return at
    return f"{span(ms)} ago ({at})" if ms >= 0 else at


Fact = tuple[str, Text]


def _explain(fields: dict[str, Any]) -> Iterator[Fact]:
    failed = [gate for gate in read_objects(fields, "gateResults") if gate.get("passed") is False]
    reason = fields.get("blockReason") or fields.get("reason") or fields.get("message")
    if failed:
        last = failed[-1]
        reason = last.get("failureReason") or reason
        yield "why", Text.assemble((f"{last.get('gate')}: ", "bold"), make_visible(_write_text(reason)))
    elif reason:
        codes = ", ".join(map(str, fields.get("reason_codes") or ()))
        yield "why", make_visible(_write_text(reason) + (f" ({codes})" if codes else ""))
    elif fields.get("schema") == POLICY:
        yield "what", make_visible(describe_policy(fields))
    elif fields.get("verdict") == "allowed":
        yield "why", Text(_load_gate_marks().describe_passing(read_objects(fields, "gateResults")))
    if hidden := fields.get("shadowOutcome") or fields.get("shadowAction") or fields.get("would_have_been"):
        yield "hidden", make_visible(f"{hidden}: what enforcing would have said")
    if first := fields.get("duplicate_of"):
        yield "duplicate", make_visible(f"of {first}: counts nothing")


def _describe_agent(fields: dict[str, Any]) -> Iterator[Fact]:
    parts = [f"{word} {fields[word + '_id']}" for word in _WHO if fields.get(word + "_id") is not None]
    if parts:
        yield "who", make_visible(", ".join(parts))
    words = dict.fromkeys(
        str(fields[name]) for name in ("mode", "enforcement", "rollout") if fields.get(name)
    )
    parts = [*words, *(f"tier {fields[name]}" for name in ("tier", "autonomy_tier") if fields.get(name))]
    if parts:
        yield "how", make_visible(", ".join(parts))


def _describe_input(fields: dict[str, Any], input_fields: Any) -> Iterator[Fact]:
    if isinstance(input_fields, dict):
        if (tool := input_fields.get("toolName")) is not None:
            yield "action", make_visible(f"{_write_text(tool)} {_write_text(input_fields.get('parameters'))}")
        elif (content := input_fields.get("content")) is not None:
            yield "content", make_visible(_write_text(content))
    elif input_fields is None and fields.get("input") is not None:
        yield "input", Text("not read here, or no longer kept", style="dim")
    if (item := fields.get("item_id")) is not None:
        yield "item", make_visible(f"{item} ({fields.get('content_class')}), of {fields.get('request_id')}")
    if isinstance(session := fields.get("session"), dict):
        yield from _describe_session(session, fields.get("rows_reserved"))
    if isinstance(score := fields.get("trustScore"), dict):
        parts = ", ".join(f"{name} {value}" for name, value in (score.get("dimensions") or {}).items())
        caps = ", ".join(f"at most {cap.get('value')} by {cap.get('by')}" for cap in score.get("caps") or ())
        yield "trust", make_visible(f"{score.get('total')} ({parts})" + (f"; {caps}" if caps else ""))


def _describe_session(session: dict[str, Any], reserved: Any) -> Iterator[Fact]:
    before, after = session.get("before", {}), session.get("after", {})
    totals = ", ".join(f"{word} {before.get(name)} -> {after.get(name)}" for word, name in _TOTALS)
    yield "totals", make_visible(f"{totals}; {count_noun(reserved, 'row')} reserved")
    if isinstance(read := session.get("read"), dict):
        kinds = (f"{kind} {tally.get('times')} (last {tally.get('last')})" for kind, tally in read.items())
        yield "had read", make_visible(f"untrusted content: {', '.join(kinds)}")
    for gate, value in _read_dict(session, "remembered").items():
        yield "seen by", make_visible(f"{gate} before: {_write_text(value)}")


def _describe_gates(fields: dict[str, Any]) -> Iterator[Text]:
    for gate in read_objects(fields, "gateResults"):
        yield _write_gate_line(gate)
        if gate.get("passed") is not True:
            titles = _load_gate_marks().list_titles(str(gate.get("gate")))
            yield from _describe_evidence(_read_dict(gate, "detail"), titles)
    for stage in read_objects(fields, "stages"):
        if stage.get("stage"):
            reason = f"  {_write_text(stage['reason'])}" if stage.get("reason") else ""
            text = f"{stage['stage']}: {stage['outcome']}{reason}"
            yield _choose_mark(stage.get("outcome") == "pass") + make_visible(text)
    reached = {gate.get("gate") for gate in read_objects(fields, "gateResults")}
    order = fields.get("stages") if isinstance(fields.get("stages"), list) else []
    if rest := [name for name in order or () if isinstance(name, str) and name not in reached]:
        yield Text(f"not reached: {', '.join(rest)}", style="dim")


def _write_gate_line(gate: dict[str, Any]) -> Text:
    mark = _load_gate_marks().mark_gate(gate)
    line = Text(f"{mark.sign} ", style=_MARKS[mark.state]) + make_visible(f"{gate.get('gate')}")
    if mark.state in {"observed", "idle"}:
        line += make_visible(f"  {mark.words}")
    if reason := gate.get("failureReason") or _read_dict(gate, "detail").get("objection"):
        line += make_visible(f"  {reason}")
    return line + Text(f"  {gate.get('durationMs')} ms", style="dim")


def _load_gate_marks() -> ModuleType:
    from sluice.core.reports import gate_marks  # noqa: PLC0415 - the gates; most stories are read without them

    return gate_marks


def _describe_evidence(detail: Mapping[str, Any], titles: Mapping[str, str]) -> Iterator[Text]:
    """A line for each thing that a gate which did not pass found."""
    for name, value in ((titles.get(name, name), value) for name, value in detail.items()):
        values = value if isinstance(value, list) and value else [value]
        for member in values:
            if isinstance(member, dict):
                rest = ", ".join(
                    f"{key} {_write_text(part)}" for key, part in member.items() if key not in _NAMES
                )
                named = ": ".join(_write_text(member[key]) for key in _NAMES if member.get(key) is not None)
                yield make_visible(f"    {named} ({rest})" if named else f"    {name}: {rest}")
            else:
                yield make_visible(f"    {name}: {_write_text(member)}")


def _describe_dimensions(fields: dict[str, Any]) -> Iterator[Text]:
    for dimension in read_objects(fields, "dimensions"):
        text = f"{dimension.get('dimension')}: {dimension.get('outcome')}, {dimension.get('detail')}"
        yield _choose_mark(dimension.get("passed")) + make_visible(text)


def _describe_findings(fields: dict[str, Any]) -> Iterator[Text]:
    for finding in read_objects(fields, "findings"):
        what = f"{finding.get('weight')} {finding.get('id')} ({finding.get('form')})"
        yield make_visible(f"{what}: {finding.get('reason')}")


def _describe_followed(story: Story) -> Iterator[Text]:
    begun = str(story.decision.fields.get("decided_at"))
    for event in story.followed:
        kind = event.schema.split("/")[1].replace("_", " ") if "/" in event.schema else event.topic
        fields = event.fields
        values = (
            f"{name} {_write_text(fields[name])}" for name in _FIRST_NAMES if fields.get(name) is not None
        )
        later = _describe_later(begun, str(event.fields.get("decided_at")))
        yield Text.assemble((f"{later}: ", "dim"), (kind, "bold"), " ", make_visible(", ".join(values)))


def _describe_later(begun: str, at: str) -> str:
    try:
        ms = read_milliseconds(at) - read_milliseconds(begun)
    except ValueError:
        return at
    return f"after {span(ms)}" if ms >= 1000 else "at once"  # noqa: PLR2004 - what `span` would call 0 s


def _describe_remarks(fields: dict[str, Any]) -> Iterator[Fact]:
    for advisory in read_objects(fields, "advisories"):
        yield "remark", make_visible(f"{advisory.get('source')}: {advisory.get('text')}")
    yield from _list_texts(fields, ("obliges", "obligations"), ("flags", "flags_set"))


def _describe_basis(fields: dict[str, Any]) -> Iterator[Fact]:
    for id_name, hash_name in _BUNDLES:
        if fields.get(hash_name):
            yield "bundle", make_visible(f"{fields.get(id_name)} {fields[hash_name]}")
    yield from _list_texts(fields, ("registry", "registry_hashes"), ("evidence", "evidence_refs"))


def _list_texts(fields: dict[str, Any], *shown: tuple[str, str]) -> Iterator[Fact]:
    for word, name in shown:
        if fields.get(name):
            yield word, make_visible(", ".join(map(str, fields[name])))


def _describe_place(decision: StoryEvent) -> Iterator[Fact]:
    fields = decision.fields
    location = f"{decision.topic} {decision.partition}/{decision.offset}"
    yield "ledger", make_visible(f"{location}, number {fields.get('sequence')} of the partition's chain")
    if hash_holds(fields):
        yield "hash", make_visible(f"{fields.get('event_hash')} holds, after {fields.get('prev_hash')}")
    else:
        yield "hash", Text("does not fit the record: it was altered. Run: sluice ledger verify", style=_BAD)
    if decision.schema in DECISIONS:
        yield "again", make_visible(f"sluice rerun {_read_own_id(fields)}")


def _build_facts(*groups: Iterable[Fact]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", min_width=9)
    table.add_column(overflow="fold")
    for group in groups:
        for name, value in group:
            table.add_row(f"  {name}", _shorten(value))
    return table


def _shorten(value: Text) -> Text:
    if len(value) > LONGEST:
        left = len(value) - LONGEST
        return value[:LONGEST] + Text(f"… {count_noun(left, 'character')} more", style="dim")
    return value


def _choose_mark(passed: object) -> Text:
    return Text("✓ ", style="green") if passed is True else Text("✗ ", style="red")


def _read_dict(fields: dict[str, Any], name: str) -> dict[str, Any]:
    member = fields.get(name)
    return member if isinstance(member, dict) else {}


def _write_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
