"""Attack: have somebody else's sealed value opened, by copying its token from a topic.

A token lies on topics that many read. Whoever puts it into an input of its own may hope that a rule, a model
or a page of its own bundle sees what is in it, or that a gate writes it plain. The control is the token in
the input for which it was sealed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from load.attacks.attempt import AttackedSession, Attempt
from sluice.core.decide.replay import Replay
from sluice.core.foundation.sealed_input import Keys, find_keys
from sluice_topics.sealing import SubjectKey, seal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.attacks.attempt import Extent
    from sluice.core.foundation.chain import OutRecord

KEY = SubjectKey("0a" * 16, bytes(range(64)), "acme")
SECRET = "Quixotia Zebrawood"  # noqa: S105 - a person's name
TOKEN = seal(KEY, SECRET, "action", ("parameters", "name"))
OTHER_PLACES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("at another place", {"other": TOKEN}),
    ("deeper", {"name": {"name": TOKEN}}),
    ("in a list", {"name": [TOKEN]}),
    ("with its end cut off", {"name": TOKEN[:-4]}),
    ("under another key's id", {"name": TOKEN.replace("0a", "0b")}),
    ("under two keys' ids", {"name": TOKEN.replace(":1:", f":1:{KEY.id}+")}),
)
TEXTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("within a text", {"name": f"see {TOKEN}"}),
    ("as a name", {TOKEN: 1}),
)


def run(extent: Extent) -> Iterator[Attempt]:
    """By every agent, at every place."""
    session = AttackedSession("copied")
    session.replay = Replay(session.replay.point, lambda request: find_keys(Keys({KEY.id: KEY}), request))
    records = _propose(session, "honest", {"name": TOKEN})
    decided = any(record.kind == "Verdict" for record in records)
    yield Attempt("the token where it belongs", decided, _list_kinds(records), harmless=True)
    rivals = [f"rival-{number}" for number in range(2 if extent == "short" else 12)]
    for agent in (*rivals, "unheard-of"):
        yield _refuse(session, agent, f"copied by {agent}, of another tenant", {"name": TOKEN})
    for where, parameters in OTHER_PLACES:
        yield _refuse(session, "honest", where, parameters)
    for where, parameters in TEXTS:
        records = _propose(session, "honest", parameters)
        yield Attempt(f"the token {where}", not _shows(records), _list_kinds(records))


def _refuse(session: AttackedSession, agent: str, tried: str, parameters: dict[str, Any]) -> Attempt:
    """It must be denied unread."""
    records = _propose(session, agent, parameters)
    is_denied = [record.kind for record in records] == ["DeadLetter"] and not _shows(records)
    return Attempt(f"the token {tried}", is_denied, _list_kinds(records))


def _propose(session: AttackedSession, agent: str, parameters: dict[str, Any]) -> list[OutRecord]:
    session.now += 1
    record = session.action(f"a-{session.now}", 0, agent, parameters=parameters)
    return session.replay.take(record).records


def _shows(records: list[OutRecord]) -> bool:
    return any(word in str(record.body) for record in records for word in SECRET.split())


def _list_kinds(records: list[OutRecord]) -> str:
    return ", ".join(str(record.body.get("code") or record.kind) for record in records)
