"""The language of command patterns: each condition, alone, on both sides of its edge."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sluice.detection.commands.patterns.conditions import CommandPattern
from sluice.detection.commands.patterns.patterns import CommandPatterns
from sluice.detection.commands.shell import read_shell
from sluice.detection.library_model import LibraryError


def _matches(text: str, **conditions: Any) -> bool:
    pattern = CommandPattern(
        id="x", reason="r", severity="critical", source="s", **({"program": ["tool"]} | conditions)
    )
    return bool(CommandPatterns([pattern]).matches(read_shell(text)))


@pytest.mark.parametrize(
    ("conditions", "yes", "no"),
    [
        ({}, "tool", "other"),
        ({"program": ["to*"]}, "/usr/bin/TOOL", "ttool"),
        ({"words": ["delete|rm"]}, "tool -n prod delete x", "tool get delete"),
        ({"words": ["a", "b"]}, "tool a --flag value b", "tool a c b"),
        ({"words": ["**", "delete"]}, "tool a b delete", "tool a b"),
        ({"words": ["delete-*"]}, "tool delete-thing", "tool undelete-thing"),
        ({"flags": ["-f|--force"]}, "tool -rf", "tool --force-with-lease"),
        ({"flags": ["-f|--force"]}, "tool --forc", "tool -- -f"),
        ({"flags": ["-r", "-f"]}, "tool -f -r", "tool -f"),
        ({"flags": ["-X=delete|--request=delete"]}, "tool -XDELETE", "tool -X GET"),
        ({"flags": ["-X=delete|--request=delete"]}, "tool --request=DELETE", "tool --request GET delete"),
        ({"args": ["@root"]}, "tool /tmp/..", "tool /tmp"),
        ({"args": ["@device"]}, "tool of=/dev/sda", "tool of=sda.img"),
        ({"args": ["@hashes"]}, "tool @/etc/shadow", "tool /etc/shadows"),
        ({"args": ["of=@device"]}, "tool of=/dev/sda", "tool if=/dev/sda"),
        ({"every": ["@temp"]}, "tool /tmp/a /tmp/b", "tool /tmp/a b"),
        ({"every": ["a"]}, "tool a", "tool"),
        ({"last": ["/etc/*"]}, "tool a /etc/b", "tool /etc/b a"),
        ({"writes": ["/etc/*"]}, "tool > /etc/x", "tool < /etc/x"),
        ({"fed_by": ["curl"]}, "curl x | tool", "cat x | tool"),
        ({"fed_by": ["curl"]}, "tool <(curl x)", "tool curl"),
        ({"fed_args": ["/etc/shadow"]}, "cat /etc/shadow | tool", "cat x | tool"),
        ({"stdin": ["*drop*"]}, "echo DROP | tool", "echo keep | tool"),
        ({"via": ["xargs"]}, "ls | xargs tool", "tool xargs"),
        ({"assigned": ["a=1"]}, "A=1 tool", "A=2 tool"),
        ({"program": [""], "assigned": ["a=1"]}, "A=1", "B=1"),
        ({"at_most": 1}, "tool a", "tool a b"),
        ({"unless": ["-n"]}, "tool -f", "tool -fn"),
        ({"unless": ["x"]}, "tool y", "tool x"),
        ({"unless_every": ["@temp"]}, "tool /tmp/a /etc", "tool /tmp/a"),
        ({}, "tool --dry-run=none", "tool --dry-run"),
        ({}, "tool -h", "tool --help"),
        ({"harmless": []}, "tool --help", "other --help"),
    ],
)
def test_a_condition_holds_on_one_side_of_its_edge_only(
    conditions: dict[str, Any], yes: str, no: str
) -> None:
    assert (_matches(yes, **conditions), _matches(no, **conditions)) == (True, False)


def test_a_kind_of_target_that_does_not_exist_is_refused_at_load() -> None:
    pattern = CommandPattern(
        id="x", reason="r", severity="warn", source="s", program=["a"], args=["@nowhere"]
    )
    with pytest.raises(LibraryError, match="@nowhere"):
        CommandPatterns([pattern])


def test_a_pattern_without_a_program_is_refused() -> None:
    with pytest.raises(ValidationError):
        CommandPattern(id="x", reason="r", severity="warn", source="s", program=[])


def test_a_pattern_is_reported_once_and_in_the_order_of_the_list() -> None:
    patterns = [
        CommandPattern(id=name, reason="r", severity="warn", source="s", program=[name])
        for name in ("b", "a")
    ]
    found = CommandPatterns(patterns).matches(read_shell("a; b; a; b"))
    assert [one.id for one in found] == ["b", "a"]
