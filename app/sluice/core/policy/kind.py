"""What the core says of one kind of input, in one row. sluice/core/decide/kinds.py is the table of the rows.

The packages that decide on a kind own its row: action_kinds.py, memory_kinds.py, retrieval_kinds.py. Who asks
which kinds there are, which record answers one, or how one is named, asks the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from sluice_topics.catalog import get_wire_schema
from sluice_topics.records.base import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.foundation.strict import StrictModel
    from sluice.core.policy.policy import PointParts
    from sluice.core.state.decision import Decision, Shared
    from sluice.core.state.session import SessionState

M = TypeVar("M", bound=Record)
Path = tuple[str, ...]
"""Names of fields, each inside the one before it."""


@dataclass(frozen=True, slots=True)
class DecisionKind(Generic[M]):
    """A record that decides on its input, so that it can be executed again.

    `word` names it in results of reruns, `singular` and `plural` in sentences. `id_of` makes its id of the
    input's coordinates (of several records the first one's). `read_field` is null if the input was not
    read. `rerun_fields`: what its `rerun_hash` is over, in this order.

    `judge_again` gives the record again, on what the recorded one (the last argument) says was seen of state;
    `fault_again` the same where the core raises once more, from the input's dead letter. `kept_no_answers`:
    whether the recorded decision may have got answers that it did not keep.
    """

    word: str
    singular: str
    plural: str
    id_of: Callable[[str], str]
    read_field: str
    rerun_fields: tuple[str, ...]
    judge_again: Callable[
        [PointParts, InputRecord, M, Mapping[str, Any]], OutRecord | Generator[Request, Answer, OutRecord]
    ]
    fault_again: Callable[[PointParts, InputRecord, M, Mapping[str, Any], OutRecord], Decision]
    kept_no_answers: Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class AnswerKind(Generic[M]):
    """The record that answers an input of a kind.

    `topic` is the base name of its topic, `id_field` holds its id. `of_session`: where it says what it took
    from its session. `decision`: None for a record that only tells what was counted.
    """

    model: type[Record]
    topic: str
    id_field: str
    of_session: tuple[Path, ...] = ()
    decision: DecisionKind[M] | None = None

    @property
    def schema(self) -> str:
        """Its `schema`."""
        return get_wire_schema(self.model) or ""


class CaseKind(NamedTuple):
    """How labelled inputs of a kind are given.

    `model` is the model of a bundle's own case, and `field` its field with the input. `row` is the `kind` of
    such an input in the files of `sluice evaluate`.
    """

    model: type[StrictModel]
    field: str
    row: str


@dataclass(frozen=True, slots=True)
class Kind(Generic[M]):
    """One kind of input.

    `topic` is the base name of its topic, `model` its record. `key` gives the message key that it must have;
    `session` and `subject` are the fields that name its session (None: it belongs to none) and the input
    itself. `marked_by`: the field by which a line of a file is told to be of this kind; None: by no other
    kind's. `touches`: it is a sign of life of its session even where nothing is counted.

    `evaluate` decides on it: at once, or as a generator where somebody is asked. `unread` denies an input
    that nobody looks into, `fault` one that made the core raise, each with its dead letter; where there is
    none, the input is refused. `by_stages`: before its last pause `evaluate` looks at nothing that several
    sessions share.
    """

    name: str
    topic: str
    model: type[M]
    key: Callable[[M], str]
    subject: str
    evaluate: Callable[
        [PointParts, InputRecord, M, SessionState, Shared], Decision | Generator[Request, Answer, Decision]
    ]
    session: str | None = "session_id"
    marked_by: str | None = None
    touches: bool = False
    unread: Callable[[PointParts, InputRecord, OutRecord], Decision] | None = None
    fault: Callable[[PointParts, InputRecord, M, SessionState, OutRecord], Decision] | None = None
    answer: AnswerKind[M] | None = None
    case: CaseKind | None = None
    signer: str | None = None
    by_stages: bool = False

    def subject_of(self, message: M) -> str:
        """What an input of this kind is about: the id that its sender gave it."""
        return str(getattr(message, self.subject))

    def session_of(self, message: M) -> str | None:
        """The session of an input of this kind."""
        return None if self.session is None else str(getattr(message, self.session))


AnyKind = Kind[Any]
