"""Whether signed policy is behind the decisions of a package. Written from the published description
(docs/policy.md, docs/audit-package.md).

Each control record is judged at its own time: a root key signs approvers' entries, an approver in force then
signs the kinds that its entry names, and a delegate of people signs freezes. That some changes need two
approvers is judged by `sluice rerun`, not here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .head_check import is_valid_signature, read_time
from .ledger_findings import LedgerFinding
from .ledger_record import NotStrict, canonicalize, read_object
from .proof_check import UnusableKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .export import Located

REGISTRY, BUNDLES = "gate.registry", "gate.bundles"
BUNDLE, QUALITY_BUNDLE, APPROVER, DELEGATE, FREEZE = (
    "bundle",
    "quality_bundle",
    "approver",
    "delegate",
    "freeze",
)
_TYPES = {
    "application/vnd.sluice.bundle+json": BUNDLE,
    "application/vnd.sluice.quality-bundle+json": QUALITY_BUNDLE,
}
_ENTRY_TYPE = "application/vnd.sluice.registry-entry+json"
Used = tuple[str, str]
"""What a decision names: `bundle`, `quality_bundle` or an entry's `kind/id@revision`, and its hash. Of a
record of the policy in force: `kind/id`, and the revision."""


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """The first record that names something: its partition, number, topic and offset."""

    partition: int
    sequence: int
    topic: str
    offset: int


@dataclass(frozen=True, slots=True)
class _Statement:
    kind: str
    id: str
    revision: int
    hash: str
    spec: dict[str, Any]
    signatures: tuple[tuple[str, bytes], ...]
    signed: bytes

    @property
    def key(self) -> str:
        return (
            self.kind if self.kind in (BUNDLE, QUALITY_BUNDLE) else f"{self.kind}/{self.id}@{self.revision}"
        )


@dataclass(frozen=True, slots=True)
class _Signer:
    """An approver's key, or a delegate's that signs for people."""

    owner: str
    key: Any
    spec: Mapping[str, Any]


class ControlCheck:
    """Feed it every control record with `add`, then `find_objections` once."""

    def __init__(self, root_keys: Sequence[str]) -> None:
        """`root_keys`: base64, with `@` and a time for one that was retired then; none: signatures are not
        checked. Raises UnusableKey, and ImportError without the package `cryptography`."""
        self._roots = {keyid: (key, until) for keyid, key, until in map(_read_root, root_keys)}
        self._records: list[tuple[int, int, int, _Statement, str]] = []
        self.unreadable = 0
        self.unsigned = 0

    @property
    def checks_signatures(self) -> bool:
        """Whether a root key was given."""
        return bool(self._roots)

    def add(self, located: Located) -> None:
        """Take a record of the registry's or the bundles' topic."""
        try:
            statement = _read_statement(located)
        except NotStrict:
            self.unreadable += 1
            return
        at_ms, is_bundle = located.timestamp_ms or 0, int(located.topic.endswith(BUNDLES))
        location = f"{located.topic}/{located.partition}/{located.offset}"
        self._records.append((at_ms, is_bundle, located.offset, statement, location))

    def find_objections(self, uses: Mapping[Used, NamedPolicy]) -> Iterator[LedgerFinding]:
        """A finding for everything that a record names and that is not there, or that nobody signed who
        may."""
        objections = self._judge()
        for (name, value), use in sorted(uses.items()):
            where = use.partition, use.sequence, use.topic, use.offset
            judged = objections.get((name, value))
            if judged is None:
                message = f"it rests on {name} {value}, of which the package has no control record"
                yield LedgerFinding("policy_missing", *where, message)
            elif judged:
                yield LedgerFinding("policy_unsigned", *where, f"it rests on {name} {value}: {judged}")

    def _judge(self) -> dict[Used, str]:
        """By what a record may name: why it does not count, "" where it does."""
        objections: dict[Used, str] = {}
        signers: dict[str, _Signer] = {}
        for at_ms, _, _, statement, location in sorted(self._records, key=lambda record: record[:3]):
            objection = self._find_objection(statement, signers, at_ms) if self._roots else ""
            self.unsigned += bool(objection)
            if not objection:
                _admit(statement, signers)
            described = objection and f"{location}: {objection}"
            for name in _list_names(statement):
                if objections.get(name) != "":
                    objections[name] = described
        return objections

    def _find_objection(self, statement: _Statement, signers: Mapping[str, _Signer], at_ms: int) -> str:
        if not statement.signatures:
            return "it is not signed"
        objections = [
            self._object(statement, keyid, sig, signers, at_ms) for keyid, sig in statement.signatures
        ]
        return "" if "" in objections else "; ".join(dict.fromkeys(objections))

    def _object(
        self, statement: _Statement, keyid: str, signature: bytes, signers: Mapping[str, _Signer], at_ms: int
    ) -> str:
        root, until_ms = self._roots.get(keyid, (None, None))
        if statement.kind == APPROVER:
            if root is None:
                return f"an approver's entry must be signed by a root key, not by {keyid[:16]}"
            if until_ms is not None and at_ms >= until_ms:
                return f"the root key {keyid[:16]} was retired before"
            return (
                "" if is_valid_signature(root, signature, statement.signed) else "its signature is not valid"
            )
        signer = signers.get(keyid)
        if signer is None:
            return f"the key {keyid[:16]} is of no approver in force then"
        if not _may_sign(signer, statement.kind, at_ms):
            return f"{signer.owner} may not sign a {statement.kind} then"
        return (
            ""
            if is_valid_signature(signer.key, signature, statement.signed)
            else "its signature is not valid"
        )


def _check_signature(key: Any, signature: bytes, statement: _Statement) -> str:
    is_valid = is_valid_signature(key, signature, statement.signed)
    return "" if is_valid else "its signature is not valid"


def list_uses(fields: Mapping[str, Any]) -> Iterator[Used]:
    """What a ledger record names of policy."""
    for kind in (BUNDLE, QUALITY_BUNDLE):
        named = fields.get(f"{kind}_hash")
        if isinstance(named, str):
            yield kind, named
    hashes = fields.get("registry_hashes")
    if isinstance(hashes, dict):
        yield from ((str(key), str(value)) for key, value in hashes.items())
    if fields.get("schema") == "sluice/policy_in_force/v1":
        for changes in (fields.get("added"), fields.get("replaced")):
            named = changes.get("named") if isinstance(changes, dict) else None
            for change in named if isinstance(named, list) else []:
                if isinstance(change, dict):
                    yield f"{change.get('entry')}", f"revision {change.get('now')}"


def _list_names(statement: _Statement) -> Iterator[Used]:
    yield statement.key, statement.hash
    entry = f"{statement.kind}/{statement.id}"
    revision = f"revision {statement.revision}"
    yield entry, revision
    if statement.kind == "fact":
        yield f"{entry}@{statement.revision}", revision


def _admit(statement: _Statement, signers: dict[str, _Signer]) -> None:
    """An approver's entry replaces the one before; a delegate's adds its keys, if it signs for people."""
    spec, owner = statement.spec, f"{statement.kind} {statement.id}"
    if statement.kind == APPROVER:
        texts = [spec.get("public_key")]
        for keyid in [keyid for keyid, signer in signers.items() if signer.owner == owner]:
            del signers[keyid]
    elif statement.kind == DELEGATE and spec.get("roles"):
        keys = spec.get("keys")
        texts = (
            [key.get("public_key") for key in keys if isinstance(key, dict)] if isinstance(keys, list) else []
        )
    else:
        return
    for text in texts:
        try:
            keyid, key = _read_key(str(text))
        except UnusableKey:
            continue
        signers[keyid] = _Signer(owner, key, spec)


def _may_sign(signer: _Signer, kind: str, at_ms: int) -> bool:
    if signer.owner.startswith(f"{DELEGATE} "):
        return kind == FREEZE
    spec = signer.spec
    until, signs = spec.get("valid_until"), spec.get("signs")
    try:
        in_time = until is None or at_ms < read_time(str(until))
    except NotStrict:
        return False
    return bool(spec.get("active", True)) and in_time and isinstance(signs, list) and kind in signs


def _read_root(text: str) -> tuple[str, Any, int | None]:
    key, _, until = text.partition("@")
    try:
        return *_read_key(key), read_time(until) if until else None
    except NotStrict as error:
        raise UnusableKey(str(error)) from None


def _read_key(text: str) -> tuple[str, Any]:
    """Id and key. Raises UnusableKey."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        raw = base64.b64decode(text, validate=True)
        return hashlib.sha256(raw).hexdigest(), Ed25519PublicKey.from_public_bytes(raw)
    except ValueError:
        raise UnusableKey(f"{text!r} is no public key: 44 characters of base64") from None


