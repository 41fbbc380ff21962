"""What every pattern of Gate 1 says about itself, whatever it is a pattern of."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.core.foundation.strict import StrictModel
from topics.records.base import Severity  # noqa: TC001 - pydantic reads the annotations

Text = Annotated[str, Field(min_length=1, max_length=256)]
Expression = Annotated[str, Field(min_length=1, max_length=4096)]


class Described(StrictModel):
    """`severity`: critical blocks, warn escalates, info is only listed. `source`: whose knowledge it is."""

    id: Text
    reason: Text
    severity: Severity
    source: Text
