"""Values that say where an action goes (an address, an account, a path): their normal form, where they stand
in a text or a result, and their salted fingerprints.

Client, gateway, MCP proxy and worker share it, so that a value has one form wherever it was read. What a
value is, only its own text says, never its place: the same text gives the same `Value` everywhere.
"""

from __future__ import annotations

import hmac
import json
import posixpath
import re
import socket
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from itertools import chain, islice
from pathlib import PurePath
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, unquote_to_bytes
from uuid import UUID

from sluice_topics.audience import encode

Kind = Literal["email", "url", "iban", "account", "phone", "handle", "path", "id", "name"]

MAX_TEXT = 256 * 1024
"""Characters of a result that are read."""
MAX_VALUES = 512
"""Distinct values that a result gives."""
MAX_LEAF = 128
"""Characters of a text that counts as a value as a whole too."""
LONGEST_VALUE = 2048
"""Characters; a longer text is a `name`, whatever it holds."""
FINGERPRINT_BYTES = 16
KEY_BYTES = 32
_SMALLEST_NUMBER = 1000


class Value(NamedTuple):
    """A value in its normal form. `text`:

    `email`: in lower case, without display name and `mailto:`; the host as that of a `url`.
    `url`: host, port if it is not the scheme's own, and path; the scheme only where it is not one of
    internet hosts (`s3://bucket/key`). The host is in lower case and Unicode, the path without dot segments,
    and encoded only where the character means something else. User, query and fragment are left out.
    `iban`: letters and digits in upper case; its check digits hold.
    `account`: digits, or a prefix of up to 4 letters and at least 8 digits, without separators.
    `phone`: `+` and digits. A number without a country's prefix cannot be compared with one that has it: it
    stays digits alone.
    `handle`: in lower case, with its `@` or `#`.
    `path`: with slashes and without dot segments; with a drive or a share in lower case.
    `id`: letters and digits in lower case with their separators; a UUID without its hyphens.
    `name`: every other text: NFKC, case folded.

    Characters that cannot be seen are left out, and runs of white space are one space, but not of a path, nor
    of a URL's: there each character counts.
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
_MAIL = re.compile(r"""[^\s@<>()\[\],;:"\\/]{1,64}@([^\s@<>()\[\],;:"\\/]{1,253})""")
_BRACKETED = re.compile(r"""(?:"[^"<>]*"|[^"<>@,;:])*<([^<>]*)>""")
_RECIPIENT = re.compile(r"(?:cc|to)=|@|%40", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,30}):(?=[/\\])")
_WEB = re.compile(r"(https?|wss?|ftp):[/\\]*", re.IGNORECASE)
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
_COPY = re.compile(r"[\w.\-]{1,64}@([\w.\-]{1,253}):([^\s\\]+)")
"""`git@host:path`, as ssh and git write it."""
_QUERY = re.compile(r"[?#]")
_LOCAL = re.compile(r"//(?:localhost)?(?=/|$)(?:/(?=[A-Za-z]:))?")
_BARE = re.compile(r"([^\s/\\?#@:]{1,253})(:\d{1,5})?(?:[/?#][^\\]*)?")
_LABEL = re.compile(r"[^\W_](?:[\w\-]{0,61}[^\W_])?")
_IPV6 = re.compile(r"(?=[^:]*:[^:]*:)\[?[0-9A-Fa-f:.]{2,45}\]?(:\d{1,5})?")
_NUMBERS = re.compile(r"(?:0x[0-9a-f]{1,8}|\d{1,10})(?:\.(?:0x[0-9a-f]{1,8}|\d{1,10})){0,3}")
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
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_LENGTHS = {
    one[:2]: int(one[2:])
    for one in """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28
    EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27
    JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18
    NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28
    TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30
    """.split()  # noqa: SIM905 - many in a line
}
"""Characters of a country's IBAN (SWIFT's registry, release 99)."""
_AS_NUMBERS = {ord("A") + at: str(10 + at) for at in range(26)}
_DIGIT = re.compile(r"[0-9]")
_MAY_BE_NUMBER = re.compile(r"[\w ./()\-+:]{1,256}")
_SEPARATORS = re.compile(r"[ .\-]")
_TELEPHONE = re.compile(r"(tel:)?(\+|00(?=[1-9]))?([\d ()./\-]{5,40})", re.IGNORECASE)
_AREA = re.compile(r"\(\d{2,5}\)[\d ./\-]+|0\d{1,5}/[\d \-]{4,}")
_ACCOUNT = re.compile(r"\d+(?:[ .\-]\d+)*|(?=(?:\D*\d){8})[A-Za-z]{1,4}[ .\-]?\d+(?:[ .\-]\d+)*")
_HANDLE = re.compile(r"[@#][\w.\-]+")
_UUID = re.compile(
    r"(?:urn:uuid:)?\{?([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})\}?"
)
_ID = re.compile(r"-?(?=[^\d]*\d)[^\W_][\w.:~\-]*")
_DRIVE = re.compile(r"[A-Za-z]:(?=[\\/])|\\\\(?=[^\\])")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.,+Z\- ]*)?")
_ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_UNRESERVED = re.compile(r"[A-Za-z0-9._~\-]")
_TO_ENCODE = re.compile(r"[^A-Za-z0-9._~\-!$&'()*+,;=:@/%]|%(?![0-9A-Fa-f]{2})")
_MOST_DIGITS = 15


def read_value(text: str) -> Value:
    """The value that a whole text is, such as a parameter which says where an action goes.

    A `00` before 8 to 15 digits that do not begin with 0 counts as a telephone's `+`. Never fails.
    """
    if len(text) > LONGEST_VALUE:
        return Value(
            "name", " ".join(unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold().split())
        )
    wide = " ".join(_UNSEEN.sub("", text).split())
    exact = text.strip()
    if not text.isascii():
        wide = " ".join(_UNSEEN.sub("", unicodedata.normalize("NFKC", wide)).split())
        exact = unicodedata.normalize("NFC", exact)
    return (
        _read_number(wide)
        or _read_mail(wide)
        or _read_place(exact, wide)
        or _read_word(wide)
        or Value("name", unicodedata.normalize("NFKC", wide.casefold()))
    )


def read_json_value(value: Any) -> Value | None:
    """The value that a JSON scalar is; None for what is none: true, false, null, a list or an object.

    A whole number is the value that its digits are: 4821 is "4821".
    """
    if isinstance(value, str):
        return read_value(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float):
        return read_value(str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value))  # noqa: PLR2004 - beyond it JSON's writers use an exponent
    return read_value(str(value) if value.bit_length() <= LONGEST_VALUE else hex(value))


def _read_number(text: str) -> Value | None:
    """An IBAN, a telephone or an account."""
    if not _MAY_BE_NUMBER.fullmatch(text) or not _has_digit(text) or _IPV4.fullmatch(text):
        return None
    if text[:2].isalpha() and is_iban(iban := _SEPARATORS.sub("", text).upper()):
        return Value("iban", iban)
    if found := _read_telephone(text):
        return found
    return Value("account", _SEPARATORS.sub("", text).lower()) if _ACCOUNT.fullmatch(text) else None


def _read_telephone(text: str) -> Value | None:
    found = _TELEPHONE.fullmatch(text)
    if found is None:
        return None
    named, prefix, rest = found.groups("")
    digits = re.sub(r"\D", "", rest.replace("(0)", "", 1) if prefix else rest)
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
    if "@" not in text:
        return None
    if text[-1] == ">":
        found = _BRACKETED.fullmatch(text)
        text = "" if found is None else found[1].strip()
    if text[:7].lower() == "mailto:":
        address, _, more = text[7:].partition("?")
        text = "" if _RECIPIENT.search(more) else unquote(address)
    found = _MAIL.fullmatch(text)
    if found is None or not (host := _read_host(found[1])):
        return None
    return Value("email", f"{_lower(text[: found.start(1) - 1])}@{host}")


def _read_place(exact: str, wide: str) -> Value | None:
    """A URL or a path. `wide` says which; `exact` gives the letters of its path, of which each counts."""
    if _DRIVE.match(wide):
        return Value("path", _resolve_path(exact if _DRIVE.match(exact) else wide).lower())
    if scheme := _WEB.match(wide) or _SCHEME.match(wide):
        text = exact if exact.startswith(scheme[0]) else wide
        return _read_url(scheme[1].lower(), text[scheme.end() :])
    return _read_bare_url(exact, wide) or _read_path(exact, wide)


def _read_bare_url(exact: str, wide: str) -> Value | None:
    if "." not in wide and ":" not in wide:
        return None
    if (copied := _COPY.fullmatch(wide)) and (host := _read_host(copied[1])):
        return Value("url", host + _clean_url_path(copied[2]))
    if _IPV6.fullmatch(wide):
        return _read_url("http", wide if wide.startswith("[") else f"[{wide}]")
    if (found := _BARE.fullmatch(wide)) and _may_be_host(found):
        return _read_url("http", exact if _BARE.fullmatch(exact) else wide)
    return None


def _read_path(exact: str, wide: str) -> Value | None:
    if "/" in wide or "\\" in wide:
        return Value("path", _resolve_path(exact if "/" in exact or "\\" in exact else wide))
    is_file = "." in wide and " " not in wide and wide.rpartition(".")[2].lower() in _FILE_ENDINGS
    return Value("path", exact) if is_file else None


def _may_be_host(found: re.Match[str]) -> bool:
    """Whether a text without a scheme begins with a host: by a known port's place, or by its last label. A
    word that begins with a digit is none for its port's sake: `2026-03-06T10:00` is a time."""
    host, port = found[1], found[2]
    labels = host.rstrip(".").split(".")
    if not all(_LABEL.fullmatch(one) for one in labels):
        return False
    if _IPV4.fullmatch(host):
        return all(int(one) < 256 for one in labels)  # noqa: PLR2004 - a byte
    last = labels[-1].lower()
    if len(labels) == 1:
        return host.lower() == "localhost" or (port is not None and not host[0].isdigit())
    return len(last) > 1 and (last.startswith("xn--") or last.isalpha()) and last not in _FILE_ENDINGS


