"""Who must agree to an escalated action, and whom an escalation goes to: a bundle's part `approvals`.

A route names groups of approvers (the registry's entries of approvers name their groups). The first route
that matches an action's tier, tool and tenant counts; where none does, every approver may answer.
"""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Self, get_args

from pydantic import Field, field_validator, model_validator

from sluice.core.foundation.strict import LONGEST_WAIT_MS, Name, StrictModel
from sluice.core.state.escalation import Route
from sluice.detection.call_inspection import Globs
from sluice_topics.records.base import Tier
from sluice_topics.relaxations import ComparedBy, Members, Neutral, PartOf, Relaxation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_GROUPS = 16
MAX_ROUTES = 64
MOST_COMPARED = 8
"""Different lists of tools up to which two routings are compared; more count as relaxed."""
TIERS: tuple[Tier, ...] = get_args(Tier)
"""The mildest first."""
ROUTED = PartOf("routing")
WaitMs = Annotated[int, Field(ge=1, le=LONGEST_WAIT_MS)]


class ApprovalRoute(StrictModel):
    """Which escalations go to which groups, in their order. `tiers`, `tools`, `tenants`: null matches all;
    `tools` are globs (`*`, `?`, `[...]`) without regard to case.

    Each group is reminded `remind_after_ms` after it got the escalation (null: never). The next group gets it
    `next_after_ms` after the one before; the earlier groups may still answer.
    """

    tiers: Annotated[list[Tier] | None, Field(min_length=1), ROUTED] = None
    tools: Annotated[list[Name] | None, Field(min_length=1), ROUTED] = None
    tenants: Annotated[list[Name] | None, Field(min_length=1), ROUTED] = None
    groups: Annotated[list[Name], Field(min_length=1, max_length=MAX_GROUPS), ROUTED]
    remind_after_ms: Annotated[WaitMs | None, Neutral("gives nobody a right")] = None
    next_after_ms: Annotated[WaitMs | None, ROUTED] = None

    @field_validator("groups")
    @classmethod
    def _refuse_repeated(cls, groups: list[str]) -> list[str]:
        if len(set(groups)) != len(groups):
            raise ValueError("a group is named twice")
        return groups

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        if (self.next_after_ms is None) != (len(self.groups) == 1):
            raise ValueError("next_after_ms goes with more than one group, and is needed there")
        until_ms = self.next_after_ms or LONGEST_WAIT_MS + 1
        if self.remind_after_ms is not None and self.remind_after_ms >= until_ms:
            raise ValueError("remind_after_ms must be below next_after_ms")
        self._globs  # noqa: B018 - compiled here, so that a wrong one is found when the bundle is read
        return self

    @cached_property
    def _globs(self) -> Globs | None:
        return None if self.tools is None else Globs(self.tools)

    @cached_property
    def route(self) -> Route:
        """The route that the state keeps with an escalation."""
        return Route(tuple(self.groups), self.remind_after_ms, self.next_after_ms)

    def takes(self, tier: str, tenant: str) -> bool:
        """Whether its tiers and tenants take an action; the tool is not asked for."""
        in_tiers = self.tiers is None or tier in self.tiers
        return in_tiers and (self.tenants is None or tenant in self.tenants)

    def takes_tool(self, tool: str) -> bool:
        """Whether its globs take a tool."""
        return self._globs is None or self._globs.match(tool.lower())

    @property
    def last_ms(self) -> int:
        """When its last step is due, in ms after the opening."""
        return max((step.at_ms for step in self.route.steps(0)), default=0)


def find_quorum_relaxations(before: ApprovalPolicy, after: ApprovalPolicy) -> Iterator[Relaxation]:
    """Tiers of which fewer approvers must agree; where the bundle says nothing of one, it is one."""
    for tier in TIERS:
        old, new = before.count_needed(tier), after.count_needed(tier)
        if new < old:
            sentence = f"an action of {tier} needs {new} approvals, not {old}"
            yield Relaxation(sentence, f"quorum.{tier}", old, new)


