"""An accepted loss: what two people agree may be missing from the policy that was in force.

It decides nothing by itself: a worker that misses something of the policy that it had in force last compares
its loss with these entries (sluice/core/trust/policy_contents.py). `sluice registry accept-loss` drafts one.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from sluice.core.foundation.strict import StrictModel
from sluice.core.registry.quality_entries import Reason  # noqa: TC001 - pydantic reads the annotations

MOST_LOST = 4096
"""Entries of one loss: more would not fit into a record of a control topic."""
Revision = Annotated[int, Field(ge=1, le=2**53 - 1)]
ShortHash = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class LostEntry(StrictModel):
    """One entry that is missing: "kind/id" (of a fact "fact/id@revision"), the revision that was in force and
    the first 32 hex digits of its hash, and what is in force in its place; null: nothing is."""

    entry: Annotated[str, Field(min_length=1, max_length=1024)]
    before: Revision
    before_hash: ShortHash
    now: Revision | None = None
    now_hash: ShortHash | None = None

    @model_validator(mode="after")
    def _check_whole(self) -> LostEntry:
        if (self.now is None) != (self.now_hash is None):
            raise ValueError("now and now_hash go together")
        return self


class PolicyLossSpec(StrictModel):
    """The loss that is accepted: exactly these entries, once. Two approvers sign it, and it names the
    installation that it is for. A worker that misses anything else, or the same again later, still stops.
    """

    reason: Reason
    lost: Annotated[list[LostEntry], Field(min_length=1, max_length=MOST_LOST)]
