"""Inputs with sealed values: opened before they are judged, and sealed again in what is written of them.

The core asks for the keys as it asks for everything from outside, by a request; whoever drives it answers
from what is at hand. Digests and signatures are those of the sealed bytes. What gates make of opened values
(details, reasons, models' answers) is sealed whole, under the keys of all persons in the input: so nobody
has to know what a gate quotes, and in which disguise. docs/decisions/0029-erasure.md
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.core.foundation.requests import Answer, Request
from sluice_topics.json_text import Unreadable, parse, write_json_path
from sluice_topics.record_reading import find_call
from sluice_topics.sealing import (
    ERASED,
    MOST_JOINED,
    SealError,
    SubjectKey,
    counts_for,
    find_key_ids,
    find_tokens,
    is_sealed,
    join_keys,
    may_hold_sealed,
    open_document,
    open_value,
    seal_text,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Iterable, Mapping, Sequence

    from sluice_topics.sealing import Erased, Keyring, Step

SUBJECT_KEYS = "subject_keys"
"""The port that gives persons' keys: asked for a tuple of key ids, it answers with a mapping from those that
it knows to a SubjectKey or ERASED."""
RECORD = "record"
"""The kind under which values of records are sealed."""
SEALED = "sealed"
"""The only member of an object that is sealed whole."""
MOST_SEALED = 1024
"""Sealed values that an input may have."""
_KEYS_MS = 10_000
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}(?=: |\Z)")
"""How a reason begins that names its code."""


class Keys:
    """The keys that a request was answered with."""

    def __init__(self, by_id: Mapping[str, SubjectKey | Erased]) -> None:
        self._by_id = by_id

    def find(self, key_id: str) -> SubjectKey | Erased | None:
        """The key of this id."""
        return self._by_id.get(key_id)


NO_KEYS = Keys({})


@dataclass(frozen=True, slots=True)
class OpenedInput:
    """`plain`: the input's document with its values opened; `sealed`: as it was sent. `key`: the joint one
    of all persons in it, in the order of their ids."""

    plain: Any = field(repr=False)
    sealed: dict[str, Any]
    key: SubjectKey

    @property
    def sealed_parameters(self) -> dict[str, Any]:
        """The parameters of an action as they were sent."""
        call = find_call(self.sealed)
        return call[1] if call is not None and isinstance(call[1], dict) else {}

    def seal(self, value: Any, *steps: Step) -> str:
        """A value of a record as a token for this place in it, under every key: without one of them nobody
        can open it."""
        return seal_text(self.key, _write(value), RECORD, steps)

    def seal_object(self, value: Mapping[str, Any], *steps: Step) -> Mapping[str, Any]:
        """An object of a record, sealed whole; an empty one stays."""
        return {SEALED: self.seal(dict(value), *steps, SEALED)} if value else value

    def seal_reason(self, reason: str | None, *steps: Step) -> str | None:
        """A reason: its code stays, what it names is sealed."""
        if not reason:
            return reason
        code = _CODE.match(reason)
        if code is not None and code[0] == reason:
            return reason
        if code is None:
            return self.seal(reason, *steps)
        return f"{code[0]}: {self.seal(reason[code.end() + 2 :], *steps)}"


_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_UNLIKE = re.compile(rb"[0-9]e|0\.0000|null")
"""In a text that orjson may have written otherwise than `write_text`: an exponent, a number that has one
there, or null for one that is not finite."""


def _write(value: Any) -> bytes:
    """What `write_text` writes, ten times as fast for most values."""
    try:
        written = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return write_text(value)
    return write_text(value) if _UNLIKE.search(written) else written


def seal_outputs(outputs: Iterable[dict[str, Any]], opened: OpenedInput) -> None:
    """Seal what models answered to questions about opened values (`model_outputs` of a decision)."""
    for number, output in enumerate(outputs):
        for name in ("payload", "detail"):
            if output[name]:
                output[name] = opened.seal(output[name], "model_outputs", number, name)


def list_key_ids(*documents: Any) -> tuple[str, ...]:
    """The ids of the keys of every sealed value in these JSON values, each once."""
    return _list_ids(token for document in documents for _, token in find_tokens(document))


def _list_ids(tokens: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key_id for token in tokens for key_id in find_key_ids(token)))


class SealedDocument(NamedTuple):
    """An input's document with sealed values; `tokens`: these, each with its place; `key_ids`: those of their
    keys, each once."""

    document: dict[str, Any]
    tokens: list[tuple[tuple[Step, ...], str]]
    key_ids: tuple[str, ...]


def read_sealed(value: bytes | None, *, again: bool = False) -> SealedDocument | None:
    """The document in an input's bytes if it has a sealed value, else None. `again`: a record was read in
    these bytes, so that nothing in them has to be refused any more."""
    if not value or not may_hold_sealed(value):
        return None
    return find_sealed(json.loads(value.decode()) if again else parse(value))


def find_sealed(document: Any) -> SealedDocument | None:
    """A document with its sealed values; None: it has none."""
    tokens = find_tokens(document) if isinstance(document, dict) else []
    return SealedDocument(document, tokens, _list_ids(token for _, token in tokens)) if tokens else None


def lacks_keys(keyring: Keyring, *values: bytes | None) -> bool:
    """Whether inputs with these bytes have a sealed value that cannot be opened."""
    sealed = [document for value in values if (document := read_sealed(value)) is not None]
    key_ids = [key_id for document in sealed for key_id in document.key_ids]
    return any(not isinstance(keyring.find(key_id), SubjectKey) for key_id in key_ids)


def ask_for_keys(
    key_ids: Sequence[str], tenant: str, erased: Container[tuple[str, str]] = ()
) -> Generator[Request, Answer, Keys]:
    """Ask for keys; those that nobody gives are not among them, and neither are those of other tenants: else
    one tenant could have the values of another opened. `erased`: tenants and ids of keys that are to be
    destroyed, which open nothing any more, wherever they still lie."""
    if not key_ids or len(key_ids) > MOST_JOINED:
        return NO_KEYS
    answer = yield Request(SUBJECT_KEYS, tuple(key_ids), _KEYS_MS, apart=True)
    by_id = answer.payload if answer.status == "answered" and isinstance(answer.payload, dict) else {}
    own = {key_id: key for key_id, key in by_id.items() if counts_for(key, tenant)}
    return Keys({key_id: ERASED if (tenant, key_id) in erased else key for key_id, key in own.items()})


def find_keys(keyring: Keyring, request: Request) -> Answer:
    """The answer to that question out of a keyring."""
    key_ids: Any = request.payload
    by_id = {key_id: keyring.find(key_id) for key_id in key_ids}
    return Answer("answered", {key_id: key for key_id, key in by_id.items() if key is not None})


def open_sealed(sealed: SealedDocument, kind: str, keys: Keys) -> OpenedInput | Unreadable:
    """An input of this kind with its values opened, or why it cannot be: then it is denied unread."""
    document, tokens, key_ids = sealed
    if len(tokens) > MOST_SEALED or len(key_ids) > MOST_JOINED:
        text = f"over {MOST_SEALED} sealed values, or values of over {MOST_JOINED} persons"
        return Unreadable("sealed_invalid", "$", text)
    try:
        plain, _ = open_document(document, kind, keys, tokens)
    except SealError as error:
        return Unreadable(error.code, write_json_path(error.steps), str(error))
    single = (keys.find(key_id) for key_id in sorted(key_ids))
    joint = join_keys([key for key in single if isinstance(key, SubjectKey)])
    return OpenedInput(plain, document, joint)


# The way back, for reruns and people who may read


def open_record(value: Any, keys: Keyring, steps: tuple[Step, ...] = ()) -> Any:
    """A record, or a part of it at `steps`, with all opened that its maker sealed. Raises SealError."""
    if isinstance(value, str):
        return _open_text(value, keys, steps)
    if isinstance(value, dict):
        if value.keys() == {SEALED}:
            return open_record(value[SEALED], keys, (*steps, SEALED))
        return {
            _open_text(name, keys, steps): open_record(member, keys, (*steps, name))
            for name, member in value.items()
        }
    if isinstance(value, list):
        return [open_record(member, keys, (*steps, index)) for index, member in enumerate(value)]
    return value


def _open_text(text: str, keys: Keyring, steps: tuple[Step, ...]) -> Any:
    code, colon, token = text.rpartition(": ")
    if not is_sealed(token):
        return text
    try:
        value = open_value(keys, token, RECORD, steps)[1]
    except SealError as error:
        if error.code == "sealed_invalid":  # a text that somebody wrote
            return text
        raise
    return f"{code}{colon}{value}" if colon else value