def find_routing_relaxations(before: ApprovalPolicy, after: ApprovalPolicy) -> Iterator[Relaxation]:
    """Where others may answer, or sooner."""
    for sentence in dict.fromkeys(_find_wider(before.routing, after.routing)):
        yield Relaxation(sentence, "routing", before.routing, after.routing)


def _find_wider(before: list[ApprovalRoute], after: list[ApprovalRoute]) -> Iterator[str]:
    """Who may answer, or sooner, where the routing before did not let them.

    A tool is stood for by the lists of globs that take it, in every combination; that is strict where globs
    overlap, and needs no tool's name.
    """
    if before == after or not before:
        return
    lists = sorted({tuple(route.tools) for route in (*before, *after) if route.tools is not None})
    if len(lists) > MOST_COMPARED:
        yield f"the routing changed, and it has too many lists of tools (over {MOST_COMPARED}) to compare"
        return
    tenants = {"", *(name for route in (*before, *after) for name in route.tenants or ())}
    for taken in product((False, True), repeat=len(lists)):
        holding = {tools for tools, takes in zip(lists, taken, strict=True) if takes}
        takes_tool = _match_lists(holding)
        for tier, tenant in product(TIERS, sorted(tenants)):
            old = _find_first(before, tier, tenant, takes_tool)
            if old is not None:
                yield from _find_sooner(old, _find_first(after, tier, tenant, takes_tool))


def _match_lists(holding: set[tuple[str, ...]]) -> Callable[[ApprovalRoute], bool]:
    return lambda route: route.tools is None or tuple(route.tools) in holding


def _find_first(
    routing: list[ApprovalRoute], tier: str, tenant: str, takes_tool: Callable[[ApprovalRoute], Any]
) -> Route | None:
    matching = (entry.route for entry in routing if entry.takes(tier, tenant) and takes_tool(entry))
    return next(matching, None)


def _find_sooner(old: Route, new: Route | None) -> Iterator[str]:
    went = f"what went to {', then '.join(old.groups)}"
    if new is None:
        yield f"{went}: every approver may answer"
        return
    since = {group: old.got_ms(index, 0) for index, group in enumerate(old.groups)}
    for position, group in enumerate(new.groups):
        got_ms = new.got_ms(position, 0)
        if group not in since:
            yield f"{went}: {group} may answer too"
        elif got_ms < since[group]:
            yield f"{went}: {group} may answer after {got_ms} ms, not after {since[group]} ms"


class ApprovalPolicy(StrictModel):
    """`quorum`: how many approvers must agree to an escalated action, by its tier; one where it says nothing.
    One denial ends it. `routing`: the first route that matches says which groups may answer. `own_key_tiers`:
    an answer to an action of these tiers counts only with the approver's own key, not a delegate's."""

    quorum: Annotated[dict[Tier, Annotated[int, Field(ge=1, le=16)]], ComparedBy(find_quorum_relaxations)] = (
        Field(default_factory=dict)
    )
    routing: Annotated[
        list[ApprovalRoute], Field(max_length=MAX_ROUTES), ComparedBy(find_routing_relaxations)
    ] = Field(default_factory=list)
    own_key_tiers: Annotated[
        list[Tier], Members("more", "a delegate may sign answers to actions of {member}")
    ] = Field(default_factory=list)

    def demands_own_key(self, tier: str) -> bool:
        """Whether answers to actions of this tier need the approvers' own keys."""
        return tier in self.own_key_tiers

    def count_needed(self, tier: str) -> int:
        """How many approvals an action of this tier needs."""
        return self.quorum.get(tier, 1)  # type: ignore[call-overload, no-any-return]

    def find_route(self, tier: str, tool: str, tenant: str) -> Route | None:
        """Where an escalation of such an action goes; None: no route matches."""
        for route in self.routing:
            if route.takes(tier, tenant) and route.takes_tool(tool):
                return route.route
        return None

    def check_within(self, ttl_ms: int) -> None:
        """Raises ValueError for a route with a step that comes when an escalation has expired already."""
        for at, route in enumerate(self.routing):
            if route.last_ms >= ttl_ms:
                message = f"approvals.routing[{at}]: its last step comes after {route.last_ms} ms"
                raise ValueError(f"{message}, and escalation_ttl_ms is {ttl_ms}")
