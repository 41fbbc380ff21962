"""Personal values in inputs, sealed with a key of the person whom they are about (docs/decisions/0029).

Client, gateway, MCP proxy and worker share it. A sealed value is one JSON string in place of a value of any
type: `sealed:1:<key id>:<base64url>`, the bytes of AES-SIV (RFC 5297, 512-bit key) over the value's JSON,
with the kind of input and the place of the value as associated data. So a token cannot be moved to another
place, and equal values of one person at one place are equal when sealed: repeats stay repeats.

Whoever destroys the key destroys every copy of the value; digests and signatures are over sealed bytes, and
stay valid.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from sluice_topics.json_text import Unreadable, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

PREFIX = "sealed:1:"
MARK, ESCAPED = PREFIX.encode(), b"\\u00"
"""What a JSON text with a sealed value has: the prefix as it is, or a character of it escaped."""
SECRET_BYTES = 64
EACH = "*"
"""In a path: each element of an array, each member of an object."""
_DOMAIN = b"sluice/sealed/1"
_JOINT = b"sluice/sealed/1/joint"
_BLOCK = 32
"""A value's JSON is filled up with blanks to a multiple of this, so that its length says little."""
PARAMETERS: tuple[str, ...] = ("parameters",)
SEED_PARAMETERS: tuple[str, ...] = ("proposed_action", "value")
"""Where an action has its parameters, in one of its two forms."""
MOST_JOINED = 16
"""Persons under whose keys together a value may be sealed."""
_TOKEN = re.compile(r"sealed:1:([A-Za-z0-9_-]{1,64}(?:\+[A-Za-z0-9_-]{1,64}){0,15}):([A-Za-z0-9_-]{22,})")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")

Step = str | int
InputKind = Literal["action", "outcome", "write", "retrieval"]


class Erased(Enum):
    """Of a key that was there and was destroyed."""

    ERASED = "erased"


ERASED = Erased.ERASED


class SubjectKey:
    """A person's key. `id` is random and says nothing of the person; `secret`: 64 random bytes; `tenant`: the
    only one whose agents' inputs it opens."""

    def __init__(self, key_id: str, secret: bytes, tenant: str = "") -> None:
        """Raises ValueError for a secret of another length."""
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a subject's key has {SECRET_BYTES} bytes, not {len(secret)}")
        self.id = key_id
        self.secret = secret
        self.tenant = tenant

    @cached_property
    def cipher(self) -> AESSIV:
        """AES-SIV under this key."""
        return AESSIV(self.secret)


def counts_for(key: SubjectKey | Erased, tenant: str) -> bool:
    """Whether a key is looked at for a tenant's inputs: else one tenant could copy another's tokens, and have
    its own rules read them. What was destroyed opens nothing, whosever it was."""
    return key is ERASED or key.tenant == tenant


class Keyring(Protocol):
    """The keys that a process can use, by their ids."""

    def find(self, key_id: str) -> SubjectKey | Erased | None:
        """The key; ERASED where it was destroyed, None where it was never known here."""


class Subject(NamedTuple):
    """Whom a value is about: the text that the bundle's path leads to, or, where it leads nowhere, the
    session."""

    kind: Literal["subject", "session"]
    name: str


class PersonalField(NamedTuple):
    """A field that a bundle marks as personal. `path` and `subject`: the steps of JSON pointers from the
    input's top, `*` for each element or member; `tool`: a glob, for actions of these tools alone."""

    kind: InputKind
    path: tuple[str, ...]
    subject: tuple[str, ...] | None = None
    tool: str = EACH


SealCode = Literal["sealed_key_unknown", "sealed_key_erased", "sealed_invalid"]


class SealError(Exception):
    """A sealed value cannot be opened. `steps`: where it is."""

    def __init__(self, code: SealCode, steps: Sequence[Step], message: str) -> None:
        super().__init__(message)
        self.code: SealCode = code
        self.steps = tuple(steps)


def split_pointer(pointer: str) -> tuple[str, ...]:
    """The steps of a JSON pointer (RFC 6901), at least one. Raises ValueError for what is none."""
    if not pointer.startswith("/") or re.search(r"~(?![01])", pointer):
        raise ValueError(f"no JSON pointer: {pointer!r}")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/"))


