"""What a client returns: the gate's answers, and errors that name the gate, its reason and what to do.

Every answer has the whole record in `record`, by wire names; its other fields are those that callers need
most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


MOST_ROWS = 2**53 - 1
"""The largest number that every reader of JSON reads exactly."""


NOT_RETURNED: Any = object()
"""In place of a tool's result, where nobody says what it is."""


@dataclass(frozen=True, slots=True)
class InputLocation:
    """Where the broker put an input: its partition and offset, and the broker's time."""

    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ActionAnswer:
    """The decision on an action.

    `gate` and `reason` say why it is not allowed; both are None if it is. `duplicate_of` is the verdict of
    the first input of this action. `input` holds the coordinates that a signed outcome names.
    """

    verdict: Literal["allowed", "denied", "needs_human"]
    verdict_id: str
    gate: str | None
    reason: str | None
    tier: str | None
    escalation_id: str | None
    duplicate_of: str | None
    obligations: tuple[str, ...]
    rows_reserved: int
    input: Mapping[str, Any]
    record: Mapping[str, Any]

    @property
    def allowed(self) -> bool:
        """Whether the action may be carried out."""
        return self.verdict == "allowed"

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> ActionAnswer:
        """Read a record of gate.verdicts."""
        waits_or_denied = record["verdict"] != "allowed"
        failed = [
            result["gate"] for result in record["gateResults"] if waits_or_denied and not result["passed"]
        ]
        return cls(
            record["verdict"],
            record["verdict_id"],
            failed[0] if failed else None,
            record["blockReason"],
            record["tier"],
            record["escalationId"],
            record["duplicate_of"],
            tuple(record["obligations"]),
            int(record["rows_reserved"]),
            record["input"],
            record,
        )


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """The decision on a memory write. `trust` is the total of its score, 0 to 1; None if there is no
    score."""

    action: Literal["allow", "quarantine", "reject"]
    memory_id: str
    reason: str | None
    trust: float | None
    record: Mapping[str, Any]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> MemoryAnswer:
        """Read a record of gate.memory.decisions."""
        score = record["trustScore"]
        total = None if score is None else float(score["total"])
        return cls(record["action"], record["memory_id"], record["reason"], total, record)


@dataclass(frozen=True, slots=True)
class RetrievalAnswer:
    """What the agent may read: `items` with bodies and flags, and `withheld` ones with their reasons."""

    items: tuple[Mapping[str, Any], ...]
    withheld: tuple[Mapping[str, Any], ...]
    record: Mapping[str, Any]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> RetrievalAnswer:
        """Read a record of gate.memory.retrievals.served."""
        return cls(tuple(record["items"]), tuple(record["withheld"]), record)


class Permit:
    """The permission to run a tool once. Run it with `parameters`: they are read from the bytes that were
    judged. `narrowed`: whether an approver replaced the proposed ones.

    Set `rows_affected` to the rows that the tool really touched; they are reported. If it is None, the rows
    that the gate reserved are reported. Set `result` to what the tool returned: a client with a `values_key`
    reports the fingerprints of the values in it, and never the content.
    """

    __slots__ = ("_rows", "action_id", "narrowed", "parameters", "result", "session_id", "verdict")

    def __init__(
        self, verdict: ActionAnswer, parameters: Mapping[str, Any], *, narrowed: bool = False
    ) -> None:
        self.action_id: str = verdict.record["action_id"]
        self.session_id: str = verdict.record["session_id"]
        self.verdict = verdict
        self.parameters = parameters
        self.narrowed = narrowed
        self.result: Any = NOT_RETURNED
        self._rows: int | None = None

    @property
    def rows_affected(self) -> int | None:
        """What was set. Setting it raises ClientError for what is no count."""
        return self._rows

    @rows_affected.setter
    def rows_affected(self, rows: int | None) -> None:
        self._rows = None if rows is None else check_count(rows, "rows_affected")

    @property
    def rows(self) -> int:
        """Rows to report."""
        return self.verdict.rows_reserved if self._rows is None else self._rows


class ClientError(Exception):
    """An input was not sent, or the caller cannot go on with its answer. `to_do` says what to do."""

    advice = "Do not repeat the call. You may go on without it, or tell the user"

    def __init__(self, message: str, to_do: str) -> None:
        super().__init__(f"{message}. {to_do}")
        self.message = message
        self.to_do = to_do

    @property
    def for_model(self) -> str:
        """The text that a model that called the tool should read: what happened, and what it may do now."""
        return f"{self.message}. The tool did not run. {self.advice}."


class BrokerUnreachable(ClientError, ConnectionError):
    """The client could not connect. Nothing was sent, and nothing is left open."""

    def __init__(self, servers: str, waited_s: float, what: str, error: Exception | None = None) -> None:
        detail = "" if error is None or isinstance(error, TimeoutError) else f" ({type(error).__name__})"
        super().__init__(
            f"no connection to the broker at {servers} within {waited_s:g} s: {what}{detail}",
            "Start it, or give its address: `sluice broker status`",
        )


class LoginRefused(BrokerUnreachable):
    """The broker refuses the login, or its certificate is not trusted. Nothing was sent, and nothing is left
    open."""

    def __init__(self, servers: str, reason: str) -> None:
        ClientError.__init__(
            self,
            f"no login at {servers}: {reason}",
            "Correct the KafkaConnection: its user, secret, token or CA",
        )


