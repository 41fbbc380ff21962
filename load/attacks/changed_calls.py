"""Attack: a guarded tool runs another call than the one that was judged.

Tools of all shapes behind the real client, a worker and an approver. The attacker changes arguments while the
gate or a person thinks, hides them from the gate in names, defaults, variadic parameters and values that JSON
does not keep, and fills what only a framework may fill. Afterwards each call that ran is compared with the
record on its topic: with the action's parameters, or those of the review that replaced them.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from aiokafka import AIOKafkaProducer

from load.attacks.answered_installation import open_installation
from load.attacks.attempt import Attempt
from load.installations import approvers, neutral_policy
from load.installations.installation import records_of
from sluice.client import AsyncGateClient, ClientError, ClientOptions
from sluice.client.json_values import may_be_json
from sluice.core.trust.signing import sign_review
from sluice_topics.catalog import ACTIONS, ESCALATIONS, REVIEWS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from load.attacks.attempt import Extent
    from load.installations.installation import TestInstallation

NAME = "changed-calls"
PATIENCE_S = 90.0
POLL_S = 0.1
ANN = "ann"
Tool = TypeVar("Tool")


class CallAttempt(NamedTuple):
    """One try: a tool of the registry, and how it is guarded and called. `less`: the parameters that an
    approver gives."""

    tried: str
    make: Callable[[GuardedTools, str], Awaitable[Any]]
    tool: str = neutral_policy.READ_TOOL
    less: dict[str, Any] | None = None
    harmless: bool = False


class GuardedTools:
    """Where calls run: the client, and what ran."""

    def __init__(self, installation: TestInstallation, gate: AsyncGateClient) -> None:
        self.installation = installation
        self.gate = gate
        self.ran: list[tuple[str, dict[str, Any]]] = []

    def guard(self, tried: str, tool: str = neutral_policy.READ_TOOL, **more: Any) -> Callable[[Tool], Tool]:
        """The decorator of an attempt, whose name is its action's id."""
        fields = {"session_id": NAME, "action_id": tried, "approval_timeout_s": PATIENCE_S, "rows_before": 1}
        decorator: Any = self.gate.guard(tool, accept_narrowed=True, **{**fields, **more})
        return cast("Callable[[Tool], Tool]", decorator)

    def run(self, tried: str, /, **parameters: Any) -> None:
        """A tool says what it runs with."""
        self.ran.append((tried, parameters))


def run_on(extent: Extent, servers: str) -> Iterator[Attempt]:
    """On a broker that runs. Both extents are the same."""
    del extent
    yield from asyncio.run(_attack(servers))


async def _attack(servers: str) -> list[Attempt]:
    async with open_installation(servers) as answered_installation:
        installation = answered_installation.installation
        options = ClientOptions(topic_prefix=installation.prefix, deadline_s=PATIENCE_S)
        async with AsyncGateClient(servers, neutral_policy.AGENT, options) as gate:
            stage = GuardedTools(installation, gate)
            errors = await asyncio.gather(*(_make_call(stage, call) for call in CALLS))
        judged = await _read_judged(installation)
    return [_compare(call, error, stage, judged) for call, error in zip(CALLS, errors, strict=True)]


def _compare(call: CallAttempt, error: str | None, stage: GuardedTools, judged: dict[str, Any]) -> Attempt:
    """It holds if the tool ran once and with what was judged, or not at all; a control has to run."""
    ran = [parameters for tried, parameters in stage.ran if tried == call.tried]
    exact = [repr(parameters) for parameters in ran] == [repr(judged.get(call.tried))]
    answer = f"ran with {ran}, judged {judged.get(call.tried)}" if ran else f"did not run: {error}"
    return Attempt(call.tried, exact or (not ran and not call.harmless), answer, call.harmless)