def is_sealed(value: object) -> bool:
    """Whether a JSON value has the form of a sealed one."""
    return isinstance(value, str) and value.startswith(PREFIX) and _TOKEN.fullmatch(value) is not None


def may_hold_sealed(raw: bytes) -> bool:
    """Whether the JSON text may have a sealed value; False is certain."""
    return MARK in raw or ESCAPED in raw


def seal(key: SubjectKey, value: Any, kind: str, steps: Sequence[Step]) -> str:
    """A JSON value as a token for this place in an input of this kind."""
    return seal_text(key, write_text(value), kind, tuple(steps))


def seal_text(key: SubjectKey, text: bytes, kind: str, steps: tuple[Step, ...]) -> str:
    """The same of a value's JSON text, as `write_text` writes it: equal values must be equal when sealed."""
    filled = text + b" " * (-len(text) % _BLOCK)
    encrypted = key.cipher.encrypt(filled, _make_context(kind, steps))
    return f"{PREFIX}{key.id}:{urlsafe_b64encode(encrypted).rstrip(b'=').decode()}"


def write_text(value: Any) -> bytes:
    """The JSON text of a value that is sealed."""
    return _encode(value).encode()


def get_key_ids(token: str) -> list[str]:
    """The ids of the keys under which a token is sealed. Raises ValueError for what is none."""
    key_ids = find_key_ids(token)
    if not key_ids:
        raise ValueError("no sealed value")
    return key_ids


def find_key_ids(text: str) -> list[str]:
    """The ids of the keys under which a text is sealed; none of one that is no token."""
    match = _TOKEN.fullmatch(text)
    return [] if match is None else match[1].split("+")


def join_keys(keys: Sequence[SubjectKey]) -> SubjectKey:
    """One key of several, MOST_JOINED at most: who lacks one of them opens nothing."""
    if len(keys) == 1:
        return keys[0]
    whole = hashlib.sha512(_JOINT + b"".join(key.secret for key in keys)).digest()
    return SubjectKey("+".join(key.id for key in keys), whole, keys[0].tenant)


def _find_key(keyring: Keyring, joined: str) -> SubjectKey | Erased | None:
    """The key of these ids; ERASED where one of them was destroyed, None where one is not known."""
    if "+" not in joined:
        return keyring.find(joined)
    parts = [keyring.find(key_id) for key_id in joined.split("+")]
    if ERASED in parts:
        return ERASED
    keys = [part for part in parts if isinstance(part, SubjectKey)]
    return join_keys(keys) if len(keys) == len(parts) else None


def open_value(keyring: Keyring, token: str, kind: str, steps: Sequence[Step]) -> tuple[SubjectKey, Any]:
    """The key of a token, and the JSON value in it. Raises SealError."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise SealError("sealed_invalid", steps, "not in the form of a sealed value")
    key = _find_key(keyring, match[1])
    if key is None:
        raise SealError("sealed_key_unknown", steps, f"sealed under the key {match[1]}, which is unknown")
    if key is ERASED:
        raise SealError("sealed_key_erased", steps, f"sealed under the key {match[1]}, which was destroyed")
    encrypted = urlsafe_b64decode(match[2] + "=" * (-len(match[2]) % 4))
    try:
        value = parse(key.cipher.decrypt(encrypted, _make_context(kind, tuple(steps))))
        if not isinstance(value, Unreadable):
            return key, value
        text = f"under the key {match[1]} lies no JSON value: {value.message}"
    except (InvalidTag, ValueError):
        text = f"not sealed under the key {match[1]} for this place"
    raise SealError("sealed_invalid", steps, text)


@lru_cache(maxsize=4096)
def _make_context(kind: str, steps: tuple[Step, ...]) -> list[bytes]:
    """The associated data: elements of an array share one place."""
    location = [EACH if isinstance(step, int) else step for step in steps]
    return [_DOMAIN, kind.encode(), json.dumps(location).encode()]


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


# Whole documents


class OpenedValue(NamedTuple):
    """A value of a document that was sealed: where it is, its token, its key and what it is."""

    steps: tuple[Step, ...]
    token: str
    key: SubjectKey
    value: Any


def open_document(
    document: Any, kind: str, keyring: Keyring, tokens: Sequence[tuple[tuple[Step, ...], str]] | None = None
) -> tuple[Any, list[OpenedValue]]:
    """The document with every sealed value in it opened, and the values; the argument stays as it is.
    `tokens`: what `find_tokens` gave of it. Raises SealError for the first that cannot be opened."""
    opened: list[OpenedValue] = []
    for steps, token in find_tokens(document) if tokens is None else tokens:
        key, value = open_value(keyring, token, kind, steps)
        opened.append(OpenedValue(steps, token, key, value))
    return _replace_all(document, ((each.steps, each.value) for each in opened)), opened


def seal_document(
    document: Mapping[str, Any],
    kind: InputKind,
    fields: Iterable[PersonalField],
    choose_key: Callable[[Subject], SubjectKey],
    naming: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The input, by wire names, with every value that a field of `fields` marks replaced by its token; the
    argument stays as it is, and what is null or sealed already stays too.

    `choose_key` gives a person's key, and makes it where there is none. `naming`: documents that
    name the person where this one does not, the first first.
    """
    tokens = (
        (steps, seal(choose_key(subject), _get_at(document, steps), kind, steps))
        for steps, subject in _find_marked(document, kind, fields, naming).items()
    )
    sealed: dict[str, Any] = _replace_all(dict(document), tokens)
    return sealed


