"""What each process may do on the broker: the least access of each role, from the catalog. Pure.

A role may read every tenant's records of the topics that it reads: inside one prefix only the gateway
separates tenants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from sluice_topics.catalog import (
    ACTIONS,
    ADMITTED,
    ALARMS,
    CATALOG,
    DEAD_LETTERS,
    DESTINATION_USES,
    ESCALATIONS,
    MANDATES,
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    NOTIFICATIONS,
    OUTCOMES,
    QUALITY_DECISIONS,
    QUARANTINE,
    REGISTRY,
    REPORTED,
    RETRIEVALS,
    REVIEWS,
    SERVED,
    SESSION_EVENTS,
    SESSIONS_CHANGELOG,
    SOURCE_FEEDBACK,
    SUBJECT_KEYS,
    TREE_HEADS,
    VERDICTS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice_topics.layout import TopicLayout

Role = Literal[
    "agent",
    "worker",
    "gateway",
    "approver",
    "policy-owner",
    "auditor",
    "archiver",
    "restorer",
    "store",
    "notifier",
    "exporter",
    "head-signer",
    "sealer",
    "opener",
    "eraser",
    "init",
]
ROLES: tuple[Role, ...] = get_args(Role)
ResourceType = Literal["topic", "group", "transactional-id"]
Pattern = Literal["literal", "prefixed"]
Operation = Literal["Read", "Write", "Create", "Delete", "Describe", "DescribeConfigs", "AlterConfigs"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

CONTROL_WRITER = "sluice-control"
"""Behind the prefix: the transactional id that all publishers of policy share."""
HEAD_WRITER = "sluice-tree-heads"
"""Behind the prefix: the transactional id of the head signer."""
RESTORING_WRITER = "restore-"
"""Before a topic's name, a dash and a partition: the transactional ids of a restoration."""


class AllowedOperation(NamedTuple):
    """An operation on a resource that a role needs. `name` is that on the broker."""

    resource: ResourceType
    name: str
    pattern: Pattern
    operation: Operation


class _Needs(NamedTuple):
    """Of a role: base names of topics, and endings of group ids behind the app's id (`*`: any ending)."""

    read: frozenset[str]
    write: frozenset[str]
    groups: tuple[str, ...] = ()
    watched_groups: tuple[str, ...] = ()
    publishes_policy: bool = False
    decides: bool = False
    compares_topics: bool = False
    creates_topics: bool = False
    restores: bool = False
    signs_heads: bool = False


def _select(*directions: str) -> frozenset[str]:
    return frozenset(topic.name for topic in CATALOG if topic.direction in directions)