def _read_url(scheme: str, rest: str) -> Value | None:
    """Of what follows `scheme:`. With a backslash it is none: some take it for a slash, and others for a part
    of the user, `https://a.example\\@b.example`."""
    rest = _QUERY.split(rest, maxsplit=1)[0]
    if scheme == "file":
        path = _LOCAL.sub("", unquote(rest.replace("\\", "/")))
        return Value("path", _resolve_path(path).lower() if _DRIVE.match(path) else _resolve_path(path))
    if "\\" in rest:
        return None
    authority, _, path = rest.lstrip("/").partition("/")
    host, colon, port = authority.rpartition("@")[2].rpartition(":")
    if not colon or (port and not port.isdecimal()):
        host, port = host + colon + port, ""
    host, port = _read_host(unquote(host)), port.lstrip("0")
    if not host:
        return None
    if port and port != _PORTS.get(scheme):
        host += ":" + port
    text = host + _clean_url_path(path)
    return Value("url", text if scheme in _PORTS else f"{scheme}://{text}")


def _read_host(text: str) -> str:
    """A host in lower case, in Unicode, a number of IPv4 with its dots; empty for what is no host."""
    if text.startswith("["):
        return _read_ipv6(text)
    if not text.isascii():
        text = _UNSEEN.sub("", text)
    text = _lower(unicodedata.normalize("NFKC", text)).replace("\u3002", ".").strip(".")
    if _NUMBERS.fullmatch(text):
        try:
            return socket.inet_ntoa(socket.inet_aton(text))
        except OSError:
            return ""
    labels = [_decode_label(one) for one in text.split(".")]
    return ".".join(labels) if all(labels) and not re.search(r"[\s/\\?#@:<>\[\]]", text) else ""


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


