"""`sluice quality override`, up to the moment when it would be published."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner, Result

from sluice.cli.output import parse_span
from sluice.cli.quality.quality_changes import override
from tests.unit.cli.policy.policy_files import make

if TYPE_CHECKING:
    from pathlib import Path

CLI = typer.Typer()
CLI.command()(override)
WHO = ("--item", "doc-1", "--tenant", "acme", "--approver", "ann")
WHY = ("--justification", "read it, the price list still holds")


def call(folder: Path, *words: str, answer: str = "n\n") -> Result:
    if not (folder / "ann.pem").exists():
        make(folder, "ann")
    return CliRunner().invoke(CLI, [*WHO, *words, "--key", str(folder / "ann.pem")], input=answer)


def test_what_is_signed_is_shown_and_asked_for_first(tmp_path: Path) -> None:
    ends = datetime.now(UTC) + timedelta(days=2)
    east = ends.astimezone(timezone(timedelta(hours=2))).strftime("%Y-%m-%dT%H:%M:%S+02:00")
    found = call(tmp_path, *WHY, "--expires-at", east, "--agent", "reader")
    assert found.exit_code == 1
    until = f"expires_at: {ends:%Y-%m-%dT%H:%M:%S}.000Z"
    for told in ("item_id: doc-1", "agent_id: reader", until, "Sign and"):
        assert told in found.output


def test_without_root_keys_nothing_is_published(tmp_path: Path) -> None:
    found = call(tmp_path, *WHY, "--expires-in", "8h", "--yes")
    assert found.exit_code == 2
    assert "root_keys" in found.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (WHY, 2, "say when it expires"),
        ((*WHY, "--expires-in", "8h", "--expires-at", "2999-01-01T00:00:00Z"), 2, "say when it expires"),
        ((*WHY, "--expires-in", "8 hours"), 2, "90s, 30m, 12h or 7d"),
        ((*WHY, "--expires-at", "tomorrow"), 2, "not an RFC 3339"),
        ((*WHY, "--expires-at", "2020-01-01T00:00:00Z"), 1, "has passed"),
        ((*WHY, "--expires-at", "0001-01-01T00:00:00+14:00"), 1, "has passed"),
        ((*WHY, "--expires-in", "31d"), 2, "31d is too late: an override of now ends by 20"),
        ((*WHY, "--expires-in", "99999999d"), 2, "99999999d is too late"),
        ((*WHY, "--expires-at", "9999-12-31T23:59:59-23:00"), 2, "9999-12-31T23:59:59-23:00 is too late"),
        (("--justification", "because", "--expires-in", "8h"), 1, "$.entries[0].spec.justification"),
        ((*WHY, "--expires-in", "8h", "--body-digest", "ab"), 1, "$.entries[0].spec.body_digest"),
    ],
)
def test_what_says_nothing_usable_is_not_signed(
    tmp_path: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    found = call(tmp_path, *words, "--yes")
    assert found.exit_code == code
    assert told in found.stderr


@pytest.mark.parametrize(
    ("text", "ms"),
    [("90s", 90_000), ("30m", 1_800_000), ("12h", 43_200_000), ("7d", 604_800_000)]
    + [(wrong, None) for wrong in ("", "0s", "7", "d7", "1.5h", "-1h", "7D", "1h 2m", "٣h")],
)
def test_a_span_is_a_number_and_a_unit(text: str, ms: int | None) -> None:
    assert parse_span(text) == ms
