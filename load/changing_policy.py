"""The policy changes all the time, partly by records that must be refused, while workers are killed.

What must be shown: no decision under half of a change, none under what was refused, none that goes back; and
every refused record in the ledger, once.

A worker reads the control topics on, and a new owner reads them to their end after it has fenced the one
before, so no decision begins under an older policy than one that began before it in its partition. Ledger
order is the order in which decisions end: it shows this for the decisions of one session, which wait for each
other, and for those of a partition that waited for no answer, which end as they begin.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rfc8785

from load.inputs.publisher import Pace, change_policy
from load.installations import neutral_policy, quality_policy
from load.installations.fleet import RunFailed
from load.installations.installation import gather, policy_refusals
from load.installations.neutral_policy import TENANT
from load.installations.quality_policy import make_standing
from load.interruptions import kill_again_and_again
from load.recomputation import figures
from load.recomputation.input_answers import account
from load.recomputation.reruns import execute_again
from load.recomputation.run_findings import bites, integrity
from load.scene import STALL_S, open_scene
from sluice_topics.catalog import BUNDLES

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from load.inputs.publisher import PolicyPublisher, PublishedChange
    from load.installations.installation import RunScale, TestInstallation
    from load.recomputation.figures import RunFigure
    from load.recomputation.input_answers import AnswerAccount
    from load.scene import Bed, Scene

LETTERS_PARTITION = 0
MOST_LAG_MS = 10_000
"""From a change's last record to the input after which nobody decides under what was before: far more than
the interval of reading and the slowest fold on a busy machine."""
ENTRIES, BUNDLE, QUALITY = "entries", "bundle", "quality"
Revisions = dict[str, int]
"""Of agents, tools and source; of the policy bundle; of the quality bundle where a decision rests on it."""


@dataclass(frozen=True, slots=True)
class PolicyHistory:
    """What was ever in force, by the hashes that decisions hold.

    `standing`: names of entries that never change, and so belong to no change.
    """

    bundles: dict[str, int]
    quality: dict[str, int]
    entries: dict[str, str]
    standing: frozenset[str]

    @classmethod
    def read(cls, placed: Iterable[PublishedChange], standing: Sequence[dict[str, Any]]) -> PolicyHistory:
        """From the first policy and what was published on it."""
        entries = {_name(entry): entry for entry in (*neutral_policy.entries(), *standing)}
        bundles = {BUNDLE: [neutral_policy.bundle()], QUALITY: [quality_policy.document()]}
        for change in placed:
            documents = change.event.documents
            if line_of(change) == ENTRIES:
                entries |= documents
            else:
                bundles[line_of(change)] += documents.values()
        by_hash = {
            line: {_digest(document): document["revision"] for document in documents}
            for line, documents in bundles.items()
        }
        names = frozenset(map(_name, standing))
        hashes = {name: _digest(document) for name, document in entries.items()}
        return cls(by_hash[BUNDLE], by_hash[QUALITY], hashes, names)

    def is_accepted(self, decision: dict[str, Any]) -> bool:
        """Whether the decision rests on nothing but what was in force at some time."""
        judged_by = decision.get("quality_bundle_hash")
        return (
            decision["bundle_hash"] in self.bundles
            and (judged_by is None or judged_by in self.quality)
            and all(self.entries.get(name) == its for name, its in decision["registry_hashes"].items())
        )

    def list_change_revisions(self, decision: dict[str, Any]) -> set[int]:
        """The revisions of what changes together: one, unless it is half a change."""
        names = decision["registry_hashes"].keys() - self.standing
        return {int(name.rpartition("@")[2]) for name in names}

    def revisions(self, decision: dict[str, Any]) -> Revisions:
        """Of an accepted decision under a whole change."""
        revisions = {
            ENTRIES: min(self.list_change_revisions(decision)),
            BUNDLE: self.bundles[decision["bundle_hash"]],
        }
        judged_by = decision.get("quality_bundle_hash")
        return revisions if judged_by is None else revisions | {QUALITY: self.quality[judged_by]}


def line_of(change: PublishedChange) -> str:
    """Which of the three a control record moves on."""
    if change.spot[0] != BUNDLES:
        return ENTRIES
    return QUALITY if (change.event.key or b"").startswith(quality_policy.BUNDLE.encode()) else BUNDLE


def policy_figures(
    answers: AnswerAccount, placed: Sequence[PublishedChange], standing: Sequence[dict[str, Any]]
) -> list[RunFigure]:
    """All of it, from the run's ledger, what was published, and the entries that never change."""
    policies = PolicyHistory.read(placed, standing)
    decisions = [body for body in answers.ledger if body.get("rerun_hash") and body["registry_hashes"]]
    accepted = [decision for decision in decisions if policies.is_accepted(decision)]
    whole = [decision for decision in accepted if len(policies.list_change_revisions(decision)) == 1]
    decided = [(decision, policies.revisions(decision)) for decision in whole]
    at_once = [(decision["partition"], at) for decision, at in decided if not decision.get("model_outputs")]
    return [
        figures.some("policies_decided_under", len({tuple(at.items()) for _, at in decided}), "policies"),
        figures.some(
            "quality_bundles_judged_by", len({at.get(QUALITY, 0) for _, at in decided}) - 1, "bundles"
        ),
        figures.none("under_refused_policy", len(decisions) - len(accepted), "decisions"),
        figures.none("under_half_a_change", len(accepted) - len(whole), "decisions"),
        figures.none(
            "back_in_a_session", _back((decision["session_id"], at) for decision, at in decided), "decisions"
        ),
        figures.none("back_in_a_partition", _back(at_once), "decisions"),
        figures.require_at_most("policy_lag", _lag_ms(decided, placed), MOST_LAG_MS, "ms"),
        *_letters(answers, placed),
    ]