def _clean_url_path(path: str) -> str:
    """A URL's path, given without its first slash, with it: what need not be encoded is not, all else is, and
    dot segments are resolved. Empty for the root."""
    path = unicodedata.normalize("NFC", _ENCODED.sub(_decode_run, path))
    kept: list[str] = []
    segments = _TO_ENCODE.sub(_encode_letter, path).split("/")
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", "..") and kept:
        kept.append("")
    return "/" + "/".join(kept) if kept != [""] and kept else ""


def _decode_run(found: re.Match[str]) -> str:
    """Of encoded bytes the letters that a URL may hold as they are: RFC 3986's unreserved ones and, as in
    RFC 3987, those of other scripts."""
    try:
        decoded = unquote_to_bytes(found[0]).decode()
    except UnicodeDecodeError:
        return found[0].upper()
    return "".join(one if _UNRESERVED.match(one) or _is_foreign(one) else _encode(one) for one in decoded)


def _encode_letter(found: re.Match[str]) -> str:
    return found[0] if _is_foreign(found[0]) else _encode(found[0])


def _is_foreign(letter: str) -> bool:
    return letter > "\x7f" and letter.isprintable() and not _UNSEEN.match(letter)


def _encode(letter: str) -> str:
    return "".join(f"%{one:02X}" for one in letter.encode("utf-8", "surrogatepass"))


