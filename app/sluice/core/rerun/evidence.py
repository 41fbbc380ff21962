"""What a rerun rests on: the policy of then by hash, the decision point made of it, and the recorded answers.

Signatures are not judged here. A decision names the hash of each thing that it used, so what has that hash is
what it used; whether it should have been trusted was decided then, and is no part of a rerun. In a rerun no
model is asked: its answers are those that the decision recorded.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ValidationError

from sluice.core.actions.resolution import SCHEMA as RESOLVED
from sluice.core.actions.resolution import read_recorded_escalation
from sluice.core.actions.stages import load_bundle
from sluice.core.actions.standing_grants import read_recorded_grant
from sluice.core.actions.verdict import SCHEMA as VERDICT
from sluice.core.actions.verdict import read_recorded_limits
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.kinds import read_input_message
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.errors import UnknownStageError
from sluice.core.foundation.limits import ROOM_FOR_ONE
from sluice.core.foundation.requests import HELD_INPUT, Answer
from sluice.core.foundation.sealed_input import NO_KEYS, SUBJECT_KEYS, find_keys, open_record
from sluice.core.memory.memory_record import SCHEMA as MEMORY
from sluice.core.memory.memory_record import read_history, read_parent_trust
from sluice.core.policy.policy import Policy
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.registry.erasures import ErasureSpec
from sluice.core.registry.loading import build_registry
from sluice.core.registry.registry_entries import UNREGISTERED, EntryFile
from sluice.core.retrieval.quality_record import SCHEMA as QUALITY
from sluice.core.retrieval.quality_record import read_resolutions
from sluice.core.state.book import Book, EscalationKept, GrantKept
from sluice.core.state.decision import Shared
from sluice.core.state.history import SourceName
from sluice.core.state.limit_usage import LimitSeen, LimitUsage, Meter
from sluice.core.state.seen_values import read_recorded_values
from sluice.core.state.usual import UseCount, UsualName
from sluice.core.trust.dsse import read_envelope
from sluice.core.trust.refused import Reason
from sluice.core.trust.signed_entries import BUNDLE, QUALITY_BUNDLE, Statement, read_statement
from sluice_topics.catalog import MEMORY_WRITES, RETRIEVALS
from sluice_topics.json_text import Unreadable
from sluice_topics.records import ProposedMemoryWrite
from sluice_topics.sealing import ERASED, is_sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.core.actions.stage import Stage
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.requests import Request
    from sluice.core.policy.bundles import Bundle
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice_topics.audience import Audience
    from sluice_topics.sealing import Erased, Keyring, SubjectKey


class PolicyEvidence:
    """Filled with control records; gives back what their payloads say."""

    def __init__(self) -> None:
        self._bundles: dict[str, dict[str, Statement]] = {BUNDLE: {}, QUALITY_BUNDLE: {}}
        self._compiled: dict[str, Bundle] = {}
        self._find_quality: dict[str, QualityBundle] = {}
        self._entries: dict[str, dict[str, Statement]] = {}

    def add(self, topic: str, value: bytes | None) -> None:
        """Take a control record; `topic` is the base name. A record that is not an envelope is skipped."""
        envelope = Unreadable("empty", "$", "no value") if value is None else read_envelope(value)
        if isinstance(envelope, Unreadable):
            return
        statement = read_statement(topic, envelope)
        if isinstance(statement, Reason):
            return
        if statement.kind in self._bundles:
            self._bundles[statement.kind][statement.hash] = statement
        else:
            self._entries.setdefault(statement.key, {})[statement.hash] = statement

    def find_bundle(self, bundle_hash: str) -> Bundle | None:
        """The bundle of this hash, compiled. Raises BundleError when it can no longer be."""
        if bundle_hash not in self._compiled:
            statement = self._bundles[BUNDLE].get(bundle_hash)
            if statement is None:
                return None
            self._compiled[bundle_hash] = load_bundle(canonical(statement.document), bundle_hash)
        return self._compiled[bundle_hash]

    def find_quality_bundle(self, bundle_hash: str) -> QualityBundle | None:
        """The quality bundle of this hash. Raises BundleError when it can no longer be loaded."""
        if bundle_hash not in self._find_quality:
            statement = self._bundles[QUALITY_BUNDLE].get(bundle_hash)
            if statement is None:
                return None
            self._find_quality[bundle_hash] = load_quality_bundle(canonical(statement.document))
        return self._find_quality[bundle_hash]

    def list_erased(self) -> frozenset[tuple[str, str]]:
        """The persons' keys that erasures name: the tenant whose it is to be, and the key's id."""
        specs = (
            _read_erasure(statement.document.get("spec"))
            for key, revisions in self._entries.items()
            if key.startswith("erasure/")
            for statement in revisions.values()
        )
        return frozenset((spec.tenant_id, key_id) for spec in specs if spec for key_id in spec.key_ids)

    def find_entry(self, key: str, entry_hash: str) -> EntryFile | None:
        """The entry "kind/id@revision" of this hash; where only another content bears the name, that one."""
        revisions = self._entries.get(key, {})
        statement = revisions.get(entry_hash) or next(iter(revisions.values()), None)
        return None if statement is None else EntryFile.model_validate(statement.document)


def _read_erasure(spec: Any) -> ErasureSpec | None:
    """What an erasure says; None for what has the name of one and is none: nobody has checked it."""
    try:
        return ErasureSpec.model_validate(spec)
    except ValidationError:
        return None


REMEMBERED_POINTS = 256
Quality = tuple[str | None, str | None]
"""Id and hash of a quality bundle."""


class Gone(Exception):
    """Names what a rerun lacks."""

    def __init__(self, *missing: str) -> None:
        super().__init__(", ".join(missing))
        self.missing = missing


class KeysErased(Exception):
    """A decision rests on values of persons whose keys were destroyed; names the keys' ids."""

    def __init__(self, *key_ids: str) -> None:
        super().__init__(", ".join(key_ids))
        self.key_ids = tuple(dict.fromkeys(key_ids))


