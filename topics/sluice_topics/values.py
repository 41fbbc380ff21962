"""Values that say where an action goes (an address, an account, a path): their normal form, where they stand
in a text or a result, and their salted fingerprints.

Client, gateway, MCP proxy and worker share it, so that a value has one form wherever it was read. What a
value is, only its own text says, never its place: the same text gives the same `Value` everywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import json
import posixpath
import re
import socket
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from functools import lru_cache, wraps
from itertools import chain, islice
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import unquote, unquote_to_bytes
from uuid import UUID

from sluice_topics.audience import encode

Kind = Literal["email", "url", "iban", "account", "phone", "handle", "path", "id", "name", "unclear"]

MAX_TEXT = 256 * 1024
"""Characters of a result that are read."""
MAX_VALUES = 512
"""Distinct values that a result gives."""
MAX_LEAF = 128
"""Characters of a text that counts as a value as a whole too."""
LONGEST_VALUE = 2048
"""Characters; a longer text that may be a link or an address is `unclear`, and any other a `name`."""
FINGERPRINT_BYTES = 16
KEY_BYTES = 32
_SMALLEST_NUMBER = 1000
_Read = TypeVar("_Read")
_KEPT = 4096
"""Short texts, and what was read in them, that a process keeps: results of one system repeat themselves."""


def _keep_short(read: Callable[[str], _Read]) -> Callable[[str], _Read]:
    """Keep what a function reads in texts of up to MAX_LEAF characters."""
    cached = lru_cache(maxsize=_KEPT)(read)
    return wraps(read)(lambda text: cached(text) if len(text) <= MAX_LEAF else read(text))


class Value(NamedTuple):
    """A value in its normal form. `text`:

    `email`: in lower case, without display name and `mailto:`; the host as that of a `url`.
    `url`: host, port if it is not the scheme's own, path, query and fragment; the scheme only where it is not
    one of the web or of git, and with it the user (`s3://bucket/key`, `sftp://ann@host/in`). The host is in
    lower case and Unicode, the path without dot segments, and encoded only where the character means
    something else. A web's URL has no user.
    `iban`: letters and digits in upper case; its check digits hold.
    `account`: digits, or a prefix of up to 4 letters and at least 8 digits, without separators.
    `phone`: `+` and digits. A number without a country's prefix cannot be compared with one that has it: it
    stays digits alone.
    `handle`: in lower case, with its `@` or `#`.
    `path`: with slashes and without dot segments; with a drive or a share in lower case.
    `id`: letters and digits with their separators, in the case in which they are written; a UUID without its
    hyphens, and it and hexadecimal digits in lower case.
    `name`: every other text: in lower case, runs of white space as one space.
    `unclear`: a text that may be a destination, and that readers (mail programs, HTTP clients, file systems)
    take for different ones. Its text is the exact one after a NUL, with which no other kind's begins, so that
    it equals itself alone. It should count as known to nobody.
    """

    kind: Kind
    text: str


class SeenValues(NamedTuple):
    """What a result holds. `values`: distinct, at most MAX_VALUES, those first that say most about a place;
    `truncated`: the result may hold others."""

    values: list[Value]
    truncated: bool


# What a text of its own is

_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SPACE = " \t\r\n"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAIL = re.compile(r"""([^\s@<>()\[\],;:"\\]{1,64})@([^\s@<>()\[\],;:"\\/]{1,253})""")
_ROUTE = re.compile(r"[%!/]")
"""In a local part: some mail servers send `eve%evil.example@acme.example` on."""
_PHRASED = re.compile(r"""(?:"[^"<>\\]*"|[\w .\-'\u2019&+])*<([^<>]*)>""")
_LISTED = re.compile(r'"[^"]*(?:@[^"]*[,;]|[,;][^"]*@)[^"]*"')
"""In quotes, what is a list for those who split at commas."""
_QUOTED = re.compile(r'"[^"\\]*"')
_AMBIGUOUS = re.compile(r'[()\[\]\\":]')
_HEADERS = re.compile(r"(?:(?:subject|body)=(?!.*%0[ad])[^&;@]*(?:&|$))*", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,30}):(?=[/\\])")
_LINK = re.compile(
    r"[\s/\\]*(?:[A-Za-z][A-Za-z0-9+.\-\t\r\n]{0,40}:[\t\r\n/\\]*[/\\]|(?:mailto|https?|wss?|s?ftp|ssh|file):(?=\S)|[/\\]{2})",
    re.IGNORECASE,
)
_WEB = frozenset(["http", "https", "ws", "wss"])
_GIT = frozenset(["git", "ssh", "git+ssh"])
_ONE_WORD = re.compile(r"\S+")
_PORTS = {
    "http": "80",
    "https": "443",
    "ws": "80",
    "wss": "443",
    "ftp": "21",
    "ftps": "990",
    "sftp": "22",
    "ssh": "22",
    "git": "9418",
    "git+ssh": "22",
    "rsync": "873",
}
_COPY = re.compile(r"([\w.\-]{1,64})@([\w.\-]{1,253}):([^\s\\]+)")
"""`git@host:path`, as ssh and git write it."""
_LOCAL = re.compile(r"(?://(?:localhost)?)?(?=/)(?:/(?=[A-Za-z]:))?")
_BARE = re.compile(r"([^\s/\\?#@:]{1,253})(:\d{1,5})?([/?#].*)?")
_LABEL = re.compile(r"[^\W_](?:[\w\-]{0,61}[^\W_])?")
_HOST_LABEL = re.compile(r"[\w\-]{1,63}")
_IPV6 = re.compile(r"(?=[^:]*:[^:]*:)\[?[0-9A-Fa-f:.]{2,45}\]?(:\d{1,5})?")
_NUMBERS = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+)){0,3}")
_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}")
_QUERY = re.compile(r"[?#]")
_DISGUISED = re.compile(
    r"%(?:2[5f]|5c|[01]|7f|(?![0-9a-f]{2}))|[;\x00-\x1f\x7f]|(?<=/)/|(?:^|/)(?:\.|%2e){2}[^/]|"
    r"(?:^|/)(?:(?:\.|%2e)?%2e|%2e\.)(?:/|$)|[,|:]\s*/|,[^/,]*@|,\s*https?:",
    re.IGNORECASE,
)
"""In a path: what some resolve, decode or split, and others take for a name."""
_MAY_DISGUISE = re.compile(r"[%;,|:\x00-\x1f\x7f]")
_NOT_IN_URL = re.compile(
    r"[\s\x00-\x1f\x7f\\|\"<>]|[,;]\s*(?:[a-z][a-z0-9+.\-]*://|[^/,;&=]+@)", re.IGNORECASE
)
_BAD_BYTES = re.compile(r"(?:%[89a-f][0-9a-f])+", re.IGNORECASE)
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_FILE_ENDINGS = frozenset(
    """
    7z avi bak bash bat bin bmp c cc cfg cmd conf cpp crt cs css csv dat db deb diff dll doc docx env eps
    exe gif go gz h hpp htm html ico ics ini ipynb jar java jpeg jpg js json jsonl jsx key kt lock log lua
    md mkv mov mp3 mp4 msg msi odp ods odt ogg old orig parquet patch pdf pem php pkl png ppt pptx ps1 py
    pyc rb rpm rs rst rtf scss sh so sql sqlite svg swift tar tex tgz tif tiff tmp toml ts tsv tsx ttf txt
    wav webm webp whl xls xlsx xml yaml yml zip zsh
    """.split()  # noqa: SIM905 - many in a line
)
"""What is no host's last label here, though `md` and `py` are domains."""
_DOMAIN_ENDINGS = frozenset(["cc", "md", "mov", "py", "rs", "sh", "so", "zip"])
"""Endings of files that are domains too: of a host where a port or a path follows."""
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_LENGTHS = {
    word[:2]: int(word[2:])
    for word in """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28
    EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27
    JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18
    NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28
    TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30
    """.split()  # noqa: SIM905 - many in a line
}
"""Characters of a country's IBAN (SWIFT's registry, release 99)."""
_SHORTEST_IBAN = 15
_AS_NUMBERS = {ord("A") + at: str(10 + at) for at in range(26)}
_DIGIT = re.compile(r"[0-9]")
_DIGITS = re.compile(r"(?!00)[0-9]{1,64}")
"""Of an account, and nothing else."""
_MAY_BE_NUMBER = re.compile(r"[\w ./()\-+:]{1,256}")
_SEPARATORS = re.compile(r"[ .\-]")
_IBAN_SEPARATORS = re.compile(r"[ .\-_/]")
_TELEPHONE = re.compile(r"(tel:)?(\+|00(?=[1-9]))?([\d ()./\-]{5,40})", re.IGNORECASE)
_AREA = re.compile(r"\(\d{2,5}\)[\d ./\-]+|0\d{1,5}/[\d \-]{4,}")
_TRUNK = re.compile(
    r"[ ./\-]*(?:[17]|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|"
    r"2[1-689]\d|3[578]\d|42\d|5[09]\d|6[7-9]\d|8[0578]\d|9[679]\d)[ ./\-]*\(0\)[^()]*"
)
"""`(0)` after a country's prefix, the 0 that is dialled within the country alone."""
_ACCOUNT = re.compile(
    r"\d+(?:[ \-]\d+)*|\d{1,3}(?:\.\d{3}){2,}(?:-\d{1,2})?|\d{4}(?:\.\d{4}){2,}|"
    r"(?=(?:\D*\d){8})[A-Za-z]{1,4}[ .\-]?\d+(?:[ \-]\d+)*"
)
_HANDLE = re.compile(r"[@#][\w.\-]+")
_UUID = re.compile(
    r"(?:urn:uuid:)?\{?([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})\}?"
)
_HEX = re.compile(r"(?:0x)?[0-9a-f]{8,}|(?:0x)?[0-9A-F]{8,}|0x[0-9a-fA-F]{40}")
_ID = re.compile(r"-?(?=[^\d]*\d)[^\W_][\w.:~\-]*")
_DRIVE = re.compile(r"[A-Za-z]:(?=[\\/])|\\\\(?=[^\\])")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.,+Z\- ]*)?")
_ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_UNRESERVED = re.compile(r"[A-Za-z0-9._~\-]")
_TO_ENCODE = re.compile(r"[^A-Za-z0-9._~\-!$&'()*+,;=:@/%]|%(?![0-9A-Fa-f]{2})")
_MOST_DIGITS = 15


