"""Everything that a run of the demo publishes, in order, as values: made before anything is sent."""

from __future__ import annotations

import json
import random
import tomllib
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path  # noqa: TC003 - a dataclass's field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson

from sluice.client.kafka_writing import Outgoing
from sluice.core.actions.action_kinds import ACTION
from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.core.foundation.strict import json_object
from sluice.core.memory.memory_kinds import WRITE
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.registry.loading import make_neutral_entries
from sluice.core.registry.quality_entries import make_provenance_id
from sluice.core.retrieval.retrieval_kinds import RETRIEVAL
from sluice.offline.bundle_source import read_whole_bundle
from sluice.offline.panels import load_panel
from sluice_demo import invoice, judged_actions, refunds
from sluice_demo.sessions import (
    ALTERED,
    DAY_MS,
    VERIFIED,
    Reading,
    add_memories,
    compute_digest,
    find_source,
    make_sessions,
    make_uri,
)
from sluice_demo.throwaway_trust import ThrowawayTrust
from sluice_topics.catalog import MAX_INPUT_VALUE_BYTES
from sluice_topics.headers import make_input_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sluice.core.policy.kind import AnyKind
    from sluice.offline.panels import ActionRow
    from sluice_demo.sessions import PlannedSession
    from sluice_demo.throwaway_trust import ControlRecord

SOURCE = "/sluice/demo"
"""ce_source of what the demo publishes."""
TENANT = "demo-generated"
REPEAT, CONFLICT, UNREADABLE = "repeat", "conflict", "unreadable"
_HIDDEN = frozenset({"downgrade", "deny"})
_TOO_DEEP = 65


@dataclass(frozen=True, slots=True)
class Planned:
    """One input. `role` is the name of its kind, or REPEAT, CONFLICT or UNREADABLE.

    `fields` are the record's by wire name; an unreadable one has only `what`, what is wrong with it.
    """

    role: str
    topic: str
    session_id: str
    fields: dict[str, Any]
    outgoing: Outgoing


def make_input(kind: AnyKind, fields: dict[str, Any], time: str, role: str = "") -> Planned:
    """A readable input record, keyed by its session; `time` is RFC 3339, for the headers."""
    headers = make_input_headers(fields[kind.subject], kind.model.__name__, SOURCE, time)
    session: str = fields["session_id"]
    outgoing = Outgoing(session.encode(), serialize(fields), tuple(headers))
    return Planned(role or kind.name, kind.topic, session, fields, outgoing)


