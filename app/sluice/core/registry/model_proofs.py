"""Proof that a hosted model judges well and fast enough: a registry entry, made by `sluice grader prove`.

Swapping the grader's model requires one (seed 000, "Performance contract"). The entry's id is the model's
name as its server says it, so a server that answers with another model than the one asked has no proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from sluice.core.foundation.prompts import Share  # noqa: TC001 - pydantic reads the annotations
from sluice.core.foundation.strict import Instant, StrictModel
from sluice.core.registry.registry_entries import Entry
from sluice_topics.records.base import Digest  # noqa: TC001 - as above
from sluice_topics.relaxations import StricterWhen, Unordered

if TYPE_CHECKING:
    from collections.abc import Mapping


class ModelProofSpec(StrictModel):
    """What a model made of the golden set. `golden`: the digest of its cases. `prompts`: by the port, the
    version of the prompt that was asked. `agreement`: the share of the cases on which the model and the set
    agree; `flips`: the cases that it passed and should have refused, or the other way round. `p99_ms`: of its
    answers. `active` false withdraws it."""

    golden: Digest
    prompts: Annotated[dict[str, str], Field(min_length=1, max_length=16)]
    cases: Annotated[int, Field(ge=1, le=100_000)]
    agreement: Share
    flips: Annotated[int, Field(ge=0, le=100_000)]
    p50_ms: Annotated[float, Field(ge=0, le=3_600_000)]
    p99_ms: Annotated[float, Field(ge=0, le=3_600_000)]
    proved_at: Instant
    active: bool = True


@dataclass(frozen=True, slots=True)
class ModelProof(Entry):
    """A proof in force."""

    golden: str
    prompts: Mapping[str, str]
    agreement: float
    p99_ms: float


SHOWS_LESS = "the proof that a model needs shows less, or is not required"


class ProofPolicy(StrictModel):
    """What a model's proof must show for its answers to count. `required` false: answers count without one.
    `golden`: the digest of the set that counts; null: of any."""

    required: Annotated[bool, StricterWhen("true", SHOWS_LESS)] = True
    least_agreement: Annotated[Share, StricterWhen("higher", SHOWS_LESS)] = 0.9
    most_p99_ms: Annotated[float, Field(gt=0, le=3_600_000), StricterWhen("lower", SHOWS_LESS)] = 200.0
    golden: Annotated[Digest | None, Unordered(SHOWS_LESS, null_allows_all=True)] = None

    def idle_fields(self) -> frozenset[str]:
        """Everything, where no proof is needed."""
        return frozenset() if self.required else frozenset(type(self).model_fields)

    def objection(self, proof: ModelProof | None, port: str, prompt_version: str) -> str | None:
        """Why a model's answer at a port does not count; None: it does."""
        if not self.required:
            return None
        if proof is None:
            return "it has no proof in force"
        description = f"it agreed on {proof.agreement:.3f} of the set, {self.least_agreement:g} is the least"
        objections = (
            (proof.prompts.get(port) != prompt_version, "it was proved with another prompt"),
            (self.golden not in {None, proof.golden}, "it was proved with another golden set"),
            (proof.agreement < self.least_agreement, description),
            (proof.p99_ms > self.most_p99_ms, f"its p99 was {proof.p99_ms:g} ms, not {self.most_p99_ms:g}"),
        )
        return next((why for holds, why in objections if holds), None)
