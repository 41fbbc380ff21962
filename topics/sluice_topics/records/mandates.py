"""What a person or an orchestrator asked an agent to do in a session, and what the gate keeps of it."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sluice_topics.records.base import Digest, Id, LedgerRecord, Moment, Record, counts, ignore

LONGEST_TASK = 2048
LONGEST_CONDITION = 1024
MOST_TOOLS = 32
MOST_PARENTS = 3
MOST_DESTINATIONS = 64
MOST_VALUES = 16
MOST_CALLS = 1_000_000
SlotName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
SlotValue = Annotated[str, Field(max_length=512)]
KeyId = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="hex SHA-256 of the public key")]
_NARROWS = counts(
    "under the signature of a registered issuer; it only narrows: what registry and bundle forbid stays so"
)


class MandatedTool(Record):
    """A tool that the task needs: for calls of which `condition` holds (CEL over the action, docs/rules.md;
    null: every call), `count` calls at most (null: any number)."""

    tool: Annotated[Id, _NARROWS]
    condition: Annotated[str | None, Field(min_length=1, max_length=LONGEST_CONDITION), _NARROWS] = None
    count: Annotated[int | None, Field(ge=1, le=MOST_CALLS), _NARROWS] = None


class TaskTemplate(Record):
    """A registry entry of the kind `task`, and a value for each of its slots."""

    id: Annotated[Id, _NARROWS]
    values: Annotated[dict[SlotName, SlotValue], Field(max_length=MOST_VALUES), _NARROWS] = Field(
        default_factory=dict
    )


class SignedMandate(Record):
    """All that an issuer signs of a mandate (docs/mandates.md)."""

    mandate_id: Annotated[Id, ignore("the issuer's name for it; its digest is what actions and others name")]
    session_id: Annotated[Id, counts("it must be the message's key; the mandate counts in no other session")]
    agent_id: Annotated[Id, counts("names the registered agent; the mandate counts for no other agent")]
    issuer_id: Annotated[
        Id, counts("names the registered issuer, of the agent's tenant, whose key the signature must fit")
    ]
    key_id: Annotated[KeyId, counts("names which of the issuer's registered keys the signature must fit")]
    task: Annotated[str | None, Field(min_length=1, max_length=LONGEST_TASK), _NARROWS] = None
    task_hash: Annotated[
        Digest | None,
        Field(description="SHA-256 of the task's text, UTF-8; absent: that of `task`"),
        _NARROWS,
    ] = None
    tools: Annotated[
        list[MandatedTool] | None, Field(max_length=MOST_TOOLS, description="null: every tool"), _NARROWS
    ] = None
    destinations: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=512)]],
        Field(max_length=MOST_DESTINATIONS, description="addresses, accounts, paths that the task names"),
        _NARROWS,
    ] = Field(default_factory=list)
    until: Annotated[Moment, Field(description="it counts before this broker time"), _NARROWS]
    parent: Annotated[
        Digest | None, Field(description="the digest of the mandate within which this one lies"), _NARROWS
    ] = None
    template: Annotated[TaskTemplate | None, _NARROWS] = None
    signature: Annotated[
        str,
        Field(
            max_length=128,
            description="Ed25519 over the RFC 8785 form of the mandate without it and `parents`, base64",
        ),
        _NARROWS,
    ]

    @model_validator(mode="after")
    def _check_task(self) -> Self:
        if self.template is None and self.task is None and self.task_hash is None:
            raise ValueError("give the task, its hash or a template")
        if self.template is not None and self.tools is not None:
            raise ValueError("the template says the tools")
        return self


class TaskMandate(SignedMandate):
    """What an agent was asked to do in a session; key of the message: session_id."""

    parents: Annotated[
        list[SignedMandate] | None,
        Field(
            min_length=1,
            max_length=MOST_PARENTS,
            description="the mandates above it, the root's first, the one that `parent` names last",
        ),
        counts("each must be signed by an issuer of the tenant, and each lies within the one before it"),
    ] = None


class ScopeSeen(Record):
    """What one mandate of a chain lets an agent do. `tools` null: every tool; `values`: of the slots of its
    template, absent without one; `until_ms`: as MandateSeen has it, absent in the mandate's own scope."""

    digest: Digest
    agent_id: Id
    issuer_id: Id
    key_id: KeyId
    tools: list[MandatedTool] | None
    destinations: list[str]
    values: dict[str, str] | None = None
    until_ms: Annotated[int | None, Field(ge=0)] = None


class MandateSeen(Record):
    """A mandate as the gate keeps it in the session, and so as decisions rest on it."""

    digest: Digest
    task: str | None = None
    task_hash: Digest
    until_ms: Annotated[int, Field(ge=0, description="it counts before this broker time, ms since 1970")]
    scopes: Annotated[
        list[ScopeSeen],
        Field(min_length=1, description="its own, then those of the mandates above it, the nearest first"),
    ]
    entries: Annotated[dict[str, Digest], Field(description="kind/id@revision to hash of what it rests on")]
    void: Annotated[
        str | None,
        Field(
            description=(
                "why it no longer counted when an action named it, though its time was not over by the "
                "action's own; absent: it counted"
            )
        ),
    ] = None
    used_by_others: Annotated[
        dict[Digest, dict[str, int]] | None,
        Field(
            description=(
                "what other agents had used in the session of the counts of its scopes: by digest and by "
                '"0.place" of the tool how many calls; absent: nothing'
            )
        ),
    ] = None


class MandateRecorded(LedgerRecord):
    """A mandate that counts in its session from here on."""

    schema_name: Annotated[Literal["sluice/mandate_recorded/v1"], Field(alias="schema")]
    mandate_event_id: Id
    mandate_id: Id
    session_id: Id
    agent_id: Id
    tenant_id: Id
    mandate: MandateSeen
    registry_hashes: Annotated[dict[str, Digest], Field(description="kind/id@revision to hash")]
