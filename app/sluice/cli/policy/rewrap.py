"""`sluice rewrap`: a new master key takes the old one's place, and no key of a person is lost by it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sluice.adapters.kafka.kafka_key_erasure import KeyRemains, KeyTopic
from sluice.bootstrap.followed_sealing import build_policy_view
from sluice.cli.output import (
    WRONG,
    clean,
    console,
    errors,
    print_json,
    print_line,
    require_settings,
    stop,
)
from sluice.cli.policy.control_topics import AsJson  # noqa: TC001 - Typer reads the annotations
from sluice.cli.policy.erase import Wait, run_with_master_key
from sluice.client.key_records import read_wrapped_key, write_wrapped_key
from sluice.secrets.key_wrapping import make_master_id, wrap_named
from sluice.secrets.redis_seal import SealKeysError, read_seal_keys, write_seal_keys
from sluice.settings.reader import list_real_names
from sluice.text.plurals import count_noun
from sluice_topics.catalog import SUBJECT_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence
    from pathlib import Path

    from sluice.client.key_records import LyingKey
    from sluice.gateway.registry_view import RegistryView
    from sluice.secrets.key_wrapping import KeyWrapper, PersonKey
    from sluice.settings.reader import Settings

BATCH = 256
"""Keys that are wrapped at a time: erasures are read anew before each."""
MOST_PASSES = 5
"""Over all keys, until none is due: whoever seals may make one by the old key meanwhile."""
RETIRED_IN_TRANSIT = (
    "--retire takes keys out of a file, and the master key is in Transit: rewrap without it, then raise "
    "min_decryption_version there"
)
Retire = Annotated[
    bool,
    typer.Option(
        "--retire",
        help="Then remove the old keys, which wrap nothing any more, from sealing.master_key_file.",
    ),
]
Lying = tuple[str, "Sequence[LyingKey]"]


class Rewrapped(NamedTuple):
    """What became of it. `master`: the id of the master key that wrapped when it began, and `old`: those of
    the other ones in force then; `written`: keys that were wrapped anew, `not_opened`: those that no master
    key at hand opens; `remains`: keys of which a record still lies there that an old one wrapped, or that are
    erased; `erased`: keys that lay there though they were erased, and were deleted again."""

    master: str
    old: Sequence[str]
    written: Sequence[str]
    not_opened: Sequence[str]
    remains: KeyRemains
    erased: Sequence[str] = ()


def rewrap(*, retire: Retire = False, wait_s: Wait = 900.0, as_json: AsJson = False) -> None:
    """Wrap the keys of all persons with the first master key of the file.

    To begin with a new master key: `keys seal FILE`, and give the file to
    every process; `keys seal FILE --use`, and give it to them again; then
    run this. It reads back until no record lies on the broker that an old
    key wrapped. Only then may the old one go: --retire removes it.

    It may be killed and run again at any time. What is erased stays so.

    Exit codes: 0 the old keys wrap nothing any more; 1 not yet: the broker
    has not compacted the topic; 2 could not do it.

    Example: sluice rewrap --retire
    """
    settings = require_settings()
    file = settings.sealing.master_key_file
    if retire and settings.sealing.transit_url is not None:
        stop(RETIRED_IN_TRANSIT)
    outcome = run_with_master_key(settings, lambda wrapper: rewrap_all(settings, wrapper, wait_s))
    _print(outcome, as_json=as_json)
    if not outcome.remains.is_destroyed:
        raise typer.Exit(WRONG)
    if retire and file is not None:
        retire_masters(file.expanduser(), outcome)


def register(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("rewrap")(rewrap)


async def rewrap_all(
    settings: Settings,
    wrapper: KeyWrapper,
    wait_s: float,
    report: Callable[[KeyRemains], None] = lambda _: None,
) -> Rewrapped:
    """Wrap, read back, and say so. Raises UnknownTopics, KafkaUnreachable and KafkaError."""
    topic = KeyTopic(settings.kafka.connection, list_real_names(settings)[SUBJECT_KEYS])
    view = build_policy_view(settings)
    try:
        master, *old = await wrapper.list_masters()
        # When an earlier run wrote is not known: followers may have the old records for as long again.
        rewrapping = _Rewrapping(topic, wrapper, view, time.time() if old else 0.0)
        await rewrapping.erase_again()
        for _ in range(MOST_PASSES):
            if not await rewrapping.write_due():
                break
        await rewrapping.erase_again()
    finally:
        await view.close()
        await wrapper.close()
    erased = rewrapping.erased
    remains = await topic.await_rewrapped(
        old, rewrapping.not_opened, erased, rewrapping.written_s, wait_s, report
    )
    current = [key_id for key_id in rewrapping.written if key_id not in erased]
    return Rewrapped(master, old, current, rewrapping.not_opened, remains, sorted(erased))


@dataclass
class _Rewrapping:
    """What is written to the topic of keys, and what of it may not stay. `written_s`: when something was
    written last, in s since the epoch."""

    topic: KeyTopic
    wrapper: KeyWrapper
    view: RegistryView
    written_s: float
    written: dict[str, None] = field(default_factory=dict)
    not_opened: list[str] = field(default_factory=list)
    erased: set[str] = field(default_factory=set)

    async def erase_again(self) -> None:
        """Delete each key that lies there though a signed erasure of its tenant names it, destroyed or not,
        or though somebody deleted it since it was written: who is killed between two steps leaves one."""
        await self.view.look()
        erasures = self.view.registry.erasures
        lying = await self.topic.read_keys()
        again = {key_id for key_id, key in lying.items() if (key.tenant_id, key_id) in erasures}
        if self.written:
            again |= await self.topic.list_erased(self.written)
        if again:
            self.written_s = await self.topic.erase(sorted(again))
            self.erased |= again

    async def write_due(self) -> bool:
        """Write what is not wrapped and named by the first master key; whether there was something."""
        self.not_opened, was_due = [], False
        for batch in _list_batches(await self.topic.read_lying()):
            await self.view.look()
            records, lost = await wrap_anew(self.wrapper, batch, self.view.registry.erasures)
            self.not_opened += lost
            if records:
                await self.view.look()  # as late as can be: asking a server for the keys took its time
                records = {
                    key_id: value for key_id, value in records.items() if not self._is_to_go(key_id, value)
                }
                self.written_s = await self.topic.replace(records)
                self.written |= dict.fromkeys(records)
                was_due = True
        return was_due

    def _is_to_go(self, key_id: str, value: bytes) -> bool:
        """Whether an erasure names the key of this record."""
        key = read_wrapped_key(key_id, value)
        return key is not None and (key.tenant_id, key_id) in self.view.registry.erasures


async def wrap_anew(
    wrapper: KeyWrapper, batch: Sequence[Lying], erased: Container[tuple[str, str]]
) -> tuple[dict[str, bytes], list[str]]:
    """The records of those keys whose newest one is not wrapped by the first master key under the person's
    name by it, and the ids of the keys that do not open. `erased`: tenants and ids of keys that are to be
    destroyed: nobody writes these again."""
    master = (await wrapper.list_masters())[0]
    opened = iter(await wrapper.unwrap([each for _, records in batch for each in records]))
    in_force, lost = list["tuple[str, PersonKey, LyingKey, bool]"](), list[str]()
    for key_id, records in batch:
        keys = [(each, next(opened)) for each in records]
        first = next(((each, key) for each, key in keys if key is not None), None)
        if first is None:
            lost.append(key_id)
            continue
        (owner, _), key = first
        if (owner.tenant, key_id) not in erased:
            newest, newest_key = keys[-1]
            in_force.append((owner.tenant, key, newest, newest_key == key and newest.wrapped.by == master))
    names = await wrapper.index_all([key.person for _, key, _, _ in in_force])
    due = [
        (newest.owner.key_id, tenant, key)
        for (tenant, key, newest, is_current), of_person in zip(in_force, names, strict=True)
        if not is_current or newest.owner.name != of_person[0]
    ]
    wrapped = await wrap_named(wrapper, due) if due else []
    return {owner.key_id: write_wrapped_key(owner, each) for owner, each in wrapped}, lost


def _list_batches(lying: Mapping[str, Sequence[LyingKey]]) -> Iterator[list[Lying]]:
    keys = iter(lying.items())
    while batch := list(islice(keys, BATCH)):
        yield batch


def retire_masters(file: Path, outcome: Rewrapped) -> None:
    """Take the old keys out of the file: those of which it was read back that they wrap nothing. The file may
    have changed since: a key that it got stays; if another one is the first, nothing is removed."""
    try:
        keys = read_seal_keys(file)
        if make_master_id(keys[0]) != outcome.master:
            stop(f"{file}: another key is the first by now, so none was removed. Run it again")
        remaining = tuple(key for key in keys if make_master_id(key) not in outcome.old)
        write_seal_keys(file, remaining)
    except SealKeysError as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot write {error.filename or file}: {error.strerror}")
    print_line(f"{clean(file)}: {count_noun(len(remaining), 'key')}; give it to every process", errors)


def _print(outcome: Rewrapped, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "rewrapped": outcome.remains.is_destroyed,
                "master_key": outcome.master,
                "written": len(outcome.written),
                "not_opened": list(outcome.not_opened),
                "erased_again": list(outcome.erased),
                "still_stored": sorted(outcome.remains.stored),
                "followers_left_s": round(outcome.remains.left_s, 1),
            }
        )
        return
    for key_id in outcome.not_opened:
        print_line(f"[red]not opened[/] {clean(key_id)}: by no master key at hand", console)
    for key_id in outcome.erased:
        print_line(f"deleted again {clean(key_id)}: it lay there though it is erased", console)
    print_line(f"{count_noun(len(outcome.written), 'key')} wrapped by {clean(outcome.master)}", console)
    if outcome.remains.is_destroyed:
        print_line("[green]the old master keys wrap nothing any more[/]; the topic was read back", console)
        return
    count = count_noun(len(outcome.remains.stored), "key")
    print_line(f"[red]not yet[/]: {count} on the broker's disk as before. Run it again later", errors)