def serialize(fields: dict[str, Any]) -> bytes:
    """Write JSON; equal fields in one order give equal bytes."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def make_unreadable_values(action: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Make values of every unreadable kind: what is wrong, and the bytes. `action`: a ProposedAction by wire
    name."""
    whole = serialize(action)
    rest = serialize({name: value for name, value in action.items() if name != "parameters"})

    def write_parameters(parameters: bytes) -> bytes:
        """The action with parameters that a JSON writer would not write."""
        return rest[:-1] + b',"parameters":' + parameters + b"}"

    yield "cut off in the middle", whole[: len(whole) // 2]
    yield "no value at all", b""
    yield "not UTF-8", write_parameters('"\xff"'.encode("latin-1"))
    yield "a key given twice", whole[:-1] + b',"mode":"standard"' * 2 + b"}"
    yield "NaN for a number", write_parameters(b'{"limit":NaN}')
    yield "half a surrogate pair", write_parameters(rb'{"text":"\ud800"}')
    yield "nested too deep", write_parameters(b"[" * _TOO_DEEP + b"]" * _TOO_DEEP)
    yield "over the size limit", write_parameters(b'"' + b"x" * MAX_INPUT_VALUE_BYTES + b'"')
    yield "an unknown field", serialize({**action, "priority": "urgent"})
    yield "a field missing", serialize({name: value for name, value in action.items() if name != "toolName"})
    yield "a number as text", serialize({**action, "rows_affected": "12"})
    yield "another session's key", serialize({**action, "session_id": f"{action['session_id']}-other"})


def make_plan(sessions: Sequence[PlannedSession], story: str, time: str) -> list[Planned]:
    """The sessions' actions, memory writes and retrievals in turn, each session's in its order.

    The story's first action comes twice more. Each of the last sessions has an unreadable record inside.
    """
    columns = [_make_column(session, time) for session in sessions]
    for session, column in zip(sessions, columns, strict=True):
        if session.id == story:
            first = session.actions[0]
            other = {**first, "rows_affected": first["rows_affected"] + 1}
            column += [make_input(ACTION, first, time, REPEAT), make_input(ACTION, other, time, CONFLICT)]
    kinds = len(list(make_unreadable_values(sessions[-1].actions[0])))
    for index, session in enumerate(sessions[-kinds:]):
        what, value = list(make_unreadable_values(session.actions[0]))[index]
        outgoing = Outgoing(session.id.encode(), value, ())
        spoilt = Planned(UNREADABLE, ACTION.topic, session.id, {"what": what}, outgoing)
        column = columns[index - kinds]
        column.insert(len(column) // 2, spoilt)
    return [planned for planned in chain.from_iterable(zip_longest(*columns)) if planned is not None]


def _make_column(session: PlannedSession, time: str) -> list[Planned]:
    """Actions, writes and retrievals by turns, as long as there are any of each."""
    kinds = ((ACTION, session.actions), (WRITE, session.writes), (RETRIEVAL, session.reads))
    made = ([make_input(kind, fields, time) for fields in each] for kind, each in kinds)
    return [planned for planned in chain.from_iterable(zip_longest(*made)) if planned is not None]


def generate_registry(rows: Iterable[ActionRow], readings: SimpleNamespace, feed_key: str) -> bytes:
    """The registry file's bytes: the rows' agents and tools, the readings' sources and recorded hashes.

    `feed_key`: the public key of what feeds assert, base64.

    Of actions it says which agents and tools exist and no more, so that the bundle alone decides; of items it
    says where they come from. The demo's own row estimates count as they are. The tenant's name says that the
    registry is generated.
    """
    rows = list(rows)
    neutral = make_neutral_entries(TENANT, [row.agent for row in rows], [row.tool for row in rows])
    entries = [entry.model_dump() for entry in neutral]
    tiers = {agent: tier for tier, agents in vars(readings.tiers.of).items() for agent in agents}
    for entry in entries:
        if entry["kind"] == "agent":
            entry["spec"]["autonomy_tier"] = tiers.get(entry["id"], readings.tiers.default)
        elif entry["kind"] == "tool":
            entry["spec"]["trusts_row_claims"] = True
    for source in readings.source:
        if hasattr(source, "source_id"):
            key = {"public_key": feed_key} if source.by == "signed" else {}
            name = f"{TENANT}/{source.source_id}"
            entries.append(_make_entry("source", name, source_id=source.source_id, **key))
    referring = [
        text
        for text in (*readings.story.read, *readings.story.contract)
        if text.reference in (VERIFIED, ALTERED)
    ]
    for element in (*readings.text, *referring):
        if find_source(readings, element.content_class).by == "recorded":
            uri = make_uri(readings, element.content_class, element.text)
            entries.append(
                _make_entry(
                    "provenance", make_provenance_id(TENANT, uri), uri=uri, hash=compute_digest(element.text)
                )
            )
    for bad in readings.known_bad:
        spec = {"subject": "item", "value": bad.item_id, "reason": bad.reason}
        entries.append(_make_entry("known_bad", bad.item_id, **spec))
    return json.dumps({"entries": entries}, indent=1).encode()


def _make_entry(kind: str, name: str, **spec: str) -> dict[str, Any]:
    return {"kind": kind, "id": name, "revision": 1, "spec": {"tenant_id": TENANT, **spec}}


def roll_half_out(shipped: bytes, readings: SimpleNamespace, now_ms: int) -> bytes:
    """The quality bundle with one class in flag-only, and with its cases expecting that."""
    document, rollout = json_object(shipped), readings.rollout

    def expect_flag_only(case: dict[str, Any]) -> dict[str, Any]:
        expect = case["expect"]
        if case["item"].get("content_class") != rollout.flag_only or expect["outcome"] not in _HIDDEN:
            return case
        return {**case, "expect": {**expect, "outcome": "flag", "would_have_been": expect["outcome"]}}

    since = {"mode": "flag_only", "since": rfc3339(now_ms - rollout.days * DAY_MS)}
    classes = {**document["rollout"], rollout.flag_only: since}
    return orjson.dumps(
        {**document, "rollout": classes, "cases": list(map(expect_flag_only, document["cases"]))}
    )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run. `home` keeps its files, `broker_home` those of `sluice broker`; `config` is the
    folder that `load_config` reads; `bundle` and `quality` are what ships; `now` gives RFC 3339. `secured`:
    on a broker of the run's own where everyone must log in."""

    run: str
    home: Path
    broker_home: Path
    config: Path
    bundle: Path
    quality: Path
    environment: Mapping[str, str]
    keep: bool
    now: Callable[[], str]
    trust: ThrowawayTrust = field(default_factory=ThrowawayTrust)
    secured: bool = False


@dataclass(frozen=True, slots=True)
class Material:
    """The inputs of a run, and from what they were made.

    `opening` comes first and is answered before the `plan` goes on: the story reads before it acts. `judged`
    are actions as config/demo/judged.toml has them, `invoice` is its table of that name.
    """

    rows: Sequence[ActionRow]
    writes: Sequence[dict[str, Any]]
    sessions: Sequence[PlannedSession]
    opening: Sequence[Planned]
    plan: Sequence[Planned]
    config: SimpleNamespace
    bundle: bytes
    quality: bytes
    policy: Sequence[ControlRecord]
    judged: Sequence[dict[str, Any]]
    invoice: Mapping[str, Any]

    @property
    def retrievals(self) -> list[Planned]:
        """All readings, without what is asked for again."""
        return [planned for planned in (*self.opening, *self.plan) if planned.role == RETRIEVAL.name]


def load_config(folder: Path) -> SimpleNamespace:
    """Load the files of config/demo by file (`recipe`, `memories`, `readings`) and name; their comments
    explain each.

    Raises OSError and TOMLDecodeError.
    """
    files = {"recipe": "recipe.toml", "memories": "memories.toml", "readings": "retrievals.toml"}
    read = {part: tomllib.loads((folder / name).read_text("utf-8")) for part, name in files.items()}
    config: SimpleNamespace = json.loads(json.dumps(read), object_hook=lambda of: SimpleNamespace(**of))
    return config


def prepare(options: RunOptions) -> Material:
    """Make everything that will be published. The same wish gives the same bytes."""
    config, rows = load_config(options.config), load_panel(options.config / "actions.jsonl")
    writes = [
        json_object(line) for line in (options.config / "memory_writes.jsonl").read_bytes().splitlines()
    ]
    recipe, readings, now, trust = config.recipe, config.readings, options.now(), options.trust
    story = recipe.story.session
    bundle = _adapt(read_whole_bundle(options.bundle), options, config.recipe.review_s)
    quality = roll_half_out(options.quality.read_bytes(), readings, read_milliseconds(now))
    acting = make_sessions(rows, load_bundle(bundle), recipe, _make_random(recipe.seed))
    drawing = _make_random(f"{recipe.seed} retrievals")
    reading = Reading(readings, load_quality_bundle(quality), trust.feed, now, drawing)
    remembering = add_memories(acting, writes, config, now)
    sessions = reading.add_readings(remembering, recipe)
    (telling,) = (session for session in sessions if session.id == story)
    opening = [make_input(RETRIEVAL, fields, now) for fields in reading.make_story(telling)]
    registry = generate_registry(rows, readings, trust.feed.public.text)
    clerk = refunds.make_registry_entries(TENANT, trust.agent.public.text)
    shown = judged_actions.read_config(options.config)
    own = judged_actions.make_bundle(bundle, options.bundle.parent, shown)
    keeper = invoice.make_registry_entries(TENANT, trust.point.public.text)
    entries = [*clerk, *keeper, *judged_actions.make_registry_entries(TENANT, shown)]
    policy = [*trust.make_policy(bundle, registry), *trust.sign_entries(entries), trust.sign_bundle(own)]
    policy += [trust.sign_bundle(invoice.make_bundle(bundle)), trust.sign_quality_bundle(quality)]
    plan = make_plan(sessions, story, now)
    apart = shown["action"], shown["invoice"]
    return Material(rows, writes, sessions, opening, plan, config, bundle, quality, policy, *apart)


def _make_random(seed: int | str) -> random.Random:
    return random.Random(seed)  # noqa: S311 - seeded, so that two runs draw the same


def _adapt(bundle: bytes, options: RunOptions, review_s: float) -> bytes:
    """The bundle with the recipe's time for reviews and approvals, and its rules for the gate `sequence`."""
    document = json_object(bundle)
    review = {"quarantineReviewMs": int(review_s * 1000)}
    adapted = {
        "memory": {**document.get("memory", {}), **review},
        "escalation_ttl_ms": int(review_s * 1000),
        "sequence": tomllib.loads((options.config / "sequence.toml").read_text("utf-8")),
    }
    return orjson.dumps({**document, **adapted})
