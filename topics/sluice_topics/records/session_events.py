"""What follows from inputs beside decisions: changes of a session's totals, refusals, dead letters."""

from typing import Annotated, Literal

from pydantic import Field

from sluice_topics.records.base import Id, LedgerCount, LedgerRecord, Moment, Record
from sluice_topics.records.verdicts import Totals


class SessionFolded(LedgerRecord):
    """An idle session left the state; its last totals stay here."""

    schema_name: Annotated[Literal["sluice/session_folded/v1"], Field(alias="schema")]
    session_id: Id
    tenants: Annotated[dict[str, Totals], Field(description="tenant to totals")]
    opened_at: Moment
    last_at: Moment
    reason: Annotated[str, Field(min_length=1)]


class ReservationSettled(LedgerRecord):
    """An outcome replaced an action's reserved rows by those it really touched."""

    schema_name: Annotated[Literal["sluice/reservation_settled/v1"], Field(alias="schema")]
    outcome_id: Id
    action_id: Id
    session_id: Id
    tenant_id: Id
    reserved: LedgerCount
    actual: LedgerCount
    aggregate_rows_affected: Annotated[
        LedgerCount, Field(alias="aggregateRowsAffected", description="the total after settling")
    ]
    counted: Annotated[LedgerCount, Field(description="what the total holds for the action from now on")]
    lowered: Annotated[bool, Field(description="the total went below the reservation")]
    signed: Annotated[bool, Field(description="by an enforcement point, for this very action")]
    disputed: Annotated[
        bool, Field(description="`actual` is more than an outcome that is not signed may count")
    ]
    early: Annotated[bool, Field(description="the outcome came before its action")]
    reported_by: Id


class InputRefused(LedgerRecord):
    """A readable input that names an unknown or impossible subject: it changed nothing."""

    schema_name: Annotated[Literal["sluice/input_refused/v1"], Field(alias="schema")]
    refusal_id: Id
    topic: Id
    session_id: Id | None = None
    subject: Annotated[str | None, Field(description="id of what the input was about")] = None
    reason: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    message: str


class DeadLetter(LedgerRecord):
    """An input that could not be read, verbatim up to a bound, with the place of its first error."""

    schema_name: Annotated[Literal["sluice/dead_letter/v1"], Field(alias="schema")]
    dead_letter_id: Id
    topic: Id
    code: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    path: Annotated[str, Field(pattern=r"^\$", description="JSON path of the error")]
    message: str
    key: Annotated[str | None, Field(description="the message's key, base64")] = None
    ids: Annotated[
        dict[str, Id] | None,
        Field(description="the ids that could be read in it, as it claims them; null: none were looked for"),
    ] = None
    value_base64: str
    value_size: Annotated[int, Field(ge=0, description="bytes of the whole value")]
    truncated: bool


_Whole = Annotated[int, Field(ge=0)]
_Print = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", description="a value's salted fingerprint, hex")]


class DestinationUsed(Record):
    """Destinations of an action that was carried out, known by the registry or a mandate, and those that a
    person's answer makes known; key of the message: [tenant_id, agent_id], whose partition's owner counts
    them."""

    schema_name: Annotated[Literal["sluice/destination_used/v1"], Field(alias="schema")]
    tenant_id: Id
    agent_id: Id
    tool: Id
    used: Annotated[
        dict[Literal["destination", "object"], Annotated[list[_Print], Field(max_length=64)]],
        Field(description="fingerprints by role"),
    ]
    action_id: Id
    answered: Annotated[
        dict[Literal["destination", "object"], Annotated[list[_Print], Field(max_length=64)]] | None,
        Field(description="fingerprints by role that are known until `known_until`; absent: none"),
    ] = None
    known_until: Annotated[_Whole | None, Field(description="ms since 1970, by the approver's answer")] = None
    answered_at: Annotated[
        _Whole | None, Field(description="broker time of that answer, ms since 1970; absent: `used_at`")
    ] = None
    used_at: Annotated[_Whole, Field(description="broker time of its outcome, ms since 1970")]
    decided_at: Moment


class UsualDestination(Record):
    """How often an agent used a destination; the newest record under its key counts. Key: [tenant_id,
    agent_id, tool, role, fingerprint]."""

    schema_name: Annotated[Literal["sluice/usual_destination/v1"], Field(alias="schema")]
    tenant_id: Id
    agent_id: Id
    tool: Id
    role: Literal["destination", "object"]
    fingerprint: _Print
    first_at: Annotated[_Whole, Field(description="ms since 1970")]
    last_at: Annotated[_Whole, Field(description="ms since 1970")]
    times: Annotated[
        _Whole, Field(description="0: only a person's answer makes it known, or it made room for another")
    ]
    days: Annotated[_Whole, Field(description="different days, UTC, on which it was used")]
    revision: Annotated[int, Field(ge=1)]
    answered_at: Annotated[_Whole | None, Field(description="of the newest answer, ms since 1970")] = None
    known_until: Annotated[_Whole | None, Field(description="by that answer; absent: there is none")] = None
    decided_at: Moment
