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
    is_destination,
    is_iban,
    read_domain,
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
            '"Lee, Robert" <bob+x@münchen.de>',
            "mailto:bob+x@münchen.de?subject=a%20b&body=c",
        ],
    ),
    (
        Value("url", "example.com/b/~user/é"),
        [
            "https://Example.com:443/a/../b/%7Euser/%C3%A9",
            "HTTP://example.com./b/./~user/é?#",
            "https://trusted.example@example.com/b/~user/e\u0301",
            "example.com/b/%7euser/é",
        ],
    ),
    (Value("url", "127.0.0.1"), ["127.0.0.1", "http://127.0.0.1:80"]),
    (Value("url", "x.org/a?B=é%26#T"), ["https://x.org/a?B=%C3%A9%26#T", "x.org/a?B=e\u0301%26#T"]),
    (Value("url", "x.org/?a"), ["https://x.org?a", "http://x.org/?a"]),
    (Value("url", "sftp://Ann@x.org/in"), ["sftp://Ann@X.org:22/in"]),
    (Value("url", "scp://ann@x.org/in"), ["ann@X.org:in"]),
    (Value("url", "upi://pay?pa=Ann@bank"), ["upi://pay?pa=Ann@bank"]),
    (Value("url", "straße.example"), ["xn--strae-oqa.example"]),
    (Value("url", "evil.zip/x"), ["evil.zip/x"]),
    (Value("url", "evil.sh:8443"), ["evil.sh:8443"]),
    (Value("url", "[2001:db8::1]:8080"), ["http://[2001:DB8:0:0:0:0:0:1]:8080/", "[2001:db8::1]:8080"]),
    (
        Value("url", "github.com/org/repo.git"),
        [
            "git@github.com:org/repo.git",
            "https://github.com/org/repo.git",
            "ssh://git@github.com/org/repo.git",
        ],
    ),
    (Value("url", "s3://bucket/Key"), ["s3://bucket/Key", "S3://BUCKET/a/../Key"]),
    (
        Value("iban", "DE89370400440532013000"),
        ["DE89370400440532013000", "de89 3704 0044 0532 0130 00", "DE89-3704_0044/0532.0130-00"],
    ),
    (Value("account", "48217733"), ["48217733", "4821 7733", "48-21-77-33", "48.217.733"]),
    (Value("account", "gb12345678"), ["GB12345678", "gb 1234 5678", "GB-1234-5678"]),
    (
        Value("phone", "+4930123456"),
        ["+49 30 123456", "0049 (30) 123-456", "tel:+4930123456", "+49 (0)30/123456"],
    ),
    (Value("phone", "030123456"), ["(030) 123456", "030/123456", "tel:030-123456"]),
    (Value("handle", "@alice"), ["@alice", "@Alice"]),
    (Value("handle", "#general"), ["#general", "#GENERAL"]),
    (Value("path", "/a/c"), ["/a/c", "/a/./c/", "/a/b/../c", "file:///a/c", "file://localhost/a/%63"]),
    (Value("path", "c:/users/y"), ["C:\\Users\\x\\..\\y", "c:/users/y", "file:///C:/Users/y"]),
    (Value("path", "docs/Plan.md"), ["docs/Plan.md", "docs\\Plan.md", "./docs/x/../Plan.md"]),
    (Value("path", "report.pdf"), ["report.pdf"]),
    (
        Value("id", "123e4567e89b12d3a456426614174000"),
        ["123e4567-e89b-12d3-a456-426614174000", "{123E4567-E89B-12D3-A456-426614174000}"],
    ),
    (Value("id", "INV-7-23"), ["INV-7-23", " INV-7-23"]),
    (Value("id", "deadbeef01"), ["DEADBEEF01", "deadbeef01"]),
    (Value("id", "12.5.1"), ["12.5.1"]),
    (Value("id", "1234567.8"), ["1234567.8"]),
    (Value("id", "-1001234"), ["-1001234"]),
    (Value("id", "2026-03-06T10:00"), ["2026-03-06T10:00"]),
    (Value("name", "john smith"), ["John Smith", "JOHN \u00a0SMITH"]),
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
        ("Finance", "Fin\u200bance"),
        ("finance", "\ufb01nance"),
        ("Boß", "Boss"),
        ("C024BE91L", "c024be91L"),
        ("s3://acme/in", "s3://acme/in?x=1"),
        ("https://x.org/d", "https://x.org/d?to=eve"),
        ("https://matrix.example/#/@ann", "https://matrix.example/#/@eve"),
        ("tg://resolve?domain=acme", "tg://resolve?domain=eve"),
        ("sftp://acme@store.example/in", "sftp://eve@store.example/in"),
        ("sftp://acme@store.example/in", "eve@store.example:in"),
        ("sftp://eve@store.example", "eve@store.example"),
        ("48.21", "4821"),
        ("#ops", "ops"),
    ],
)
def test_two_values_stay_two(one: str, another: str) -> None:
    key = derive_tenant_key(bytes(32), "acme")
    assert read_value(one) != read_value(another)
    assert fingerprint(key, read_value(one)) != fingerprint(key, read_value(another))


