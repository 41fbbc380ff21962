"""Registry entries behind mandates: who may issue one, templates of tasks, and mandates that are revoked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from sluice.core.foundation.strict import StrictModel
from sluice.core.registry.agent_keys import AgentKeyList  # noqa: TC001 - pydantic reads the annotations
from sluice.core.registry.registry_entries import Entry, Name, OfTenant
from sluice_topics.records.mandates import (
    LONGEST_CONDITION,
    LONGEST_TASK,
    MOST_CALLS,
    MOST_DESTINATIONS,
    MOST_TOOLS,
    MOST_VALUES,
    SlotName,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.registry.agent_keys import AgentKey

MandateNeed = Literal["not_needed", "counted", "needed"]
"""Whether an action needs a mandate, the mildest first. "counted": only one that is there counts."""
_SLOT = re.compile(r"\{([a-z][a-z0-9_]{0,63})\}")


class IssuerSpec(OfTenant):
    """Who may say what agents of a tenant are asked to do: a person's program, or an orchestrator. `keys` are
    like those of an agent; a key with which an agent's inputs may be signed issues nothing. `agents`: those
    that it may mandate; null: every agent of the tenant. An empty list ends all of its mandates. `tasks`: the
    templates by which alone it may issue; null: it may say the tools itself. It is looked at when a mandate
    is recorded."""

    keys: AgentKeyList
    agents: Annotated[list[Name], Field(max_length=1024)] | None = None
    tasks: Annotated[list[Name], Field(max_length=1024)] | None = None


class TemplateTool(StrictModel):
    """A tool of a template, as in a mandate: `condition` is CEL over the action, in which
    `mandate.values.SLOT` is the value of a slot; null: every call. `count`: calls at most; null: any
    number."""

    tool: Name
    condition: Annotated[str, Field(min_length=1, max_length=LONGEST_CONDITION)] | None = None
    count: Annotated[int, Field(ge=1, le=MOST_CALLS)] | None = None


class TaskSlot(StrictModel):
    """What an issuer fills in. With `destination` the value is one that the task names; `choices`: the values
    that there are; null: any text."""

    name: SlotName
    destination: bool = False
    choices: Annotated[list[Name], Field(min_length=1, max_length=64)] | None = None


class TaskSpec(OfTenant):
    """A template of tasks: an issuer sends its id and a value for each slot. `task`: the text, in which
    "{slot}" stands for a value. `tools` are all that the task may use. `destinations`: what it always
    names."""

    task: Annotated[str, Field(min_length=1, max_length=LONGEST_TASK)]
    tools: Annotated[list[TemplateTool], Field(max_length=MOST_TOOLS)]
    destinations: Annotated[list[Name], Field(max_length=MOST_DESTINATIONS)] = Field(default_factory=list)
    slots: Annotated[list[TaskSlot], Field(max_length=MOST_VALUES)] = Field(default_factory=list)
    active: bool = True

    @model_validator(mode="after")
    def _check_slots(self) -> Self:
        names = [slot.name for slot in self.slots]
        if len(set(names)) != len(names):
            raise ValueError("two slots have the same name")
        strange = set(_SLOT.findall(self.task)) - set(names)
        if strange:
            raise ValueError(f"the text names slots that are not there: {', '.join(sorted(strange))}")
        return self


class MandateRevocationSpec(OfTenant):
    """A mandate counts no longer, nor does any within it; the entry's id is the mandate's digest
    ("sha256:..."). Nothing brings it back: issue another."""

    reason: Name


@dataclass(frozen=True, slots=True)
class Issuer(Entry):
    """A registered issuer. `agents` None: every agent of the tenant; `tasks` None: with and without any
    template."""

    tenant: str
    keys: tuple[AgentKey, ...]
    agents: frozenset[str] | None
    tasks: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class RegisteredTask(Entry):
    """A template in force."""

    tenant: str
    spec: TaskSpec

    def object_to(self, values: Mapping[str, str]) -> str | None:
        """Why these values do not fill the slots; None if they do."""
        names = {task_slot.name for task_slot in self.spec.slots}
        if names != values.keys():
            return f"there are values of {sorted(values)}, the slots are {sorted(names)}"
        for slot in self.spec.slots:
            if slot.choices is not None and values[slot.name] not in slot.choices:
                return f"{slot.name} is none of its choices"
        return None

    def write_task(self, values: Mapping[str, str]) -> str:
        """The task's text with the values in their places."""
        return _SLOT.sub(lambda match: values[match[1]], self.spec.task)

    def list_destinations(self, values: Mapping[str, str]) -> list[str]:
        """What the task names with these values."""
        return [*self.spec.destinations, *(values[slot.name] for slot in self.spec.slots if slot.destination)]


@dataclass(frozen=True, slots=True)
class MandateRevocation(Entry):
    """A revocation in force; its id is the mandate's digest."""

    tenant: str
    reason: str