def list_subjects(
    document: Mapping[str, Any],
    kind: InputKind,
    fields: Iterable[PersonalField],
    naming: Sequence[Mapping[str, Any]] = (),
) -> set[Subject]:
    """Whose keys `seal_document` asks for."""
    return set(_find_marked(document, kind, fields, naming).values())


def find_unsealed(
    document: Mapping[str, Any], kind: InputKind, fields: Iterable[PersonalField]
) -> tuple[Step, ...] | None:
    """The place of the first value that `seal_document` would seal; None: there is none."""
    return next(iter(_find_marked(document, kind, fields)), None)


def find_misplaced(
    document: Mapping[str, Any],
    kind: InputKind,
    fields: Iterable[PersonalField],
    tokens: Iterable[tuple[tuple[Step, ...], str]],
) -> tuple[Step, ...] | None:
    """The place of the first of `tokens`, as `find_tokens` gave them of the input, that no field marks; None:
    there is none."""
    places = {
        steps
        for personal in _list_fields(document, kind, fields)
        for steps, _ in _find_places(document, personal.path, ())
    }
    return next((steps for steps, _ in tokens if steps not in places), None)


def _find_marked(
    document: Mapping[str, Any],
    kind: InputKind,
    fields: Iterable[PersonalField],
    naming: Sequence[Mapping[str, Any]] = (),
) -> dict[tuple[Step, ...], Subject]:
    """The places of the values to seal, none within another, and whom each is about."""
    marked: dict[tuple[Step, ...], Subject] = {}
    for personal in _list_fields(document, kind, fields):
        for steps, value in _find_places(document, personal.path, ()):
            if value is not None and not is_sealed(value):
                subject = find_subject(document, personal, steps)
                for other in naming:
                    if subject.kind == "session":
                        subject = find_subject(other, personal, steps)
                marked.setdefault(steps, subject)
    return {
        at: subject
        for at, subject in marked.items()
        if not any(at[:length] in marked for length in range(1, len(at)))
    }


def _list_fields(
    document: Mapping[str, Any], kind: InputKind, fields: Iterable[PersonalField]
) -> Iterator[PersonalField]:
    """The fields that count for a document, with paths in its own form: a mark of parameters holds
    in seed 000's form too, and the other way; else its sender would choose what is sealed."""
    tool = _find_tool(document)
    is_seed = isinstance(document.get(SEED_PARAMETERS[0]), dict)
    forms = [SEED_PARAMETERS] if is_seed else []
    if not is_seed or document.get(PARAMETERS[0]) is not None:
        forms.append(PARAMETERS)
    for personal in fields:
        if personal.kind != kind or (tool is not None and not fnmatchcase(tool, personal.tool)):
            continue
        if kind != "action":
            yield personal
            continue
        for form in forms:
            subject = None if personal.subject is None else change_form(personal.subject, form)
            yield personal._replace(path=change_form(personal.path, form), subject=subject)


