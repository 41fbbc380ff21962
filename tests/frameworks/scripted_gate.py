"""A client whose gate answers by a script, and 200 calls of a tool, so that a framework's run of them can be
judged: what ran, how often, with which arguments.

The client, its journal and its guard are the real ones; in place of the broker's exchange stands the script.
It needs no package but the client's own, because it runs in the environment of each framework.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client import ActionNotDecided, AsyncGateClient, ClientOptions, GateClient, NeedsHuman
from sluice.client.answers import ActionAnswer, InputLocation
from sluice.client.frameworks.tool_calls import ToolCallGate
from sluice.client.input_kinds import ACTION, OUTCOME

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.client.exchange import OutgoingInput

SESSION = "scripted"
TOOL = "move_records"
KINDS = (
    "allowed",
    "denied",
    "approved",
    "refused",
    "waiting",
    "away",
    "slow",
    "killed",
    "cancelled",
    "fails",
)
"""`approved` and `refused`: held, and a person answers later; `waiting`: held, and nobody answers. `killed`:
the worker dies before it answers, and answers a repeat. `cancelled`: the framework's run is cancelled while
the gate thinks. `fails`: allowed, and the tool raises."""
RUNS = frozenset(("allowed", "approved", "slow", "fails"))
"""The kinds whose tool must have run once after the first round."""
CALLS = 200


class ScriptedCall(NamedTuple):
    """A call that the model is going to make."""

    call_id: str
    kind: str
    arguments: dict[str, Any]
    tool: str = TOOL


class ToolFailed(Exception):
    """What the tool raises for `fails`."""


class AdapterFault(Exception):
    """In our own code."""


def raise_fault(name: str, parameters: Any) -> Any:
    """In place of a function that describes a call."""
    raise AdapterFault


class _Answer(NamedTuple):
    record: dict[str, Any]


class ScriptedExchange:
    """What the client publishes, and the answers by the `kind` among the parameters."""

    def __init__(self) -> None:
        self.judged: dict[str, dict[str, Any]] = {}
        self.allowed: set[str] = set()
        self.outcomes: dict[str, dict[str, Any]] = {}
        self.answered: set[str] = set()
        self.people_answer = False
        self.thinks = asyncio.Event()
        """While it thinks about a call that is going to be cancelled."""
        self.reader: Any = None

    async def start(self, _: float) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to close."""

    async def publish(self, sent: OutgoingInput) -> InputLocation:
        if sent.kind is OUTCOME:
            record = json.loads(sent.value)
            assert record["action_id"] not in self.outcomes, "an outcome reported twice"
            self.outcomes[record["action_id"]] = record
        return InputLocation(0, 0, 1)

    async def ask(self, sent: OutgoingInput, wait_s: float, placed: Any) -> _Answer:
        assert sent.kind is ACTION
        record = json.loads(sent.value)
        kind = record["parameters"].get("kind", "denied")
        if kind == "away":
            raise ActionNotDecided(sent.name, wait_s, None, may_still_come=True)
        if kind == "cancelled":
            self.thinks.set()
            try:
                await asyncio.sleep(60)
            finally:
                self.thinks.clear()
        await asyncio.sleep(0.02 if kind == "slow" else 0)
        placed(InputLocation(0, len(self.judged), 1))
        if kind == "killed":
            raise ActionNotDecided(sent.name, wait_s, InputLocation(0, 0, 1), may_still_come=True)
        return self._decide(record)

    async def fetch_answer(self, sent: OutgoingInput, _: InputLocation, __: float) -> _Answer:
        return self._decide(json.loads(sent.value))

    def _decide(self, record: dict[str, Any]) -> _Answer:
        kind, name = record["parameters"].get("kind", "denied"), record["action_id"]
        verdict = {
            "denied": "denied",
            "approved": "needs_human",
            "refused": "needs_human",
            "waiting": "needs_human",
        }
        self.judged[name] = record["parameters"]
        return self.answer(record, verdict.get(kind, "allowed"))

    def answer(self, record: dict[str, Any], verdict: str) -> _Answer:
        """The verdict's record, as far as a client reads it."""
        if verdict == "allowed":
            self.allowed.add(record["action_id"])
        passed = verdict == "allowed"
        return _Answer(
            {
                **{name: record[name] for name in ("action_id", "session_id", "agent_id", "parameters")},
                "verdict": verdict,
                "verdict_id": f"verdict-{record['action_id']}",
                "gateResults": [{"gate": "policy", "passed": passed}],
                "blockReason": None if passed else f"scripted: {verdict}",
                "tier": "T1",
                "escalationId": "escalation:0:0:0" if verdict == "needs_human" else None,
                "duplicate_of": None,
                "obligations": [],
                "rows_reserved": 0,
                "narrowed": None,
                "input": {"partition": 0, "offset": 0, "timestamp": 1},
            }
        )