@_keep_short
def read_value(text: str) -> Value:
    """The value that a whole text is, such as a parameter which says where an action goes.

    A `00` before 8 to 15 digits that do not begin with 0 counts as a telephone's `+`. Never fails.
    """
    if _DIGITS.fullmatch(text):
        return Value("account", text)
    exact = text.strip(_SPACE)
    if len(text) > LONGEST_VALUE:
        may_go = _LINK.match(exact) or _ONE_WORD.fullmatch(exact)
        return _make_unclear(text) if may_go else _make_name(text)
    if not text.isascii():
        exact = unicodedata.normalize("NFC", exact)
    is_plain = exact.isascii() and exact.isprintable()
    wide = exact if is_plain and "  " not in exact else " ".join(exact.split())
    if not is_plain and (
        _UNSEEN.search(wide) or (not wide.isascii() and not unicodedata.is_normalized("NFKC", wide))
    ):
        visible = " ".join(_UNSEEN.sub("", unicodedata.normalize("NFKC", wide)).split())
        is_name = _read_kinds(visible, visible) is None or not visible
        return _make_name(text) if is_name and "@" not in visible else _make_unclear(text)
    value = _read_kinds(exact, wide)
    if value is None:
        return _make_name(text)
    has_control = not is_plain and _CONTROL.search(exact)
    if value.kind == "unclear" or has_control or (value.kind == "path" and text != exact):
        return _make_unclear(text)
    return value


def _read_kinds(exact: str, wide: str) -> Value | None:
    """The value of a kind other than `name`; of an unclear one the text is not its normal form."""
    if len(exact) < _LENGTH_OF_UUID and _NO_KIND.fullmatch(exact):
        return None
    return _read_number(wide) or _read_mail(wide) or _read_place(exact) or _read_word(wide)


