"""Texts of agents on the pages: escaped, and nothing in them that a reader does not see."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.foundation.clock import read_milliseconds
from sluice.gateway.pages.rendering import (
    LONGEST,
    render_page,
    serve_document,
    write_aged,
    write_dated,
    write_visible,
)
from sluice.text.visible import is_seen


@given(st.text(st.characters(), max_size=300))
def test_no_text_becomes_markup_or_hides(text: str) -> None:
    shown = write_visible(text)
    plain = shown.replace('<span class="unseen">', "").replace("</span>", "").replace("_<wbr>", "_")
    assert not set(plain) & set("<>\"'")
    assert all(one == "\n" or is_seen(one) for one in unescape(plain))


def test_what_cannot_be_seen_stands_by_its_number() -> None:
    assert write_visible("due\u202e<b>") == 'due<span class="unseen">U+202E</span>&lt;b&gt;'


def test_values_are_shown_as_json_and_long_texts_are_cut() -> None:
    assert json.loads(write_visible({"a": ["<"]}).unescape()) == {"a": ["<"]}
    assert "10 characters more" in write_visible("x" * (LONGEST + 10))


def test_pages_allow_no_inline_script_or_style_and_nobody_frames_them() -> None:
    rules = render_page("login.html", token="", wrong="<b>", after="", session=None).headers[
        "content-security-policy"
    ]
    assert "unsafe" not in rules
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(rules.split("; "))


def test_a_document_is_allowed_its_own_style_alone() -> None:
    rules = serve_document("<html><style>\na {}\n</style></html>").headers["content-security-policy"]
    assert "style-src 'sha256-" in rules
    assert "script-src" not in rules


def test_a_time_is_said_with_its_age_or_with_how_long_it_is_off() -> None:
    """Mend 22.20: nobody counts hours at night."""
    now_ms = read_milliseconds("2026-11-24T02:00:00.000Z")
    assert write_dated("2026-11-24T01:54:30.000Z", now_ms) == "2026-11-24 01:54 UTC, 5 min 30 s ago"
    assert write_dated("2026-11-24T03:00:00.000Z", now_ms) == "2026-11-24 03:00 UTC, in 1 h"
    assert write_aged("2026-11-24T01:00:00.000Z", now_ms).striptags() == "1 h ago 2026-11-24 01:00 UTC"
    assert (write_dated("", now_ms), write_aged("", now_ms)) == ("", "")


def test_where_only_the_own_key_counts_the_page_has_a_command_and_no_form() -> None:
    """Mend 22.20: the gateway's signature would be refused there."""
    account = {"approver_id": "ann", "tenant_id": "acme", "name": "ann", "roles": ["vp"]}
    one = {
        "escalation_id": "escalation:gate.actions.proposed:3:17",
        "required_role": "vp",
        "own_key": True,
        "opened_at": "2026-11-24T01:00:00.000Z",
        "expires_at": "2026-11-24T02:00:00.000Z",
    }
    about: dict[str, Any] = {"session": {"account": account, "csrf": "t"}, "delegate": {"id": "gateway"}}
    about |= {"content": None, "now_ms": 0}
    for own_key in (True, False):
        shown = bytes(render_page("escalation.html", one={**one, "own_key": own_key}, **about).body).decode()
        assert ("approve escalation:gate.actions.proposed:3:17 --as ann --key" in shown) == own_key
        assert ('value="approve"' in shown) == (not own_key)


def test_a_gate_that_did_not_judge_is_marked_in_words_and_not_as_passed() -> None:
    """Mend 22.24: the page of a decision and of an escalation, which share the list."""
    gates: dict[str, Any] = {"controls": {}, "causal": {"would": "block", "objection": "x"}, "grader": {}}
    results = [{"gate": gate, "passed": True, "detail": detail} for gate, detail in gates.items()]
    record: dict[str, Any] = {
        "verdict": "allowed",
        "blockReason": None,
        "gateResults": results,
        "stages": [],
        "input": {},
    }
    html = bytes(render_page("decision.html", one=record, session=None, holds=True).body).decode()
    marks = re.findall(r'<li class="(\w+)">\s*<p><span class="mark">([^<]+)</span>', html)
    assert marks == [
        ("good", "✓ passed"),
        ("observed", "○ observed: would have denied"),
        ("idle", "- did not judge: it is off, or not concerned"),
    ]
    assert "no gate held it up" in html
