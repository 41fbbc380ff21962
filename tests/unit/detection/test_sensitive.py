"""Secrets and personal data: what is found and what only looks alike."""

from __future__ import annotations

import string
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.detection.sensitive import COMMON, KINDS, SensitiveScan, card_length, has_luhn, iban_length

SCAN = SensitiveScan(frozenset(KINDS))
TOKEN = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # noqa: S105 - nobody's


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("private_key", "-----BEGIN OPENSSH PRIVATE KEY-----"),
        ("private_key", "-----BEGIN PRIVATE KEY-----"),
        ("aws_key", "AKIAIOSFODNN7EXAMPLE"),
        ("github_token", f"ghp_{TOKEN}"),
        ("gitlab_token", "glpat-a1B2c3D4e5F6g7H8i9J0"),
        ("slack_token", "xoxb-123456789012-abcdefABCDEF"),
        ("stripe_key", "sk_live_" + TOKEN),
        ("google_key", "AIza" + TOKEN[:35]),
        ("model_key", "sk-ant-" + TOKEN),
        ("registry_token", "npm_" + TOKEN),
        ("sendgrid_key", f"SG.{TOKEN[:22]}.{TOKEN}"),
        ("azure_key", f"AccountKey={TOKEN}{TOKEN}=="),
        ("web_token", f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{TOKEN}"),
        ("secret_assigned", "q8Zk3Lw09sd8fKJH2"),
        ("iban", "DE89 3704 0044 0532 0130 00"),
        ("iban", "GB82WEST12345698765432"),
        ("iban", "NO93 8601 1117 947"),
        ("iban", "MT84MALT011000012345MTLCAST001S"),
        ("card", "4111 1111 1111 1111"),
        ("card", "378282246310005"),
        ("card", "5500-0000-0000-0004"),
        ("card", "2223 0000 4841 0010"),
        ("card", "30569309025904"),
        ("card", "3530111333300000"),
        ("card", "6011 1111 1111 1117"),
        ("card", "6200 0000 0000 0005"),
        ("ssn", "123-45-6789"),
        ("email", "ann@mail.example.org"),
        ("phone", "+49 30 12345678"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "ünïcode ☃ {} and then", "({}), {}"])
def test_found_where_it_stands(kind: str, text: str, around: str) -> None:
    if kind == "secret_assigned":
        around = around.replace("{}", "api_key = '{}'")
    whole = around.replace("{}", text)
    found = SCAN.find(whole)
    assert [(one.kind, whole[one.start : one.end]) for one in found] == [(kind, text)] * around.count("{}")
    assert text not in SCAN.redact(whole)


@pytest.mark.parametrize(
    "text",
    [
        "order 4111 1111 1111 1112",
        "0000 0000 0000 0000 and 1234567890123456",
        "DE89 3704 0044 0532 0130 01",
        "DE89 3704 0044 0532 0130",
        "000-12-3456, 666-12-3456, 912-12-3456, 123-00-4567, 123-45-0000",
        "password = 'your-password-here'",
        "the password policy asks for 12 characters",
        "https://example.org/a:b@c is no password",
        "sk-learn and sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx1",
        "-----BEGIN PUBLIC KEY-----",
        "AKIA and ghp_short",
        "2026-11-23T10:00:00Z 550e8400-e29b-41d4-a716-446655440000 v1.2.3",
        "SELECT a FROM t WHERE id BETWEEN 10000 AND 20000",
    ],
)
def test_what_only_looks_alike(text: str) -> None:
    assert SCAN.find(text) == []


@given(st.text(alphabet="0123456789", min_size=12, max_size=18))
def test_luhn_takes_one_last_digit_of_ten(digits: str) -> None:
    assert sum(has_luhn(digits + last) for last in string.digits) == 1


@given(st.integers(0, 10**18 - 1), st.integers(0, 17), st.integers(1, 9))
def test_an_iban_with_another_digit_is_none(number: int, place: int, other: int) -> None:
    account = f"{number:018}"
    check = 98 - int(account + "131400") % 97
    good = f"DE{check:02}{account}"
    assert iban_length(good) == len(good)
    at = place + 4
    changed = good[:at] + str((int(good[at]) + other) % 10) + good[at + 1 :]
    assert iban_length(changed) == 0


@given(st.text(max_size=200))
def test_findings_lie_in_the_text_in_order_and_apart(text: str) -> None:
    found = SCAN.find(text + " 4111111111111111 " + text)
    assert found == sorted(found, key=lambda one: one.start)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert all(0 <= one.start < one.end <= 2 * len(text) + 18 for one in found)
    again = SCAN.find(SCAN.redact(text + " 4111111111111111 "))
    assert "card" not in {one.kind for one in again} or text.count("[card]")


def test_kinds_may_be_left_out() -> None:
    quiet = SensitiveScan(frozenset(KINDS) - COMMON)
    assert quiet.find("ann@example.org +49 30 12345678") == []
    assert card_length("4242424242424242") == 16