class Points(Protocol):
    """Gives the decision point that a record is executed again at."""

    def get_point(self, recorded: dict[str, Any]) -> DecisionPoint:
        """The point."""


class PointsOfThen:
    """Decision points over one body of evidence. `stage_of` gives a stage by its name, or raises
    UnknownStageError: an installation's own stages are its own to bring. `audience`: the installation."""

    def __init__(
        self, evidence: PolicyEvidence, stage_of: Callable[[str], Stage], audience: Audience
    ) -> None:
        self._evidence = evidence
        self._audience = audience
        self._stage_of = stage_of
        self._point = lru_cache(maxsize=REMEMBERED_POINTS)(self._build)

    def get_point(self, recorded: dict[str, Any]) -> DecisionPoint:
        """Of what the record names by hash, for judgements. Raises Gone, BundleError and RegistryError."""
        entries = tuple(sorted(recorded["registry_hashes"].items()))
        quality = recorded.get("quality_bundle_id"), recorded.get("quality_bundle_hash")
        environment = recorded.get("environment", "rerun")
        return self._point(recorded["bundle_hash"], entries, quality, environment)

    def _build(
        self,
        bundle_hash: str,
        entries: tuple[tuple[str, str], ...],
        quality: Quality,
        environment: str,
    ) -> DecisionPoint:
        missing: list[str] = []
        bundle = self._evidence.find_bundle(bundle_hash)
        if bundle is None:
            missing.append(f"bundle {bundle_hash}")
        entry_files = [(key, self._evidence.find_entry(key, entry_hash)) for key, entry_hash in entries]
        missing += [f"registry entry {key}" for key, entry in entry_files if entry is None]
        stages = [self._find_stage(name, missing) for name in (() if bundle is None else bundle.stages)]
        judging = self._find_quality(quality, missing)
        if missing or bundle is None:
            raise Gone(*missing)
        registry = build_registry((entry for _, entry in entry_files if entry is not None), self._audience)
        policy = Policy({bundle.id: bundle}, registry, bundle.id, judging, quality[0] or "")
        shipped = [stage for stage in stages if stage is not None]
        return DecisionPoint(policy, shipped, ROOM_FOR_ONE, stopwatch=lambda: 0, environment=environment)

    def _find_quality(self, quality: Quality, missing: list[str]) -> dict[str, QualityBundle]:
        """The quality bundle by the id under which it was asked for; none where none was in force."""
        asked_for, bundle_hash = quality
        if asked_for is None or bundle_hash is None:
            return {}
        bundle = self._evidence.find_quality_bundle(bundle_hash)
        if bundle is None:
            missing.append(f"quality bundle {bundle_hash}")
            return {}
        return {asked_for: bundle}

    def _find_stage(self, name: str, missing: list[str]) -> Stage | None:
        try:
            return self._stage_of(name)
        except UnknownStageError:
            missing.append(f"stage {name}")
            return None


class ErasedWhereUnknown:
    """A keyring that takes a tenant's key which nobody knows any more for destroyed where an erasure of this
    tenant names it: an archive and a package have no keys. A key that is known opens, whatever an entry
    without a valid signature may say. `erased`: tenants and ids of keys."""

    def __init__(self, keyring: Keyring, erased: frozenset[tuple[str, str]], tenant: str) -> None:
        self._keyring = keyring
        self._erased = erased
        self._tenant = tenant

    def find(self, key_id: str) -> SubjectKey | Erased | None:
        """The key of this id."""
        key = self._keyring.find(key_id)
        return ERASED if key is None and (self._tenant, key_id) in self._erased else key