def _make_unclear(text: str) -> Value:
    return Value("unclear", "\x00" + text)


_UNCLEAR = _make_unclear("")
_LENGTH_OF_UUID = 36
_NO_KIND = re.compile(r"[A-Za-z ,;!?'()\-_&+*]*")
"""What has neither a digit nor a sign of an address or a place. (A UUID may have none.)"""


def _make_name(text: str) -> Value:
    """Each letter counts, but for its case and the width of white space."""
    if text.isascii():
        return Value("name", " ".join(text.split()).lower().lstrip("\x00"))
    text = " ".join(unicodedata.normalize("NFC", text).split())
    return Value("name", "".join(map(str.lower, text)).lstrip("\x00"))


def is_destination(value: Value) -> bool:
    """Whether a value is a destination wherever it stands, also in a parameter without a role: an address, a
    link, an IBAN, and an unclear text that may be one of them."""
    if value.kind == "unclear":
        text = value.text[1:]
        return _GOES.search(text) is not None or len(text) > LONGEST_VALUE
    return value.kind in ("email", "url", "iban")


_GOES = re.compile(r"@|%40|//|^\s*[^\s/\\]+\.[^\s/\\\d][^\s/\\]+[/\\]", re.IGNORECASE)


def read_json_value(value: Any) -> Value | None:
    """The value that a JSON scalar is; None for what is none: true, false, null, a list or an object.

    A whole number is the value that its digits are: 4821 is "4821", and so is 4821.0; another is unclear.
    """
    if isinstance(value, str):
        return read_value(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float):
        is_whole = value.is_integer() and abs(value) <= _WHOLE_FLOATS
        return read_value(str(int(value))) if is_whole else _make_unclear(repr(value))
    return read_value(str(value) if value.bit_length() <= LONGEST_VALUE else hex(value))


_WHOLE_FLOATS = 2**53
"""Up to it a float is the number that was written."""


def read_domain(text: str) -> str:
    """A domain as `read_value` gives it in addresses and URLs; empty for what is none, or is unclear."""
    return _read_host(unicodedata.normalize("NFC", text.strip(_SPACE)))


def _read_number(text: str) -> Value | None:
    """An IBAN, a telephone or an account."""
    if not _DIGIT.search(text) or not _MAY_BE_NUMBER.fullmatch(text) or _IPV4.fullmatch(text):
        return None
    if (
        len(text) >= _SHORTEST_IBAN
        and text[:2].isalpha()
        and is_iban(iban := _IBAN_SEPARATORS.sub("", text).upper())
    ):
        return Value("iban", iban)
    if value := _read_telephone(text):
        return value
    return Value("account", _SEPARATORS.sub("", text).lower()) if _ACCOUNT.fullmatch(text) else None


def _read_telephone(text: str) -> Value | None:
    match = _TELEPHONE.fullmatch(text)
    if match is None:
        return None
    named, prefix, rest = match.groups("")
    if prefix and "(0)" in rest:
        if not _TRUNK.fullmatch(rest):
            return _UNCLEAR
        rest = rest.replace("(0)", "")
    digits = re.sub(r"\D", "", rest)
    if prefix and (6 + len(prefix)) <= len(digits) <= _MOST_DIGITS:
        return Value("phone", "+" + digits)
    if prefix != "+" and (named or _AREA.fullmatch(rest)):
        return Value("phone", prefix + digits)
    return None


def _has_digit(text: str) -> bool:
    return _DIGIT.search(text) is not None


def is_iban(text: str) -> bool:
    """Whether capital letters and digits are an IBAN: its length its country's, its check digits right."""
    if not _IBAN.fullmatch(text) or _LENGTHS.get(text[:2], len(text)) != len(text):
        return False
    return int((text[4:] + text[:4]).translate(_AS_NUMBERS)) % 97 == 1


def _read_mail(text: str) -> Value | None:
    """An address alone. With others beside it, as `a@x, <b@y>` or `mailto:b@y?bcc=a@x`, it is none: a mail
    would go to all of them."""
    is_link = text[:7].lower() == "mailto:"
    if "@" not in text and not is_link:
        return _UNCLEAR if "%40" in text and "/" not in text and " " not in text else None
    if text[-1] == ">":
        match = _PHRASED.fullmatch(text)
        if match is None or _LISTED.search(text):
            outside = _QUOTED.sub("", text)
            return _UNCLEAR if _AMBIGUOUS.search(outside) or match else None
        text = match[1].strip()
    elif is_link:
        address, _, more = text[7:].partition("?")
        if not _HEADERS.fullmatch(more):
            return _UNCLEAR
        text = unquote(address)
    match = _MAIL.fullmatch(text)
    if match is None:
        return _UNCLEAR if is_link or _ROUTED.fullmatch(text) else None
    local, host = _lower(match[1]), _read_host(match[2])
    if not host or _ROUTE.search(local):
        return _UNCLEAR
    return Value("email", f"{local}@{host}")


_ROUTED = re.compile(r"""(?=[^@]*["%!\\(\[])[^\s/]+@[^\s/@]+""")


def _read_place(exact: str) -> Value | None:
    """A URL or a path: each letter of it counts, and none is left out."""
    if ":" in exact or exact[:1] in "/\\":
        if _DRIVE.match(exact):
            return _read_drive(exact)
        if scheme := _SCHEME.match(exact):
            return _read_url(scheme[1].lower(), exact[scheme.end() :])
        if _LINK.match(exact):
            return _UNCLEAR
    return _read_bare_url(exact) or _read_path(exact)


def _read_drive(text: str) -> Value:
    """A path of Windows, which takes the dots and spaces at a segment's end for nothing, and a colon for a
    stream's name."""
    if re.search(r":.*:|^\\.*:|(?<!^)[\\/]{2}|(?<=[^.\\/])[. ]+(?=[\\/]|$)|\.{3}", text):
        return _UNCLEAR
    return Value("path", _resolve_path(text).lower())


