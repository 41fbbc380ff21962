"""`sluice erase`: destroy a person's key, and with it all that was sealed with it, wherever it lies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

import typer

from sluice.adapters.kafka.kafka_key_erasure import KeyRemains, KeyTopic
from sluice.bootstrap.publishing import publish_entries
from sluice.bootstrap.sealing import build_key_wrapper
from sluice.cli.output import (
    CANNOT_PUBLISH,
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
from sluice.cli.policy.control_topics import AsJson, require_roots
from sluice.cli.policy.key_files import require_private_keys
from sluice.client.key_records import digest_person
from sluice.core.trust.erasing import (
    TenantKey,
    list_destroyed_keys,
    list_ordered_keys,
    make_destroyed_entries,
    make_erasure_entries,
    sort_keys,
)
from sluice.core.trust.in_force import PolicyError
from sluice.settings.reader import list_real_names
from sluice.text.plurals import count_noun
from sluice_topics.catalog import SUBJECT_KEYS
from sluice_topics.sealing import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from sluice.core.registry.keys import SigningKey
    from sluice.core.registry.registry_entries import EntryFile
    from sluice.core.trust.reduction import ReducedPolicy
    from sluice.secrets.key_wrapping import KeyWrapper
    from sluice.settings.reader import Settings

T = TypeVar("T")
Subjects = Annotated[
    list[str] | None, typer.Argument(metavar="[SUBJECT]...", help="Persons, as inputs name them.")
]
Tenant = Annotated[str, typer.Option(help="The tenant of the agents that handled their data.")]
OfSessions = Annotated[
    bool, typer.Option("--session", help="SUBJECT is a session, whose inputs named nobody.")
]
Reason = Annotated[str, typer.Option(help="Why; the signed entry says it. Name nobody here.")]
Keys = Annotated[
    list[Path],
    typer.Option("--key", metavar="PEM", help="Private key of an approver who may sign an erasure."),
]
Wait = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for the broker.")
]
NO_MASTER_KEY = (
    "sealing.master_key_file names no file, nor sealing.transit_url a server: without the master key nobody "
    "finds a person's key"
)
UNFINISHED = "Run `sluice erase --key PEM` later: it goes on with what was ordered"


class ErasureOrder(NamedTuple):
    """Whom to erase. Without `subjects`: what was ordered before, and is not destroyed, or
    lies there again."""

    tenant: str
    subjects: Sequence[Subject]
    reason: str
    wait_s: float


class ErasureOutcome(NamedTuple):
    """What became of it. `key_ids`: those that were to be destroyed; `remains`: what is left of them;
    `without_key`: persons of whom the topic has no key; `written`: the signed entries, "erasure/id@revision";
    `refused`: why nothing was erased, in sentences; `foreign`: keys
    that an erasure names and that are another tenant's, which stay."""

    key_ids: Sequence[str]
    remains: KeyRemains
    without_key: Sequence[str]
    written: Sequence[str]
    refused: Sequence[str]
    foreign: Sequence[str] = ()

    @property
    def is_erased(self) -> bool:
        """Whether no broker has a key of these persons."""
        return not self.refused and self.remains.is_destroyed


def erase(  # noqa: PLR0913 - the command's options
    subjects: Subjects = None,
    *,
    tenant: Tenant = "",
    session: OfSessions = False,
    reason: Reason = "a person asked for it",
    key: Keys,
    wait_s: Wait = 900.0,
    as_json: AsJson = False,
) -> None:
    """Destroy the keys of persons, and with them all that is sealed with these.

    An entry of the registry, signed, orders it; workers open nothing of
    these persons from then on. Then the wrapped keys are deleted, and the
    topic is read back until the broker has compacted it: before that they
    still lie on its disk, and the command does not say "erased".

    Without a SUBJECT it goes on with what was ordered before, and deletes
    again what was destroyed and lies there once more.

    Exit codes: 0 erased, or no key was there; 1 not yet, or refused; 2 could
    not do it.

    Example: sluice erase customer-4711 --tenant acme --key owner.pem
    """
    if subjects and not tenant:
        stop("--tenant is missing: persons of two tenants are two, whatever their names")
    kind: Literal["subject", "session"] = "session" if session else "subject"
    order = ErasureOrder(tenant, [Subject(kind, name) for name in subjects or ()], reason, wait_s)
    signers = require_private_keys(key)
    settings = require_settings()
    outcome = run_with_master_key(
        settings, lambda wrapper: carry_out(settings, order, signers, wrapper, _report_waiting())
    )
    _print(outcome, as_json=as_json)
    if not outcome.is_erased:
        raise typer.Exit(WRONG)


def run_with_master_key(settings: Settings, work: Callable[[KeyWrapper], Coroutine[Any, Any, T]]) -> T:
    """What the work comes to that asks the master key of the settings. Ends the command where there is no
    such key, where it cannot be asked, and where no broker answers."""
    require_roots(settings)
    try:
        wrapper = build_key_wrapper(settings)
    except PolicyError as error:
        stop(str(error))
    if wrapper is None:
        stop(NO_MASTER_KEY)
    try:
        return require_broker(work(wrapper), CANNOT_PUBLISH)
    except OSError as error:
        stop(f"the master key cannot be asked: {error}")


