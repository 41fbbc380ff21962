"""Secrets and personal data in a text: expressions for RE2, each with the check digits that its kind has.

An expression alone takes any long number for a card; the check digits (Luhn, ISO 13616's remainder of 97, the
ranges that were never issued) leave one of ten to ninety-seven, so what is found is worth an alarm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from sluice.text.expression_sets import PatternSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Sensitive(NamedTuple):
    """What was found: its kind, and where it stands in the text, in characters."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SensitiveDetector:
    """`group`: the part of the expression's match that may be the finding; `check`: how many of its first
    characters are, 0 for none."""

    kind: str
    pattern: str
    check: Callable[[str], int] = len
    group: int = 0


def has_luhn(text: str) -> bool:
    """Whether the digits pass the check of payment cards (ISO/IEC 7812, annex B)."""
    digits = [int(character) for character in text if character.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]  # noqa: PLR2004 - 5 and above give two digits
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_CARDS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720))\d*(?<=^\d{16})"
    r"|3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}"
    r"|(?:6011|64[4-9]\d|65\d\d|62\d\d)\d{12,15}"
)
"""Prefixes and lengths of Visa, Mastercard, American Express, Diners Club, JCB, Discover and UnionPay."""


def card_length(text: str) -> int:
    """Luhn, and the prefix and length of an issuer."""
    digits = re.sub(r"\D", "", text)
    return len(text) if _CARDS.fullmatch(digits) and has_luhn(digits) else 0


_IBAN_LENGTHS = {
    **dict.fromkeys(("NO",), 15),
    **dict.fromkeys(("BE",), 16),
    **dict.fromkeys(("DK", "FO", "FI", "GL", "NL", "SD", "FK"), 18),
    **dict.fromkeys(("MK", "SI"), 19),
    **dict.fromkeys(("AT", "BA", "EE", "KZ", "XK", "LT", "LU", "MN"), 20),
    **dict.fromkeys(("HR", "LV", "LI", "CH"), 21),
    **dict.fromkeys(("BH", "BG", "CR", "GE", "DE", "IE", "ME", "RS", "GB", "VA"), 22),
    **dict.fromkeys(("IL", "IQ", "GI", "AE", "TL", "SO", "OM"), 23),
    **dict.fromkeys(("AD", "CZ", "MD", "PK", "RO", "SA", "SK", "ES", "SE", "TN", "VG"), 24),
    **dict.fromkeys(("PT", "ST", "LY"), 25),
    **dict.fromkeys(("FR", "GR", "IS", "IT", "MC", "SM", "TR"), 26),
    **dict.fromkeys(("DJ",), 27),
    **dict.fromkeys(("AL", "AZ", "CY", "DO", "GT", "HU", "LB", "NI", "PL", "BY", "SV"), 28),
    **dict.fromkeys(("BR", "EG", "PS", "QA", "UA"), 29),
    **dict.fromkeys(("JO", "KW", "MU", "YE"), 30),
    **dict.fromkeys(("MT", "SC"), 31),
    "LC": 32,
    "RU": 33,
}
"""Characters of an IBAN by country (ISO 13616 registry)."""


def iban_length(text: str) -> int:
    """The country's length and the remainder of 97 (ISO 13616, ISO/IEC 7064 MOD 97-10). Words may follow."""
    places = [index for index, character in enumerate(text) if character not in " -"]
    length = _IBAN_LENGTHS.get(text[:2].upper(), len(places) + 1)
    if length > len(places):
        return 0
    end = places[length - 1] + 1
    plain = re.sub(r"[ -]", "", text[:end]).upper()
    number = "".join(str(int(character, 36)) for character in plain[4:] + plain[:4])
    return end if int(number) % 97 == 1 and not text[end : end + 1].isalnum() else 0


def ssn_length(text: str) -> int:
    """An area, group and serial number that the Social Security Administration may have issued."""
    area, group, serial = re.split(r"[ -]", text)
    fits = area not in {"000", "666"} and area < "900" and group != "00" and serial != "0000"
    return len(text) if fits else 0


