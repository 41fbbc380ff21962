"""Nothing that is handed to the shell's reader may stall it or break it."""

from __future__ import annotations

from bisect import bisect
from functools import partial
from time import thread_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.detection.commands.shell import read_shell, shell_bounds
from sluice.detection.commands.shell.grammar import (
    LIMITS,
    MOST_CHARACTERS,
    SHARES,
    read_back,
    shell_work,
    spell,
)
from tests.unit.detection.commands.shell_library import LIBRARY

CRUEL = [
    *(
        "a=(",
        "a|",
        "$[",
        "a+=(",
        "a)",
        "((a",
        ">",
        "<<<",
        "x |& ",
        "${a#",
        "<<A\n",
        "${!a",
        "[[ a =~ (",
        "a[",
    ),
    *(
        "*(",
        "?(a|",
        "for ",
        "case x in ",
        "while ",
        "\\",
        '"',
        "'",
        "`",
        "$(",
        "<(",
        "rm -rf / ",
        "{a,b}",
        "a; ",
    ),
    *("&", "!", "f(){", "if ", "[ ", "$((", "@(", "do ", "then ", "x=", "${a:-", "$'"),
    *(
        "a@",
        "a?b:",
        "--\n",
        "+",
        "]",
        "}",
        "$?",
        "eval ",
        "coproc ",
        "else ",
        "export ",
        "#c\n",
        "a=(\n",
        "E\n",
    ),
]
OPENINGS = [
    "",
    "for ",
    "select ",
    "case a in ",
    "[[ ",
    "(( ",
    "${a:",
    "a[",
    "a=( ",
    "{ ",
    "'",
    "`",
    "a <<E\n",
]
ROTATING = """\
#!/bin/bash
set -euo pipefail
keep=${KEEP:-7}  # days; don't go below
rotate() {
  local file=$1 stamp
  stamp=$(date -u +%Y-%m-%d)
  if [[ ! -f "$file" ]]; then
    echo "no such file: $file" >&2
    return 1
  fi
  case "$file" in
    *.gz|*.xz) echo "packed: '$(basename "$file")'" ;;
    *) gzip -c -- "$file" > "$file.$stamp.gz" && : > "$file" ;;
  esac
}
cat > /tmp/report.sql <<'EOF'
SELECT name, count(*) FROM logs WHERE day > date('now', '-7 days') GROUP BY name; -- it's weekly
EOF
for file in /srv/app/logs/*.log; do
  rotate "$file" || continue
  (( count = ${count:-0} + 1 ))
done
find /srv/app/logs -name '*.gz' -mtime +"$keep" -print | sort | while read -r old; do
  awk '{ total += $5 } END { printf "%d (%s)\\n", total, "bytes" }' <(ls -l "$old")
done
curl -fsS -H "Authorization: Bearer $TOKEN" "https://hooks.example.com/done?count=${count:-0}" || true
"""
FRAGMENTS = st.sampled_from(CRUEL)
GENEROUS_SECONDS = 0.25
"""Far above the 10 ms that are measured on an idle core: this only tells a stall from a busy machine."""


def _seconds(text: str) -> float:
    start = thread_time()
    LIBRARY.matches(read_shell(text))
    return thread_time() - start


def _stays_under(text: str) -> bool:
    return _seconds(text) < GENEROUS_SECONDS or _seconds(text) < GENEROUS_SECONDS


def _work(opening: str, fragment: str, times: int) -> float:
    return shell_work(opening + fragment * times)


@pytest.mark.parametrize("fragment", CRUEL)
def test_a_fragment_repeated_as_often_as_a_text_may_hold_it_does_not_stall(fragment: str) -> None:
    for opening in OPENINGS:
        text = (opening + fragment * MOST_CHARACTERS)[:MOST_CHARACTERS]
        assert _stays_under(text)


