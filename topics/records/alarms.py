"""What an operator must see."""

from typing import Annotated, Literal

from pydantic import Field

from topics.records.base import Digest, Id, LedgerCount, LedgerRecord, Moment, Severity


class Alarm(LedgerRecord):
    """One alarm to a named recipient; an input of null: time alone raised it."""

    schema_name: Annotated[Literal["sluice/alarm/v1"], Field(alias="schema")]
    alarm_id: Id
    kind: Annotated[Literal["flag_only_overdue"], Field(description="flag-only outlived its window")]
    severity: Severity
    recipient: Annotated[str, Field(min_length=1)]
    subject: Annotated[Id, Field(description="the content class")]
    message: Annotated[str, Field(min_length=1)]
    since: Annotated[Moment, Field(description="when flag-only began")]
    overdue_since: Moment
    quality_bundle_id: Id
    quality_bundle_hash: Digest
    raised_at: Moment


class OutcomeAlarm(LedgerRecord):
    """An outcome that is not signed claims more rows than it may count: the session escalates until a signed
    one settles the action."""

    schema_name: Annotated[Literal["sluice/outcome_alarm/v1"], Field(alias="schema")]
    alarm_id: Id
    kind: Literal["outcome_disputed"]
    severity: Severity
    recipient: Annotated[str, Field(min_length=1)]
    subject: Annotated[Id, Field(description="the action_id")]
    message: Annotated[str, Field(min_length=1)]
    session_id: Id
    tenant_id: Id
    claimed: LedgerCount
    counted: Annotated[LedgerCount, Field(description="what the total holds for the action")]
    reported_by: Id
    raised_at: Moment
