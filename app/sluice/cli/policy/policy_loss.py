"""`sluice registry accept-loss`: draft the entry by which two people accept that policy is missing."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.adapters.kafka.kafka_read import open_reader
from sluice.cli.output import WRONG, clean, console, require_broker, require_settings, stop
from sluice.cli.policy.control_topics import require_policy
from sluice.cli.policy.registry_new import write_entry_or_stop
from sluice.core.foundation.canonical import digest
from sluice.core.registry.policy_losses import MOST_LOST
from sluice.core.trust.change_log import list_entries_in_force
from sluice.core.trust.policy_contents import collect_contents, find_loss
from sluice.core.trust.signing_authority import POLICY_LOSS
from sluice.settings.reader import list_real_names
from sluice.stream.engine.policy_recorder import read_recorded_policies
from sluice.text.plurals import count_noun
from sluice_topics.catalog import BUNDLES, REGISTRY, SESSIONS_CHANGELOG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.core.trust.policy_contents import Edition, EditionDifference, PolicyContents
    from sluice.settings.reader import Settings

_ID_DIGITS = slice(7, 23)


def accept_loss(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A file that does not exist yet.")],
    *,
    reason: Annotated[str, typer.Option(help="Why it may be missing, at least 10 characters.")],
) -> None:
    """Draft the entry by which two approvers accept that policy which was in force is missing.

    Workers stop (status 5) when the control topics hold less than what was
    in force. First look for the signed files and publish them again: that
    needs nobody's word. What cannot be found again is in the draft, entry
    by entry, as the workers recorded it. Two approvers sign it; it counts
    once, for exactly this loss, in this installation.

    Exit codes: 0 written, 1 nothing is missing, 2 could not do it.

    Example: sluice registry accept-loss loss.json --reason "the file of
    tool/wipe is gone, it stays T3"
    """
    settings = require_settings()
    reduced = require_policy()
    now = collect_contents(list_entries_in_force(reduced, BUNDLES, REGISTRY))
    reading = require_broker(read_recorded(settings), "cannot read what the workers recorded: {}")
    lost = sorted({entry for contents in reading.values() for entry in find_loss(contents, now)})
    if not lost:
        stop("nothing is missing of what the workers had in force", WRONG)
    if len(lost) > MOST_LOST:
        missing = count_noun(len(lost), "entry is", "entries are")
        stop(f"{missing} missing, and one entry names {MOST_LOST} at most: restore the topics")
    write_entry_or_stop(
        out, make_loss_entry(lost, reason, settings.policy.installation, [now, *reading.values()])
    )
    for difference in lost:
        console.print(f"[red]missing[/] {clean(str(difference))}", soft_wrap=True, highlight=False)
    signed = f"{out}.signed"
    console.print(
        f"[green]written[/] {clean(str(out))}; next, by two approvers:\n"
        f"  sluice registry sign {clean(str(out))} --key FIRST.pem --out {clean(signed)}\n"
        f"  sluice registry cosign {clean(signed)} --key SECOND.pem\n"
        f"  sluice registry publish {clean(signed)}",
        soft_wrap=True,
        highlight=False,
    )


async def read_recorded(settings: Settings) -> dict[int, PolicyContents]:
    """Read what each partition had in force last, from its changelog. Raises UnknownTopics and
    KafkaUnreachable."""
    name = list_real_names(settings)[SESSIONS_CHANGELOG]
    async with open_reader(settings.kafka.connection, [name], "beginning") as reader:
        batches = [batch async for batch in reader.to_end()]
    return read_recorded_policies(record for batch in batches for record in batch)


def make_loss_entry(
    lost: list[EditionDifference], reason: str, installation: str, registered: Iterable[PolicyContents]
) -> dict[str, Any]:
    """The entry that accepts the loss. `registered`: what the topics hold and the workers recorded; it is
    newer than each acceptance of the same loss that they had."""
    named = [_describe_difference(difference) for difference in lost]
    entry_id = f"loss-{digest(named)[_ID_DIGITS]}"
    used = (contents.used.get(f"{POLICY_LOSS}/{entry_id}", 0) for contents in registered)
    return {
        "kind": POLICY_LOSS,
        "id": entry_id,
        "revision": max(used, default=0) + 1,
        "installations": [installation],
        "spec": {"reason": reason, "lost": named},
    }


def _describe_difference(difference: EditionDifference) -> dict[str, Any]:
    return {
        "entry": difference.name,
        **_describe_side("before", difference.before),
        **_describe_side("now", difference.now),
    }


def _describe_side(name: str, edition: Edition | None) -> dict[str, Any]:
    return {} if edition is None else {name: edition.revision, f"{name}_hash": edition.hash}
