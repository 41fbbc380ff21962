"""The policy decision point: what the stream engine calls. What a kind of input has of its own is in its row.

Sans-I/O: `evaluate` is a generator that yields a Request where a stage needs one and is resumed with the
Answer; it reads the session's state and never changes it, so it may be abandoned at any yield.

Where the core itself fails on an input, the answer is its kind's own denial `internal_error` (standard:
allowed with an advisory) and a dead letter, so that one input can neither stop nor loop a worker (product.md,
"Bad input"); an input of a kind without a denial is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from sluice.core.actions.plan import plans, sort_stages
from sluice.core.decide.kinds import BY_MODEL, BY_TOPIC, DECISIONS, read_input_message
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.refusals import (
    INTERNAL_ERROR,
    NOT_SEALED,
    SEALED_UNMARKED,
    Objection,
    escape_surrogates,
    ids_in,
    make_dead_letter,
    refuse,
)
from sluice.core.foundation.requests import PAUSE
from sluice.core.foundation.sealed_input import (
    ask_for_keys,
    list_key_ids,
    open_record,
    open_sealed,
    read_sealed,
)
from sluice.core.memory import reviews
from sluice.core.memory.plan import plan_writes
from sluice.core.policy.policy import PointParts
from sluice.core.registry.agent_keys import check_signature
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.retrieval import alarms
from sluice.core.retrieval.plan import plan_retrievals
from sluice.core.state import escalation_records, expiry
from sluice.core.state.decision import Decision, Shared
from sluice.core.state.nonces import find_novelty
from sluice.core.state.session import who
from sluice.core.state.session_view import SessionView
from sluice_topics.catalog import REVIEWS
from sluice_topics.json_text import Unreadable, parse, write_json_path
from sluice_topics.sealing import ESCAPED, MARK, InputKind, SealError, find_misplaced, find_unsealed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from sluice.core.actions.stage import Stage
    from sluice.core.decide.kinds import Message
    from sluice.core.foundation.input_record import InputRecord, InputSignature
    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.foundation.sealed_input import Keys, SealedDocument
    from sluice.core.policy.policy import Policy
    from sluice.core.registry.registry_entries import Agent
    from sluice.core.state.book import Book
    from sluice.core.state.session import SessionState


NOTHING_SHARED = Shared()
_SEALED_KINDS: Mapping[str, InputKind] = {kind: kind for kind in get_args(InputKind)}
_UNMARKED = "no bundle marks it as personal: send it plain, since people would see a token (docs/erasure.md)"
_PLAIN = "it is marked as personal: whoever sends it seals it before it is published (docs/erasure.md)"


class DecisionPoint:
    """Decides under one policy. Holds no state of any session."""

    def __init__(  # noqa: PLR0913 - what a worker is set up with
        self,
        policy: Policy,
        stages: Sequence[Stage],
        limits: SessionLimits,
        *,
        stopwatch: Callable[[], int],
        environment: str,
        values_key: bytes | None = None,
        demands_sealed: bool = False,
    ) -> None:
        """`stages`: those that there are; each bundle says which of them run, and in what order. `stopwatch`
        returns ns and is only used for durations; `environment` names this installation; `values_key`: the
        master key of values' fingerprints, None for none; `demands_sealed`: what a bundle marks as personal
        and comes plain is refused, and what comes sealed elsewhere.

        Raises UnknownStageError for a bundle that names another stage.
        """
        ordered = {bundle.hash: sort_stages(bundle.stages, stages) for bundle in policy.bundles.values()}
        self._parts = PointParts(
            policy,
            limits,
            stopwatch,
            environment,
            plans(policy, ordered, master=values_key),
            plan_writes(policy),
            plan_retrievals(policy, environment),
            values_key=values_key,
            demands_sealed=demands_sealed,
        )
        self._refuses_plain = demands_sealed and policy.marks_personal
        self._pausing = replace(self._parts, pauses=True)

    @property
    def policy(self) -> Policy:
        """What it decides under."""
        return self._parts.policy

    def evaluate(
        self,
        input_record: InputRecord,
        message: Message,
        state: SessionState,
        shared: Shared = NOTHING_SHARED,
        *,
        pauses: bool = False,
    ) -> Generator[Request, Answer, Decision]:
        """Decide on a readable input. `shared`: what the partition keeps in addition to its sessions;
        `pauses`: others go along, stage by stage."""
        kind = BY_MODEL[type(message)]
        if kind.signer is not None:
            agent = self._parts.policy.registry.agents.get(getattr(message, kind.signer))
            if agent is not None and agent.keys is not None:
                input_record = attach_signature(self._parts, input_record, agent.id, state)
        parts = self._pausing if pauses else self._parts
        value = input_record.value or b""
        if self._refuses_plain and (unsealed := _object_to_plain(parts, input_record, message)) is not None:
            return _run_unasked(unreadable(input_record, unsealed))
        if (MARK in value or ESCAPED in value) and hasattr(message, "agent_id"):
            sealed = read_sealed(value, again=True)
            if sealed is not None:
                if parts.demands_sealed and (unmarked := _object_to_unmarked(parts, message, sealed)):
                    return _run_unasked(unreadable(input_record, unmarked))
                return _evaluate_sealed(parts, input_record, message.agent_id, sealed, state, shared)
        step = kind.evaluate(parts, input_record, message, state, shared)
        return _run_unasked(step) if isinstance(step, Decision) else step

    def unreadable(self, input_record: InputRecord, error: Unreadable) -> Decision:
        """An input that could not be read: a dead letter, and no session is touched."""
        return unreadable(input_record, error)

    def unread(self, input_record: InputRecord) -> Decision:
        """An input that was in flight at three crashes in a row: denied without looking into it."""
        return unread(self._parts, input_record)

    def fault(
        self, input_record: InputRecord, message: Message | None, state: SessionState, reason: str
    ) -> Decision:
        """The core raised on this input (`message` None: while it was read).

        Denied `internal_error`, in standard mode allowed and counted.
        """
        kind = None if message is None else BY_MODEL[type(message)]
        if kind is not None and kind.signer is not None:
            input_record = attach_signature(self._parts, input_record, getattr(message, kind.signer), state)
        return fault(self._parts, input_record, message, state, reason)

    def expire(self, key: bytes, state: SessionState, now_ms: int) -> Decision | None:
        """What time alone does to a session at `now_ms`; None when nothing is due."""
        return expiry.expire(self._parts.limits, key, state, now_ms)

    def expire_held(self, book: Book, now_ms: int, limit: int) -> Decision | None:
        """What time alone does to a partition's quarantine and open escalations at `now_ms`, `limit` of each;
        None when nothing is due."""
        decisions = (
            reviews.expire_due(book, now_ms, limit),
            escalation_records.expire_escalations(book, now_ms, limit),
        )
        due = [decision for decision in decisions if decision is not None]
        if not due:
            return None
        records = [record for decision in due for record in decision.records]
        return Decision((), records, tuple(change for decision in due for change in decision.book))

    def judge_again(
        self, input_record: InputRecord, message: Message, recorded: Mapping[str, Any]
    ) -> Generator[Request, Answer, list[OutRecord]]:
        """A recorded decision again, from what it says that was seen of state."""
        input_record = check_again(self._parts, input_record, message, recorded)
        is_review = input_record.topic == REVIEWS  # whose parameters are opened in the action
        sealed = None if is_review else read_sealed(input_record.value)
        if sealed is not None or is_review:
            tenant = UNREGISTERED if recorded["tenant_id"] is None else recorded["tenant_id"]
            keys = yield from ask_for_keys(
                list_key_ids(recorded) if sealed is None else sealed.key_ids, tenant
            )
            opened = _open_again(input_record, message, recorded, sealed, keys)
            if isinstance(opened, Unreadable):
                return unreadable(input_record, opened).records
            input_record, message, recorded = opened
        step = DECISIONS[recorded["schema"]].judge_again(self._parts, input_record, message, recorded)
        return [step if isinstance(step, OutRecord) else (yield from step)]

    def fault_again(
        self, input_record: InputRecord, message: Message, recorded: Mapping[str, Any], reason: str
    ) -> list[OutRecord]:
        """The answer where the core raised on that."""
        input_record = check_again(self._parts, input_record, message, recorded)
        return fault_again(self._parts, input_record, message, recorded, reason).records

    def alarms(self, book: Book, now_ms: int) -> Decision | None:
        """The alarms of the installation that are due at `now_ms`; None for none."""
        return alarms.raise_alarms(self._parts.policy.quality.values(), book, now_ms)


def _evaluate_sealed(
    parts: PointParts,
    input_record: InputRecord,
    agent_id: str,
    sealed: SealedDocument,
    state: SessionState,
    shared: Shared,
) -> Generator[Request, Answer, Decision]:
    """Decide on an input with sealed values: its keys are asked for, then it is read once more, opened. One
    that cannot be opened is denied unread; no session changes."""
    keys = yield from ask_for_keys(
        sealed.key_ids, parts.policy.find_tenant(agent_id), parts.policy.registry.erasures
    )
    opened = _open_input(input_record, sealed, keys)
    if isinstance(opened, Unreadable):
        return unreadable(input_record, opened)
    message = read_input_message(opened)
    if isinstance(message, Unreadable):
        return unreadable(input_record, message)
    if parts.pauses:
        yield PAUSE
    step = BY_MODEL[type(message)].evaluate(parts, opened, message, state, shared)
    return step if isinstance(step, Decision) else (yield from step)


def _object_to_plain(parts: PointParts, input_record: InputRecord, message: Message) -> Unreadable | None:
    """Why an input is refused that has a value plain which its sender must seal; None: it has not."""
    kind = BY_MODEL[type(message)]
    sealed_kind = _SEALED_KINDS.get(kind.name)
    if kind.signer is None or sealed_kind is None:
        return None
    marked = parts.policy.list_personal(
        getattr(message, kind.signer), getattr(message, "policy_bundle_id", None)
    )
    if not marked:
        return None
    steps = find_unsealed(parse(input_record.value or b""), sealed_kind, marked)
    return None if steps is None else Unreadable(NOT_SEALED, write_json_path(steps), _PLAIN)


def _object_to_unmarked(parts: PointParts, message: Any, sealed: SealedDocument) -> Unreadable | None:
    """Why an input is refused that has a sealed value where its bundle marks none: gates would judge what is
    in it, while the people who approve see a token; None: it has not."""
    kind = _SEALED_KINDS.get(BY_MODEL[type(message)].name)
    if kind is None:
        return None
    marked = parts.policy.list_personal(message.agent_id, getattr(message, "policy_bundle_id", None))
    steps = find_misplaced(sealed.document, kind, marked, sealed.tokens)
    return None if steps is None else Unreadable(SEALED_UNMARKED, write_json_path(steps), _UNMARKED)


def _open_input(input_record: InputRecord, sealed: SealedDocument, keys: Keys) -> InputRecord | Unreadable:
    opened = open_sealed(sealed, BY_TOPIC[input_record.topic].name, keys)
    return opened if isinstance(opened, Unreadable) else input_record.replace_opened(opened)


def _open_again(
    input_record: InputRecord,
    message: Message,
    recorded: Mapping[str, Any],
    sealed: SealedDocument | None,
    keys: Keys,
) -> tuple[InputRecord, Message, Mapping[str, Any]] | Unreadable:
    """An input, what is read in it and a decision on it, with all of their values opened."""
    if sealed is not None:
        opened = _open_input(input_record, sealed, keys)
        if isinstance(opened, Unreadable):
            return opened
        input_record, read = opened, read_input_message(opened)
        if isinstance(read, Unreadable):
            return read
        message = read
    try:
        return input_record, message, open_record(recorded, keys)
    except SealError as error:
        return Unreadable(error.code, write_json_path(error.steps), str(error))


def attach_signature(
    parts: PointParts, input_record: InputRecord, signer: str, state: SessionState
) -> InputRecord:
    """The input with what came of its signature; unchanged where the agent that it names does not sign."""
    agent = parts.policy.registry.find_signing_agent(signer)
    if agent is None:
        return input_record
    signature = _signature_of(parts, agent, input_record)
    if signature.refusal is None:
        view, owner = SessionView(state, parts.limits, input_record.timestamp_ms), who(agent.tenant, agent.id)
        signature = signature.replace_novelty(
            find_novelty(view, owner, input_record, signature, parts.limits)
        )
    return input_record.replace_signature(signature)


def check_again(
    parts: PointParts, input_record: InputRecord, message: Message, recorded: Mapping[str, Any]
) -> InputRecord:
    """The input with what came of its signature, where a record says whether the session knew the nonce."""
    kind = BY_MODEL[type(message)]
    agent = parts.policy.registry.find_signing_agent(getattr(message, kind.signer)) if kind.signer else None
    if agent is None:
        return input_record
    signature = _signature_of(parts, agent, input_record)
    recorded_signature = recorded.get("signature")
    return input_record.replace_signature(
        signature.replace_novelty(recorded_signature["novelty"]) if recorded_signature else signature
    )


def _signature_of(parts: PointParts, agent: Agent, input_record: InputRecord) -> InputSignature:
    registry = parts.policy.registry
    delegates = registry.find_delegates(agent.tenant)
    return check_signature(
        agent.keys or (), agent.signature_window_ms, input_record, delegates, registry.audience
    )


def _run_unasked(decision: Decision) -> Generator[Request, Answer, Decision]:
    yield from ()
    return decision


CRASHED = "in flight at several crashes in a row, so nobody looked into it again"


def unread(parts: PointParts, input_record: InputRecord, reason: str = CRASHED) -> Decision:
    """Deny an input without reading it; nothing in it is known, and no session changes."""
    dead_letter, deny = (
        make_dead_letter(input_record, INTERNAL_ERROR, "$", reason),
        BY_TOPIC[input_record.topic].unread,
    )
    if deny is None:
        return Decision((), [_refuse(input_record, None, None, reason), dead_letter])
    return deny(parts, input_record, dead_letter)


def fault(
    parts: PointParts,
    input_record: InputRecord,
    message: Message | None,
    state: SessionState,
    reason: str,
) -> Decision:
    """Answer an input that made the core raise; `message` is None when reading it did."""
    reason = escape_surrogates(reason)
    if message is None:
        return unread(parts, input_record, reason)
    if input_record.signature is not None and not input_record.signature.is_new:
        return unread(parts, input_record, reason)
    dead_letter, kind = make_dead_letter(input_record, INTERNAL_ERROR, "$", reason), BY_MODEL[type(message)]
    if kind.fault is None:
        refusal = _refuse(input_record, kind.session_of(message), kind.subject_of(message), reason)
        return Decision((), [refusal, dead_letter])
    return kind.fault(parts, input_record, message, state, dead_letter)


def fault_again(
    parts: PointParts, input_record: InputRecord, message: Message, recorded: Mapping[str, Any], reason: str
) -> Decision:
    """The decision on an input that made the core raise, on what a recorded one says was seen of state."""
    dead_letter = make_dead_letter(input_record, INTERNAL_ERROR, "$", escape_surrogates(reason))
    return DECISIONS[recorded["schema"]].fault_again(parts, input_record, message, recorded, dead_letter)


def _refuse(input_record: InputRecord, session_id: str | None, subject: str | None, reason: str) -> OutRecord:
    now = input_record.timestamp_ms
    return refuse(input_record.coordinates(), now, session_id, subject, Objection(INTERNAL_ERROR, reason))


def unreadable(input_record: InputRecord, error: Unreadable) -> Decision:
    """The dead letter of an unreadable input; no session changes."""
    ids = ids_in(input_record.value)
    return Decision((), [make_dead_letter(input_record, error.code, error.path, error.message, ids)])
