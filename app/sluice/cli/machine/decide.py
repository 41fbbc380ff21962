"""`sluice decide FILE`: the decisions on a file of input records, without Kafka."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from sluice.adapters.kafka.kafka_read import StoredRecord
from sluice.bootstrap.parts import build_ports
from sluice.cli.ledger.record_line import write_line
from sluice.cli.output import WELL, WRONG, console, print_json, require_settings, stop
from sluice.core.actions.stages import list_shipped_stages
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.kinds import ANSWERS, DECISIONS
from sluice.core.decide.replay import Replay
from sluice.core.foundation.chain import PLACE
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.errors import CoreError
from sluice.core.foundation.requests import HELD_INPUT
from sluice.core.memory import lineage
from sluice.core.trust.in_force import PolicyError
from sluice.offline.asking import Asking, EarlierDecisions, HeldInputs
from sluice.offline.policy_files import PolicyFileError, PolicyFiles, read_signed_policy, read_unsigned_policy
from sluice.offline.record_files import ClockError, read_input_records
from sluice_topics.catalog import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.state.decision import Decision
    from sluice.settings.reader import Settings


_DECISIONS = frozenset(ANSWERS[schema].model.__name__ for schema in DECISIONS)
_WITH_A_DECISION = _DECISIONS | {
    "QuarantineEntered",
    "QuarantineApproved",
    "QuarantineRejected",
    "QuarantineExpired",
    "QuarantineEvicted",
    "EscalationResolved",
    "AdmittedMemory",
    "RetrievalEscalationOpened",
    "ServedRetrieval",
}
_LEFT_OUT = frozenset({"SessionFolded", "EscalationOpened"})
"""Of a verdict's own records."""
_CONTENT = {"AdmittedMemory": "content", "ServedRetrieval": "body"}
"""The field of the record, or of its items, that holds what was in the line that was read."""


def select_answers(decision: Decision) -> list[OutRecord]:
    """The records of a decision that answer its input. If there is a verdict, only it and its own records.

    Records on internal topics answer no input.
    """
    records = [record for record in decision.records if BY_NAME[record.topic].direction != "internal"]
    if any(record.kind in _DECISIONS for record in records):
        return [record for record in records if record.kind in _WITH_A_DECISION]
    return [record for record in records if record.kind not in _LEFT_OUT]


def drop_content(record: OutRecord) -> dict[str, Any]:
    """The record by wire names, without the place in a chain that it never gets; an admitted memory and
    served items without what is in them."""
    value = _drop_fields(record.body, *PLACE)
    content = _CONTENT.get(record.kind)
    if content is None:
        return value
    value = _drop_fields(value, content)
    if "items" in value:
        value["items"] = [_drop_fields(item, content) for item in value["items"]]
    return value


def _drop_fields(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="decide")(decide_command)


def decide_command(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="JSON lines; - is standard input.")],
    *,
    bundle: Annotated[
        list[Path],
        typer.Option(help="Signed bundle, of policy or of quality; the first of each is the default."),
    ],
    registry: Annotated[list[Path], typer.Option(help="Signed registry entries, one envelope per line.")],
    at: Annotated[str, typer.Option(metavar="TIME", help="The first record's broker time, RFC 3339, UTC.")],
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="Take bundle sources and registry files without signatures.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json/--text", help="One JSON object per line, or lines for people.")
    ] = True,
) -> None:
    """Decide on input records offline: what a worker would answer.

    For each action it prints the verdict and the session's totals; for an
    outcome, what it settled; for an unreadable line, its dead letter; for a
    memory write, its decision and the changes in the quarantine; for a
    retrieval, a decision for each item, the escalation that it opens and
    what the agent may see; for a store's report, how far decisions cover
    it. Admitted and served items are printed without their content.

    A line is an action, or what its fields say: report_id, items (a
    retrieval), reported_by (an outcome), write_id, subject_id (a review).
    A line {"at": "2026-01-01T12:00:00Z"} is the time of all below it.

    Encoder and model are asked if bundle and settings say so, without a
    deadline. Signatures are judged by the root keys in the settings, as if
    everything had been published at --at. Durations are 0: the same input
    gives the same output.

    Exit codes: 0 all decided, whatever the verdicts; 1 some lines could
    not be read, or the core failed on them; 2 could not do it.

    Example: sluice decide actions.jsonl --unsigned --bundle bundle.json
    --registry registry.json --at 2026-01-01T00:00:00Z
    """
    at_ms = _require_time(at)
    settings, inputs, earlier = require_settings(), HeldInputs(), EarlierDecisions()
    point = _require_decision_point(settings, PolicyFiles(bundle, registry), at_ms, unsigned=unsigned)
    wrong = False
    try:
        with _open_lines(file) as lines, _build_asking(settings, inputs, earlier) as asking:
            for input_record, decision in _decide_all(
                read_input_records(lines, at_ms), point, asking, inputs, earlier
            ):
                wrong = wrong or any(record.kind == "DeadLetter" for record in decision.records)
                _print(input_record, decision, json=json)
    except ClockError as error:
        stop(f"{file}: {error}")
    raise typer.Exit(WRONG if wrong else WELL)


def _decide_all(
    input_records: Iterable[InputRecord],
    point: DecisionPoint,
    asking: Asking,
    inputs: HeldInputs,
    earlier: EarlierDecisions,
) -> Iterator[tuple[InputRecord, Decision]]:
    replay = Replay(point, asking.answer)
    for input_record in input_records:
        decision = replay.take(input_record)
        inputs.note(input_record, replay.book)
        earlier.note(decision)
        yield input_record, decision


def _build_asking(settings: Settings, inputs: HeldInputs, earlier: EarlierDecisions) -> Asking:
    """The settings' ports; what a worker reads back from the broker is what was read here."""
    try:
        ports = build_ports(settings)
    except PolicyError as error:
        stop(str(error))
    return Asking({**ports, HELD_INPUT: inputs, lineage.PORT: earlier})


def _print(input_record: InputRecord, decision: Decision, *, json: bool) -> None:
    for record in select_answers(decision):
        written = orjson.dumps(drop_content(record))
        if json:
            print_json(orjson.loads(written))
        else:
            coordinates = (
                record.topic,
                input_record.partition,
                input_record.offset,
                input_record.timestamp_ms,
            )
            console.print(
                write_line(StoredRecord(*coordinates, input_record.key, written, ()), record.topic),
                soft_wrap=True,
            )


def _require_decision_point(
    settings: Settings, files: PolicyFiles, at_ms: int, *, unsigned: bool
) -> DecisionPoint:
    try:
        roots = settings.policy.read_roots()
        audience = settings.build_audience()
        policy = (
            read_unsigned_policy(files, audience)
            if unsigned
            else read_signed_policy(files, roots, at_ms, audience)
        )
    except (CoreError, PolicyFileError) as error:
        hint = "" if unsigned else "\n--unsigned takes files that nobody signed"
        stop(f"{error}{hint}")
    environment, limits = settings.policy.environment, settings.build_limits()
    return DecisionPoint(policy, list_shipped_stages(), limits, stopwatch=lambda: 0, environment=environment)


def _require_time(text: str) -> int:
    try:
        return read_milliseconds(text)
    except ValueError as error:
        stop(f"--at: not a time in UTC: {error}")


@contextmanager
def _open_lines(file: str) -> Iterator[BinaryIO]:
    try:
        if file == "-":
            yield sys.stdin.buffer
        else:
            with Path(file).open("rb") as opened:
                yield opened
    except OSError as error:
        stop(f"cannot read {file}: {error.strerror}")