_INPUTS, _CONTROL, _OUTPUTS, _INTERNAL = (
    _select(direction) for direction in ("in", "control", "out", "internal")
)
_LEDGER = frozenset(topic.name for topic in CATALOG if topic.ledger)
_CONTENT = frozenset({ADMITTED, SERVED})
_PROPOSED = frozenset({ACTIONS, OUTCOMES, MEMORY_WRITES, RETRIEVALS, MANDATES})
_ANSWERS = frozenset({VERDICTS, MEMORY_DECISIONS, SERVED, SESSION_EVENTS, ESCALATIONS, DEAD_LETTERS})
_ANSWERED = _ANSWERS | {REVIEWS}
"""With the reviews, in which the parameters of a narrowed action stand."""
_WORKERS_OWN = _INTERNAL - {NOTIFICATIONS}
_TOLD = frozenset({ESCALATIONS, QUARANTINE, ALARMS})
_POLICY = _Needs(
    _CONTROL | _INPUTS | _OUTPUTS | _WORKERS_OWN,
    _CONTROL | {MANDATES},
    publishes_policy=True,
    compares_topics=True,
)
_NEEDS: dict[Role, _Needs] = {
    "agent": _Needs(_ANSWERED, _PROPOSED),
    "worker": _Needs(
        _INPUTS | _CONTROL | _WORKERS_OWN | {MEMORY_DECISIONS, QUARANTINE, SUBJECT_KEYS},
        _OUTPUTS - {TREE_HEADS} | _WORKERS_OWN,
        groups=("", "-provenance"),
        decides=True,
        compares_topics=True,
    ),
    "gateway": _Needs(
        _INPUTS | _CONTROL | _OUTPUTS | {SESSIONS_CHANGELOG, SUBJECT_KEYS},
        _PROPOSED | {REVIEWS, REGISTRY, SUBJECT_KEYS},
        publishes_policy=True,
        compares_topics=True,
    ),
    "approver": _Needs(_INPUTS | _CONTROL | _OUTPUTS - _CONTENT, frozenset({REVIEWS})),
    "policy-owner": _POLICY,
    "auditor": _Needs(
        _INPUTS | _CONTROL | _OUTPUTS | _INTERNAL,
        frozenset(),
        watched_groups=("",),
        compares_topics=True,
    ),
    "archiver": _Needs(_INPUTS | _CONTROL | _OUTPUTS | _INTERNAL, frozenset(), watched_groups=("",)),
    "restorer": _Needs(
        _INPUTS | {SOURCE_FEEDBACK, DESTINATION_USES},
        _INPUTS | _CONTROL | _OUTPUTS | _INTERNAL,
        groups=("",),
        creates_topics=True,
        restores=True,
    ),
    "store": _Needs(_CONTENT, frozenset({REPORTED}), groups=("-store*",)),
    "notifier": _Needs(
        _TOLD | _INPUTS | {NOTIFICATIONS},
        frozenset({NOTIFICATIONS}),
        groups=("-notify-*",),
        compares_topics=True,
    ),
    "exporter": _Needs(
        frozenset({VERDICTS, MEMORY_DECISIONS, QUALITY_DECISIONS}), frozenset(), groups=("-export-*",)
    ),
    "head-signer": _Needs(_LEDGER | {TREE_HEADS}, frozenset({TREE_HEADS}), signs_heads=True),
    "sealer": _Needs(_CONTROL | {SUBJECT_KEYS}, frozenset({SUBJECT_KEYS})),
    "opener": _Needs(frozenset({SUBJECT_KEYS}), frozenset()),
    "eraser": _Needs(
        _CONTROL | {SUBJECT_KEYS},
        frozenset({REGISTRY, SUBJECT_KEYS}),
        publishes_policy=True,
        compares_topics=True,
    ),
    "init": _POLICY._replace(creates_topics=True),
}


def list_access(role: Role, layout: TopicLayout) -> list[AllowedOperation]:
    """What a role needs, each once, topics in the order of the catalog.

    `Read` and `Write` include `Describe`. No role needs `IdempotentWrite` on the cluster: since Kafka 3.0 the
    right to write to any topic includes it (KIP-679).
    """
    needs = _NEEDS[role]
    return [
        *_list_topic_access(needs, layout),
        *_list_group_access(needs.groups, "Read", layout.app_id),
        *_list_group_access(needs.watched_groups, "Describe", layout.app_id),
        *_list_transactional_access(needs, layout),
    ]


def _list_topic_access(needs: _Needs, layout: TopicLayout) -> Iterator[AllowedOperation]:
    for topic in CATALOG:
        wanted = {
            "Read": topic.name in needs.read,
            "Write": topic.name in needs.write,
            "Create": needs.creates_topics,
            "Describe": (needs.compares_topics or needs.creates_topics)
            and topic.name not in needs.read | needs.write,
            "DescribeConfigs": needs.compares_topics,
            "Delete": needs.restores and topic.cleanup == "delete",
            "AlterConfigs": needs.restores and topic.cleanup == "delete",
        }
        name = topic.real_name(layout.prefix, layout.app_id)
        for operation in OPERATIONS:
            if wanted[operation]:
                yield AllowedOperation("topic", name, "literal", operation)


def _list_group_access(
    endings: Iterable[str], operation: Operation, app_id: str
) -> Iterator[AllowedOperation]:
    for ending in endings:
        pattern: Pattern = "prefixed" if ending.endswith("*") else "literal"
        yield AllowedOperation("group", f"{app_id}{ending.removesuffix('*')}", pattern, operation)


def _list_transactional_access(needs: _Needs, layout: TopicLayout) -> Iterator[AllowedOperation]:
    if needs.decides:
        for number in range(layout.partitions):
            yield AllowedOperation("transactional-id", f"{layout.app_id}-{number}", "literal", "Write")
    if needs.restores:
        for topic in CATALOG:
            name = f"{RESTORING_WRITER}{topic.real_name(layout.prefix, layout.app_id)}-"
            yield AllowedOperation("transactional-id", name, "prefixed", "Write")
    if needs.publishes_policy:
        yield AllowedOperation("transactional-id", f"{layout.prefix}{CONTROL_WRITER}", "literal", "Write")
    if needs.signs_heads:
        yield AllowedOperation("transactional-id", f"{layout.prefix}{HEAD_WRITER}", "literal", "Write")
