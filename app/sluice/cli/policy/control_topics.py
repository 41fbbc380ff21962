"""What `sluice bundle` and `sluice registry` share: publishing envelopes."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from sluice.adapters.kafka.kafka_consumers import read_control
from sluice.bootstrap.publishing import Publishing, list_control_topics
from sluice.cli.output import (
    CANNOT_PUBLISH,
    WELL,
    WRONG,
    clean,
    console,
    errors,
    print_json,
    print_line,
    require_broker,
    require_settings,
    stop,
)
from sluice.core.cases.cases import run_cases
from sluice.core.foundation.errors import CoreError
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.reduction import reduce_policy
from sluice.settings.reader import describe_missing_trust
from sluice_topics.catalog import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.registry.keys import Roots
    from sluice.core.trust.reduction import ReducedPolicy
    from sluice.core.trust.refused import Refused
    from sluice.settings.reader import Settings

AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]


def publish_values(
    values: Sequence[bytes],
    topic: str,
    *,
    compare: Callable[[ReducedPolicy], list[str]] = lambda _: [],
    hints: Mapping[str, str] = MappingProxyType({}),
    as_json: bool,
) -> NoReturn:
    """Publish envelopes, all or none, and end the command with what became of them. `compare`: where they are
    relaxed of what is in force, in sentences; `hints`: what to do next, by the code of a refusal."""
    only = (REGISTRY,) if topic == REGISTRY else ()
    relaxed: list[str] = []

    def choose(reduced: ReducedPolicy) -> list[tuple[str, bytes]]:
        relaxed[:] = compare(reduced)
        return [(topic, value) for value in values]

    publishing = run_publishing(require_settings(), choose, only)
    _print_published(publishing, relaxed, as_json=as_json)
    for code in {refusal.code for refusal in publishing.refused} & hints.keys():
        print_line(hints[code], errors)
    raise typer.Exit(WRONG if publishing.refused else WELL)


def run_publishing(
    settings: Settings,
    choose: Callable[[ReducedPolicy], Sequence[tuple[str, bytes]]],
    only: Sequence[str] = (),
) -> Publishing:
    """Publish what is chosen; what cannot be done ends the command. The arguments are Publishing's."""
    require_roots(settings)
    publishing = Publishing(settings, choose, only)
    require_broker(publishing.publish(), CANNOT_PUBLISH)
    return publishing


def require_roots(settings: Settings) -> Roots:
    """The keys that all trust starts from; without one the command ends."""
    if problem := describe_missing_trust(settings):
        stop(problem)
    try:
        return settings.policy.read_roots()
    except CoreError as error:
        stop(f"policy.root_keys: {error}")


def _print_published(publishing: Publishing, relaxed: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "written": [_describe_place(record) for record in publishing.written],
                "already_there": [(repeat.key or b"").decode() for repeat in publishing.repeats],
                "refused": [_describe_refusal(refusal) for refusal in publishing.refused],
                "relaxations": list(relaxed),
            }
        )
    print_relaxed(relaxed)
    print_refused(publishing.refused)
    if not as_json:
        _print_summary(publishing)


def print_relaxed(sentences: Iterable[str]) -> None:
    """A line for each on standard error."""
    for sentence in sentences:
        errors.print(f"[yellow]relaxed[/] {clean(sentence)}", soft_wrap=True, highlight=False)


_COUNTING_SIGNATURES = (
    "a second signature (`cosign`) counts if `sluice registry show approver/NAME` lists the kind under signs"
)


def print_refused(refused: Iterable[Refused]) -> None:
    """A line for each on standard error."""
    for refusal in refused:
        fields = _describe_refusal(refusal)
        where = f"[red]{fields['code']}[/] at {clean(fields['path'])}"
        errors.print(f"{clean(fields['key'])}: {where}: {clean(fields['message'])}", soft_wrap=True)
        if fields["code"] == "second_approver_missing":
            errors.print(_COUNTING_SIGNATURES, soft_wrap=True)


def _print_summary(publishing: Publishing) -> None:
    for record in publishing.written:
        description = (
            f"[green]published[/] {clean((record.key or b'').decode())} at {clean(record.decision_id)}"
        )
        console.print(description, soft_wrap=True, highlight=False)
    for repeat in publishing.repeats:
        description = f"{clean((repeat.key or b'').decode())} is there already"
        console.print(description, soft_wrap=True, highlight=False)
    if publishing.refused:
        console.print("nothing was written" if not publishing.written else "[red]written, but refused[/]")


def _describe_place(record: InputRecord) -> dict[str, Any]:
    return {"key": (record.key or b"").decode(), "topic": record.topic, "offset": record.offset}


def _describe_refusal(refused: Refused) -> dict[str, str]:
    name = (refused.input_record.key or b"").decode(errors="replace")
    return {"key": name, "code": refused.code, "path": refused.path, "message": refused.message}


def require_policy(*only: str) -> ReducedPolicy:
    """The policy that every record of the control topics comes to now; what hinders it ends the command.

    `only`: base names of the topics to read, both if none is given; see `list_control_topics`.
    """
    settings = require_settings()
    roots = require_roots(settings)
    kafka = settings.kafka
    reading = read_control(kafka.connection, list_control_topics(settings, only))
    records = require_broker(reading, "cannot read the control topics: {}")
    return reduce_policy(records, roots, CompileCache(run_cases, settings.build_audience()))
