"""What the core may need from outside: one Protocol for every port a stage can ask.

A stage never calls a port. It yields `sluice.core.foundation.requests.Request`; the stream shell awaits the
port named there and resumes the stage with the answer (sans-I/O, as in h11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sluice.core.foundation.requests import Asker


class PortUnavailable(Exception):
    """The port cannot answer now (down, no key, refused): the stage is inconclusive, no score is made up.

    Any other exception out of a port is an I/O fault and stops the worker.
    """


class PortBusy(Exception):
    """The port has more to do than it may hold of this asker: that never makes an outcome laxer."""


class Port(Protocol):
    """Something slow: an embedder, a grader, a provenance source."""

    async def ask(self, payload: object) -> object:
        """Answer one request with a JSON value, which is recorded in the verdict for rerun.

        Raises PortUnavailable and PortBusy. May be cancelled at its budget or when its partition is revoked.
        """


@runtime_checkable
class Persistent(Protocol):
    """A port that holds something: a connection, a process."""

    async def start(self) -> None:
        """Make it ready before the first question. Raises PortUnavailable; a question tries again."""

    async def close(self) -> None:
        """Give up what it holds."""


@runtime_checkable
class Cached(Protocol):
    """A port that remembers answers: whoever asks for one of them need not wait."""

    def recall(self, payload: object) -> object | None:
        """The answer to this request if it is at hand, else None. At once."""


@runtime_checkable
class Queued(Protocol):
    """A port that is asked within a turn, so that no asker can use up the room of others. The budget begins
    with the turn."""

    waits_in_queue: bool
    """Whether a question waits for its turn however long: then load makes answers late, and leaves no
    question without one. Else it waits as long as its budget."""

    def turn(self, payload: object, asker: Asker) -> AbstractAsyncContextManager[float]:
        """Wait for the turn to ask this; gives the seconds that it waited for others. Raises PortUnavailable
        and PortBusy. May be cancelled."""


class QueuedPort(Queued, Port, Protocol):
    """A port that is asked within a turn."""


@runtime_checkable
class Crowding(Protocol):
    """A port that does one thing after the other: what makes an answer late may be what else it was asked."""

    def is_crowded(self) -> bool:
        """Whether it is asked more than one thing now."""


class Known(NamedTuple):
    """What the last resolution of a reference left: so that its server need not send the same again.

    `etag` and `last_modified` as RFC 9110 writes them, None where the server's word for "unchanged" would not
    mean the same bytes.
    """

    hash: str
    size: int
    etag: str | None
    last_modified: str | None


Failure = Literal["lasting", "passing", "refused", "unasked"]


class ProvenanceAnswer(NamedTuple):
    """Where a reference leads: `resolution` of the bytes, None where they could not be had; then `detail`
    says why in at most 1,024 characters, none of them the server's own, and `failure` whether it will stay
    so.

    "lasting": what lies there cannot be had; "passing": a hiccup on the way; "refused": the rules let nobody
    be asked; "unasked": there was no room here to ask.
    """

    resolution: Known | None
    detail: str
    failure: Failure = "lasting"


class ProvenanceSource(Protocol):
    """Resolves references in the background and records the results. Decisions do not ask it; they read the
    records."""

    name: str
    """How it resolves them, for the record: http."""

    async def resolve(self, tenant: str, uri: str, previous: Known | None) -> ProvenanceAnswer:
        """Never raises for what a server does, and ends in bounded time. May be cancelled. `tenant`: for
        whom, where what can be asked at once is shared out."""


class AnalysisOff:
    """Answers every question at once with why there is no analysis."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def ask(self, payload: object) -> object:
        """The answer that the core reads as "off"."""
        return self.recall(payload)

    def recall(self, payload: object) -> object:
        """The answer that the core reads as "off", at once."""
        del payload
        return {"off": self._reason}
