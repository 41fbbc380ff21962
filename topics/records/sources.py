"""What is known of a memory source, across sessions: feedback, and the history that its owner folds of it."""

from typing import Annotated, Literal

from pydantic import Field

from topics.records.base import Id, Moment, Record
from topics.records.memory import SourceType, Whole


class SourceFeedback(Record):
    """One thing learnt of a source; key of the message: `source_key`, whose partition's owner folds it."""

    schema_name: Annotated[Literal["sluice/source_feedback/v1"], Field(alias="schema")]
    tenant_id: Id
    source_id: Id
    type: SourceType
    verdict: Annotated[
        Literal["seen", "positive", "negative"], Field(description="seen: its first write in a session")
    ]
    memory_id: Id
    decided_at: Moment


class SourceHistory(Record):
    """A source's reviews so far; the newest record under its key counts."""

    schema_name: Annotated[Literal["sluice/source_history/v1"], Field(alias="schema")]
    tenant_id: Id
    source_id: Id
    type: Annotated[SourceType, Field(description="as first seen")]
    positive: Whole
    negative: Whole
    revision: Annotated[int, Field(ge=1)]
    decided_at: Moment