class ActionRefused(ClientError):
    """The gate decided, and the action may not be carried out now. `verdict` is the decision."""

    def __init__(self, verdict: ActionAnswer, to_do: str) -> None:
        gate = "" if verdict.gate is None else f" by {verdict.gate}"
        super().__init__(f"{verdict.verdict}{gate}: {verdict.reason}", to_do)
        self.verdict = verdict


class ActionDenied(ActionRefused):
    """The action may not be carried out."""

    @property
    def advice(self) -> str:  # type: ignore[override]
        """No other arguments help against a freeze, or against what the operator must change."""
        code = extract_code(self.verdict)
        if code in _LATE:
            return "The gate was late. You may call it once more, or tell the user"
        if self.verdict.gate == "controls" or code in _TO_DO:
            return "Do not repeat the call: no other arguments will help. You may tell the user"
        return _ADVICE


class NeedsHuman(ActionRefused):
    """A person must agree first; `verdict.escalation_id` is the id of the escalation."""

    advice = (
        "Do not repeat the call: a person must agree first. You may go on with what does not need it, or "
        "tell the user that it waits"
    )


class ActionNotDecided(ClientError):
    """No answer came in time, so the tool did not run. `may_still_come`: whether the gate may still decide.

    `location` is None if the broker did not confirm the input; the broker may or may not have it.
    """

    advice = "You may call it once more later, or tell the user that the gate does not answer"

    def __init__(
        self, subject: str, waited_s: float, location: InputLocation | None, *, may_still_come: bool
    ) -> None:
        where = (
            "the broker did not confirm it"
            if location is None
            else f"it is at {location.partition}:{location.offset}"
        )
        super().__init__(
            f"{subject}: no decision within {waited_s:g} s; {where}",
            "Call again with the same id: the gate answers what it decided the first time",
        )
        self.location = location
        self.may_still_come = may_still_come


class InputUnreadable(ClientError):
    """The worker could not read the input: `code`, `path` and `flaw` say what is wrong where."""

    advice = "Do not repeat the call. You may call it with another value at that place"

    def __init__(self, subject: str, dead_letter: Mapping[str, Any]) -> None:
        super().__init__(
            f"{subject}: {dead_letter['code']} at {dead_letter['path']}: {dead_letter['message']}",
            "Mend the record and send it under a new id",
        )
        self.code: str = dead_letter["code"]
        self.path: str = dead_letter["path"]
        self.flaw: str = dead_letter["message"]


class ActionInterrupted(ClientError):
    """The tool was started under this id before, and it is not known how far it came. It is not run again."""

    def __init__(self, action_id: str) -> None:
        super().__init__(
            f"{action_id}: its tool was started before, and the process ended before the tool did",
            "Look at what the tool has done; carry the rest out as an action of its own, under a new id",
        )
        self.action_id = action_id

    @property
    def for_model(self) -> str:
        """It is not known how far the tool came, so it is not said that it did not run."""
        return f"{self.message}. Do not repeat the call. You may look at what it has done, or tell the user."


class ActionStopped(ClientError):
    """A freeze stopped the tool while it ran, and it is not known how far it came. It is not run again."""

    def __init__(self, action_id: str, reason: str) -> None:
        super().__init__(
            f"{action_id}: {reason}. Its tool was stopped while it ran",
            "Look at what the tool has done; carry the rest out after the thaw, under a new id",
        )
        self.action_id = action_id

    @property
    def for_model(self) -> str:
        """It is not known how far the tool came, so it is not said that it did not run."""
        return f"{self.message}. Do not repeat the call. You may tell the user."


def check_count(rows: Any, name: str) -> int:
    """Rows that a record can hold. Raises ClientError that says what was wanted, and what `name` is."""
    if type(rows) is not int or not 0 <= rows <= MOST_ROWS:
        raise ClientError(
            f"{name}: wanted a whole number from 0 to {MOST_ROWS}, got {rows!r}",
            "Give the count, or None if it is not known",
        )
    return rows


_TO_DO = {
    "unregistered_tool": "Register the tool: `sluice registry sign` and `publish`",
    "unknown_agent": "Register the agent: `sluice registry sign` and `publish`",
    "unsigned_agent": "Sign with a key of the agent's registry entry: ClientOptions(agent_key=...)",
    "unknown_bundle": "Name a published bundle, or none",
    "bundle_not_granted": "Name the agent's own bundle, or none",
    "action_id_conflict": "Use a new action_id for each action; the same one is for the same bytes",
    "session_capacity": "Go on in a new session",
    "deadline_elapsed": "Propose it again with a longer deadline",
    "port_busy": "Propose it again later: more of the agent's questions wait than the model has room for",
    "chain_too_deep": "Shorten the chain of delegations",
    "internal_error": "Tell the operator: `sluice show` has the record",
}
_LATE = frozenset(("deadline_elapsed", "port_busy"))
"""Nobody objected: there was no time, or no room, to ask."""
_OTHERWISE = "Change what the gate objects to, or leave it; `sluice show` explains the decision"
_WAITS = "A person must agree first"
_ADVICE = (
    "Do not repeat the call. You may call it with arguments to which the gate does not object, reach the aim "
    "in another way, or tell the user what was denied and why"
)


def make_refusal(verdict: ActionAnswer) -> ActionRefused:
    """The error for a verdict that does not allow its action."""
    if verdict.verdict == "needs_human":
        return NeedsHuman(verdict, _TO_DO.get(extract_code(verdict), _WAITS))
    return ActionDenied(verdict, _TO_DO.get(extract_code(verdict), _OTHERWISE))


def extract_code(verdict: ActionAnswer) -> str:
    return (verdict.reason or "").partition(":")[0]