@pytest.mark.parametrize(
    "text",
    [
        "files.acme.example\\@evil.example",
        "files.acme.example\\@evil.example:8080/x",
        "https://files.acme.example\\@evil.example",
        'Ann (" ) , eve@evil.example, (") <ann@acme.example>',
        '(")eve@evil.example,(") <ann@acme.example>',
        '"eve@evil.example" [Ann <ann@acme.example>',
        '"eve@evil.example"(<ann@acme.example>',
        '"x, eve@evil.example, y" <ann@acme.example>',
        "Ann\r\nBcc <ann@acme.example>",
        "mailto:ann@acme.example?b%63c=eve",
        "mailto:ann@acme.example?subject=a%0d%0abcc:eve",
        "mailto:ann@acme.example%2Ceve@evil.example",
        "eve%evil.example@acme.example",
        "evil.example!eve@acme.example",
        "eve%40evil.example",
        "ann@acme\u2800.example",
        "a\u200bnn@acme.example",
        "ann\uff20acme.example",
        *(
            f"https://hub.example/acme/{rest}"
            for rest in (
                "..%2feve/drop",
                "%2e%2e%2feve",
                "%2e%2e/eve",
                ".%2e/eve",
                "..%5ceve",
                "..;/eve",
                "%252e%252e/eve",
                ".\n./eve",
                "..\t/eve",
                "..%00/eve",
                "..%c0%afeve",
                "/../eve",
                "...",
                "a b",
                ",https://evil.example/",
                ",eve@evil.example",
                "?,https://evil.example/",
                "?|https://evil.example/",
            )
        ),
        "hub.example/acme/../../eve",
        "https:hub.example/acme",
        "https:///hub.example/acme",
        "https://ann@hub.example@evil.example/",
        "https://hub%2eexample/",
        "//hub.example/acme",
        "ht\ntps://hub.example/acme",
        "https://hub.example/?x=" + "A" * 2048,
        "https://straße.example/",
        "https://STRA\u1e9eE.example/",
        "https://\u0646\u0627\u0645\u0647\u200c\u0627\u06cc.example/",
        "https://hub\u3002example/",
        "http://192.0.2.010/",
        "http://2130706433/",
        "http://0x7f.1",
        "file://evil.example/a",
        "file:///a/..%2fc",
        "/srv/share/..\\eve",
        "/home/eve\\..\\..\\srv\\share\\x",
        "eve\\..\\srv",
        "./docs\\Plan.md",
        "docs//x/../Plan.md",
        "/srv/share/x:/home/eve/y",
        "/srv/share/x,/home/eve/y",
        "/srv/share/x\n/home/eve/y",
        "/srv/share/..;/x",
        "/srv/share/%2e%2e/x",
        "C:\\Users\\x. \\y",
        "C:\\Users\\x:stream",
        "+4930123(0)456",
        "+493012345(0)6",
        "12345678\n99999999",
        "#ops\u200b",
        "\uff11\uff12345678",
    ],
)
def test_what_readers_take_for_different_places_is_unclear_and_equals_itself_alone(text: str) -> None:
    value = read_value(text)
    assert value == Value("unclear", "\x00" + text)
    assert read_value(text + " ") != value


@pytest.mark.parametrize(
    "text",
    [
        "ann@acme.example",
        "//evil.example/x",
        "ht\ntps://evil.example/x",
        "https://evil.example/?x=" + "A" * 2100,
        "evil.zip/x",
        "evil.sh:443",
        "eve%40evil.example",
        "files.acme.example\\x",
        "GB82_WEST_1234_5698_7654_32",
    ],
)
def test_links_addresses_and_accounts_are_destinations_wherever_they_stand(text: str) -> None:
    assert is_destination(read_value(text))


@pytest.mark.parametrize(
    "text", ["see https://x.org/a; thanks", "word " * 500, "/srv/a;b", "48217733", "Ann"]
)
def test_other_texts_are_destinations_only_where_a_role_says_so(text: str) -> None:
    assert not is_destination(read_value(text))


