"""Held memories for the verbs of `sluice quarantine`: read from the ledger, and shown on the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rich.text import Text

from sluice.adapters.kafka.kafka_evidence import KafkaEvidence
from sluice.adapters.kafka.kafka_named import find_meanings
from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine
from sluice.cli.output import (
    WRONG,
    clean,
    console,
    make_visible,
    print_line,
    quote,
    require_broker,
    require_record_proofs,
    require_settings,
    stop,
)
from sluice.core.foundation.clock import read_milliseconds, span
from sluice.core.foundation.input_record import memory_id, read_coordinates
from sluice.core.memory.plan import digest_content
from sluice.core.reports.ledger_values import NotInLedgerError, Waiting, read_decision
from sluice.ports import PortUnavailable
from sluice.settings.reader import list_real_names
from sluice.text.plurals import count_noun
from sluice_topics.catalog import MEMORY_WRITES
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import (
    MemoryDecision,
    ProposedMemoryWrite,
    QuarantineApproved,
    QuarantineEntered,
    QuarantineEvicted,
    QuarantineExpired,
    QuarantineRejected,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from rich.console import Console

    from sluice.adapters.kafka.kafka_quarantine import Place
    from sluice.core.reports.ledger_values import Event
    from sluice_topics.records.base import DelegateSeen
    from sluice_topics.records.memory import MemoryFinding

T = TypeVar("T")

WORDS: dict[type[Any], str] = {
    QuarantineEntered: "waiting",
    QuarantineApproved: "approved",
    QuarantineRejected: "rejected",
    QuarantineExpired: "expired",
    QuarantineEvicted: "evicted",
}
NEVER_HELD = "never held"


@dataclass(frozen=True, slots=True)
class Life:
    """The life of one memory. `content` None: see `no_content`."""

    memory_id: str
    decision: MemoryDecision | None
    events: tuple[Event, ...]
    content: str | None
    no_content: str

    @property
    def state(self) -> str:
        """A word: how it stands, or how it ended."""
        return WORDS[type(self.events[-1])] if self.events else NEVER_HELD

    @property
    def entered(self) -> QuarantineEntered | None:
        """The event by which it waits; None where it does not."""
        last = self.events[-1] if self.events else None
        return last if isinstance(last, QuarantineEntered) else None


def connect() -> KafkaQuarantine:
    """Connect to the installation of the settings."""
    settings = require_settings()
    proofs = require_record_proofs(settings)
    return KafkaQuarantine(settings.kafka.connection, list_real_names(settings), proofs)


def run_question(question: Coroutine[Any, Any, T]) -> T:
    """The answer; what cannot be read ends the command."""
    try:
        return require_broker(question)
    except NotInLedgerError as error:
        stop(f"{error}. `sluice ledger verify` says what is wrong with the ledger.")


async def list_waiting(kafka: KafkaQuarantine) -> list[QuarantineEntered]:
    """List the memories that are held now, the oldest first."""
    waiting = Waiting()
    async for event in kafka.read_events():
        waiting.take(event)
    return list(waiting)


def require_place(name: str) -> Place:
    """Return the coordinates of a memory's input. A person may leave out what is always the same: 3:17."""
    whole = name if name.count(":") > 1 else f"{MEMORY_WRITES}:{name}"
    try:
        coordinates = read_coordinates(whole)
    except ValueError:
        coordinates = _require_write_place(name)
    if coordinates[0] != MEMORY_WRITES:
        stop(f"no id of a memory: {name} is of {coordinates[0]}", WRONG)
    return coordinates


def _require_write_place(name: str) -> Place:
    """Return the coordinates of the write that its caller named so; several of one name end the command."""
    kafka = require_settings().kafka
    (meant,) = run_question(find_meanings(KafkaEvidence(kafka.connection, kafka.topic_prefix), [name]))
    if not meant.decisions:
        like = memory_id(f"{MEMORY_WRITES}:3:17")
        stop(f"{name}: {meant.why}. Ids of memories are like {like}")
    if len(meant.decisions) > 1:
        stop(f"{name} names several decisions: {', '.join(meant.decisions)}")
    return read_coordinates(meant.decisions[0])