def _read_bare_url(text: str) -> Value | None:
    if "." not in text and ":" not in text:
        return None
    if copied := _COPY.fullmatch(text):
        user, host = copied[1], _read_host(copied[2])
        path = _clean_url_path(copied[3])
        if not host or path is None:
            return _UNCLEAR
        return Value("url", host + path if user == "git" else f"scp://{user}@{host}{path}")
    if _IPV6.fullmatch(text):
        return _read_url("http", "//" + (text if text.startswith("[") else f"[{text}]"))
    match = _BARE.fullmatch(text)
    if match is None or not _may_be_host(match):
        return None
    return _UNCLEAR if "/../" in text or text.endswith("/..") else _read_url("http", "//" + text)


def _read_path(text: str) -> Value | None:
    if "/" in text or "\\" in text:
        if not _is_unclear_path(text):
            return Value("path", _resolve_path(text))
        return None if " " in text and "\\" not in text and text[0] not in "/.~" else _UNCLEAR
    is_file = "." in text and " " not in text and text.rpartition(".")[2].lower() in _FILE_ENDINGS
    return Value("path", text) if is_file else None


def _is_unclear_path(text: str) -> bool:
    """A backslash separates names for some alone: only a relative path without dot segments may have it."""
    if "\\" in text and ("/" in text or text[0] == "\\" or re.search(r"[@:]|(?:^|\\)\.\.(?:\\|$)", text)):
        return True
    first = _BARE.fullmatch(re.split(r"[/\\]", text, maxsplit=1)[0])
    if "\\" in text and first and "." in first[1] and _may_be_host(first):
        return True
    return _is_disguised(text.replace("\\", "/"))


def _is_disguised(path: str) -> bool:
    may_be = ".." in path or "//" in path or _MAY_DISGUISE.search(path)
    return bool(may_be and _DISGUISED.search(path))


def _may_be_host(match: re.Match[str]) -> bool:
    """Whether a text without a scheme begins with a host: by a known port's place, or by its last label. A
    word that begins with a digit is none for its port's sake: `2026-03-06T10:00` is a time."""
    host, port = match[1], match[2]
    labels = host.removesuffix(".").split(".")
    if not all(_HOST_LABEL.fullmatch(label) for label in labels):
        return False
    if _IPV4.fullmatch(host):
        return all(int(label) < 256 for label in labels)  # noqa: PLR2004 - a byte
    last = labels[-1].lower()
    if len(labels) == 1:
        return host.lower() == "localhost" or (port is not None and not host[0].isdigit())
    if last in _FILE_ENDINGS:
        return last in _DOMAIN_ENDINGS and bool(port or match[3])
    return len(last) > 1 and (last.startswith("xn--") or last.isalpha())


def _read_url(scheme: str, rest: str) -> Value:
    """Of what follows `scheme:`."""
    if scheme == "file":
        return _read_file(rest)
    if not rest.startswith("//") or _NOT_IN_URL.search(rest):
        return _UNCLEAR
    match = _PARTS.fullmatch(rest)
    if match is None:
        return _UNCLEAR
    authority, path, query = match.groups()
    user, at, host_port = authority.rpartition("@")
    host, colon, port = host_port.rpartition(":")
    if not colon or (port and not (port.isascii() and port.isdigit())):
        host, port = host + colon + port, ""
    host, port, tail = _read_host(host), port.lstrip("0"), _clean_url_path((path or "")[1:])
    if not host or tail is None or "@" in user:
        return _UNCLEAR
    if port and port != _PORTS.get(scheme):
        host += ":" + port
    query = "" if query in (None, "?", "#", "?#") else query
    if query and scheme in _WEB:
        tail = tail or "/"
    tail += _clean_query(query)
    if scheme in _WEB or (scheme in _GIT and user in ("", "git")):
        return Value("url", host + tail)
    return Value("url", f"{scheme}://{user}{at}{host}{tail}")


_PARTS = re.compile(r"//([^/?#]*)(/[^?#]*)?([?#].*)?")


def _read_file(rest: str) -> Value:
    match = _LOCAL.match(rest)
    if match is None or re.search(r"[?#\\]|%(?:2[f5]|5c)", rest, re.IGNORECASE):
        return _UNCLEAR
    path = unquote(rest[match.end() :], errors="surrogateescape")
    if _DRIVE.match(path):
        return _read_drive(path)
    return _UNCLEAR if _is_disguised(path) else Value("path", _resolve_path(path))


def _clean_query(text: str) -> str:
    return _encode_other(unicodedata.normalize("NFC", _ENCODED.sub(_decode_run, text))) if text else ""


def _encode_other(text: str) -> str:
    return (
        text
        if text.isascii()
        else "".join(
            character if character < "\x7f" or _is_foreign(character) else _encode(character)
            for character in text
        )
    )


@lru_cache(maxsize=_KEPT)
def _read_host(text: str) -> str:
    """A host in lower case and Unicode; empty for what is no host, or one that clients take for different
    ones: IDNA of 2003 and of 2008 encode `straße` differently, and `010` of an address is 8 or 10."""
    if text.startswith("["):
        return _read_ipv6(text)
    if not text.isascii():
        casefolded = unicodedata.normalize("NFKC", text.casefold())
        if _UNSEEN.search(text) or casefolded != _lower(text) or unicodedata.normalize("NFKC", text) != text:
            return ""
    text = _lower(text).removesuffix(".")
    labels = text.split(".")
    if _NUMBERS.fullmatch(text) or labels[-1].isdigit():
        is_address = _DECIMAL.fullmatch(text) and all(int(label) < 256 for label in labels)  # noqa: PLR2004 - a byte
        return text if is_address else ""
    labels = [_decode_label(label) for label in labels if _is_label(label)]
    return ".".join(labels) if len(labels) == text.count(".") + 1 else ""


def _is_label(text: str) -> bool:
    if _HOST_LABEL.fullmatch(text):
        return True
    return 0 < len(text) < 64 and all(  # noqa: PLR2004 - a label's length
        character in {"-", "_"} or character.isalnum() or unicodedata.category(character)[0] == "M"
        for character in text
    )


def _read_ipv6(text: str) -> str:
    try:
        packed = socket.inet_pton(socket.AF_INET6, text[1:-1].partition("%")[0])
    except (OSError, ValueError):
        return ""
    return f"[{socket.inet_ntop(socket.AF_INET6, packed)}]"