class ScriptedClient(AsyncGateClient):
    """The real client on a script."""

    def __init__(self, exchange: ScriptedExchange, journal: Path, agent_id: str = "scripted-agent") -> None:
        super().__init__("nowhere:1", agent_id, ClientOptions(journal=journal, deadline_s=1))
        self._exchange = self._sender._exchange = exchange  # type: ignore[assignment] # noqa: SLF001
        self._script = exchange

    async def await_approval(self, verdict: ActionAnswer, timeout_s: float) -> ActionAnswer:
        """A person answers what the script lets answer."""
        kind = verdict.record["parameters"]["kind"]
        if kind == "waiting" or not self._script.people_answer:
            raise NeedsHuman(verdict, "Wait")
        record = dict(verdict.record)
        return ActionAnswer.of(
            self._script.answer(record, "allowed" if kind == "approved" else "denied").record
        )


class ScriptedThread(GateClient):
    """The same for a framework without an event loop."""

    def __init__(self, exchange: ScriptedExchange, journal: Path, agent_id: str = "scripted-agent") -> None:
        self._scripted = exchange, journal, agent_id
        super().__init__("nowhere:1", agent_id)

    async def _make_client(self, *_: Any) -> AsyncGateClient:
        return ScriptedClient(*self._scripted)


@dataclass
class Scenario:
    """Calls, gate and what ran. `restart` gives a client anew on the same journal, as a new process."""

    folder: Path
    exchange: ScriptedExchange = field(default_factory=ScriptedExchange)
    ran: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = ScriptedClient(self.exchange, self.folder / "journal")
        self.calls = [self._make(number) for number in range(CALLS)]

    @property
    def gate(self) -> ToolCallGate:
        """For the adapter under test."""
        return ToolCallGate(self.client, SESSION, approval_timeout_s=0.01)

    def move_records(self, kind: str, place: int, notes: list[str]) -> str:
        """The tool: it writes down that it ran, and with what."""
        self.ran.append({"kind": kind, "place": place, "notes": list(notes)})
        if kind == "fails":
            raise ToolFailed
        return f"moved {place}"

    def open_thread(self) -> ScriptedThread:
        """A client for a framework without an event loop, each time on the same journal."""
        return ScriptedThread(self.exchange, self.folder / "thread")

    def answer_as_people(self) -> None:
        """From now on the persons that are asked have answered."""
        self.exchange.people_answer = True

    async def restart(self) -> None:
        """A new process on the same journal."""
        await self.client.close()
        self.client = ScriptedClient(self.exchange, self.folder / "journal")
        await self.client.start()

    def check(self, ran: frozenset[str] = RUNS) -> None:
        """No tool ran that was not allowed, none twice, each with exactly what was judged; and those of the
        kinds that may run did, and reported what they did."""
        places = [one["place"] for one in self.ran]
        names = {self.exchange.judged[name]["place"]: name for name in self.exchange.allowed}
        assert len(places) == len(set(places)), "a tool ran twice"
        for one in self.ran:
            assert one["place"] in names, f"{one['kind']} ran and was not allowed"
            name = names[one["place"]]
            assert one == self.exchange.judged[name], "other arguments than judged"
            outcome = self.exchange.outcomes[name]
            assert outcome.get("error") == ("ToolFailed" if one["kind"] == "fails" else None), outcome
        assert {call.arguments["place"] for call in self.calls if call.kind in ran} == set(places)
        assert len(self.exchange.outcomes) == len(places)

    @staticmethod
    def _make(number: int) -> ScriptedCall:
        kind = KINDS[number % len(KINDS)]
        notes = ["", "ü\u2028", '"quoted"', "1e999"][: number % 5]
        return ScriptedCall(f"call-{number}", kind, {"kind": kind, "place": number, "notes": notes})
