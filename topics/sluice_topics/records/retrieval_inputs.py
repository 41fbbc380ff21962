"""What an agent wants to read, and what a store says that it returned."""

from typing import Annotated, Any

from pydantic import Field

from sluice_topics.records.base import FOR_PEOPLE, Id, Record, counts, tightens
from sluice_topics.records.retrievals import AutonomyTier

MAX_ITEMS = 1000


class RetrievedItem(Record):
    """One item that a store found. The quality fields are optional to the reader, whatever they hold: what is
    absent or malformed fails its dimension (seed 004, "Quality scores not produced upstream")."""

    item_id: Annotated[Id, counts("what known-bad entries and signed overrides name")]
    content_class: Annotated[
        Any,
        Field(description="the class whose time to live and minimum hold"),
        counts(
            "names the bundle's limits for the class; a class that the bundle does not name is treated at "
            "least as strictly as any that it names"
        ),
    ] = None
    timestamp: Annotated[
        Any,
        Field(description="RFC 3339: of the content, as captured at write time"),
        counts("at most the class's time to live old, and not in the future (seed 004)"),
    ] = None
    confidence_score: Annotated[
        Any,
        Field(description="0 to 1, the upstream pipeline's"),
        counts("at least the class's minimum (seed 004)"),
    ] = None
    provenance_uri: Annotated[
        Any,
        Field(description="an external, resolvable reference"),
        counts("only a registry entry or a recorded resolution of it verifies it"),
    ] = None
    provenance_hash: Annotated[
        Any,
        Field(description="sha256:<hex> of the source"),
        counts("only the recorded hash of the reference verifies it; a wrong one fails"),
    ] = None
    freshness_assertion: Annotated[
        Any,
        Field(
            description="RFC 3339, in place of the timestamp; or {asserted_at, signature}, by the key of the "
            "source that the provenance_uri names, over both, the uri and the hash"
        ),
        counts(
            "replaces the timestamp under the same limits (seed 004); a signed one counts under the "
            "source's key"
        ),
    ] = None
    body: Annotated[
        Any,
        Field(description="a text, or other JSON; absent: only metadata"),
        counts("what the content check reads before it is served"),
    ] = None


class ProposedRetrieval(Record):
    """Items that an agent is about to read; key of the message: session_id."""

    request_id: Annotated[
        Id, counts("a store's report of this retrieval names it; no outcome follows from it")
    ]
    agent_id: Annotated[Id, counts("names the registered agent; an unregistered agent reads nothing")]
    session_id: Annotated[Id, counts("it must be the message's key; flags of what is served are kept for it")]
    items: Annotated[
        list[RetrievedItem],
        Field(fail_fast=True, min_length=1, max_length=MAX_ITEMS),
        counts("each is judged by itself, field by field, as below"),
    ]
    trace_id: Annotated[Id | None, Field(alias="traceId"), FOR_PEOPLE] = None
    tool_name: Annotated[
        Id | None,
        Field(alias="toolName", description="what the items are for"),
        counts(
            "a longer time to live for the tool applies only if the tool is registered and the agent may use "
            "it; a shorter one always applies"
        ),
    ] = None
    tool_category: Annotated[
        Id | None,
        Field(description="of the tool that acts on what is read"),
        tightens(
            "a denied item of a high-impact category opens an escalation at high_privilege; no "
            "outcome changes"
        ),
    ] = None
    autonomy_tier: Annotated[
        AutonomyTier | None,
        Field(description="the stricter of this and the agent's registered one counts"),
        tightens(
            "the stricter of this and the agent's registered one; without a registered one, high_privilege"
        ),
    ] = None


_COVERAGE = counts("only the coverage figure follows from it; no outcome does")


class RetrievalReport(Record):
    """What a store says it really returned, for the coverage figure; key of the message: session_id."""

    report_id: Annotated[Id, _COVERAGE]
    request_id: Annotated[Id, _COVERAGE]
    agent_id: Annotated[Id, _COVERAGE]
    session_id: Annotated[Id, _COVERAGE]
    items: Annotated[list[Id], Field(fail_fast=True, min_length=1, max_length=MAX_ITEMS), _COVERAGE]
    reported_by: Annotated[Id, _COVERAGE]
    autonomy_tier: Annotated[AutonomyTier | None, _COVERAGE] = None