def _letters(answers: AnswerAccount, placed: Sequence[PublishedChange]) -> list[RunFigure]:
    due = Counter((*change.spot, change.event.due) for change in placed if change.event.due is not None)
    there = Counter((b["input"]["topic"], b["input"]["offset"], b["code"]) for b in answers.refused)
    elsewhere = sum(body["partition"] != LETTERS_PARTITION for body in answers.refused)
    return [
        figures.some("policy_records", len(placed), "records"),
        figures.some("policy_refused", due.total(), "records"),
        figures.some("policy_refused_codes", len({code for *_, code in due}), "codes"),
        figures.none("policy_refusals_missing", (due - there).total(), "records"),
        figures.none("policy_refusals_undue", (there - due).total(), "records"),
        figures.none("policy_refusals_elsewhere", elsewhere, "records"),
    ]


def _back(line: Iterable[tuple[Hashable, Revisions]]) -> int:
    """How often, of one key, any revision is below the highest before it."""
    reached: dict[Hashable, Revisions] = {}
    back = 0
    for key, at in line:
        before = reached.setdefault(key, {})
        back += any(revision < before.get(name, 0) for name, revision in at.items())
        before |= {name: max(revision, before.get(name, 0)) for name, revision in at.items()}
    return back


def _lag_ms(decided: Iterable[tuple[dict[str, Any], Revisions]], placed: Sequence[PublishedChange]) -> int:
    """The longest time from the moment when a newer policy was whole to an input decided under the older."""
    replaced: dict[tuple[str, int], int] = {}
    before: dict[str, int] = {}
    for change in placed:
        if change.event.documents:
            line = line_of(change)
            replaced[line, before.get(line, 1)] = change.timestamp_ms
            before[line] = next(iter(change.event.documents.values()))["revision"]
    return max(
        (
            decision["input"]["timestamp"] - replaced[at]
            for decision, revisions in decided
            for at in revisions.items()
            if at in replaced
        ),
        default=0,
    )


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['kind']}/{entry['id']}@{entry['revision']}"


def _digest(document: dict[str, Any]) -> str:
    return f"sha256:{hashlib.sha256(rfc8785.dumps(document)).hexdigest()}"


WORKERS = 2
REFRESH_S = 0.1
PAUSE_S = 0.1
LOOK_S = 0.5


async def reload(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """Two workers; it is the owner of partition 0, who enters the refusals, that is killed each time."""
    name = "reload"
    installation, rng = await bed.installation(name), bed.rng(name)
    installation.settings["SLUICE_POLICY__REFRESH_S"] = str(REFRESH_S)
    async with (
        open_scene(
            installation,
            bed.traffic(installation, name, scale),
            Pace(scale.rate, plenty=scale.plenty),
            WORKERS,
        ) as scene,
        change_policy(installation, bed.rng(f"{name}:policy"), PAUSE_S) as changes,
    ):
        kills = await kill_again_and_again(scene, rng, scale, lambda: _keeper(scene))
        await scene.publisher.finish(scale.events)
        await changes.finish()
        await _all_entered(installation, scene, changes)
        await scene.finish(scale.events)
    tally, evidence = scene.fleet.tally, await gather(installation)
    answers = account(evidence)
    return [
        figures.require_at_least("kills", tally.killed, kills, "workers"),
        figures.some("moves_of_partition_0", tally.moves[LETTERS_PARTITION], "moves"),
        *policy_figures(
            answers, changes.placed, make_standing(installation.trust, TENANT, installation.began_ms)
        ),
        *integrity(evidence, answers, policy_refused=changes.due),
        *bites(tally, evidence, ("kills_in_flight", "rolled_back", "moved")),
        *await execute_again(evidence),
    ]


def _keeper(scene: Scene) -> int:
    """The slot of the worker that decides for partition 0; called when every partition is owned."""
    owners = (
        slot for slot, process in scene.fleet.workers.items() if LETTERS_PARTITION in process.partitions()
    )
    return next(owners, 0)


async def _all_entered(installation: TestInstallation, scene: Scene, changes: PolicyPublisher) -> None:
    end = time.monotonic() + STALL_S
    while (entered := await policy_refusals(installation)) < changes.due:
        scene.check()
        if time.monotonic() > end:
            raise RunFailed(f"of {changes.due} refused policy records {entered} are in the ledger")
        await asyncio.sleep(LOOK_S)
