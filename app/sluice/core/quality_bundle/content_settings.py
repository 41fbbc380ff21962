"""What a quality bundle says of the content of bodies (C08): outcomes by finding, and what a model judges."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sluice.core.foundation.content_judge import OFTENER, JudgeWhen
from sluice.core.foundation.strict import StrictModel
from sluice.core.quality_bundle.severity import OUTCOMES, is_milder
from sluice_topics.records.retrievals import QualityOutcome  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.relaxations import Scale, StricterWhen

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
ContentWeight = Literal["strong", "definite"]
ON_FINDING = Scale(OUTCOMES, "a {name} finding in a body at {holder}: {new} where it was {old}")


class ContentActions(StrictModel):
    """The outcome of an item whose body has a finding of this weight (C08). Inconclusive counts as strong."""

    strong: Annotated[QualityOutcome, ON_FINDING]
    definite: Annotated[QualityOutcome, ON_FINDING]

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if is_milder(self.definite, self.strong):
            raise ValueError("a definite finding is milder than a strong one")
        return self


class ContentByTier(StrictModel):
    """Content actions by tier. As shipped, an agent with more rights gets less of a doubtful text."""

    sandbox: ContentActions = ContentActions(strong="flag", definite="downgrade")
    bounded: ContentActions = ContentActions(strong="downgrade", definite="deny")
    high_privilege: ContentActions = ContentActions(strong="deny", definite="deny")


class ContentJudge(StrictModel):
    """When a model is asked about a body; "in_doubt": where the detectors found something weak or framed
    (quoted, reported), or could not read it all. It is not asked about a body that is not released anyway.

    Below a trust of `strong_below` an answer counts as a strong finding, below `definite_below` as a definite
    one, for `content_actions`. Of a request at most `most_items` bodies are asked about, together within
    `budget_ms`, and of each at most `most_characters` are shown. `on_failure`: what a body counts as that was
    not asked about for want of room, got no answer, or was not shown whole and not objected to."""

    judge: Annotated[JudgeWhen, Scale(OFTENER, "a model is asked about bodies {new}, not {old}")] = "off"
    strong_below: Annotated[
        Share,
        StricterWhen("higher", "a trust in a body counts as a strong finding below {new}, not below {old}"),
    ] = 0.7
    definite_below: Annotated[
        Share,
        StricterWhen("higher", "a trust in a body counts as a definite finding below {new}, not below {old}"),
    ] = 0.3
    most_items: Annotated[
        int,
        Field(ge=1, le=64),
        StricterWhen("higher", "a model is asked about {new} bodies of a request, not {old}"),
    ] = 8
    most_characters: Annotated[
        int,
        Field(ge=256, le=400_000),
        StricterWhen("higher", "a model is shown {new} characters of a body, not {old}"),
    ] = 16_000
    budget_ms: Annotated[
        int,
        Field(ge=1, le=600_000),
        StricterWhen("higher", "a model has {new} ms to answer about bodies, not {old}"),
    ] = 2_000
    on_failure: Annotated[
        Literal["strong", "ignore"],
        Scale(("ignore", "strong"), "a body of which the model gave no answer counts as a harmless one"),
    ] = "strong"

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.definite_below > self.strong_below:
            raise ValueError("definite_below is above strong_below")
        return self

    def idle_fields(self) -> frozenset[str]:
        """Everything, where no model is asked; the bounds, where an answer that is missing withholds."""
        if self.judge == "off":
            return frozenset(type(self).model_fields)
        bounds = frozenset({"most_items", "most_characters", "budget_ms"})
        return bounds if self.on_failure == "strong" else frozenset()