def register(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("erase")(erase)


async def carry_out(
    settings: Settings,
    order: ErasureOrder,
    signers: Sequence[SigningKey],
    wrapper: KeyWrapper,
    report: Callable[[KeyRemains], None] = lambda _: None,
) -> ErasureOutcome:
    """Order, delete, read back, and say so. Raises UnknownTopics, KafkaUnreachable and
    AnotherPublisherError."""
    topic = KeyTopic(settings.kafka.connection, list_real_names(settings)[SUBJECT_KEYS])
    try:
        key_ids, without_key = await _find_keys(topic, wrapper, order)
    finally:
        await wrapper.close()
    pending, destroyed = list[TenantKey](), list[TenantKey]()

    def make_ordered(reduced: ReducedPolicy) -> list[EntryFile]:
        registry = reduced.registry
        pending[:], destroyed[:] = list_ordered_keys(registry), list_destroyed_keys(registry)
        return make_erasure_entries(registry, order.tenant, key_ids, order.reason)

    written, refused = await publish_entries(settings, signers, make_ordered)
    ordered = [(order.tenant, key_id) for key_id in key_ids] + pending
    named_ids = {key_id for _, key_id in (*ordered, *destroyed)}
    lying = await topic.read_keys(named_ids) if named_ids else {}
    owners = {key_id: key.tenant_id for key_id, key in lying.items()}
    sorted_keys = sort_keys(ordered, destroyed, owners)
    wanted, foreign = sorted_keys.list_wanted(), sorted({key_id for _, key_id in sorted_keys.foreign})
    if refused or not wanted:
        return ErasureOutcome(wanted, KeyRemains(frozenset(), 0.0), without_key, written, refused, foreign)
    erased_s = await topic.erase(wanted)
    remains = await topic.await_destruction(wanted, erased_s, order.wait_s, report)
    if remains.left_s <= 0:
        gone = [key for key in sorted_keys.ordered if key[1] not in remains.stored]
        more, refused = await publish_entries(
            settings,
            signers,
            lambda reduced: make_destroyed_entries(reduced.registry, gone, sorted_keys.foreign),
        )
        written = [*written, *more]
    return ErasureOutcome(wanted, remains, without_key, written, refused, foreign)


async def _find_keys(
    topic: KeyTopic, wrapper: KeyWrapper, order: ErasureOrder
) -> tuple[list[str], list[str]]:
    persons = [digest_person(order.tenant, subject) for subject in order.subjects]
    indexed = await wrapper.index_all(persons) if persons else []
    names = {
        name: subject
        for subject, of_person in zip(order.subjects, indexed, strict=True)
        for name in of_person
    }
    owners = await topic.find(names) if names else {}
    with_key = {names[name] for name in owners.values()}
    return list(owners), [subject.name for subject in order.subjects if subject not in with_key]


def _report_waiting() -> Callable[[KeyRemains], None]:
    """Say once for what the command waits."""
    reported = list[bool]()

    def report(remains: KeyRemains) -> None:
        if not remains.is_destroyed and not reported:
            reported.append(True)
            count = count_noun(len(remains.stored), "wrapped key")
            print_line(f"deleted; waiting until the broker has compacted its topic: {count} left", errors)

    return report


def _print(outcome: ErasureOutcome, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "erased": outcome.is_erased,
                "key_ids": list(outcome.key_ids),
                "without_key": list(outcome.without_key),
                "written": list(outcome.written),
                "refused": list(outcome.refused),
                "of_other_tenants": list(outcome.foreign),
                "still_stored": sorted(outcome.remains.stored),
                "followers_left_s": round(outcome.remains.left_s, 1),
            }
        )
    for refusal in outcome.refused:
        print_line(f"[red]refused[/] {clean(refusal)}", errors)
    if not as_json:
        _print_lines(outcome)
    if outcome.refused or outcome.is_erased:
        return
    count = len(outcome.remains.stored)
    what = f"{count_noun(count, 'wrapped key')} on the broker's disk" if count else "followers may have one"
    print_line(f"[red]not erased yet[/]: {what}. {UNFINISHED}", errors)


def _print_lines(outcome: ErasureOutcome) -> None:
    for name in outcome.without_key:
        print_line(
            f"{clean(name)}: there is no key: nothing is sealed for this person, or it is erased", console
        )
    for key_id in outcome.foreign:
        print_line(
            f"[red]left alone[/] {clean(key_id)}: an erasure names it that is another tenant's", console
        )
    for entry in outcome.written:
        print_line(f"[green]signed[/] {clean(entry)}", console)
    if outcome.is_erased and outcome.key_ids:
        count = count_noun(len(outcome.key_ids), "key")
        print_line(f"[green]erased[/]: {count} destroyed; the topic was read back", console)
    elif outcome.is_erased and not outcome.without_key:
        print_line("nothing is left to erase", console)