async def _make_call(stage: GuardedTools, call: CallAttempt) -> str | None:
    try:
        if call.tool != approvers.REFUND:
            await call.make(stage, call.tried)
        else:
            answering = asyncio.create_task(_approve(stage.installation, call))
            try:
                await call.make(stage, call.tried)
            finally:
                answering.cancel()
    except (ClientError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


async def _approve(installation: TestInstallation, call: CallAttempt) -> None:
    """Agree to the attempt's action as soon as it waits, with the parameters of `less`."""
    while True:
        every = [
            json.loads(record.value or b"null") for record in await records_of(installation, ESCALATIONS)
        ]
        opened = [
            event
            for event in every
            if event["schema"] == approvers.OPENED and event["action_id"] == call.tried
        ]
        if opened:
            break
        await asyncio.sleep(POLL_S)
    fields = {
        "subject_id": opened[0]["escalation_id"],
        "session_id": opened[0]["session_id"],
        "decision": "approve",
        "approver_id": ANN,
        "digest": opened[0]["action_digest"],
        "justification": call.tried,
    }
    if call.less is not None:
        fields["parameters"] = call.less
    signed = sign_review(fields, approvers.KEYS[ANN], installation.audience)
    review = signed.model_dump(mode="json", exclude_unset=True)
    async with AIOKafkaProducer(bootstrap_servers=installation.bootstrap_servers, acks="all") as producer:
        key = review["session_id"].encode()
        await producer.send_and_wait(installation.real(REVIEWS), json.dumps(review).encode(), key=key)


async def _read_judged(installation: TestInstallation) -> dict[str, Any]:
    """The parameters that the gate judged last, by attempt."""
    actions = [json.loads(record.value or b"") for record in await records_of(installation, ACTIONS)]
    reviews = [json.loads(record.value or b"") for record in await records_of(installation, REVIEWS)]
    replaced = {
        review["justification"]: review["parameters"] for review in reviews if review.get("parameters")
    }
    return {action["action_id"]: action["parameters"] for action in actions} | replaced


async def _plain(stage: GuardedTools, tried: str) -> None:
    @stage.guard(tried)
    async def tool(table: str, limit: float = 1.5, where: Any = None) -> None:
        stage.run(tried, table=table, limit=limit, where=where)

    await tool("orders", where={"ids": [1, {"a": None}], "text": "\u2028ü"})


def _refund(less: dict[str, Any] | None, tried: str, *, harmless: bool = False) -> CallAttempt:
    async def make(stage: GuardedTools, tried: str) -> None:
        ids = [1]

        @stage.guard(tried, approvers.REFUND)
        async def tool(ids: list[int], force: bool = False, memo: str = "") -> None:
            stage.run(tried, ids=ids, force=force, memo=memo)

        calling = asyncio.ensure_future(tool(ids, force=True, memo="do it"))
        await asyncio.sleep(0)
        ids += [2, 3]
        await calling

    return CallAttempt(tried, make, approvers.REFUND, less, harmless)


def _hide(name: str, value: Any) -> CallAttempt:
    async def make(stage: GuardedTools, tried: str) -> None:
        @stage.guard(tried)
        async def tool(argument: Any) -> None:
            stage.run(tried, argument=argument)

        await tool(value)

    return CallAttempt(f"an argument is {name}", make)


async def _try_names(stage: GuardedTools, tried: str) -> None:
    @stage.guard(tried)
    async def tool(self: str, /, *more: str, cls: str = "", **rest: Any) -> None:
        stage.run(tried, self=self, more=list(more), cls=cls, rest=rest)

    await tool("orders", "a", "b", cls="everything", self="another", force=True)


async def _default(stage: GuardedTools, tried: str) -> None:
    @stage.guard(tried)
    async def tool(table: str, columns: Any = ("id", "name")) -> None:
        stage.run(tried, table=table, columns=columns)

    await tool("orders")


async def _try_default(stage: GuardedTools, tried: str) -> None:
    async def tool(table: str, ids: list[int] = []) -> None:  # noqa: B006 - what is attacked
        stage.run(tried, table=table, ids=list(ids))
        ids.append(7)

    for name in (f"{tried}, before", tried):
        guarded = stage.guard(name)(tool)
        await guarded("orders")
    stage.ran.remove(next(run for run in stage.ran if run[0] == tried))


async def _try_counting(stage: GuardedTools, tried: str) -> None:
    def count(ids: list[int]) -> int:
        ids.append(9)
        return len(ids)

    @stage.guard(tried, rows_before=count)
    async def tool(ids: list[int]) -> None:
        stage.run(tried, ids=ids)

    await tool([1])


def _context(name: str, *, harmless: bool = False, **sent: Any) -> CallAttempt:
    async def make(stage: GuardedTools, tried: str) -> None:
        @stage.guard(tried, context=["config"])
        async def tool(table: str, config: Any = None) -> None:
            stage.run(tried, table=table, **({"config": config} if may_be_json(config) else {}))

        await tool(**{"table": "orders", **sent})

    return CallAttempt(name, make, harmless=harmless)


async def _late(stage: GuardedTools, tried: str) -> None:
    @stage.guard(tried)
    async def tool() -> Iterator[None]:
        return (work() for work in [partial(stage.run, tried, late=True)])

    for _ in await tool():
        pass


CALLS = (
    CallAttempt("a call with defaults and nested values", _plain, harmless=True),
    _refund(None, "the arguments change while an approver thinks"),
    _refund({"ids": [1], "force": False, "memo": "seen"}, "an approver names every parameter", harmless=True),
    _refund({"ids": [1]}, "an approver does not name force and memo, which the caller set"),
    _refund({"ids": [1], "force": False, "memo": "", "to": "me"}, "an approver names a parameter too many"),
    CallAttempt(
        "arguments are called self and cls, go through * and **, and have one name twice", _try_names
    ),
    CallAttempt("a default is a tuple", _default),
    CallAttempt("a list of a default is changed by every call", _try_default),
    CallAttempt("what computes the rows changes the arguments", _try_counting),
    CallAttempt("the work is done after the outcome", _late),
    *(
        _hide(name, value)
        for name, value in {
            "a tuple": ("orders", "customers"),
            "a set": {"orders"},
            "a table of its own class": OrderedDict(table="orders"),
            "a table with numbers for keys": {1: "orders", "1": "customers"},
            "not a number": float("nan"),
            "a date": datetime(2026, 1, 1, tzinfo=UTC),
            "bytes": b"orders",
        }.items()
    ),
    _context("a framework fills what the context names", harmless=True, config=object()),
    _context("a model fills what the context names", config={"user": "root"}),
    _context("a model fills what the context names with a text", config="root"),
)