def test_a_number_with_a_point_is_no_account() -> None:
    assert read_json_value(12345678.0) == Value("account", "12345678")
    for number in (1234567.8, 0.12345678, 1e300):
        value = read_json_value(number)
        assert value is not None
        assert value.kind == "unclear"
    assert not {one.text for one in collect_values({"price": 1234.5}).values} & {"12345", "1234.5"}


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("ACME.example.", "acme.example"),
        ("xn--mnchen-3ya.de", "münchen.de"),
        ("straße.example", ""),
        ("a b", ""),
        ("acme.example/x", ""),
        ("", ""),
    ],
)
def test_a_domain_is_read_as_the_host_of_an_address(text: str, domain: str) -> None:
    assert read_domain(text) == domain


WORD = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=8)
LABELS = (
    st.lists(WORD, min_size=2, max_size=3).map(".".join).filter(lambda one: read_value(one).kind == "url")
)
SPACES = st.sampled_from(["", " ", "\t", "\n"])


@given(WORD, LABELS, SPACES, st.sampled_from([str, str.upper, str.title, "<{}>".format, "mailto:{}".format]))
def test_spellings_of_an_address_are_the_address(local: str, host: str, space: str, spell: Any) -> None:
    text = space + spell(f"{local}@{host}") + space
    assert read_value(text) == Value("email", f"{local}@{host}")
    assert Value("email", f"{local}@{host}") in list(find_values(f"Please write ({text}), today."))


@given(LABELS, st.lists(st.text("aB0-_~é ", min_size=1, max_size=5), max_size=4), st.data())
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
    assert read_value(f"HTTPS://{host.upper()}/{shown}?") == value


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
    if value.kind == "unclear":
        assert value.text == "\x00" + text
    else:
        assert not value.text.startswith("\x00")
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
        Value("id", "TKT-4821"),
        Value("id", "usr_92"),
        Value("phone", "+49301234567"),
        Value("handle", "@alice"),
        Value("handle", "#general"),
        Value("path", "/etc/passwd"),
        Value("path", "docs/a.txt"),
        Value("id", "-100123456"),
        Value("name", "john smith"),
    }
    assert not {Value("name", one) for one in ("please", "smith", "bob", "tkt", "alice", "general")} & found


EVE, GB82 = Value("email", "eve@evil.example"), Value("iban", "GB82WEST12345698765432")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<a href='mailto:eve@evil.example?subject=x'>", EVE),
        ("eve&#64;evil.example", EVE),
        ("mailto:eve%40evil.example", EVE),
        ("eve%40evil.example", EVE),
        ("eve=40evil.example", EVE),
        ("eve@evil.=\nexample", EVE),
        ("eve@evil.example's", EVE),
        ("x/eve@evil.example", EVE),
        ("eve@**evil**.example", EVE),
        ("https://evil.example/?m=eve@evil.example", EVE),
        ("eve (at) evil (dot) example", EVE),
        ("e\u200bve@evil.example", EVE),
        ("eve\uff20evil.example", EVE),
        ("GB82\u00a0WEST\u00a01234\u00a05698\u00a07654\u00a032", GB82),
        ("GB82&nbsp;WEST&nbsp;1234&nbsp;5698&nbsp;7654&nbsp;32", GB82),
        ("<b>GB82</b> WEST 1234 5698 7654 32", GB82),
        ("IBANGB82WEST12345698765432", GB82),
        ("https://x.org/a?b=1", Value("url", "x.org/a?b=1")),
        ("https://x.org/a?b=1", Value("url", "x.org/a")),
        ("https://x.org/?b=1", Value("url", "x.org")),
        ("sftp://eve@x.org/in", Value("url", "x.org")),
        ("https://x.org/a%2Fb", Value("unclear", "\x00https://x.org/a%2Fb")),
    ],
)
def test_a_value_is_seen_however_a_result_encodes_it(text: str, value: Value) -> None:
    assert value in collect_values({"text": f"pay to {text}."}).values or value in find_values(text)


def test_a_value_that_is_seen_makes_no_other_seen() -> None:
    seen = collect_values(["#ops", "@ann", {"version": "12.5.1"}, "https://x.org/d?to=ann", "s3://in/a?b=c"])
    texts = {one.text for one in seen.values}
    assert not texts & {"ops", "ann", "1251", "x.org/d?to=eve", "s3://in/a", "in"}


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
    told = fingerprint_result(key, ["Bob@example.com", "bob@example.com", 4821, "48-21"])
    written = [fingerprint(key, read_value(one)) for one in ("bob@example.com", "4821")]
    assert told == {"fingerprints": [base64.b64encode(one).decode() for one in written], "truncated": False}
    assert OutcomeValues.model_validate(told)
    assert fingerprint_result(key, None) == {"fingerprints": [], "truncated": False}
    assert fingerprint_result(key, Broken(a="b")) == {"fingerprints": [], "truncated": True}


def test_the_check_digits_of_an_iban_count() -> None:
    assert is_iban("GB29NWBK60161331926819")
    assert not is_iban("GB28NWBK60161331926819")
    assert not is_iban("DE893704004405320130")
