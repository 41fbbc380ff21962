"""An escalation as the state keeps it: what waits for a person, who has agreed so far, and how it ended.

Seed 001, Gate 4. It holds the digest and the coordinates of what waits, not its content. Only what is PENDING
can end, and it ends once: TRANSITIONS is the whole of it. Who may answer follows from the route and the time
of the answer alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from sluice.core.foundation.canonical import digest, wire_safe
from sluice.core.foundation.clock import rfc3339
from sluice.core.registry.review_signing import AnswerDelegate
from sluice_topics.catalog import RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_PREFIX = b"e:"
Status = Literal["PENDING", "APPROVED", "DENIED", "EXPIRED"]
Event = Literal["approval", "reminder", "reroute", "last_approval", "denial", "time", "eviction"]
"""`approval`: one of several that the quorum asks for; `last_approval`: the one that completes it; `reminder`
and `reroute`: a step of its route."""
TRANSITIONS: Mapping[tuple[Status, Event], Status] = {
    ("PENDING", "approval"): "PENDING",
    ("PENDING", "reminder"): "PENDING",
    ("PENDING", "reroute"): "PENDING",
    ("PENDING", "last_approval"): "APPROVED",
    ("PENDING", "denial"): "DENIED",
    ("PENDING", "time"): "EXPIRED",
    ("PENDING", "eviction"): "EXPIRED",
}
"""Every other pair is refused: an outcome is final."""


class Vote(NamedTuple):
    """An approver's approval that was counted: its id, "kind/id@revision" and hash of its registry entry, the
    place of the review, "topic:partition:offset", and the delegate that signed it; None: the approver's own
    key did."""

    approver_id: str
    entry: str
    entry_hash: str
    review: str
    delegate: AnswerDelegate | None = None

    def make_fields(self) -> dict[str, Any]:
        """The fields in a resolved verdict."""
        fields = self._asdict()
        if self.delegate is None:
            return {name: value for name, value in fields.items() if name != "delegate"}
        return {**fields, "delegate": self.delegate._asdict()}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Vote:
        """What `make_fields` gave."""
        delegate = fields.get("delegate")
        return cls(**{**fields, "delegate": None if delegate is None else AnswerDelegate(**delegate)})

    @classmethod
    def decode(cls, stored: list[Any]) -> Vote:
        """From the table."""
        vote = cls(*stored)
        return vote if vote.delegate is None else vote._replace(delegate=AnswerDelegate(*vote.delegate))


class RouteStep(NamedTuple):
    """The group at `position` (from 0) of a route is reminded, or gets the escalation, at a broker time,
    ms."""

    event: Literal["reminder", "reroute"]
    position: int
    at_ms: int


class Route(NamedTuple):
    """The groups of approvers that an escalation goes to in turn. Each but the last passes it on after
    `next_after_ms`, each is reminded `remind_after_ms` after it got it; None: never."""

    groups: tuple[str, ...]
    remind_after_ms: int | None
    next_after_ms: int | None

    def make_fields(self) -> dict[str, Any]:
        """The fields in a resolved verdict."""
        return {**self._asdict(), "groups": list(self.groups)}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Route:
        """What `make_fields` gave."""
        return cls(tuple(fields["groups"]), fields["remind_after_ms"], fields["next_after_ms"])

    def got_ms(self, index: int, opened_ms: int) -> int:
        """When the group at this place gets an escalation that opened at this time, ms."""
        return opened_ms + index * (self.next_after_ms or 0)

    def steps(self, opened_ms: int) -> list[RouteStep]:
        """All steps of an escalation that opened at this time, in their order."""
        steps: list[RouteStep] = []
        for index in range(len(self.groups)):
            got_ms = self.got_ms(index, opened_ms)
            if index:
                steps.append(RouteStep("reroute", index, got_ms))
            if self.remind_after_ms is not None:
                steps.append(RouteStep("reminder", index, got_ms + self.remind_after_ms))
        return steps

    def list_reached(self, opened_ms: int, at_ms: int) -> tuple[str, ...]:
        """The groups that have got such an escalation by this time: each of them may answer."""
        count = sum(self.got_ms(index, opened_ms) <= at_ms for index in range(1, len(self.groups)))
        return self.groups[: 1 + count]


class Escalation(NamedTuple):
    """An escalation. `subject_id` is the id that the agent gave to its input, `digest` covers the input's
    bytes at `topic`, `partition` and `offset`: an approval counts for exactly these. Times are broker times,
    ms; `ended_ms` 0 while it is pending. `outcome`: what the approved input came to when it was judged again.
    `justification`: of a retrieval's last approver, for the items that are served because of it.
    `route` None: every approver may answer. `steps_done`: of the route, those that the ledger has. `own_key`:
    no delegate may sign an answer to it. `parameters`: the digest of an action's parameters as proposed;
    `votes_for`: of those that the votes are for. Both are "" for a retrieval, which is approved as it is.
    """

    escalation_id: str
    verdict_id: str
    subject_id: str
    agent_id: str
    session_id: str
    tenant: str
    tool: str
    digest: str
    tier: str
    role: str
    quorum: int
    topic: str
    partition: int
    offset: int
    opened_ms: int
    expires_ms: int
    votes: tuple[Vote, ...] = ()
    status: Status = "PENDING"
    ended_ms: int = 0
    outcome: str | None = None
    justification: str = ""
    route: Route | None = None
    steps_done: int = 0
    own_key: bool = False
    parameters: str = ""
    votes_for: str = ""

    @property
    def is_of_items(self) -> bool:
        """Whether denied items of a retrieval wait, not an action."""
        return self.topic == RETRIEVALS

    @property
    def usable_until_ms(self) -> int:
        """Until when the items of an approved retrieval may be asked for again: for as long as they could
        have waited."""
        return self.ended_ms + self.expires_ms - self.opened_ms

    @property
    def name(self) -> str:
        """Its id among those that wait."""
        return self.escalation_id

    @property
    def key(self) -> bytes:
        """In the table."""
        return KEY_PREFIX + self.escalation_id.encode()

    @property
    def is_pending(self) -> bool:
        """Whether it can still be answered."""
        return self.status == "PENDING"

    @property
    def next_step(self) -> RouteStep | None:
        """The first step of its route that the ledger does not have yet."""
        steps = () if self.route is None else self.route.steps(self.opened_ms)[self.steps_done :]
        return next(iter(steps), None)

    @property
    def due_ms(self) -> int:
        """When time does something to it next."""
        step = self.next_step
        return self.expires_ms if step is None else min(step.at_ms, self.expires_ms)

    def has_reached(self, groups: frozenset[str], at_ms: int) -> bool:
        """Whether it has got to one of these groups by this broker time, ms; without a route, to everyone."""
        return self.route is None or not groups.isdisjoint(self.route.list_reached(self.opened_ms, at_ms))

    def votes_with(self, parameters: str) -> tuple[Vote, ...]:
        """The votes that count together with one for the parameters of this digest: those for the same."""
        return self.votes if self.votes_for == parameters else ()

    def raise_to(self, tier: str, role: str, quorum: int, *, own_key: bool) -> Escalation:
        """With what the policy demands now where it is stricter: while it waits, a demand only rises."""
        if tier <= self.tier:
            tier, role = self.tier, self.role
        return self._replace(
            tier=tier, role=role, quorum=max(quorum, self.quorum), own_key=own_key or self.own_key
        )

    def advance(self, event: Event, at_ms: int, **changed: Any) -> Escalation:
        """The escalation after an event. Raises ValueError where TRANSITIONS has none."""
        status = TRANSITIONS.get((self.status, event))
        if status is None:
            raise ValueError(f"{self.escalation_id} is {self.status}: {event} is too late")
        ended_ms = 0 if status == "PENDING" else at_ms
        return self._replace(status=status, ended_ms=ended_ms, **changed)

    def encode(self) -> bytes:
        """The form in the table."""
        return orjson.dumps([*self], default=list)

    @classmethod
    def decode(cls, stored: bytes) -> Escalation:
        """What `encode` wrote."""
        fields = cls(*orjson.loads(stored))
        votes = tuple(Vote.decode([*vote]) for vote in fields.votes)
        if fields.route is None:
            return fields._replace(votes=votes)
        groups, *times = fields.route
        return fields._replace(votes=votes, route=Route(tuple(groups), *times))

    def describe_end(self) -> str:
        """How it ended, for a person whose answer came later."""
        how = "" if self.outcome is None else f", and what waited came to {self.outcome}"
        return f"it ended {self.status} at {rfc3339(self.ended_ms)}{how}"


def parameters_digest(parameters: Mapping[str, Any]) -> str:
    """The digest by which an action's parameters are compared with others: of their canonical form."""
    return digest(wire_safe(parameters))


def decode_escalations(table: Mapping[bytes, bytes]) -> list[Escalation]:
    """Every escalation of a partition's table, pending or ended."""
    return [Escalation.decode(value) for key, value in table.items() if key.startswith(KEY_PREFIX)]
