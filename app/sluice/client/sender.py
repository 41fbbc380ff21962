"""The records that a client sends: their bytes, their headers and their signature."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import sys
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client.answers import NOT_RETURNED, ActionAnswer, ClientError, InputLocation, check_count
from sluice.client.exchange import DEFAULT_CONNECT_S, Exchange, OutgoingInput
from sluice.client.input_kinds import OUTCOME
from sluice.client.record_proofs import RecordProofs
from sluice.client.sealing import NoSealing, open_narrowed, seal_record
from sluice_topics.audience import Audience, SignedInput, record_message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from sluice.client.freezes import FreezeView
    from sluice.client.input_kinds import InputKind
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.sealing import SealedRecord, SealingView

DEFAULT_DEADLINE_S = 10.0
NONCE_BYTES = 12
PEM_BEGIN = "-----BEGIN"
KeyText = bytes | str | Path
"""A private key: its text, or where that lies."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The settings of a client, apart from its broker and its agent.

    `deadline_s`: how long a decision may take, unless a call says otherwise; `connect_timeout_s`: how long a
    start may take. `mode`: "standard" makes verdicts advice. `journal`: a file in which the client remembers
    what it has begun, so that a restarted process runs no tool twice; None keeps that in memory.
    `reported_by` and `signing_key`: the enforcement point in whose name outcomes are signed; without them
    they are not. `agent_key`: the agent's own key, if its registry entry has keys; every input is signed with
    it, and the key's id follows from it. A key is an Ed25519 key in PKCS#8 PEM: the text, or the path of its
    file. A str with "-----BEGIN" in it is a text. `installation`: the id of the installation, its setting
    `policy.installation`; every signature is for that one and counts in no other. `verdict_keys`: the public
    keys, base64, with which the gate's workers sign; an answer counts only with a proof by one of them. Give
    two while a key is replaced. Without any, proofs are not checked. `values_key`: the key of the agent's
    tenant, by which the values in what tools return are reported as fingerprints (`sluice keys values`): its
    text in base64 or hex, or the path of its file. Without it nothing of a result is reported.
    `freezes`: makes what says whether something was frozen meanwhile (`follow_freezes`): the client asks it
    right before each tool starts, and stops one that runs. Without it a tool starts as its verdict said.
    `sealing`: makes what seals personal data before an input is published (`follow_sealing`); tools and
    callers get it plain. Without it inputs are published as they are.
    `connection`: further arguments of aiokafka's clients, such as `security_protocol`.
    """

    topic_prefix: str = ""
    deadline_s: float = DEFAULT_DEADLINE_S
    connect_timeout_s: float = DEFAULT_CONNECT_S
    mode: str = "high_stakes"
    journal: Path | None = None
    reported_by: str | None = None
    signing_key: KeyText | None = field(default=None, repr=False)
    agent_key: KeyText | None = field(default=None, repr=False)
    installation: str = ""
    verdict_keys: Sequence[str] = ()
    values_key: KeyText | None = field(default=None, repr=False)
    freezes: Callable[[], FreezeView] | None = field(default=None, repr=False)
    sealing: Callable[[], SealingView] | None = field(default=None, repr=False)
    connection: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def audience(self) -> Audience:
        """The installation for which the client signs. Raises ClientError if none is named."""
        if not self.installation:
            raise ClientError(
                "a signature is for one installation, and none is named",
                "Give its setting policy.installation: ClientOptions(installation=...)",
            )
        return Audience(self.installation, self.topic_prefix)

    @property
    def proofs(self) -> RecordProofs:
        """Which keys must have signed an answer. Raises ClientError for a key that is none."""
        return RecordProofs(self.verdict_keys, Audience(self.installation, self.topic_prefix))

    @property
    def signer(self) -> InputSigner | None:
        """The signer with the agent's own key; None: its inputs are not signed. Raises ClientError as
        `audience`, and for a key that cannot sign."""
        if self.agent_key is None:
            return None
        return InputSigner(read_pem(self.agent_key, "agent_key"), self.audience)


@dataclass(frozen=True, slots=True)
class InputSigner:
    """Who signs inputs, and for which installation. `key`: PKCS#8 PEM of an Ed25519 key."""

    key: bytes = field(repr=False)
    audience: Audience

    def make_header(self, topic: str, session: str, value: bytes, at_ms: int) -> tuple[str, bytes]:
        """The header with the signature of an input. `topic`: the base name; `at_ms`: ms since 1970."""
        from sluice_topics.agent_signature import HEADER, AgentSignature  # noqa: PLC0415 - a client may not sign

        key, nonce = load_private_key(self.key), secrets.token_urlsafe(NONCE_BYTES)
        signed = SignedInput(topic, session.encode(), derive_key_id(key), at_ms, nonce, value)
        signature = key.sign(signed.message(self.audience))
        return HEADER, AgentSignature(signed.key_id, at_ms, nonce, signature).header()


