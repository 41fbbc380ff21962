"""`sluice topics`: make, list and check the topics of the catalog, and write their documents."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer
from rich.box import SIMPLE

from sluice.adapters.kafka import kafka_topics
from sluice.adapters.kafka.kafka_acls import AclRefused, remove_access, set_access
from sluice.adapters.kafka.kafka_read import KafkaRefused, KafkaUnreachable
from sluice.cli.machine import topics_acl
from sluice.cli.output import REFUSED, WRONG, clean, console, print_json, require_settings, stop
from sluice.cli.tables import build_table, fix, fold
from sluice.text.plurals import count_noun
from sluice_topics.access import Role, list_access
from sluice_topics.asyncapi import make_documents
from sluice_topics.catalog import CATALOG
from sluice_topics.layout import TopicLayout, compare_topics, list_risks

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from rich.table import Table

    from sluice.settings.reader import Settings
    from sluice_topics.catalog import Topic
    from sluice_topics.layout import FoundTopic, TopicDifference

T = TypeVar("T")
DAY_MS = 24 * 3600 * 1000

cli = typer.Typer(
    name="topics",
    no_args_is_help=True,
    help="Create, list and check the topics on the broker, and export their AsyncAPI document and JSON "
    "Schemas. All of it comes from one catalog (sluice_topics/catalog.py); prefix, partition "
    "count and broker are settings.",
)
AclForm = Literal["table", "commands", "json"]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]
Probe = Annotated[
    bool, typer.Option("--probe-transactions", help="Begin and abort an empty transaction too.")
]
Out = Annotated[Path, typer.Option(file_okay=False, help="Folder for the documents.")]


@cli.command()
def create(
    as_json: AsJson = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="This topic alone, by its name without the prefix; repeatable."),
    ] = None,
) -> None:
    """Create every missing topic. Existing topics stay as they are; `check` compares them.

    Run it before the workers of a new version start: it says which topics that version adds.
    """
    settings = require_settings()
    unknown = set(only or ()) - {topic.name for topic in CATALOG}
    if unknown:
        stop(f"the catalog has no topic {clean(min(unknown))}: `sluice topics list` shows all")
    made = create_topics_or_stop(settings, only or ())
    if as_json:
        print_json([{"topic": name, "created": new} for name, new in made.items()])
        return
    for name, new in made.items():
        console.print(f"{name}: {'[green]created[/]' if new else 'exists'}", highlight=False)
    added = [name for name, new in made.items() if new]
    if added and len(added) < len(made) and not only:
        _say_added(added, build_layout(settings))


def _say_added(added: list[str], layout: TopicLayout) -> None:
    """What topics are for that an installation of an earlier version has not had."""
    topics = layout.topics()
    console.print(f"This version adds {count_noun(len(added), 'topic')}:")
    for name in added:
        console.print(f"  {name}: {topics[name].description}", soft_wrap=True, markup=False, highlight=False)


@cli.command("list")
def list_topics(as_json: AsJson = False) -> None:
    """Show the catalog, and how many partitions each topic has on the broker."""
    settings = require_settings()
    layout = build_layout(settings)
    existing = _run_question(kafka_topics.look(settings.kafka.connection, layout))
    rows = [_build_row(name, topic, existing.get(name)) for name, topic in layout.topics().items()]
    if as_json:
        print_json(rows)
    else:
        prefix = settings.kafka.topic_prefix
        if prefix:
            console.print(f"Each begins with {clean(prefix)}", soft_wrap=True, highlight=False)
        console.print(_build_table(rows, prefix))


@cli.command()
def check(as_json: AsJson = False, probe: Probe = False) -> None:
    """Compare the broker's topics with the catalog. Exit codes: 0 alike, 1 differences and their remedies.

    It says too what a difference costs, and what the loss of a broker would (replicas, min.insync.replicas):
    such a risk is no difference. A topic that the broker keeps for longer than is asked for is none either.
    """
    settings = require_settings()
    kafka, layout = settings.kafka, build_layout(settings)
    existing = _run_question(kafka_topics.look(kafka.connection, layout))
    differing = compare_topics(layout, existing, kafka.bootstrap_servers)
    if probe:
        timeout_ms = int(settings.worker.transaction_timeout_s * 1000)
        probing = kafka_topics.probe_transactions(kafka.connection, settings.worker.app_id, timeout_ms)
        differing += filter(None, [_run_question(probing)])
    risks = list_risks(layout, existing, kafka.replication_factor, kafka.bootstrap_servers)
    if as_json:
        print_json([asdict(difference) for difference in [*differing, *risks]])
    else:
        _say_differences(differing)
        _say_risks(risks)
    if differing:
        raise typer.Exit(WRONG)


@cli.command()
def export(out: Out = Path("docs")) -> None:
    """Write asyncapi.json, records.schema.json, fields.md, and reference/ on bundles. Needs no broker."""
    from sluice.observability.metrics_page import write_metrics_page  # noqa: PLC0415 - only to write
    from sluice.offline.reference import list_gate_shapes, write_documents  # noqa: PLC0415 - the models of every bundle

    for path, text in {
        **make_documents(list_gate_shapes()),
        **write_documents(),
        **write_metrics_page(),
    }.items():
        target = out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        typer.echo(str(target))


@cli.command()
def acl(
    role: Annotated[Role, typer.Option(help="What the process or person is.")],
    principal: Annotated[
        str,
        typer.Option(help="Who that is on the broker: User:name (of a certificate: as the broker maps it)."),
    ],
    form: Annotated[
        AclForm, typer.Option("--format", help="What to print: a table, lines of kafka-acls.sh, or JSON.")
    ] = "table",
    apply: Annotated[
        bool, typer.Option("--apply", help="Set the ACLs on the broker, with our login.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take them away: print that, or do it.")] = False,
) -> None:
    """Show the least access that a role needs on the broker, or set it.

    The topics are those of the catalog under this installation's prefix. A principal may have several roles:
    what one role needs is left alone where another one is set, and --apply names it. --apply needs a login
    that may alter the cluster's ACLs.
    """
    if not re.fullmatch(r"[A-Za-z]+:.+", principal):
        stop(f"--principal: {principal!r} is none: it is written User:name")
    settings = require_settings()
    wanted = list_access(role, build_layout(settings))
    if apply:
        change = remove_access if remove else set_access
        done = _run_question(change(settings.kafka.connection, principal, wanted))
        topics_acl.print_change(done, principal, remove=remove, as_json=form == "json")
    elif form == "commands":
        servers = settings.kafka.bootstrap_servers
        for line in topics_acl.write_commands(wanted, principal, servers, remove=remove):
            typer.echo(line)
    elif form == "json":
        topics_acl.print_fields(wanted, principal)
    else:
        console.print(topics_acl.build_access_table(wanted))


def build_layout(settings: Settings) -> TopicLayout:
    """The layout that the settings ask for."""
    kafka = settings.kafka
    kept_ms = kafka.input_retention_days * DAY_MS
    return TopicLayout(kafka.topic_prefix, settings.worker.app_id, kafka.partitions, kept_ms)


def create_topics_or_stop(settings: Settings, only: Iterable[str] = ()) -> dict[str, bool]:
    """Every topic by its real name, and whether it is new; ends the command when it cannot be made. `only`:
    these topics; none: all."""
    kafka = settings.kafka
    layout = replace(build_layout(settings), only=frozenset(only))
    return _run_question(kafka_topics.create(kafka.connection, layout, kafka.replication_factor))


def require_differences(settings: Settings) -> list[TopicDifference]:
    """Return what is missing or different on the broker; ends the command when it does not answer."""
    return _run_question(kafka_topics.check(settings.kafka.connection, build_layout(settings)))


def _run_question(question: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(question)
    except KafkaRefused as error:
        stop(REFUSED.format(error))
    except KafkaUnreachable as error:
        stop(f"the broker does not answer: {error}. `sluice broker start` starts one.")
    except (kafka_topics.KafkaTopicError, AclRefused) as error:
        stop(str(error))


def _build_row(name: str, topic: Topic, existing: FoundTopic | None) -> dict[str, Any]:
    return {
        "topic": name,
        "direction": topic.direction,
        "ledger": topic.ledger,
        "records": [record.__name__ for record in topic.records],
        "partitions": existing.partitions if existing else None,
        "cleanup": topic.cleanup,
        "retention_ms": topic.retention_ms,
        "max_message_bytes": topic.max_message_bytes,
        "description": topic.description,
    }


def _build_table(rows: list[dict[str, Any]], prefix: str) -> Table:
    cells = (
        (
            "\n".join([row["topic"].removeprefix(prefix), *(f"  [dim]{name}[/]" for name in row["records"])]),
            "ledger" if row["ledger"] else row["direction"],
            "[red]missing[/]" if row["partitions"] is None else str(row["partitions"]),
            _describe_retention(row["cleanup"], timedelta(milliseconds=row["retention_ms"])),
        )
        for row in rows
    )
    return build_table(*fold("topic and records"), *fix("role", "parts", "kept"), rows=cells)


def _describe_retention(cleanup: str, retention: timedelta) -> str:
    if cleanup == "compact":
        return "compacted"
    days = "for ever" if retention < timedelta() else count_noun(retention.days, "day")
    return f"compacted, {days}" if "compact" in cleanup else days


def _say_risks(risks: list[TopicDifference]) -> None:
    for difference, topics in _group_by_cost(risks):
        description = (
            f"[yellow]risk[/] {difference.what} of {topics} is {clean(difference.actual)}, "
            f"better {difference.expected}: {difference.why}"
        )
        console.print(description, soft_wrap=True, highlight=False)


def _group_by_cost(differing: list[TopicDifference]) -> list[tuple[TopicDifference, str]]:
    """The first of those that say the same of several topics, and the topics in words."""
    topics: dict[tuple[str, str, str], list[TopicDifference]] = {}
    for difference in differing:
        topics.setdefault((difference.what, difference.actual, difference.why), []).append(difference)
    return [
        (
            first,
            f"{clean(first.topic)} and {count_noun(len(others), 'other topic')}"
            if others
            else clean(first.topic),
        )
        for first, *others in topics.values()
    ]


def _say_differences(differing: list[TopicDifference]) -> None:
    if not differing:
        console.print("[green]Every topic is as the catalog says.[/]")
        return
    rows = ((each.topic, each.what, each.expected, each.actual) for each in differing)
    console.print(build_table(*fold("topic"), "what", "expected", "actual", rows=rows, box=SIMPLE))
    for difference, topics in _group_by_cost(
        [topic_difference for topic_difference in differing if topic_difference.why]
    ):
        console.print(f"{difference.what} of {topics}: {difference.why}", soft_wrap=True, highlight=False)
    console.print("To mend:")
    for mend in dict.fromkeys(topic_difference.mend for topic_difference in differing):
        console.print(f"  {mend}", soft_wrap=True, markup=False, highlight=False)
