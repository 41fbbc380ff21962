"""What `sluice bundle` and `sluice registry` share: publishing envelopes."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from sluice.adapters.kafka.kafka_control import publish_control, read_control
from sluice.adapters.kafka.kafka_publish import Outgoing
from sluice.cli.output import (
    CANNOT_PUBLISH,
    WELL,
    WRONG,
    broker_or_stop,
    console,
    errors,
    line,
    print_json,
    settings_or_stop,
    shown,
    stop,
)
from sluice.core.cases.cases import run_cases
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import CoreError
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.fold import fold
from sluice.core.trust.in_force import Rehearsal, make_arrivals, rehearse, select_refused
from sluice.settings.reader import missing_trust
from sluice_topics.catalog import BUNDLES, BY_NAME, REGISTRY
from sluice_topics.headers import input_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.core.foundation.arrival import Arrival
    from sluice.core.registry.keys import Roots
    from sluice.core.trust.fold import Folded
    from sluice.core.trust.refused import Refused
    from sluice.settings.reader import Settings

SOURCE = "/sluice/publish"
"""ce_source of what these commands publish."""
WRITER = "sluice-control"
"""Transactional id, after the prefix: one publisher at a time for an installation."""

AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]


def publish_values(
    values: Sequence[bytes],
    topic: str,
    *,
    compare: Callable[[Folded], list[str]] = lambda _: [],
    hints: Mapping[str, str] = MappingProxyType({}),
    as_json: bool,
) -> NoReturn:
    """Publish envelopes, all or none, and end the command with what became of them. `compare`: where they are
    relaxed of what is in force, in sentences; `hints`: what to do next, by the code of a refusal."""
    only = (REGISTRY,) if topic == REGISTRY else ()
    relaxed: list[str] = []

    def choose(folded: Folded) -> list[tuple[str, bytes]]:
        relaxed[:] = compare(folded)
        return [(topic, value) for value in values]

    publishing = Publishing(settings_or_stop(), choose, only)
    publishing.run()
    _print_published(publishing, relaxed, as_json=as_json)
    for code in {one.code for one in publishing.refused} & hints.keys():
        line(hints[code], errors)
    raise typer.Exit(WRONG if publishing.refused else WELL)


class Publishing:
    """One command's publishing: rehearsed on what the topics hold, written, and looked at once more."""

    def __init__(
        self,
        settings: Settings,
        choose: Callable[[Folded], Sequence[tuple[str, bytes]]],
        only: Sequence[str] = (),
    ) -> None:
        """`choose` gives topics and envelopes for what is in force, those that others depend on first.

        `only`: the topics to read, both if none is given; see `control_topics`.
        """
        self._settings = settings
        self._only = only
        self._choose = choose
        self._roots = roots_or_stop(settings)
        self._compiled = CompileCache(run_cases, settings.audience())
        self._rehearsal = Rehearsal((), (), ())
        self.written: list[Arrival] = []
        self.refused: tuple[Refused, ...] = ()

    @property
    def repeats(self) -> tuple[Arrival, ...]:
        """What was there already."""
        return self._rehearsal.repeats

    def run(self) -> None:
        """Do it; what cannot be done ends the command."""
        broker_or_stop(self.publish(), CANNOT_PUBLISH)

    async def publish(self) -> None:
        """Do it. Raises UnknownTopics, KafkaUnreachable and AnotherPublisherError."""
        kafka = self._settings.kafka
        topics = control_topics(self._settings, self._only)
        writer = f"{kafka.topic_prefix}{WRITER}"
        records = await publish_control(kafka.bootstrap_servers, topics, writer, self._writes)
        if not self.refused:
            self._confirm(records)

    def _writes(self, records: Sequence[Arrival]) -> list[tuple[str, Outgoing]]:
        now_ms = time.time_ns() // 1_000_000
        chosen = self._choose(fold(records, self._roots, self._compiled))
        new = [
            arrival
            for topic in (REGISTRY, BUNDLES)
            for arrival in make_arrivals(
                topic, [value for to, value in chosen if to == topic], records, now_ms
            )
        ]
        self._rehearsal = rehearse(records, new, self._roots, self._compiled)
        self.refused = self._rehearsal.refused
        return [(write.topic, _outgoing(write, now_ms)) for write in self._rehearsal.writes]

    def _confirm(self, records: Sequence[Arrival]) -> None:
        """The broker's time decides, and it may not be this machine's."""
        due = {(one.topic, one.key, one.value): one.offset for one in self._rehearsal.writes}
        self.written = [
            one for one in records if one.offset >= due.get((one.topic, one.key, one.value), one.offset + 1)
        ]
        self.refused = select_refused(fold(records, self._roots, self._compiled), self.written)