def _read_statement(located: Located) -> _Statement:
    """What an envelope states. Raises NotStrict."""
    fields, _ = read_object(located.value or b"")
    kind_of_payload, payload = str(fields.get("payloadType")), _decode(fields.get("payload"))
    document, plain = read_object(payload)
    is_bundle = located.topic.endswith(BUNDLES)
    if is_bundle:
        kind = _TYPES.get(kind_of_payload, "")
    else:
        kind = str(document.get("kind")) if kind_of_payload == _ENTRY_TYPE else ""
    spec: Any = document if is_bundle else document.get("spec")
    revision = document.get("revision")
    if not kind or not isinstance(spec, dict) or type(revision) is not int or revision < 1:
        raise NotStrict("its type is none of the topic, or it has no revision")
    unhashed = {"change"} if document.get("installations") is not None else {"change", "installations"}
    body = {name: value for name, value in document.items() if name not in unhashed}
    hashed = document if is_bundle else body
    digest = hashlib.sha256(canonicalize(hashed, plain=plain)).hexdigest()
    encoded = kind_of_payload.encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(encoded), encoded, len(payload), payload)
    signatures = tuple(_read_signatures(fields.get("signatures")))
    return _Statement(kind, str(document.get("id")), revision, f"sha256:{digest}", spec, signatures, signed)


def _read_signatures(listed: Any) -> Iterable[tuple[str, bytes]]:
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict):
            yield str(each.get("keyid")), _decode(each.get("sig"))


def _decode(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text).translate(_STANDARD), validate=True)
    except (binascii.Error, ValueError):
        raise NotStrict("payload or signature is not base64") from None


_STANDARD = str.maketrans("-_", "+/")