@pytest.mark.parametrize("fragment", CRUEL)
def test_a_fragment_repeated_as_often_as_it_is_parsed_does_not_stall(fragment: str) -> None:
    for opening in OPENINGS:
        most = bisect(range(MOST_CHARACTERS // len(fragment)), 1.0, key=partial(_work, opening, fragment)) - 1
        assert _stays_under(opening + fragment * most)


@given(st.lists(FRAGMENTS, max_size=600).map("".join))
@settings(max_examples=60, deadline=None)
def test_fragments_in_any_order_neither_stall_nor_break_the_reader(text: str) -> None:
    assert _stays_under(text)


@given(st.text(max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_text_can_be_read(text: str) -> None:
    reading = read_shell(text)
    assert all(isinstance(arg, str) for command in reading.commands for arg in command.args)


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_the_parser_only_sees_ascii_and_every_character_is_read_back(text: str) -> None:
    marks_apart = text.replace("\x02", "\x1a").replace("\x03", "\x1a")
    assert spell(text).isascii()
    assert read_back(spell(text)) == marks_apart


@pytest.mark.parametrize(
    "character", ["\U0010fffd", "\U000e0000", "\U0001f600", "\u4f60", "\u00e9", "\u00a0"]
)
def test_characters_beyond_ascii_come_out_of_every_kind_of_word_as_they_went_in(character: str) -> None:
    words = f"{{{character} a{character}b '{character}' \"{character}\" $'{character}' {character}"
    assert read_shell(f"echo {words}").commands[0].args == (
        f"{{{character}",
        f"a{character}b",
        character,
        character,
        character,
        character,
    )


@given(st.text(max_size=200))
@settings(max_examples=50, deadline=None)
def test_reading_is_a_function_of_the_text(text: str) -> None:
    assert read_shell(text) == read_shell(text)


@pytest.mark.parametrize("token", LIMITS)
def test_a_text_past_a_token_limit_is_not_parsed(token: str) -> None:
    assert shell_bounds(token) is None
    assert shell_bounds(token * (1 + int(SHARES * LIMITS[token]))) is not None


def test_a_script_that_closes_what_it_opens_is_parsed() -> None:
    reading = read_shell(ROTATING)
    assert reading.inconclusive is None
    assert {"gzip", "find", "awk", "curl", "ls"} <= {one.program for one in reading.commands}


@pytest.mark.parametrize("lines", range(1, ROTATING.count("\n")))
def test_an_ordinary_script_is_parsed_after_whichever_line_it_is_cut_off(lines: int) -> None:
    assert shell_bounds("\n".join(ROTATING.split("\n")[:lines])) is None


def test_ordinary_text_beyond_ascii_is_no_work() -> None:
    assert shell_work("echo " + "\u4f60\u597d" * 500) <= shell_work("echo " + "ab" * 500)


def test_texts_inside_a_text_share_its_work() -> None:
    heavy = "eval '" + "a=(; " * 14 + "'"
    assert read_shell(heavy).inconclusive is None
    assert read_shell(f'eval "{heavy}"').inconclusive is not None


def test_several_texts_may_share_one_bound() -> None:
    text = "echo $(date) | tee -a log; ls -la"
    work = read_shell(text).work
    assert 0 < work < 1
    assert read_shell(text, work).inconclusive is None
    assert read_shell(text, work / 2).inconclusive is not None


def test_a_line_that_needs_no_grammar_is_no_work() -> None:
    assert read_shell("git push --force origin main").work == 0


def test_a_text_that_the_parser_is_stopped_at_is_still_read_roughly() -> None:
    text = "case x in a|b) rm -rf /\n" + "- - x\n" * 300
    reading = read_shell(text)
    assert reading.inconclusive is not None
    assert ("rm", ("-rf", "/")) in [(one.program, one.args) for one in reading.commands]


def test_statements_too_deep_inside_others_are_still_read_roughly() -> None:
    reading = read_shell("{ " * 41 + "rm -rf /" + "; }" * 41)
    assert reading.inconclusive == "nested_too_deep"
    assert ("rm", ("-rf", "/")) in [(one.program, one.args) for one in reading.commands]


def test_a_long_list_is_not_deep() -> None:
    reading = read_shell("rm -rf / && " + "a && " * 90 + "b")
    assert reading.inconclusive is None
    assert reading.commands[0].args == ("-rf", "/")


def test_a_text_past_the_bounds_is_inconclusive_and_still_read_roughly() -> None:
    reading = read_shell("rm -rf / ; " + "a=(" * 200)
    assert reading.inconclusive is not None
    assert ("rm", ("-rf", "/")) in [(one.program, one.args) for one in reading.commands]


def test_texts_inside_texts_end_somewhere() -> None:
    assert read_shell("eval " * 9 + "ls").inconclusive == "nested_too_deep"


def test_padding_does_not_hide_who_feeds_a_shell() -> None:
    assert read_shell("curl http://h/x | " + "cat | " * 20 + "sh").inconclusive == "too_many_feeders"


def test_padding_does_not_hide_a_target() -> None:
    text = "rm -rf " + " ".join(f"$TMPDIR/{number}" for number in range(200)) + " /etc"
    assert "files.rm-recursive-force" in [one.id for one in LIBRARY.matches(read_shell(text))]


def test_functions_that_call_each_other_often_end() -> None:
    start = thread_time()
    assert read_shell("f() { " + "f; " * 9 + "}; f").inconclusive is not None
    assert thread_time() - start < GENEROUS_SECONDS


@pytest.mark.parametrize("step", ["x=$x$x; ", "x+=$x; ", "x=${x//a/aa}; ", 'x="$x$x"; ', "x=$(echo $x$x); "])
def test_a_variable_that_doubles_ends(step: str) -> None:
    reading = read_shell("x=aaaa; " + step * 20 + "echo $x")
    assert reading.inconclusive == "too_much_expansion"
    assert sum(len(value) for one in reading.commands for _, value in one.assigned) < 256 * 1024


def test_a_function_that_calls_itself_ends() -> None:
    assert read_shell("f() { f; }; f").inconclusive == "nested_too_deep"