def control_topics(settings: Settings, only: Sequence[str] = ()) -> dict[str, str]:
    """Base name by real name, those that others depend on first.

    `only` some of them: the registry alone folds to the same entries in a fraction of the time, since no
    entry depends on a bundle and none has to be compiled.
    """
    prefix = settings.kafka.topic_prefix
    return {BY_NAME[base].real_name(prefix, ""): base for base in only or (REGISTRY, BUNDLES)}


def roots_or_stop(settings: Settings) -> Roots:
    """The keys that all trust starts from; without one the command ends."""
    if problem := missing_trust(settings):
        stop(problem)
    try:
        return settings.policy.roots()
    except CoreError as error:
        stop(f"policy.root_keys: {error}")


def _outgoing(write: Arrival, now_ms: int) -> Outgoing:
    name = (write.key or b"").decode()
    return Outgoing(
        write.key,
        write.value or b"",
        tuple(input_headers(f"{write.topic}:{name}", "DsseEnvelope", SOURCE, rfc3339(now_ms))),
    )


def _print_published(publishing: Publishing, relaxed: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "written": [_place(one) for one in publishing.written],
                "already_there": [(one.key or b"").decode() for one in publishing.repeats],
                "refused": [_refusal(one) for one in publishing.refused],
                "relaxations": list(relaxed),
            }
        )
    print_relaxed(relaxed)
    print_refused(publishing.refused)
    if not as_json:
        _summary(publishing)


def print_relaxed(sentences: Iterable[str]) -> None:
    """A line for each on standard error."""
    for one in sentences:
        errors.print(f"[yellow]relaxed[/] {shown(one)}", soft_wrap=True, highlight=False)


def print_refused(refused: Iterable[Refused]) -> None:
    """A line for each on standard error."""
    for one in refused:
        told = _refusal(one)
        where = f"[red]{told['code']}[/] at {shown(told['path'])}"
        errors.print(f"{shown(told['key'])}: {where}: {shown(told['message'])}", soft_wrap=True)


def _summary(publishing: Publishing) -> None:
    for one in publishing.written:
        told = f"[green]published[/] {shown((one.key or b'').decode())} at {shown(one.decision_id)}"
        console.print(told, soft_wrap=True, highlight=False)
    for one in publishing.repeats:
        told = f"{shown((one.key or b'').decode())} is there already"
        console.print(told, soft_wrap=True, highlight=False)
    if publishing.refused:
        console.print("nothing was written" if not publishing.written else "[red]written, but refused[/]")


def _place(one: Arrival) -> dict[str, Any]:
    return {"key": (one.key or b"").decode(), "topic": one.topic, "offset": one.offset}


def _refusal(refused: Refused) -> dict[str, str]:
    name = (refused.arrival.key or b"").decode(errors="replace")
    return {"key": name, "code": refused.code, "path": refused.path, "message": refused.message}


def folded_or_stop(*only: str) -> Folded:
    """The fold of every record that the control topics hold now; what hinders it ends the command.

    `only`: base names of the topics to read, both if none is given; see `control_topics`.
    """
    settings = settings_or_stop()
    roots = roots_or_stop(settings)
    kafka = settings.kafka
    reading = read_control(kafka.bootstrap_servers, control_topics(settings, only))
    records = broker_or_stop(reading, "cannot read the control topics: {}")
    return fold(records, roots, CompileCache(run_cases, settings.audience()))