def change_form(path: tuple[str, ...], form: tuple[str, ...]) -> tuple[str, ...]:
    """A path in an action, with parameters where this form has them: PARAMETERS or SEED_PARAMETERS."""
    for other in (PARAMETERS, SEED_PARAMETERS):
        if path[: len(other)] == other:
            return (*form, *path[len(other) :])
    return path


def find_subject(document: Mapping[str, Any], field: PersonalField, steps: Sequence[Step]) -> Subject:
    """Whom the value at `steps` is about. Where the subject's path goes through the same `*` as the field's,
    it is looked for in the same element."""
    session = Subject("session", str(document.get("session_id", "")))
    if field.subject is None:
        return session
    path: list[str] = []
    for number, step in enumerate(field.subject):
        shared = step == EACH and field.path[: number + 1] == field.subject[: number + 1]
        path.append(str(steps[number]) if shared else step)
    for _, value in _find_places(document, path, ()):
        if isinstance(value, str | int) and not isinstance(value, bool) and not is_sealed(value):
            return Subject("subject", str(value))
    return session


def _find_tool(document: Mapping[str, Any]) -> str | None:
    tool = document.get("toolName", document.get("tool_name"))
    seed = document.get("proposed_action")
    tool = seed.get("action") if tool is None and isinstance(seed, dict) else tool
    return tool if isinstance(tool, str) else None


def find_foreign(parameters: Any, *taken: Any) -> list[tuple[tuple[Step, ...], str]]:
    """The tokens in narrowed parameters, with their places, that none of `taken` has: the action, and what
    was approved so far."""
    own = {token for document in taken for _, token in find_tokens(document)}
    return [(steps, token) for steps, token in find_tokens(parameters) if token not in own]


def put_from(document: Any, other: Any, places: Iterable[Sequence[Step]]) -> Any:
    """The document with the values that another one has at these places, none within another."""
    return _replace_all(document, ((steps, _get_at(other, steps)) for steps in places))


def find_tokens(document: Any) -> list[tuple[tuple[Step, ...], str]]:
    """Each text in a JSON value that begins like a sealed value, with its place."""
    tokens: list[tuple[tuple[Step, ...], str]] = []
    _collect_tokens(document, (), tokens)
    return tokens


def _collect_tokens(value: Any, steps: tuple[Step, ...], tokens: list[tuple[tuple[Step, ...], str]]) -> None:
    if isinstance(value, str):
        if value.startswith(PREFIX):
            tokens.append((steps, value))
        return
    for step, member in _list_members(value):
        if isinstance(member, str):
            if member.startswith(PREFIX):
                tokens.append(((*steps, step), member))
        elif isinstance(member, dict | list | tuple):
            _collect_tokens(member, (*steps, step), tokens)


def _find_places(
    value: Any, path: Sequence[str], steps: tuple[Step, ...]
) -> Iterator[tuple[tuple[Step, ...], Any]]:
    """Each place to which a path leads, with its value."""
    if not path:
        yield steps, value
        return
    for step, member in _list_members(value) if path[0] == EACH else _list_member(value, path[0]):
        yield from _find_places(member, path[1:], (*steps, step))


def _list_member(value: Any, step: str) -> Iterable[tuple[Step, Any]]:
    """The member to which a pointer's step leads, if there is one."""
    if isinstance(value, dict):
        return [(step, value[step])] if step in value else ()
    if not isinstance(value, list | tuple) or not _INDEX.fullmatch(step) or int(step) >= len(value):
        return ()
    return [(int(step), value[int(step)])]


def _list_members(value: Any) -> Iterable[tuple[Step, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list | tuple) else ()


def _get_at(value: Any, steps: Sequence[Step]) -> Any:
    for step in steps:
        value = value[step]
    return value


def _replace_all(document: Any, members: Iterable[tuple[Sequence[Step], Any]]) -> Any:
    """The document with other values at these places, none within another; what is on the way to them is
    copied, once however many they are."""
    copies: dict[tuple[Step, ...], Any] = {}
    for steps, member in members:
        if not steps:
            return member
        if not copies:
            copies[()] = _copy(document)
        container = copies[()]
        for length in range(1, len(steps)):
            at = tuple(steps[:length])
            if at not in copies:
                copies[at] = container[at[-1]] = _copy(container[at[-1]])
            container = copies[at]
        container[steps[-1]] = member
    return copies.get((), document)


def _copy(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)
