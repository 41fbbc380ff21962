"""ACLs on the broker: which a principal has, and setting and removing those of a role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.errors import ClusterAuthorizationFailedError, for_code
from aiokafka.protocol.admin import (
    CreateAclsRequest_v1,
    DeleteAclsRequest_v1,
    DescribeAclsRequest,
)
from aiokafka.protocol.api import Request

from sluice.adapters.kafka.kafka_read import open_admin
from sluice_topics.access import AllowedOperation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aiokafka.admin import AIOKafkaAdminClient

    from sluice.client.kafka_connection import KafkaCluster

ANY = 1
ALLOW = 3
EVERY_HOST = "*"
# Kafka's numbers: org.apache.kafka.common.resource.ResourceType and PatternType, …common.acl.AclOperation
_RESOURCES = {"topic": 2, "group": 3, "transactional-id": 5}
_PATTERNS = {"literal": 3, "prefixed": 4}
_OPERATIONS = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Describe": 8,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
}
_OTHER_RESOURCES = {4: "cluster", 6: "delegation-token", 7: "user"}
_OTHER_OPERATIONS = {
    2: "All",
    7: "Alter",
    9: "ClusterAction",
    12: "IdempotentWrite",
    13: "CreateTokens",
    14: "DescribeTokens",
    15: "TwoPhaseCommit",
}
NO_ADMINISTRATOR = "this login may not see or set ACLs of the cluster, use an administrator's"


class AclRefused(Exception):
    """The broker did not set, remove or show ACLs; the message names the first and says why."""


class AclChange(NamedTuple):
    """`changed`: set or removed now; `unchanged`: were as wanted; `further`: what else the principal may do,
    each as a text."""

    changed: Sequence[AllowedOperation]
    unchanged: Sequence[AllowedOperation]
    further: Sequence[str]


async def set_access(cluster: KafkaCluster, principal: str, wanted: Sequence[AllowedOperation]) -> AclChange:
    """Allow `principal` from every host what is wanted and not there yet. Raises AclRefused and
    KafkaUnreachable."""
    async with open_admin(cluster) as admin:
        present, others = await _fetch_acls(admin, principal)
        missing = [operation for operation in wanted if operation not in present]
        if missing:
            request = _CreateAcls([_write_acl(operation, principal) for operation in missing])
            answer = await admin._send_to_controller(request)  # noqa: SLF001 - aiokafka has no method for it
            for allowed_operation, (code, reason) in zip(missing, answer.creation_responses, strict=True):
                _require_done(
                    code,
                    reason,
                    f"{allowed_operation.operation} on {allowed_operation.resource} {allowed_operation.name}",
                )
    unchanged = [operation for operation in wanted if operation in present]
    return AclChange(missing, unchanged, _describe_further(present, wanted, others))


async def remove_access(
    cluster: KafkaCluster, principal: str, unwanted: Sequence[AllowedOperation]
) -> AclChange:
    """Take from `principal` what is unwanted and there. Raises AclRefused, KafkaUnreachable."""
    async with open_admin(cluster) as admin:
        present, others = await _fetch_acls(admin, principal)
        there = [operation for operation in unwanted if operation in present]
        if there:
            request = _DeleteAcls([_write_acl(operation, principal) for operation in there])
            answer = await admin._send_to_controller(request)  # noqa: SLF001 - as above
            for allowed_operation, (code, reason, _) in zip(there, answer.filter_responses, strict=True):
                _require_done(
                    code,
                    reason,
                    f"{allowed_operation.operation} on {allowed_operation.resource} {allowed_operation.name}",
                )
    absent = [operation for operation in unwanted if operation not in present]
    return AclChange(there, absent, _describe_further(present, unwanted, others))


async def _fetch_acls(admin: AIOKafkaAdminClient, principal: str) -> tuple[set[AllowedOperation], list[str]]:
    """What the principal may do: as roles have it, and everything else as texts."""
    answer = await admin._send_request(  # noqa: SLF001 - aiokafka has the structs and no method
        DescribeAclsRequest(ANY, None, ANY, principal, None, ANY, ANY)
    )
    _require_done(answer.error_code, answer.error_message, f"the ACLs of {principal}")
    resources, patterns, operations = (
        {number: name for name, number in numbers.items()} for numbers in (_RESOURCES, _PATTERNS, _OPERATIONS)
    )
    allowed, others = set[AllowedOperation](), []
    for kind, name, pattern, acls in answer.resources:
        for _, host, operation, permission in acls:
            if kind in resources and operation in operations and (host, permission) == (EVERY_HOST, ALLOW):
                allowed.add(AllowedOperation(resources[kind], name, patterns[pattern], operations[operation]))  # type: ignore[arg-type]
                continue
            what = operations.get(operation) or _OTHER_OPERATIONS.get(operation, str(operation))
            of = resources.get(kind) or _OTHER_RESOURCES.get(kind, str(kind))
            deny = "" if permission == ALLOW else "denied: "
            others.append(f"{deny}{what} on {of} {name} ({patterns.get(pattern, pattern)}, host {host})")
    return allowed, sorted(others)


def _describe_further(
    present: set[AllowedOperation], named: Iterable[AllowedOperation], others: Iterable[str]
) -> list[str]:
    further = sorted(present - set(named))
    return [
        *(
            f"{operation.operation} on {operation.resource} {operation.name} ({operation.pattern})"
            for operation in further
        ),
        *others,
    ]


def _require_done(code: int, reason: str | None, what: str) -> None:
    if code == ClusterAuthorizationFailedError.errno:
        raise AclRefused(f"{what}: {NO_ADMINISTRATOR}")
    if code:
        raise AclRefused(f"{what}: {reason or for_code(code).__name__}")


def _write_acl(operation: AllowedOperation, principal: str) -> tuple[int, str, int, str, str, int, int]:
    return (
        _RESOURCES[operation.resource],
        operation.name,
        _PATTERNS[operation.pattern],
        principal,
        EVERY_HOST,
        _OPERATIONS[operation.operation],
        ALLOW,
    )


class _CreateAcls(Request[CreateAclsRequest_v1]):  # type: ignore[misc]
    """All of them in one request; aiokafka's own takes one."""

    API_KEY = 30

    def __init__(self, acls: Sequence[tuple[Any, ...]]) -> None:
        self._acls = list(acls)

    def build(self, request_struct_class: type[CreateAclsRequest_v1]) -> CreateAclsRequest_v1:
        """The request on the wire."""
        return request_struct_class(self._acls)


class _DeleteAcls(Request[DeleteAclsRequest_v1]):  # type: ignore[misc]
    """Likewise."""

    API_KEY = 31

    def __init__(self, acls: Sequence[tuple[Any, ...]]) -> None:
        self._acls = list(acls)

    def build(self, request_struct_class: type[DeleteAclsRequest_v1]) -> DeleteAclsRequest_v1:
        """The request on the wire."""
        return request_struct_class(self._acls)
