"""`sluice topics acl`: what a role may do, as a table, as lines of Kafka's own tool, or as JSON."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.cli.output import clean, console, errors, print_json
from sluice.cli.tables import build_table, fix, fold
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

    from sluice.adapters.kafka.kafka_acls import AclChange
    from sluice_topics.access import AllowedOperation, Operation

TOOL = "kafka-acls.sh"
ADMIN_FILE = "admin.properties"


class _AclLine(NamedTuple):
    """Resources on which a role needs the same operations."""

    resource: str
    pattern: str
    operations: tuple[Operation, ...]
    names: tuple[str, ...]


def group_access(wanted: Iterable[AllowedOperation]) -> list[_AclLine]:
    """One line for all resources of a type and a pattern with the same operations."""
    operations: dict[tuple[str, str, str], list[Operation]] = {}
    for operation in wanted:
        operations.setdefault((operation.resource, operation.pattern, operation.name), []).append(
            operation.operation
        )
    names: dict[tuple[str, str, tuple[Operation, ...]], list[str]] = {}
    for (resource, pattern, name), of_it in operations.items():
        names.setdefault((resource, pattern, tuple(of_it)), []).append(name)
    return [_AclLine(*key, tuple(matches)) for key, matches in names.items()]


def write_commands(
    wanted: Iterable[AllowedOperation], principal: str, servers: str, *, remove: bool
) -> list[str]:
    """Command lines of Kafka's own tool that set the same, or remove it."""
    head = [TOOL, "--bootstrap-server", servers, "--command-config", ADMIN_FILE]
    head += ["--remove", "--force"] if remove else ["--add"]
    return [
        shlex.join(
            [
                *head,
                "--allow-principal",
                principal,
                *(word for operation in line.operations for word in ("--operation", operation)),
                *(("--resource-pattern-type", line.pattern) if line.pattern != "literal" else ()),
                *(word for name in line.names for word in (f"--{line.resource}", name)),
            ]
        )
        for line in group_access(wanted)
    ]


def build_access_table(wanted: Sequence[AllowedOperation]) -> Table:
    """For people: each resource once, with what the role may do there."""
    rows = (
        (line.resource, ", ".join(line.operations), clean(name) + ("*" if line.pattern == "prefixed" else ""))
        for line in group_access(wanted)
        for name in _shorten(line.names)
    )
    return build_table(*fix("what", "may"), *fold("name"), rows=rows)


def print_change(change: AclChange, principal: str, *, remove: bool, as_json: bool) -> None:
    """What was set or removed now, and on standard error what else the principal may do."""
    if as_json:
        print_json(
            {
                "removed" if remove else "set": _list_fields(change.changed),
                "absent" if remove else "present": len(change.unchanged),
                "further": list(change.further),
            }
        )
    else:
        done, were = ("removed", "were not there") if remove else ("set", "were there already")
        description = f"{clean(principal)}: [green]{count_noun(len(change.changed), 'ACL')} {done}[/], "
        console.print(f"{description}{len(change.unchanged)} {were}", highlight=False, soft_wrap=True)
    for acl in change.further:
        description = f"[yellow]beyond this role[/] {clean(principal)}: {clean(acl)}"
        errors.print(description, highlight=False, soft_wrap=True)


def print_fields(wanted: Sequence[AllowedOperation], principal: str) -> None:
    """As JSON."""
    print_json([{"principal": principal, **fields} for fields in _list_fields(wanted)])


def _list_fields(accesses: Iterable[AllowedOperation]) -> list[dict[str, Any]]:
    return [access._asdict() for access in accesses]


def _shorten(names: Sequence[str]) -> list[str]:
    """Numbered names in a row as their first and last."""
    stems = {name.rpartition("-")[0] for name in names}
    is_row = len(names) > 2 and len(stems) == 1 and all(name.rpartition("-")[2].isdigit() for name in names)  # noqa: PLR2004
    return [f"{names[0]} … {names[-1]}"] if is_row else list(names)
