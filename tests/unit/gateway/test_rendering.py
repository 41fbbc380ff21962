"""Texts of agents on the pages: escaped, and nothing in them that a reader does not see."""

from __future__ import annotations

import json
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.text.visible import is_seen
from sluice.gateway.pages.rendering import LONGEST, document, page, seen


@given(st.text(st.characters(), max_size=300))
def test_no_text_becomes_markup_or_hides(text: str) -> None:
    shown = seen(text)
    plain = shown.replace('<span class="unseen">', "").replace("</span>", "")
    assert not set(plain) & set("<>\"'")
    assert all(one == "\n" or is_seen(one) for one in unescape(plain))


def test_what_cannot_be_seen_stands_by_its_number() -> None:
    assert seen("due\u202e<b>") == 'due<span class="unseen">U+202E</span>&lt;b&gt;'


def test_values_are_shown_as_json_and_long_texts_are_cut() -> None:
    assert json.loads(seen({"a": ["<"]}).unescape()) == {"a": ["<"]}
    assert "10 characters more" in seen("x" * (LONGEST + 10))


def test_pages_allow_no_inline_script_or_style_and_nobody_frames_them() -> None:
    rules = page("login.html", token="", wrong="<b>", after="", session=None).headers[
        "content-security-policy"
    ]
    assert "unsafe" not in rules
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(rules.split("; "))


def test_a_document_is_allowed_its_own_style_alone() -> None:
    rules = document("<html><style>\na {}\n</style></html>").headers["content-security-policy"]
    assert "style-src 'sha256-" in rules
    assert "script-src" not in rules