def make_exchange(cluster: KafkaCluster, options: ClientOptions) -> Exchange:
    """A client's, not connected. Raises ClientError as `ClientOptions.proofs`."""
    prefix, connection = options.topic_prefix, options.connection
    return Exchange(cluster, prefix, connection, proofs=options.proofs)


def name_outcome(session: str, action_id: str) -> str:
    """The `ce_id` of an action's outcome: the same for every process that reports it, and unique to the
    action."""
    return "outcome-of:" + sha256(f"{len(session)}:{session}:{action_id}".encode()).hexdigest()


class Sender:
    """Publishes one agent's inputs, each to its session's partition."""

    def __init__(self, exchange: Exchange, agent_id: str, options: ClientOptions) -> None:
        """Raises ClientError for a key that cannot sign, or that is for no installation."""
        self._exchange = exchange
        self.sealing: SealingView = NoSealing() if options.sealing is None else options.sealing()
        self.agent_id = agent_id
        self._reported_by = options.reported_by or agent_id
        self._signer = options.signer
        self._values_key = None if options.values_key is None else read_values_key(options.values_key)
        self._outcomes: InputSigner | None = None
        if options.signing_key is not None:
            self._outcomes = InputSigner(read_pem(options.signing_key, "signing_key"), options.audience)

    async def publish(self, kind: InputKind, session: str, name: str, value: bytes) -> InputLocation:
        """Publish an input of a session, and return when the broker has it. `name` is the input's `ce_id`.

        Raises KafkaError.
        """
        return await self._exchange.publish(self.build_outgoing(kind, session, name, value))

    def build_outgoing(self, kind: InputKind, session: str, name: str, value: bytes) -> OutgoingInput:
        """An input with its headers, signed where there is a key. `name`: the input's `ce_id`."""
        origin = Origin(f"/agents/{self.agent_id}", find_current_traceparent())
        headers = build_headers(kind, origin, session, name, value, self._signer)
        return OutgoingInput(kind, name, session, value, headers)

    def build_record(self, id_field: str, an_id: str | None, session: str, **fields: Any) -> dict[str, Any]:
        """The record of an input of this agent; `an_id` None: a new id."""
        return {
            id_field: an_id or uuid.uuid4().hex,
            "agent_id": self.agent_id,
            "session_id": session,
            **fields,
        }

    async def read_values(self, result: Any) -> dict[str, Any] | None:
        """The `values` of an outcome; None where the client has no key for them, or nobody gave the result.
        They are read beside the event loop, since a long result takes 50 ms."""
        if self._values_key is None or result is NOT_RETURNED:
            return None
        from sluice_topics.values import fingerprint_result  # noqa: PLC0415 - most clients need none

        return await asyncio.to_thread(fingerprint_result, self._values_key, result)

    async def seal(self, kind: InputKind, record: Mapping[str, Any]) -> SealedRecord:
        """A record of this agent as it may be published. Raises ClientError."""
        return await seal_record(self.sealing, kind, self.agent_id, record)

    async def open_narrowed(self, action: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters by which an approver narrowed an action, as a tool takes them. Raises ClientError,
        also where a key was erased meanwhile."""
        return await open_narrowed(self.sealing, self.agent_id, action, parameters)

    async def build_outcome(
        self, verdict: ActionAnswer, rows: int, error: str | None, values: dict[str, Any] | None = None
    ) -> bytes:
        """The outcome of an action, signed if the client has a key. `error` None: the tool did not raise.
        `values`: as `read_values` gives them.

        Raises ClientError for rows that are no count, and where personal data cannot be sealed.
        """
        record: dict[str, Any] = {
            "action_id": verdict.record["action_id"],
            "session_id": verdict.record["session_id"],
            "rows_affected": check_count(rows, "rows_affected of the outcome"),
            "reported_by": self._reported_by,
        }
        if error is not None:
            record["error"] = error
        if values is not None:
            record["values"] = values
        record = (await self.seal(OUTCOME, record)).fields
        if self._outcomes is not None:
            bound = dict(verdict.record.get("action") or verdict.record["input"])
            record |= {"action_digest": bound["digest"], "input": bound}
            record["signature"] = sign_record(record, self._outcomes.key, self._outcomes.audience)
        return serialize_record(record)


class Origin(NamedTuple):
    """`source`: an input's `ce_source`; `traceparent`: of the trace that it continues (W3C)."""

    source: str
    traceparent: str | None = None


def find_current_traceparent() -> str | None:
    """The `traceparent` of the caller's span; None where the caller has none, or uses no OpenTelemetry.
    Imports nothing: who has a span has imported it."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def build_headers(
    kind: InputKind, origin: Origin, session: str, name: str, value: bytes, signer: InputSigner | None
) -> list[tuple[str, bytes]]:
    """An input's headers. `name`: its `ce_id`; `signer` None: not signed."""
    from sluice_topics.headers import make_input_headers  # noqa: PLC0415 - importing the client loads no records

    at = datetime.now(UTC)
    now = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    headers = make_input_headers(name, kind.record, origin.source, now, origin.traceparent)
    if signer is not None:
        headers.append(signer.make_header(kind.topic, session, value, int(at.timestamp() * 1000)))
    return headers


def serialize_record(record: Mapping[str, Any]) -> bytes:
    """A record as it is published. Raises ClientError if a value is not JSON."""
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise ClientError(f"not a JSON value: {error}", "Give texts, numbers, lists and tables") from None


def sign_record(record: Mapping[str, Any], pem: bytes, audience: Audience) -> str:
    """The Ed25519 signature of an outcome or a grant for an installation, base64, over its RFC 8785 form.

    Both hold only texts, whole numbers and truth values under ASCII names, and lists of them, so sorted
    compact JSON is their RFC 8785 form.
    """
    written = json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    return base64.b64encode(load_private_key(pem).sign(record_message(audience, written))).decode()


def delegation_grant(
    signer: InputSigner,
    parent_and_child: tuple[str, str],
    session_id: str,
    until: datetime,
    *,
    max_depth: int = 0,
    tools: Sequence[str] | None = None,
) -> dict[str, Any]:
    """A grant by which a signing agent lets another agent work for it in a session: an element of the child's
    `governanceContext.grants`.

    `signer`: with the parent's key, for the installation. `parent_and_child`: the ids of the two agents.
    `until` has a time zone. `max_depth`: how many delegations may follow this one. `tools` None: every tool.
    """
    moment = until.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    grant: dict[str, Any] = {
        "parent_agent_id": parent_and_child[0],
        "agent_id": parent_and_child[1],
        "session_id": session_id,
        "max_depth": max_depth,
        "until": moment,
        "key_id": derive_key_id(load_private_key(signer.key)),
    }
    if tools is not None:
        grant["tools"] = list(tools)
    return {**grant, "signature": sign_record(grant, signer.key, signer.audience)}


def derive_key_id(key: Ed25519PrivateKey) -> str:
    return sha256(key.public_key().public_bytes_raw()).hexdigest()


def read_pem(key: KeyText, name: str) -> bytes:
    """The PEM text of a key that can sign. `name`: what it is called in errors, which never show a text that
    may be a key. Raises ClientError."""
    if isinstance(key, str) and PEM_BEGIN in key:
        key = key.encode()
    elif not isinstance(key, bytes):
        where = f" at {key}" if isinstance(key, Path) else ", which is no PEM text"
        try:
            key = Path(key).expanduser().read_bytes()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "no path"
            raise ClientError(f"{name}: no file{where}: {why}", "Give the PEM text or its path") from None
    try:
        load_private_key(key)
    except (ValueError, TypeError) as error:
        raise ClientError(f"{name}: {error}", "Make a key with `sluice keys new`") from None
    return key


def read_values_key(key: KeyText) -> bytes:
    """The 32 bytes of a key of values. Raises ClientError, which never shows a text that may be a key."""
    from sluice_topics.values import KEY_BYTES, parse_key  # noqa: PLC0415 - most clients need none

    if isinstance(key, bytes) and len(key) == KEY_BYTES:
        return key
    try:
        if not isinstance(key, Path):
            text = key if isinstance(key, str) else key.decode("ascii")
            with suppress(ValueError):
                return parse_key(text)
            key = Path(text)
        return parse_key(key.expanduser().read_bytes().decode("ascii"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no 32 bytes in base64 or hex, and no file with them"
        raise ClientError(f"values_key: {why}", "Make the file with `sluice keys values`") from None


@lru_cache(maxsize=8)
def load_private_key(pem: bytes) -> Ed25519PrivateKey:
    """Raises ValueError for what is no Ed25519 key in PEM, or one under a password."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - importing the client loads none
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("no private key in PEM, or one under a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("no Ed25519 key")  # noqa: TRY004 - the kind of key, not of object
    return key