def _measure_mixed(text: str) -> int:
    """Letters and digits together, and no run of one character: what a placeholder is not."""
    fits = (
        any(map(str.isdigit, text))
        and any(map(str.isalpha, text))
        and len(set(text)) > len(text) // 4
        and not re.search(r"(?i)example|placeholder|changeme|xxxx|your[_-]", text)
    )
    return len(text) if fits else 0


DETECTORS = (
    SensitiveDetector("private_key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    SensitiveDetector("aws_key", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    SensitiveDetector(
        "github_token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,255})\b"
    ),
    SensitiveDetector("gitlab_token", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    SensitiveDetector("slack_token", r"\bxox[abeoprs]-[A-Za-z0-9-]{20,}"),
    SensitiveDetector("stripe_key", r"\b[rs]k_live_[A-Za-z0-9]{20,}\b"),
    SensitiveDetector("google_key", r"\bAIza[A-Za-z0-9_-]{35}"),
    SensitiveDetector("model_key", r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}", _measure_mixed),
    SensitiveDetector(
        "registry_token", r"\b(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}|dckr_pat_[A-Za-z0-9_-]{20,})"
    ),
    SensitiveDetector("sendgrid_key", r"\bSG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}"),
    SensitiveDetector("azure_key", r"\bAccountKey=[A-Za-z0-9+/]{60,}={0,2}"),
    SensitiveDetector("web_token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}"),
    SensitiveDetector(
        "password_in_url", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,64}:([^\s:/@]{3,128})@[^\s/@]", len, 1
    ),
    SensitiveDetector(
        "secret_assigned",
        r"(?i)\b(?:password|passwd|pwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token)[\"']?\s*[:=]\s*"
        r"[\"']?([A-Za-z0-9_+/=.!@#$%^&*-]{12,128})",
        _measure_mixed,
        1,
    ),
    SensitiveDetector(
        "iban", r"\b[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]{2,4}){3,8}[ -]?[A-Za-z0-9]{0,3}\b", iban_length
    ),
    SensitiveDetector("card", r"\b[2-6][0-9]{3}(?:[ -]?[0-9]{2,6}){2,4}\b", card_length),
    SensitiveDetector("ssn", r"\b[0-9]{3}[ -][0-9]{2}[ -][0-9]{4}\b", ssn_length),
    SensitiveDetector("email", r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}\b"),
    SensitiveDetector("phone", r"\+[1-9][0-9]{0,2}[ ()./-]*(?:[0-9][ ()./-]{0,2}){6,13}[0-9]\b"),
)
"""In the order in which they are told; where two overlap the first one counts."""
KINDS = tuple(detector.kind for detector in DETECTORS)
COMMON = frozenset(("email", "phone"))
"""Kinds that are in most messages for a good reason: the recipient's own address."""


class SensitiveScan:
    """Finds some of the kinds."""

    __slots__ = ("_any", "_detectors")

    def __init__(self, kinds: frozenset[str]) -> None:
        """`kinds`: of KINDS."""
        wanted = [detector for detector in DETECTORS if detector.kind in kinds]
        self._any = PatternSet([(index, detector.pattern) for index, detector in enumerate(wanted)])
        self._detectors = [(detector, re2.compile(detector.pattern)) for detector in wanted]

    def find(self, text: str) -> list[Sensitive]:
        """Every finding, in the order of the text, none of which overlaps another."""
        matches: list[Sensitive] = []
        for index in self._any.matches(text):
            detector, expression = self._detectors[index]
            for match in _find_all(detector, expression, text):
                if all(match.end <= other.start or other.end <= match.start for other in matches):
                    matches.append(match)
        return sorted(matches, key=lambda sensitive: sensitive.start)

    def redact(self, text: str) -> str:
        """The text with every finding replaced by its kind in brackets."""
        parts, at = [], 0
        for match in self.find(text):
            parts += [text[at : match.start], f"[{match.kind}]"]
            at = match.end
        return "".join([*parts, text[at:]])


@cache
def scan_for(kinds: frozenset[str]) -> SensitiveScan:
    """A scan for these kinds, compiled once."""
    return SensitiveScan(kinds)


def _find_all(detector: SensitiveDetector, expression: Any, text: str) -> Iterator[Sensitive]:
    for match in expression.finditer(text):
        length = detector.check(match[detector.group])
        if length:
            start = match.start(detector.group)
            yield Sensitive(detector.kind, start, start + length)
