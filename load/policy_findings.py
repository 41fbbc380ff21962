"""What a run under changing policy must show: no decision under half of a change, none under what was
refused, none that goes back; and every refused record in the ledger, once.

A worker reads the control topics on, and a new owner reads them to their end after it has fenced the one
before, so no decision begins under an older policy than one that began before it in its partition. Ledger
order is the order in which decisions end: it shows this for the decisions of one session, which wait for each
other, and for those of a partition that waited for no answer, which end as they begin.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rfc8785

from load import figures, policy
from topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from load.answers import Account
    from load.figures import Figure
    from load.policy_publisher import Placed

LETTERS_PARTITION = 0
MOST_LAG_MS = 10_000
"""From a change's last record to the input after which nobody decides under what was before: far more than
the interval of reading and the slowest fold on a busy machine."""
Revisions = tuple[int, int]
"""Of agent, tools and source, and of the bundle."""


@dataclass(frozen=True, slots=True)
class Policies:
    """What was ever in force, by the hashes that decisions hold."""

    bundles: dict[str, int]
    entries: dict[str, str]

    @classmethod
    def of(cls, placed: Iterable[Placed]) -> Policies:
        """From the first policy and what was published on it."""
        entries = {_name(entry): entry for entry in policy.entries()}
        bundles = [policy.bundle()]
        for one in placed:
            documents = one.event.documents
            if one.spot[0] == BUNDLES:
                bundles += documents.values()
            else:
                entries |= documents
        return cls(
            {_digest(document): document["revision"] for document in bundles},
            {name: _digest(document) for name, document in entries.items()},
        )

    def accepted(self, decision: dict[str, Any]) -> bool:
        """Whether the decision rests on nothing but what was in force at some time."""
        return decision["bundle_hash"] in self.bundles and all(
            self.entries.get(name) == its_hash for name, its_hash in decision["registry_hashes"].items()
        )

    def revisions(self, decision: dict[str, Any]) -> Revisions:
        """Of an accepted decision under a whole change."""
        return min(_entry_revisions(decision)), self.bundles[decision["bundle_hash"]]


def policy_figures(found: Account, placed: Sequence[Placed]) -> list[Figure]:
    """All of it, from the run's ledger and what was published."""
    policies = Policies.of(placed)
    decisions = [body for body in found.ledger if body.get("rerun_hash") and body["registry_hashes"]]
    accepted = [one for one in decisions if policies.accepted(one)]
    whole = [one for one in accepted if len(_entry_revisions(one)) == 1]
    seen = [(one, policies.revisions(one)) for one in whole]
    at_once = [(one["partition"], at) for one, at in seen if not one["model_outputs"]]
    return [
        figures.some("policies_decided_under", len({at for _, at in seen}), "policies"),
        figures.none("under_refused_policy", len(decisions) - len(accepted), "decisions"),
        figures.none("under_half_a_change", len(accepted) - len(whole), "decisions"),
        figures.none("back_in_a_session", _back((one["session_id"], at) for one, at in seen), "decisions"),
        figures.none("back_in_a_partition", _back(at_once), "decisions"),
        figures.at_most("policy_lag", _lag_ms(seen, placed), MOST_LAG_MS, "ms"),
        *_letters(found, placed),
    ]


def _letters(found: Account, placed: Sequence[Placed]) -> list[Figure]:
    due = Counter((*one.spot, one.event.due) for one in placed if one.event.due is not None)
    there = Counter((b["input"]["topic"], b["input"]["offset"], b["code"]) for b in found.refused)
    elsewhere = sum(body["partition"] != LETTERS_PARTITION for body in found.refused)
    return [
        figures.some("policy_records", len(placed), "records"),
        figures.some("policy_refused", due.total(), "records"),
        figures.some("policy_refused_codes", len({code for *_, code in due}), "codes"),
        figures.none("policy_refusals_missing", (due - there).total(), "records"),
        figures.none("policy_refusals_undue", (there - due).total(), "records"),
        figures.none("policy_refusals_elsewhere", elsewhere, "records"),
    ]


def _back(line: Iterable[tuple[Hashable, Revisions]]) -> int:
    """How often, of one key, either revision is below the highest before it."""
    reached: dict[Hashable, Revisions] = {}
    back = 0
    for key, (entries, bundle) in line:
        before = reached.get(key, (0, 0))
        back += entries < before[0] or bundle < before[1]
        reached[key] = (max(entries, before[0]), max(bundle, before[1]))
    return back


def _lag_ms(seen: Iterable[tuple[dict[str, Any], Revisions]], placed: Sequence[Placed]) -> int:
    """The longest time from the moment when a newer policy was whole to an input decided under the older."""
    replaced: dict[tuple[str, int], int] = {}
    for topic in (REGISTRY, BUNDLES):
        before = 1
        for one in placed:
            if one.spot[0] == topic and one.event.documents:
                replaced[topic, before] = one.timestamp_ms
                before = next(iter(one.event.documents.values()))["revision"]
    return max(
        (
            decision["input"]["timestamp"] - replaced[at]
            for decision, revisions in seen
            for at in zip((REGISTRY, BUNDLES), revisions, strict=True)
            if at in replaced
        ),
        default=0,
    )


def _entry_revisions(decision: dict[str, Any]) -> set[int]:
    return {int(name.rpartition("@")[2]) for name in decision["registry_hashes"]}


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['kind']}/{entry['id']}@{entry['revision']}"


def _digest(document: dict[str, Any]) -> str:
    return f"sha256:{hashlib.sha256(rfc8785.dumps(document)).hexdigest()}"