def _decode_label(label: str) -> str:
    """A host's label in Unicode, if it is the one form in which that is encoded (RFC 3492)."""
    if not label.startswith("xn--"):
        return label
    try:
        decoded = label[4:].encode("ascii").decode("punycode")
        decoded = _lower(unicodedata.normalize("NFKC", decoded))
        is_only = decoded.encode("punycode").decode("ascii") == label[4:]
    except (UnicodeError, ValueError):
        return label
    return decoded if is_only and not decoded.isascii() and _LABEL.fullmatch(decoded) else label


def _lower(text: str) -> str:
    """In lower case, letter by letter: case folding would make two hosts of `straße` and `strasse` one."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", "".join(map(str.lower, text)))


def _clean_url_path(path: str) -> str | None:
    """A URL's path, given without its first slash, with it: what need not be encoded is not, all else is, and
    dot segments are resolved. Empty for the root; None for one that is unclear."""
    if not path:
        return ""
    if path[0] == "/" or _is_disguised(path) or _has_bad_bytes(path):
        return None
    if "%" in path or not path.isascii():
        path = unicodedata.normalize("NFC", _ENCODED.sub(_decode_run, path))
    stored: list[str] = []
    segments = _TO_ENCODE.sub(_encode_letter, path).split("/")
    for segment in segments:
        if segment == "..":
            del stored[-1:]
        elif segment != ".":
            stored.append(segment)
    if segments[-1] in (".", "..") and stored:
        stored.append("")
    return "/" + "/".join(stored) if stored != [""] and stored else ""


def _has_bad_bytes(path: str) -> bool:
    """Whether encoded bytes are no UTF-8, such as a dot or a slash in more bytes than it needs."""
    try:
        for match in _BAD_BYTES.finditer(path):
            unquote_to_bytes(match[0]).decode()
    except UnicodeDecodeError:
        return True
    return False


def _decode_run(match: re.Match[str]) -> str:
    """Of encoded bytes the letters that a URL may hold as they are: RFC 3986's unreserved ones and, as in
    RFC 3987, those of other scripts."""
    try:
        decoded = unquote_to_bytes(match[0]).decode()
    except UnicodeDecodeError:
        return match[0].upper()
    return "".join(
        character if _UNRESERVED.match(character) or _is_foreign(character) else _encode(character)
        for character in decoded
    )


def _encode_letter(match: re.Match[str]) -> str:
    return match[0] if _is_foreign(match[0]) else _encode(match[0])


def _is_foreign(character: str) -> bool:
    return character > "\x7f" and character.isprintable() and not _UNSEEN.match(character)


def _encode(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _resolve_path(text: str) -> str:
    """With slashes, without dot segments and a slash at the end."""
    path = posixpath.normpath(text.replace("\\", "/"))
    return path[1:] if path.startswith("//") and not text.startswith("\\\\") else path


def _read_word(text: str) -> Value | None:
    if _HANDLE.fullmatch(text):
        return Value("handle", _lower(text))
    if match := _UUID.fullmatch(text.lower()):
        return Value("id", "".join(match.groups()))
    if _HEX.fullmatch(text):
        text = text.lower()
    return Value("id", text) if _ID.fullmatch(text) else None


# What a text or a result holds

_DELIMITERS = r"\s<>\"“”„«»\u2039\u203a|,;`\x00-\x1f"
_TOKEN = re.compile(
    rf"(?<![A-Za-z0-9+.\-])[A-Za-z][A-Za-z0-9+.\-]{{1,15}}://[^{_DELIMITERS}]++|[^{_DELIMITERS}()\[\]{{}}]++"
)
_WORD = re.compile(rf"[^{_DELIMITERS}]++")
_SPACED = {**dict.fromkeys(range(32), " "), **{ord(sign): " " for sign in '<>"|,;`'}}
"""The delimiters of ASCII."""
_BRACKET = re.compile(r"[()\[\]{}]")
_TELLING = re.compile(r"[@/\\#\d]|\.(?=[^\W\d_])")
"""Without it a word is nothing but a word."""
_PRINTED = re.compile(r"[!-~]+")
"""Among letters of a script that sets no spaces."""
_CLOSING = {")": "(", "]": "[", "}": "{"}
_BEFORE, _AFTER = "'\u2019*=:!?", "'\u2019*.:!?…"
_SHORTEST = 4
_ADDRESS = re.compile(
    r"(?<![A-Za-z0-9.+_\-])[A-Za-z0-9.+_\-]{1,64}@(?:[A-Za-z0-9\-]{1,63}\.){1,8}[A-Za-z0-9\-]{2,63}"
)
_QUOTED_PRINTABLE = re.compile(r"=(?:\r?\n|([2-7][0-9A-F]))")
_TAG = re.compile(r"</?[A-Za-z][^<>@]{0,200}>")
_MARKS = re.compile(r"\*\*+|__+")
_AT = re.compile(r"(?<=\w)\s?[(\[{] ?(?:at|AT) ?[)\]}]\s?(?=\w)")
_BRACKETED_AT = re.compile(r"[(\[{] ?(?:at|AT) ?[)\]}]")
_DOT = re.compile(r"(?<=\w)\s?[(\[{] ?(?:dot|DOT) ?[)\]}]\s?(?=\w)")
_GROUPS = re.compile(
    r"[A-Z+(\d](?<!\w.)(?:(?<=[A-Z])[A-Z]{0,3}[ .\-]?[+(]?\d++|(?<=[+(])\d++|(?<=\d)\d*+)"
    r"(?:[ ./()\-]{1,2}\d++){1,12}",
    re.DOTALL,
)
"""This and the next three begin with what is rare, so that most of a text is passed over quickly."""
_PREFIX = re.compile(r"[A-Z]{1,4}[ .\-]?")
_NEGATIVE = re.compile(r"-(?<![\w.\-]-)\d{4,}+(?![\w.\-])")
_IBAN_DIGITS = re.compile(
    r"[\d]\d(?<=[A-Za-z]{2}..)(?=[ \-]?[A-Za-z0-9])(?:(?<![A-Za-z0-9]....)|(?<=IBAN....))", re.DOTALL
)
_CAPITAL = "A-Z\u00c0-\u00de\u0100-\u024f\u0370-\u03ff\u0400-\u052f\u1e00-\u1fff"
_CAPITALISED_WORD = rf"[{_CAPITAL}][\w'\u2019\-]*+(?![@/\\]|\.\w)"
_CAPITALISED = re.compile(
    rf"[{_CAPITAL}](?<![\w@/\\.\-].)[\w'\u2019\-]*+(?![@/\\]|\.\w)(?: {_CAPITALISED_WORD})*", re.DOTALL
)
_NO_NAMES = frozenset(
    """
    A After All Also An And Any Are As At Be Because Been Before But By Can Could Dear Did Do Does For
    From Had Has Have He Hello Her Here Hi His How I If In Is It Its Let My No Not Now Of On Once Or Our
    Please She Should So Some Thank Thanks That The Their Them Then There These They This Those To Was
    We Were What When Where Which While Who Why With Would Yes You Your
    """.split()  # noqa: SIM905 - many in a line
)
"""Words that stand at the beginning of a sentence, and are no part of a name."""
_OWNER = re.compile("(?:['\u2019]s?|-)+$")
_WORDS_OF_NAME = 3
_RANKS: dict[Kind, int] = {
    "email": 0,
    "iban": 0,
    "url": 0,
    "phone": 0,
    "handle": 0,
    "account": 2,
    "id": 2,
    "path": 3,
    "unclear": 3,
    "name": 4,
}
"""Which values go into a list first; between them, as 1, those that are a whole leaf of a result."""
_LEAF_RANKS: dict[Kind, int] = {kind: min(1, rank) for kind, rank in _RANKS.items()}


def find_values(text: str) -> Iterator[Value]:
    """The values within a text, of its first MAX_TEXT characters; one may come more than once.

    Names are sequences of up to three capitalised words, of a longer one each two and three; one that begins
    a sentence is a name without its first word too. Of a web's URL what is before its query and its host are
    values too. Dates are none. Time: linear.
    """
    text = _cut(text, MAX_TEXT)
    return _search(text, _decode_text(text), with_names=True)


def _search(text: str, plain: str, *, with_names: bool) -> Iterator[Value]:
    """`plain`: the text as it is read; `with_names`: else some of the names may be left out."""
    words = _list_words(text)
    tokens = _list_tokens(words)
    yield from chain.from_iterable(map(_read_token, tokens))
    yield from _find_addresses(words)
    if words:
        yield from _find_numbers(text)
    if with_names or not text.isascii():
        yield from _find_names(text)
    if plain is text or plain == text:
        return
    words = _list_words(plain)
    yield from chain.from_iterable(_read_token(token) for token in _list_tokens(words) if token not in tokens)
    yield from _find_addresses(words)
    yield from _find_ibans(plain)


def _list_words(text: str) -> list[str]:
    """What stands between delimiters and may hold a value, each once. A text without such words holds names
    alone."""
    words = text.translate(_SPACED).split() if text.isascii() else _WORD.findall(text)
    return [word for word in dict.fromkeys(words) if not word.isalpha() and _TELLING.search(word)]


def _list_tokens(words: Iterable[str]) -> dict[str, None]:
    """Words without brackets, but for those of a URL."""
    tokens: dict[str, None] = {}
    for word in words:
        if _BRACKET.search(word):
            tokens |= {token: None for token in _TOKEN.findall(word) if _TELLING.search(token)}
        else:
            tokens[word] = None
    return tokens


def _find_addresses(words: Iterable[str]) -> Iterator[Value]:
    """Addresses whatever stands around them, as in `href='mailto:a@b.c'` or `a@b.c's`."""
    listed = [_ADDRESS.findall(word) for word in words if "@" in word]
    for address in dict.fromkeys(chain.from_iterable(listed)):
        value = read_value(address)
        if value.kind == "email":
            yield value


def _decode_text(text: str) -> str:
    """A text as a reader sees it: without soft line breaks, encoded letters (quoted-printable, URL, HTML),
    tags, marks and what cannot be seen. Each once, whatever its format; not longer than MAX_TEXT."""
    decoded = text
    if "=" in decoded:
        decoded = _QUOTED_PRINTABLE.sub(_decode_quoted, decoded)
    if "%" in decoded:
        decoded = unquote(decoded)
    if "&" in decoded:
        decoded = html.unescape(decoded)
    if "<" in decoded:
        decoded = _TAG.sub("", decoded)
    if "**" in decoded or "__" in decoded:
        decoded = _MARKS.sub("", decoded)
    if _BRACKET.search(decoded) and _BRACKETED_AT.search(decoded):
        decoded = _DOT.sub(".", _AT.sub("@", decoded))
    if not decoded.isascii():
        decoded = _UNSEEN.sub("", unicodedata.normalize("NFKC", decoded))
    return decoded if decoded == text else _cut(decoded, MAX_TEXT)


def _decode_quoted(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else ""


def collect_values(result: Any) -> SeenValues:
    """The values in what a tool returned: a JSON value, or what can be one, as dataclasses, pydantic's models
    and UUIDs. What cannot be read makes the result `truncated`; nothing fails.

    Every text is searched, and one of up to MAX_LEAF characters is a value as a whole too; a text that is a
    JSON object or list is read as that. Numbers count from 1000.
    """
    collector = _Collector()
    waiting = [result]
    while waiting and collector.characters_left > 0:
        waiting += reversed(collector.read_node(waiting.pop()))
    collector.truncated |= bool(waiting)
    return collector.list_values()


class _Collector:
    def __init__(self) -> None:
        self.characters_left = MAX_TEXT
        self.truncated = False
        self._ranked: list[dict[Value, None]] = [{} for _ in range(max(_RANKS.values()) + 1)]

    def read_node(self, node: Any) -> list[Any]:
        """Take the values of a node; return the nodes within it."""
        self.characters_left -= 1
        if isinstance(node, str):
            return self._read_text(node)
        if type(node) is dict or (type(node) is not list and isinstance(node, Mapping)):
            return self._read_object(node)
        if isinstance(node, (list, tuple, set, frozenset)):
            return self._take_first(node)
        if node is None or isinstance(node, (bool, date)):
            return []
        if isinstance(node, (int, float)):
            if abs(node) >= _SMALLEST_NUMBER and (value := read_json_value(node)):
                self._add(value, _LEAF_RANKS[value.kind])
            return []
        return self._read_other(node)

    def list_values(self) -> SeenValues:
        values = list(dict.fromkeys(chain.from_iterable(self._ranked)))
        return SeenValues(values[:MAX_VALUES], self.truncated or len(values) > MAX_VALUES)

    def _take_first(self, nodes: Iterable[Any]) -> list[Any]:
        """The first nodes, as many as there are characters left: each costs one at least."""
        taken = list(islice(nodes, self.characters_left + 1))
        self.truncated |= len(taken) > self.characters_left
        return taken

    def _read_object(self, node: Mapping[Any, Any]) -> list[Any]:
        """Keys are searched for what is no name: most are field names."""
        for key in self._take_first(node):
            if isinstance(key, str) and _TELLING.search(key[:MAX_LEAF]):
                self._search(key, with_names=False)
        return self._take_first(node.values())

    def _read_other(self, node: Any) -> list[Any]:
        if isinstance(node, (UUID, PurePath, Decimal)):
            return [str(node)]
        if is_dataclass(node) and not isinstance(node, type):
            return [getattr(node, field.name) for field in fields(node)]
        dump = getattr(type(node), "model_dump", None)
        try:
            if dump is not None:
                return [dump(node, mode="json")]
        except Exception:  # noqa: BLE001 - the code of a stranger's model
            self.truncated = True
        self.truncated = True
        return []

    def _read_text(self, text: str) -> list[Any]:
        if text[:1] in ("{", "[") and len(text) <= self.characters_left:
            try:
                return [json.loads(text)]
            except (ValueError, RecursionError):
                pass
        if len(text) <= min(MAX_LEAF, self.characters_left):
            self.characters_left -= len(text)
            for value, rank in () if self._is_full else _read_leaf(text):
                self._add(value, rank)
            return []
        if len(text) <= MAX_LEAF:
            for value in _read_as_whole(text, _decode_text(text)):
                self._add(value, _LEAF_RANKS[value.kind])
        self._search(text, with_names=True)
        return []

    def _search(self, text: str, *, with_names: bool) -> None:
        if len(text) > self.characters_left:
            self.truncated = True
            text = _cut(text, max(0, self.characters_left))
        self.characters_left -= len(text)
        if self._is_full:
            return
        for value in _search(text, _decode_text(text), with_names=with_names and self._names_count()):
            if with_names or value.kind != "name":
                self._add(value, _RANKS[value.kind])
                if self._is_full:
                    return

    def _names_count(self) -> bool:
        """Whether a name in a text can be among the first MAX_VALUES; the values of one rank are distinct,
        and those of the first are in no other."""
        first, leaves, *others = map(len, self._ranked[: _RANKS["name"]])
        return first + max(leaves, sum(others)) <= MAX_VALUES

    def _add(self, value: Value, rank: int) -> None:
        ranked = self._ranked[rank]
        if value.text and len(ranked) <= MAX_VALUES:
            ranked[value] = None

    @property
    def _is_full(self) -> bool:
        """Whether no further value can be among the first MAX_VALUES."""
        return len(self._ranked[0]) > MAX_VALUES


@_keep_short
def _read_leaf(text: str) -> tuple[tuple[Value, int], ...]:
    """The values of a short leaf, with their ranks."""
    plain = _decode_text(text)
    ranked = {(part, _LEAF_RANKS[part.kind]): None for part in _read_as_whole(text, plain)}
    for value in _search(text, plain, with_names=True):
        ranked[value, _RANKS[value.kind]] = None
    return tuple(ranked)


def _read_as_whole(text: str, plain: str) -> list[Value]:
    """What a text that is no moment is as a whole, as it is written and as it is read (`plain`)."""
    if not text or (text[0].isdigit() and _MOMENT.fullmatch(text)):
        return []
    return [*_add_parts(read_value(text)), *([] if plain == text else _add_parts(read_value(plain)))]


def _cut(text: str, length: int) -> str:
    """The text up to a length, without the word that the cut goes through: a part of a value is another."""
    if len(text) <= length:
        return text
    whole = re.match(r"(?s).*\s", text[:length])
    return whole[0] if whole else ""


def _add_parts(value: Value) -> list[Value]:
    """The value, and what is seen where it is seen."""
    values = [value]
    if value.kind != "url":
        return values
    scheme, mark, rest = value.text.rpartition("://") if "://" in value.text[:32] else ("", "", value.text)
    if not mark and (whole := _QUERY.split(rest, maxsplit=1)[0]) != rest:
        values.append(Value("url", whole.removesuffix("/") if whole.count("/") == 1 else whole))
    if "/" in rest and (not mark or scheme in _PORTS):
        values.append(Value("url", rest.partition("/")[0].rpartition("@")[2]))
    return values


@_keep_short
def _read_token(token: str) -> tuple[Value, ...]:
    values: list[Value] = []
    if "://" in token:
        token = _close_brackets(token)
    elif not token.isascii():
        for part in dict.fromkeys(_PRINTED.findall(token)):
            if part != token and _TELLING.search(part):
                values += _read_token(part)
    token = token.lstrip(_BEFORE).rstrip(_AFTER)
    if len(token) < _SHORTEST and token.isascii() and token.isdigit():
        return tuple(values)
    value = read_value(token)
    is_short = value.kind in ("account", "id") and len(value.text) < _SHORTEST
    if value.kind != "name" and not is_short and not _MOMENT.fullmatch(token):
        values += _add_parts(value)
    if "://" in token or ("=" not in token and ":" not in token):
        return tuple(values)
    is_whole = value.kind in ("email", "phone") or (value.kind == "url" and "." in value.text)
    splits = "=" if is_whole or _DRIVE.match(token) else "=:"
    parts = re.split(f"[{splits}]", token) if any(separator in token for separator in splits) else ()
    for part in dict.fromkeys(parts):
        if _TELLING.search(part):
            values += _read_token(part)
    return tuple(values)


def _close_brackets(token: str) -> str:
    """A URL up to the bracket that it does not open."""
    opened: list[str] = []
    for at, character in enumerate(token):
        if character in "([{":
            opened.append(character)
        elif character in _CLOSING and (not opened or opened.pop() != _CLOSING[character]):
            return token[:at]
    return token


def _find_numbers(text: str) -> Iterator[Value]:
    """Telephones, accounts and IBANs that are written in groups, and numbers below 0."""
    for match in _GROUPS.finditer(text):
        for spelling in dict.fromkeys((match[0], _PREFIX.sub("", match[0], count=1))):
            value = read_value(spelling)
            if value.kind in ("account", "phone") and not _MOMENT.fullmatch(spelling):
                yield value
    if "-" in text:
        for match in _NEGATIVE.finditer(text):
            yield read_value(match[0])
    yield from _find_ibans(text)


def _find_ibans(text: str) -> Iterator[Value]:
    for match in _IBAN_DIGITS.finditer(text):
        begin = match.start() - 2
        iban = _read_spaced(text, begin, _LENGTHS.get(text[begin : begin + 2].upper(), 0))
        if is_iban(iban):
            yield Value("iban", iban)


def _read_spaced(text: str, at: int, length: int) -> str:
    """So many letters and digits from here on, in groups; fewer where something else comes before."""
    letters: list[str] = []
    while at < len(text) and len(letters) < length:
        if text[at] not in " -":
            letters.append(text[at])
        elif text[at - 1] in " -":
            break
        at += 1
    return "" if text[at : at + 1].isalnum() else "".join(letters).upper()


def _find_names(text: str) -> Iterator[Value]:
    for match in _CAPITALISED.finditer(text):
        words = match[0]
        yield from (_read_names_after_stop if _begins_sentence(text, match) else _read_names)(words)


@_keep_short
def _read_names(text: str) -> tuple[Value, ...]:
    return tuple(map(_read_name, _list_names(text.split(" "), begins=False)))


@_keep_short
def _read_names_after_stop(text: str) -> tuple[Value, ...]:
    return tuple(map(_read_name, _list_names(text.split(" "), begins=True)))


def _read_name(words: Sequence[str]) -> Value:
    name = " ".join(words)
    return Value("name", name.lower()) if name.isascii() else read_value(name)


def _begins_sentence(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - 2) : match.start()].rstrip(" ")
    return match[0] != text and before[-1:] in ("", ".", "!", "?", ":", "\n")


def _list_names(words: Sequence[str], *, begins: bool) -> Iterator[Sequence[str]]:
    """The names in words that begin with capitals. `begins`: the first one may do so for its place alone."""
    run: list[str] = []
    for word in [*(_OWNER.sub("", part) for part in words), ""]:
        if word[:1].isupper() and word not in _NO_NAMES and not _has_digit(word):
            run.append(word)
            continue
        if len(run) > _WORDS_OF_NAME:
            yield from (run[at : at + size] for size in (2, 3) for at in range(len(run) - size + 1))
        elif len(run) > 1:
            yield run
            if begins:
                yield run[1:]
        elif run and not (run[0].isupper() and len(run[0]) < _SHORTEST):
            yield run
        begins, run = False, []


# Fingerprints

_KEY_DOMAIN = b"SluiceValuesV1"


def parse_key(text: str) -> bytes:
    """The 32 bytes of a key in base64 or in hex. Raises ValueError, which does not quote the text."""
    text = text.strip()
    try:
        key = bytes.fromhex(text) if len(text) == 2 * KEY_BYTES else b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(f"no key of {KEY_BYTES} bytes in base64 or hex")
    return key


def derive_tenant_key(master: bytes, tenant_id: str) -> bytes:
    """The key of a tenant's fingerprints, 32 bytes: HMAC-SHA-256 under the master key of the tenant's id.

    Raises ValueError for a master key that has not 32 bytes.
    """
    if len(master) != KEY_BYTES:
        raise ValueError(f"a key of values has {KEY_BYTES} bytes, this has {len(master)}")
    return hmac.digest(master, encode(_KEY_DOMAIN, tenant_id.encode()), "sha256")


def fingerprint(key: bytes, value: Value) -> bytes:
    """The first 16 bytes of HMAC-SHA-256 under a tenant's key.

    Over the text alone, an IBAN's in lower case: what one place takes for an account and another for an id is
    still the same. So a handle and an e-mail address cannot be mixed up, since their text says what they are.
    """
    text = value.text.lower() if value.kind == "iban" else value.text
    return (_digest_short if len(text) <= MAX_LEAF else _digest)(key, text)


def _digest(key: bytes, text: str) -> bytes:
    begun, ended = _begin_hmac(key)
    inner, outer = begun.copy(), ended.copy()
    inner.update(text.encode("utf-8", "surrogatepass"))
    outer.update(inner.digest())
    return outer.digest()[:FINGERPRINT_BYTES]


_digest_short = lru_cache(maxsize=_KEPT)(_digest)


@lru_cache(maxsize=1024)
def _begin_hmac(key: bytes) -> tuple[hashlib._Hash, hashlib._Hash]:
    """The inner and the outer hash of an HMAC (RFC 2104) after the key: half of its work is the key's."""
    block = (key if len(key) <= _BLOCK else hashlib.sha256(key).digest()).ljust(_BLOCK, b"\0")
    return hashlib.sha256(block.translate(_INNER)), hashlib.sha256(block.translate(_OUTER))


_BLOCK = 64
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


def fingerprint_result(key: bytes, result: Any) -> dict[str, Any]:
    """What an outcome says of a tool's result, its `values` as JSON: see `collect_values`. Never fails: a
    result that raises an error when it is read is truncated."""
    try:
        collected = collect_values(result)
    except Exception:  # noqa: BLE001 - a stranger's object, and its tool has run
        collected = SeenValues([], truncated=True)
    written = (b64encode(fingerprint(key, value)).decode() for value in collected.values)
    return {"fingerprints": list(dict.fromkeys(written)), "truncated": collected.truncated}