async def fetch_life(kafka: KafkaQuarantine, coordinates: Place) -> Life:
    """All that topics hold of the memory whose input lies there."""
    name = memory_id(":".join(map(str, coordinates)))
    events = tuple([event async for event in kafka.read_events(name) if event.memory_id == name])
    since_ms = read_milliseconds(events[0].entered_at) if events else 0
    raw = await kafka.fetch_decision(name, coordinates[1], since_ms)
    decision = None if raw is None else read_decision(raw)
    if decision is None and not events:
        return Life(name, None, (), None, "nothing was decided on it")
    digest = decision.content_digest if decision else events[0].content_digest
    content, no_content = await _fetch_content(kafka, coordinates, digest)
    return Life(name, decision, events, content, no_content)


async def _fetch_content(
    kafka: KafkaQuarantine, coordinates: Place, digest: str | None
) -> tuple[str | None, str]:
    """The content, or None and why. Only what the digest names is the content that was decided on."""
    try:
        write = read(ProposedMemoryWrite, await kafka.fetch_content(coordinates))
    except PortUnavailable as error:
        return None, str(error)
    if isinstance(write, Unreadable):
        return None, f"the input is no memory write: {write.message}"
    if digest is not None and digest_content(write.content) != digest:
        return None, "what lies there is not what was decided on: its digest is another"
    return write.content, ""


_COLOURS = {"waiting": "yellow", "approved": "green", "rejected": "red", "expired": "red", "evicted": "red"}
SHOWN = 4000
"""Characters of a content on the screen; `--json` has all."""


def describe_rest(expires_at: str, now_ms: int) -> str:
    """Describe how long a memory still waits, or since when it is over."""
    ms = read_milliseconds(expires_at) - now_ms
    return f"expires in {span(ms)}" if ms > 0 else f"over since {span(-ms)}"


def print_waiting(memories: Sequence[QuarantineEntered], now_ms: int) -> None:
    """Two lines each, and how many they are."""
    for memory in memories:
        rest = describe_rest(memory.expires_at, now_ms)
        print_line(f"[bold]{clean(memory.memory_id)}[/] trust {memory.trust:.3f}, {rest}")
        print_line(f"  {_describe_owner(memory)}: {clean(memory.reason)}")
    print_line(f"{len(memories)} held" if memories else "[green]Nothing is held.[/]")


def print_life(life: Life, now_ms: int, *, to: Console = console, most: int = SHOWN) -> None:
    """State, whose it is, score, findings, events, content."""
    waits = "" if life.entered is None else f", {describe_rest(life.entered.expires_at, now_ms)}"
    state = f"[{_COLOURS.get(life.state, 'white')}]{life.state}[/]{waits}"
    print_line(f"[bold]{clean(life.memory_id)}[/] {state}", to)
    if life.events:
        print_line(f"  {_describe_owner(life.events[0])}, write {clean(life.events[0].write_id)}", to)
    if life.decision is not None:
        _print_decision(life.decision, to)
    for event in life.events:
        print_line(_describe_event(event), to)
    _print_content(life, to, most)


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


def _describe_event(event: Event) -> str:
    word = "entered" if isinstance(event, QuarantineEntered) else WORDS[type(event)]
    if isinstance(event, QuarantineApproved | QuarantineRejected):
        why = f"by {event.approver_id}{describe_channel(event.delegate)}: {event.justification}"
    else:
        why = f"{event.reason}, {event.by}" if isinstance(event, QuarantineEvicted) else event.reason
    return f"  {event.decided_at} {word}: {clean(why)}"


def describe_channel(delegate: DelegateSeen | None) -> str:
    """Describe how a person without a key there answered: by which channel, and which delegate signed."""
    return "" if delegate is None else f" ({delegate.channel}, through {delegate.id})"


def _describe_owner(event: Event) -> str:
    source = f"source {clean(event.source_id)} ({event.source_type})"
    return (
        f"tenant {clean(event.tenant_id)}, agent {clean(event.agent_id)}, "
        f"session {clean(event.session_id)}, {source}"
    )


def _print_content(life: Life, to: Console, most: int) -> None:
    if life.content is None:
        to.print(Text.assemble(("  no content: ", "red"), make_visible(life.no_content)), soft_wrap=True)
        return
    digest = life.decision.content_digest if life.decision else life.events[0].content_digest
    print_line(f"  content, {count_noun(len(life.content), 'character')}, {digest}:", to)
    to.print(quote(life.content, most), soft_wrap=True, highlight=False)