class RecordedAnswers:
    """In their order; what was asked `beyond` them is kept by its port. An earlier input is read again where
    it lies; where it does not any more, `gone` names it. `keyring`: of persons' keys, which opens sealed
    values; keys that were destroyed are `erased`."""

    def __init__(
        self,
        outputs: list[dict[str, Any]],
        inputs: Mapping[tuple[str, int, int], InputRecord],
        keyring: Keyring = NO_KEYS,
    ) -> None:
        self._left = outputs[::-1]
        self._inputs = inputs
        self._keyring = keyring
        self.beyond: list[str] = []
        self.gone: list[str] = []
        self.erased: list[str] = []

    def next(self, request: Request) -> Answer:
        """The answer to the next request."""
        if request.port == HELD_INPUT:
            return self._read_held_input(request)
        if request.port == SUBJECT_KEYS:
            return self._find_keys(request)
        if self._left:
            output = self._left.pop()
            payload, detail = (self._open(name, output[name]) for name in ("payload", "detail"))
            return Answer(output["status"], payload, detail)
        self.beyond.append(request.port)
        return Answer("unavailable", detail="no answer is recorded")

    def _open(self, name: str, value: Any) -> Any:
        """What a model answered; opened where it is sealed."""
        return open_record(value, self._keyring, ("model_outputs", 0, name)) if is_sealed(value) else value

    def _find_keys(self, request: Request) -> Answer:
        key_ids: Any = request.payload
        self.erased += [key_id for key_id in key_ids if self._keyring.find(key_id) is ERASED]
        self.gone += [f"key {key_id}" for key_id in key_ids if self._keyring.find(key_id) is None]
        return find_keys(self._keyring, request)

    def _read_held_input(self, request: Request) -> Answer:
        coordinates: Any = request.payload
        input_record = self._inputs.get(
            (coordinates["topic"], coordinates["partition"], coordinates["offset"])
        )
        if input_record is None:
            self.gone.append(
                f"input {coordinates['topic']}:{coordinates['partition']}:{coordinates['offset']}"
            )
            return Answer("unavailable", detail="it is no longer there")
        return Answer("answered", input_record.value or b"")


class _RecordedQuarantine(Book):
    """A quarantine of which a decision says what the trust in its memories was."""

    def __init__(self, trust: Mapping[str, float | None]) -> None:
        super().__init__({})
        self._trust = trust

    def trust_of(self, tenant: str, memory_id: str) -> float | None:
        del tenant
        return self._trust.get(memory_id)


class _RecordedUsage(LimitUsage):
    """What a decision says that its partition had counted."""

    def __init__(self, observed: Mapping[str, LimitSeen]) -> None:
        super().__init__({})
        self._observed = observed

    def see(
        self, meter: Meter, share: int, at_ms: int, values: Iterable[str] | None, own: int | None
    ) -> LimitSeen:
        del share, at_ms, values, own
        return self._observed.get(meter.key[1], LimitSeen(None, 0))


def _open_book(recorded: Mapping[str, Any] | None) -> Book:
    """A partition's book in which is counted what a verdict says."""
    book = Book({})
    observed = None if recorded is None else read_recorded_limits(recorded["session"])
    if observed is not None:
        book.limits = _RecordedUsage(observed)
    return book


def restore_shared(records: Sequence[dict[str, Any]], input_record: InputRecord) -> Shared:
    """What the partition kept in addition to the session, as the records have it."""
    if input_record.topic == MEMORY_WRITES:
        memory = next(record for record in records if record["schema"] == MEMORY)
        tenant = UNREGISTERED if memory["tenant_id"] is None else memory["tenant_id"]
        write = read_input_message(input_record)
        source = SourceName(tenant, write.source.id if isinstance(write, ProposedMemoryWrite) else "")
        return Shared(_RecordedQuarantine(read_parent_trust(memory)), {source: read_history(memory)})
    resolved = next((record for record in records if record["schema"] == RESOLVED), None)
    if resolved is not None:
        book = _open_book(resolved)
        book.apply([EscalationKept(read_recorded_escalation(resolved))])
        return Shared(book, uses=_read_uses(resolved, resolved["escalation"]["tool"]))
    verdict = next((record for record in records if record["schema"] == VERDICT), None)
    tool = getattr(read_input_message(input_record), "tool_name", "")
    uses = {} if verdict is None else _read_uses(verdict, tool)
    if verdict is not None and ("grant" in verdict or "limits" in verdict["session"]):
        book, grant = _open_book(verdict), read_recorded_grant(verdict, tool)
        book.apply([] if grant is None else [GrantKept(grant)])
        return Shared(book, uses=uses)
    if input_record.topic == RETRIEVALS:
        resolutions = [read_resolutions(record) for record in records if record["schema"] == QUALITY]
        return Shared(
            provenance={name: resolution for by_name in resolutions for name, resolution in by_name.items()}
        )
    return Shared(uses=uses)


def _read_uses(verdict: Mapping[str, Any], tool: str) -> dict[UsualName, UseCount]:
    """The uses of destinations that a verdict saw."""
    values = verdict["session"].get("values")
    if values is None:
        return {}
    observed = read_recorded_values(values).uses.values()
    return {
        UsualName(verdict["tenant_id"], use.agent, tool, use.role, use.fingerprint): UseCount(
            use.last_ms, use.last_ms, use.times, use.days, use.revision, use.answered_ms, use.until_ms
        )
        for use in observed
    }
