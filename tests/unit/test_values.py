"""Issue 24, point 3: a value has one form however it is written, and its fingerprint says nothing else."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_topics.records.inputs import OutcomeValues
from sluice_topics.values import (
    MAX_TEXT,
    MAX_VALUES,
    Value,
    collect_values,
    derive_tenant_key,
    find_values,
    fingerprint,
    fingerprint_result,
    is_iban,
    read_json_value,
    read_value,
)

SAME: list[tuple[Value, list[str]]] = [
    (
        Value("email", "bob+x@münchen.de"),
        [
            "Bob+X@München.DE",
            "Robert <bob+x@xn--mnchen-3ya.de>",
            '"attacker@evil.example" <bob+x@münchen.de>',
            'Robert "Bob" Lee <bob+x@münchen.de>',
            "mailto:bob%2Bx@münchen.de?subject=a",
            " bob+x@mu\u0308nchen.de ",
            "b\u200bob+x@mün\u00adchen.de",
            "ｂob+x＠münchen｡de",  # noqa: RUF001 - full width
        ],
    ),
    (
        Value("url", "example.com/b/~user/é"),
        [
            "https://Example.com:443/a/../b/%7Euser/%C3%A9",
            "HTTP://example.com./b/./~user/é?x=1#top",
            "https://trusted.example@example.com/b/~user/e\u0301",
            "https:example.com/b/~user/é",
            "example.com/b/%7euser/é",
        ],
    ),
    (Value("url", "127.0.0.1"), ["http://2130706433/", "http://0x7f.1", "127.0.0.1", "http://127.0.0.1:80"]),
    (Value("url", "[2001:db8::1]:8080"), ["http://[2001:DB8:0:0:0:0:0:1]:8080/", "[2001:db8::1]:8080"]),
    (
        Value("url", "github.com/org/repo.git"),
        ["git@github.com:org/repo.git", "https://github.com/org/repo.git"],
    ),
    (Value("url", "s3://bucket/Key"), ["s3://bucket/Key", "S3://BUCKET/a/../Key"]),
    (
        Value("iban", "DE89370400440532013000"),
        ["DE89370400440532013000", "de89 3704 0044 0532 0130 00", "DE89-3704-0044-0532-0130-00"],
    ),
    (Value("account", "48217733"), ["48217733", "4821 7733", "48-21-77-33", "48.217.733"]),
    (Value("account", "gb12345678"), ["GB12345678", "gb 1234 5678", "GB-1234-5678"]),
    (
        Value("phone", "+4930123456"),
        ["+49 30 123456", "0049 (30) 123-456", "tel:+4930123456", "+49 (0)30/123456"],
    ),
    (Value("phone", "030123456"), ["(030) 123456", "030/123456", "tel:030-123456"]),
    (Value("handle", "@alice"), ["@alice", "@Alice", "\uff20alice"]),
    (Value("handle", "#general"), ["#general", "#GENERAL"]),
    (Value("path", "/a/c"), ["/a/c", "//a/./c/", "/a/b/../c", "file:///a/c", "file://localhost/a/%63"]),
    (Value("path", "c:/users/y"), ["C:\\Users\\x\\..\\y", "c:/users/y", "file:///C:/Users/y"]),
    (Value("path", "docs/Plan.md"), ["docs/Plan.md", "./docs\\Plan.md", "docs//x/../Plan.md"]),
    (Value("path", "report.pdf"), ["report.pdf"]),
    (
        Value("id", "123e4567e89b12d3a456426614174000"),
        ["123e4567-e89b-12d3-a456-426614174000", "{123E4567-E89B-12D3-A456-426614174000}"],
    ),
    (Value("id", "inv-7-23"), ["INV-7-23", "inv-7-23"]),
    (Value("id", "-1001234"), ["-1001234"]),
    (Value("id", "2026-03-06t10:00"), ["2026-03-06T10:00", "2026-03-06t10:00"]),
    (Value("name", "john smith"), ["John Smith", "JOHN \u00a0SMITH", "Jo\u200dhn\u2060 Smith"]),
]


@pytest.mark.parametrize(("value", "spelling"), [(one, text) for one, texts in SAME for text in texts])
def test_every_spelling_of_a_value_is_that_value(value: Value, spelling: str) -> None:
    assert read_value(spelling) == value


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("bob@example.com", "bob+x@example.com"),
        ("bob@straße.de", "bob@strasse.de"),
        ("bob@example.com", "bob@exаmple.com"),  # noqa: RUF001 - Cyrillic
        ("https://example.com/a", "https://example.com/A"),
        ("https://example.com/a/b", "https://example.com/a%2Fb"),
        ("https://example.com/%2541", "https://example.com/%41"),
        ("https://example.com", "https://example.com:8443"),
        ("https://example.com@evil.example/", "https://example.com/"),
        ("s3://bucket/key", "https://bucket/key"),
        ("DE89370400440532013000", "DE89370400440532013001"),
        ("10.1.12.3", "10.11.2.3"),
        ("inv-1-23", "inv-12-3"),
        ("+4930123456", "030123456"),
        ("@alice", "#alice"),
        ("/srv/ﬁle", "/srv/file"),
        ("/srv/File", "/srv/file"),
        ("-1001234", "1001234"),
        ("/srv/pay\u200broll.csv", "/srv/payroll.csv"),
        ("/srv/a  b", "/srv/a b"),
        ("https://example.com/a\u200b", "https://example.com/a"),
        ("https://example.com\\@evil.example/", "https://example.com/"),
        ("https://example.com\\@evil.example/", "https://example.com/@evil.example/"),
        ("eve@evil.example, <bob@example.com>", "bob@example.com"),
        ("eve@evil.example <bob@example.com>", "bob@example.com"),
        ("<bob@example.com> eve@evil.example", "bob@example.com"),
        ("mailto:bob@example.com?bcc=eve@evil.example", "bob@example.com"),
        ("mailto:bob@example.com?BCC=eve", "bob@example.com"),
        ("0012", "12"),
    ],
)
def test_two_values_stay_two(one: str, another: str) -> None:
    key = derive_tenant_key(bytes(32), "acme")
    assert read_value(one) != read_value(another)
    assert fingerprint(key, read_value(one)) != fingerprint(key, read_value(another))


WORD = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=8)
LABELS = (
    st.lists(WORD, min_size=2, max_size=3).map(".".join).filter(lambda one: read_value(one).kind == "url")
)
SPACES = st.sampled_from(["", " ", "\u200b", "\n"])


@given(WORD, LABELS, SPACES, st.sampled_from([str, str.upper, str.title, "<{}>".format, "mailto:{}".format]))
def test_spellings_of_an_address_are_the_address(local: str, host: str, space: str, spell: Any) -> None:
    text = space + spell(f"{local}@{host}") + space
    assert read_value(text) == Value("email", f"{local}@{host}")
    assert Value("email", f"{local}@{host}") in list(find_values(f"Please write ({text}), today."))


@given(LABELS, st.lists(st.text("aB0-._~é %/", min_size=1, max_size=5), max_size=4), st.data())
def test_a_url_is_its_normal_form_and_encoding_changes_nothing(
    host: str, segments: list[str], data: st.DataObject
) -> None:
    path = "/".join("".join(f"%{b:02x}" for b in one.encode()) for one in segments)
    value = read_value(f"https://{host}/{path}")
    assert value.kind == "url"
    assert read_value("https://" + value.text) == value
    shown = "/".join(
        "".join(
            one if one in "aB0-_~" and data.draw(st.booleans()) else f"%{b:02X}"
            for one in text
            for b in one.encode()
        )
        for text in segments
    )
    assert read_value(f"HTTPS://{host.upper()}/{shown}?q#f") == value


@given(st.lists(st.tuples(WORD, LABELS), min_size=2, max_size=2, unique=True))
def test_two_addresses_are_two_values(pair: list[tuple[str, str]]) -> None:
    one, other = (read_value(f"{local}@{host}") for local, host in pair)
    assert one != other


@given(st.text("0123456789", min_size=4, max_size=20).filter(lambda one: not one.startswith("00")), st.data())
def test_separators_change_no_account(digits: str, data: st.DataObject) -> None:
    shown = digits[0] + "".join(data.draw(st.sampled_from(["", "", " ", "-"])) + one for one in digits[1:])
    assert read_value(shown) == read_value(digits) == Value("account", digits)
    assert read_json_value(int("1" + digits)) == Value("account", "1" + digits)


@given(st.text(), st.text())
def test_a_text_that_is_read_is_read_as_the_same_again(text: str, other: str) -> None:
    value = read_value(text)
    if value.kind not in ("path", "url"):
        assert read_value(text + "\u200b") == value
    if value.kind in ("email", "account", "handle", "name", "id") and value.text:
        assert read_value(value.text).text == value.text
    collect_values([text, other, {text: other}])


def test_a_text_says_its_values() -> None:
    found = set(
        find_values(
            "Dear John Smith, please pay DE89 3704 0044 0532 0130 00 (or 4821-7733-12), mail "
            'bob@example.com, "Anna Lee <anna@x.org>". See [this](https://en.wikipedia.org/wiki/A_(b)) and '
            "https://x.com/a. id=TKT-4821 user:usr_92 +49 30 1234567; ping @Alice in #general; /etc/passwd, "
            "docs/a.txt chat -100123456, 请联系eve@evil.example吧"
        )
    )
    assert found >= {
        Value("iban", "DE89370400440532013000"),
        Value("account", "4821773312"),
        Value("email", "bob@example.com"),
        Value("email", "anna@x.org"),
        Value("email", "eve@evil.example"),
        Value("url", "en.wikipedia.org/wiki/A_(b)"),
        Value("url", "en.wikipedia.org"),
        Value("url", "x.com/a"),
        Value("id", "tkt-4821"),
        Value("id", "usr_92"),
        Value("phone", "+49301234567"),
        Value("handle", "@alice"),
        Value("name", "alice"),
        Value("handle", "#general"),
        Value("path", "/etc/passwd"),
        Value("path", "docs/a.txt"),
        Value("id", "-100123456"),
        Value("name", "john smith"),
    }
    assert not {Value("name", one) for one in ("please", "smith", "bob", "tkt")} & found


def test_names_are_words_with_capitals() -> None:
    def find_names(text: str) -> set[str]:
        return {one.text for one in find_values(text) if one.kind == "name"}

    assert find_names("ask Anna Lee, and Bob's boss") == {"anna lee", "bob"}
    assert find_names("Invite John Smith. Pay Anna in EUR") == {
        "invite john smith",
        "john smith",
        "pay anna",
        "anna",
    }
    assert find_names("to Bank Of Upper West Side Ltd") == {
        "bank",
        "upper west",
        "west side",
        "side ltd",
        "upper west side",
        "west side ltd",
    }
    assert find_names("Äsa Ödman") == {"äsa ödman"}


@dataclass
class Row:
    owner: str
    balance: float


def test_a_result_gives_its_leaves_and_what_stands_in_its_texts() -> None:
    found = collect_values(
        {
            "from": "eve@x.com",
            "n": 4821,
            "small": 999,
            "on": "2024-11-05T10:00:00Z",
            "ok": True,
            "rows": [{"name": "alice b"}, Row("Bo", 1e6)],
            "text": '{"inner": "carl d, at 12345678"}',
            "a@b.com": None,
        }
    )
    assert not found.truncated
    assert set(found.values) == {
        Value("email", "eve@x.com"),
        Value("email", "a@b.com"),
        Value("account", "4821"),
        Value("account", "1000000"),
        Value("account", "12345678"),
        Value("name", "alice b"),
        Value("name", "bo"),
        Value("name", "carl d, at 12345678"),
    }


def test_what_is_not_read_makes_a_result_truncated() -> None:
    assert collect_values(["bob@example.com", object()]).truncated
    assert collect_values("word " * (MAX_TEXT // 5 + 1)).truncated
    rows = collect_values(
        [{"name": f"Row Nr {at}", "to": f"u{at}@example.com"} for at in range(MAX_VALUES + 1)]
    )
    assert rows.truncated
    assert {one.kind for one in rows.values} == {"email"}
    assert len(rows.values) == MAX_VALUES
    loop: list[Any] = ["bob@example.com"]
    loop.append(loop)
    assert collect_values(loop).truncated


def test_a_cut_goes_through_no_value() -> None:
    filler = "word " * (MAX_TEXT // 5 - 2)
    text = filler + "x" * (MAX_TEXT - len(filler) - 16) + " bob@example.com" + ".evil"
    assert Value("email", "bob@example.com") not in list(find_values(text))


@pytest.mark.parametrize(
    "part",
    [
        "a",
        "1",
        "1 ",
        "/",
        "A ",
        "a@",
        ".",
        "a1:=",
        "http://((",
        "%41",
        "-1",
        "DE89 ",
        "a1://",
        "[",
        "a/b\n",
        "0x",
        "é",
    ],
)
def test_reading_takes_time_in_proportion(part: str) -> None:
    begun = time.process_time()
    collect_values((part * MAX_TEXT)[:MAX_TEXT])
    assert time.process_time() - begun < 5


def test_a_fingerprint_is_of_its_tenant_and_of_what_the_value_says() -> None:
    master = bytes(range(32))
    ours, theirs = derive_tenant_key(master, "acme"), derive_tenant_key(master, "other")
    value = read_value("bob@example.com")
    assert len(fingerprint(ours, value)) == 16
    assert fingerprint(ours, value) != fingerprint(theirs, value)
    assert fingerprint(ours, value) == fingerprint(ours, read_value("<BOB@example.com>"))
    assert fingerprint(ours, Value("iban", "AB12")) == fingerprint(ours, Value("id", "ab12"))
    assert fingerprint(ours, Value("account", "4821")) == fingerprint(ours, Value("id", "4821"))
    with pytest.raises(ValueError, match="32 bytes"):
        derive_tenant_key(b"short", "acme")


class Broken(dict[str, str]):
    def __iter__(self) -> Any:
        raise RuntimeError


def test_a_result_becomes_distinct_fingerprints_and_one_that_cannot_be_read_is_truncated() -> None:
    key = derive_tenant_key(bytes(32), "acme")
    told = fingerprint_result(key, ["Bob@example.com", "bob@example.com", 4821, "48.21"])
    written = [fingerprint(key, read_value(one)) for one in ("bob@example.com", "4821")]
    assert told == {"fingerprints": [base64.b64encode(one).decode() for one in written], "truncated": False}
    assert OutcomeValues.model_validate(told)
    assert fingerprint_result(key, None) == {"fingerprints": [], "truncated": False}
    assert fingerprint_result(key, Broken(a="b")) == {"fingerprints": [], "truncated": True}


def test_the_check_digits_of_an_iban_count() -> None:
    assert is_iban("GB29NWBK60161331926819")
    assert not is_iban("GB28NWBK60161331926819")
    assert not is_iban("DE893704004405320130")