def _resolve_path(text: str) -> str:
    """With slashes, without dot segments and a slash at the end."""
    path = posixpath.normpath(text.replace("\\", "/"))
    return path[1:] if path.startswith("//") and not text.startswith("\\\\") else path


def _read_word(text: str) -> Value | None:
    if _HANDLE.fullmatch(text):
        return Value("handle", _lower(text))
    if found := _UUID.fullmatch(text.lower()):
        return Value("id", "".join(found.groups()))
    return Value("id", _lower(text)) if _ID.fullmatch(text) else None


# What a text or a result holds

_DELIMITERS = r"\s<>\"“”„«»\u2039\u203a|,;`\x00-\x1f"
_TOKEN = re.compile(
    rf"(?<![A-Za-z0-9+.\-])[A-Za-z][A-Za-z0-9+.\-]{{1,15}}://[^{_DELIMITERS}]++|[^{_DELIMITERS}()\[\]{{}}]++"
)
_TELLING = re.compile(r"[@/\\#\d]|\.(?=[^\W\d_])")
"""Without it a word is nothing but a word."""
_PRINTED = re.compile(r"[!-~]+")
"""Among letters of a script that sets no spaces."""
_CLOSING = {")": "(", "]": "[", "}": "{"}
_BEFORE, _AFTER = "'\u2019*=:!?", "'\u2019*.:!?…"
_SHORTEST = 4
_GROUPS = re.compile(r"(?<!\w)([A-Z]{1,4}[ .\-]?)?[+(]?\d++(?:[ ./()\-]{1,2}\d++){1,12}")
_NEGATIVE = re.compile(r"(?<![\w.\-])-\d{4,}+(?![\w.\-])")
_IBAN_BEGINS = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?=[ \-]?[A-Za-z0-9])")
_CAPITAL = "A-Z\u00c0-\u00de\u0100-\u024f\u0370-\u03ff\u0400-\u052f\u1e00-\u1fff"
_CAPITALISED_WORD = rf"[{_CAPITAL}][\w'\u2019\-]*+(?![@/\\]|\.\w)"
_CAPITALISED = re.compile(rf"(?<![\w@/\\.\-]){_CAPITALISED_WORD}(?: {_CAPITALISED_WORD})*")
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
    "name": 4,
}
"""Which values go into a list first; between them, as 1, those that are a whole leaf of a result."""
_LEAF_RANK = 1


def find_values(text: str) -> Iterator[Value]:
    """The values within a text, of its first MAX_TEXT characters; one may come more than once.

    Names are sequences of up to three capitalised words, of a longer one each two and three; one that begins
    a sentence is a name without its first word too. Of a URL its host is a value too, and of a handle the
    name without its sign. Dates are none. Time: linear.
    """
    text = _cut(text, MAX_TEXT)
    tokens = (_read_token(token) for token in dict.fromkeys(_TOKEN.findall(text)) if _TELLING.search(token))
    return chain(chain.from_iterable(tokens), _find_numbers(text), _find_names(text))


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
        if isinstance(node, Mapping):
            return self._read_object(node)
        if isinstance(node, (list, tuple, set, frozenset)):
            return self._take_first(node)
        if node is None or isinstance(node, (bool, date)):
            return []
        if isinstance(node, (int, float)):
            if abs(node) >= _SMALLEST_NUMBER and (value := read_json_value(node)):
                self._add(value, _LEAF_RANK)
            return []
        return self._read_other(node)

    def list_values(self) -> SeenValues:
        values = list(dict.fromkeys(chain.from_iterable(self._ranked)))
        return SeenValues(values[:MAX_VALUES], self.truncated or len(values) > MAX_VALUES)

    def _take_first(self, nodes: Iterable[Any]) -> list[Any]:
        """As many as there are characters left: each costs one at least."""
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
            return [getattr(node, one.name) for one in fields(node)]
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
        if 0 < len(text) <= MAX_LEAF and not _MOMENT.fullmatch(text):
            for value in _add_parts(read_value(text)):
                self._add(value, _LEAF_RANK)
        self._search(text, with_names=True)
        return []

    def _search(self, text: str, *, with_names: bool) -> None:
        if len(text) > self.characters_left:
            self.truncated = True
            text = _cut(text, max(0, self.characters_left))
        self.characters_left -= len(text)
        for value in find_values(text):
            if with_names or value.kind != "name":
                self._add(value, _RANKS[value.kind])

    def _add(self, value: Value, rank: int) -> None:
        ranked = self._ranked[min(rank, _RANKS[value.kind])]
        if value.text and len(ranked) <= MAX_VALUES:
            ranked[value] = None


