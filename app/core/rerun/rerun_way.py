"""How decisions of one kind are executed again: what app/core/rerun/rerun.py asks of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.foundation.arrival import Arrival
    from app.core.rerun.recorded_answers import RecordedAnswers
    from app.core.rerun.rerun_evidence import Points
    from app.core.state.decision import Decision

    Execute = Callable[[Points, dict[str, Any], Arrival, RecordedAnswers], Decision]


@dataclass(frozen=True, slots=True)
class Way:
    """`record` is the kind of the record that answers the input, `id_field` holds its id, `fields` are those
    that its `rerun_hash` is over.

    `execute` decides again on a decision's input; it raises Gone, BundleError and RegistryError.
    `kept_no_answers`: whether the recorded decision may have got answers that it did not keep.
    """

    kind: str
    record: str
    id_field: str
    fields: tuple[str, ...]
    execute: Execute
    kept_no_answers: Callable[[dict[str, Any]], bool]
