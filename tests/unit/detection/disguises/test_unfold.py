# ruff: noqa: RUF001 - look-alikes are what is tested
"""Disguises of a text are taken off: look-alikes, invisible characters, encodings, one within another."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.detection.disguises.encodings import ENCODING_CUES, LONGEST_RUN
from sluice.detection.disguises.letters import fold_look
from sluice.detection.disguises.unfold import FORMS, TooManyForms, forms
from sluice.text.expression_sets import PatternSet

COMMAND = "rm -rf /srv/data"
CUES = PatternSet([("encoding", ENCODING_CUES)])
PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=12, max_size=60)


def unfold(text: str) -> dict[str, str]:
    return {form.text: form.how for form in forms(text)}


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("ｒｍ －ｒｆ ／", "rm -rf /"),
        ("r\u200bm -r\u2060f /", "rm -rf /"),
        ("\u202erm -rf /", "rm -rf /"),
        ("rм -rf /", "rm -rf /"),
        ("DRОP ТАBLЕ users", "DROP TABLE users"),
        ("r̶m̶ -rf", "rm -rf"),
        ("rm —rf ∕", "rm -rf /"),
        ("O’Brien", "O'Brien"),
        ("𝐃𝐑𝐎𝐏 𝐓𝐀𝐁𝐋𝐄", "DROP TABLE"),
    ],
)
def test_a_text_is_folded_to_what_it_looks_like(text: str, seen: str) -> None:
    assert fold_look(text) == seen
    assert unfold(text)[seen] == "look-alike"


@given(st.text(st.characters(max_codepoint=127)))
def test_an_ascii_text_looks_like_itself(text: str) -> None:
    assert fold_look(text) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold_look(fold_look(text)) == fold_look(text)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (quote(COMMAND, safe=""), "url"),
        (quote(quote(COMMAND, safe=""), safe=""), "url > url"),
        (base64.b64encode(COMMAND.encode()).decode(), "base64"),
        (base64.urlsafe_b64encode(COMMAND.encode()).decode().rstrip("="), "base64"),
        (base64.b64encode(COMMAND.encode("utf-16-le")).decode(), "base64"),
        (COMMAND.encode().hex(), "hex"),
        ("".join(f"\\x{byte:02x}" for byte in COMMAND.encode()), "escapes"),
        ("".join(f"\\u{byte:04x}" for byte in COMMAND.encode()), "escapes"),
        ("".join(f"&#{byte};" for byte in COMMAND.encode()), "html"),
        (base64.b64encode(base64.b64encode(COMMAND.encode())).decode(), "base64 > base64"),
    ],
)
def test_an_encoded_command_comes_out(text: str, how: str) -> None:
    assert unfold(text)[COMMAND] == how


@given(PRINTABLE)
def test_whatever_is_encoded_in_base64_comes_out(text: str) -> None:
    assert text in unfold(base64.b64encode(text.encode()).decode())


@given(PRINTABLE)
def test_whatever_is_encoded_in_hexadecimal_comes_out(text: str) -> None:
    assert text in unfold(text.encode().hex())
    assert text in unfold(f"0x{text.encode().hex().upper()}")


@given(PRINTABLE, st.sampled_from(["utf-8", "utf-16-le"]))
def test_a_text_that_hides_another_tells_so(text: str, encoding: str) -> None:
    raw = text.encode(encoding)
    for hidden in (base64.b64encode(raw), base64.urlsafe_b64encode(raw).rstrip(b"="), raw.hex().encode()):
        assert CUES.matches(f"see {hidden.decode()} there")


def test_words_names_and_digests_do_not_tell_of_an_encoding() -> None:
    for text in (
        "international development",
        "customer_account_history/archive-of-reports",
        "550e8400-e29b-41d4-a716-446655440000",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ):
        assert not CUES.matches(text)


@pytest.mark.parametrize(
    "text", ["hello world", "550e8400-e29b-41d4-a716-446655440000", "a" * 40, "/usr/local/bin"]
)
def test_what_is_no_encoding_has_no_other_form(text: str) -> None:
    assert unfold(text) == {}


@given(st.text("ab%4&#;x\\u0'\"= \u200bа", max_size=300))
def test_a_text_never_has_more_forms_than_the_bound(text: str) -> None:
    assert len(unfold(text)) < FORMS


@given(st.integers(0, 60), st.integers(1, 3), st.booleans())
def test_no_number_of_decoys_hides_a_text_that_is_encoded(decoys: int, layers: int, alike: bool) -> None:
    """Its form comes out, or it is said that there are more forms than are read."""
    others = [encode(f"harmless {0 if alike else number:04}") for number in range(decoys)]
    text = COMMAND
    for _ in range(layers):
        text = encode(text)
    found = set()
    try:
        for form in forms(" ".join([*others, text])):
            found.add(form.text)
    except TooManyForms:
        assert not alike
        assert decoys + layers >= FORMS - 1
        return
    assert COMMAND in found


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_half_of_a_surrogate_pair_is_not_made_up() -> None:
    for text in ("\\ud800 and more", "%ud800 and more", "&#xd800; and more"):
        for form in unfold(text):
            form.encode()


def test_a_run_longer_than_the_bound_is_data() -> None:
    assert all(len(form) <= LONGEST_RUN for form in unfold("QUJD" * LONGEST_RUN))