def _cut(text: str, length: int) -> str:
    """The text up to a length, without the word that the cut goes through: a part of a value is another."""
    if len(text) <= length:
        return text
    whole = re.match(r"(?s).*\s", text[:length])
    return whole[0] if whole else ""


def _add_parts(value: Value) -> Iterator[Value]:
    """The value, and what is seen where it is seen."""
    yield value
    if value.kind == "handle":
        yield read_value(value.text[1:])
    elif value.kind == "url" and "://" not in value.text and "/" in value.text:
        yield Value("url", value.text.partition("/")[0])


def _read_token(token: str) -> Iterator[Value]:
    if "://" in token:
        token = _close_brackets(token)
    elif not token.isascii():
        for part in dict.fromkeys(_PRINTED.findall(token)):
            if part != token and _TELLING.search(part):
                yield from _read_token(part)
    token = token.lstrip(_BEFORE).rstrip(_AFTER)
    value = read_value(token)
    is_short = value.kind in ("account", "id") and len(value.text) < _SHORTEST
    if value.kind != "name" and not is_short and not _MOMENT.fullmatch(token):
        yield from _add_parts(value)
    if "://" in token:
        return
    is_whole = value.kind in ("email", "phone") or (value.kind == "url" and "." in value.text)
    splits = "=" if is_whole or _DRIVE.match(token) else "=:"
    parts = re.split(f"[{splits}]", token) if any(one in token for one in splits) else ()
    for part in dict.fromkeys(parts):
        if _TELLING.search(part):
            yield from _read_token(part)


def _close_brackets(token: str) -> str:
    """A URL up to the bracket that it does not open."""
    opened: list[str] = []
    for at, one in enumerate(token):
        if one in "([{":
            opened.append(one)
        elif one in _CLOSING and (not opened or opened.pop() != _CLOSING[one]):
            return token[:at]
    return token


def _find_numbers(text: str) -> Iterator[Value]:
    """Telephones, accounts and IBANs that are written in groups, and numbers below 0."""
    for found in _GROUPS.finditer(text):
        for spelling in dict.fromkeys((found[0], found[0].removeprefix(found[1] or ""))):
            value = read_value(spelling)
            if value.kind in ("account", "phone") and not _MOMENT.fullmatch(spelling):
                yield value
    for found in _NEGATIVE.finditer(text):
        yield read_value(found[0])
    for found in _IBAN_BEGINS.finditer(text):
        iban = _read_spaced(text, found.start(), _LENGTHS.get(found[0][:2].upper(), 0))
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
    for found in _CAPITALISED.finditer(text):
        for words in _list_names(found[0].split(" "), begins=_begins_sentence(text, found)):
            name = " ".join(words)
            yield Value("name", name.lower()) if name.isascii() else read_value(name)


def _begins_sentence(text: str, found: re.Match[str]) -> bool:
    before = text[max(0, found.start() - 2) : found.start()].rstrip(" ")
    return found[0] != text and before[-1:] in ("", ".", "!", "?", ":", "\n")


def _list_names(words: Sequence[str], *, begins: bool) -> Iterator[Sequence[str]]:
    """The names in words that begin with capitals. `begins`: the first one may do so for its place alone."""
    run: list[str] = []
    for word in [*(_OWNER.sub("", one) for one in words), ""]:
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
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256")[:FINGERPRINT_BYTES]


def fingerprint_result(key: bytes, result: Any) -> dict[str, Any]:
    """What an outcome says of a tool's result, its `values` as JSON: see `collect_values`. Never fails: a
    result that raises an error when it is read is truncated."""
    try:
        seen = collect_values(result)
    except Exception:  # noqa: BLE001 - a stranger's object, and its tool has run
        seen = SeenValues([], truncated=True)
    written = (b64encode(fingerprint(key, value)).decode() for value in seen.values)
    return {"fingerprints": list(dict.fromkeys(written)), "truncated": seen.truncated}
