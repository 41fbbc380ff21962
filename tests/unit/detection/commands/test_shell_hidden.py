"""Commands where only the shell would see them: in patterns, indexes, files, further rounds of a loop."""

from __future__ import annotations

import pytest

from sluice.detection.commands.shell import read_shell

WORK = 100.0


def lines_of(text: str) -> list[str]:
    return [" ".join((one.program, *one.args)) for one in read_shell(text, WORK).commands]


@pytest.mark.parametrize(
    "text",
    [
        "echo ${x#$(rm -rf y)}",
        'echo "${x##`rm -rf y`}"',
        "echo ${x%%$(rm -rf y)}",
        "echo ${x^^$(rm -rf y)}",
        "echo ${x:-${z:=`rm -rf y`}}",
        "echo ${a['$(rm -rf y)']}",
        "for c in 'ls -l' 'cat' 'rm -rf'; do $c y; done",
        "for c in 1 2 3 'rm -rf y'; do ${c}; done",
        "${HOME:+rm -rf} y",
        "r{l..m}; rm -rf y",
        "rm {-rf,{y,z}}; rm -rf y",
        "echo 'rmm  -rf y' | tr -s 'm ' | sh",
        "echo 'rxmx x-xrxfx xy' | tr -d x | sh",
    ],
)
def test_a_command_that_only_the_shell_sees_is_read(text: str) -> None:
    assert "rm -rf y" in lines_of(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rm -rf /{e..e}tc", "rm -rf /etc"),
        ("touch {a,{b,/etc/x}}", "touch a b /etc/x"),
        ("touch ${HOME:-a}/x", "touch $HOME/x"),
        ("touch ${HOME#$}/x", "touch $HOME/x"),
        ("cat ${TERM:+/etc/shadow}", "cat /etc/shadow"),
    ],
)
def test_words_are_what_the_shell_makes_of_them(text: str, line: str) -> None:
    assert line in lines_of(text)


def test_what_a_file_gives_is_not_known() -> None:
    reading = read_shell("echo $(<notes)", WORK)
    assert [one.redirects for one in reading.commands if one.redirects] == [(("<", "notes"),)]
    assert "echo $()" in lines_of("echo $(<notes)")
    assert "rm -rf y" in lines_of("echo 'rm -rf y' > notes; sh -c \"$(<notes)\"")


def test_a_file_that_a_substitution_empties_is_written() -> None:
    emptied, _ = read_shell("echo $(>/etc/x)", WORK).commands
    assert emptied.redirects == ((">", "/etc/x"),)


def test_more_rounds_than_are_read_are_said() -> None:
    values = " ".join(f"a{number}" for number in range(20))
    assert read_shell(f"for c in {values}; do $c y; done", WORK).inconclusive == "too_many_rounds"
    assert read_shell(f"for c in {values}; do ls y; done", WORK).inconclusive is None
    assert read_shell("for c in {1..500}; do echo $c; done", WORK).inconclusive is None


@pytest.mark.parametrize(
    "text",
    [
        'echo ${HOME#$(echo ")"; rm -rf /)}',
        "echo ${HOME#$(true \\); rm -rf /)}",
        "echo ${HOME#$(case a in a) rm -rf /;; esac)}",
    ],
)
def test_a_hidden_substitution_of_which_the_end_is_doubtful_is_said(text: str) -> None:
    assert read_shell(text, WORK).inconclusive is not None


def test_words_that_braces_give_twice_hide_no_other() -> None:
    assert "rm -v -rf y" in lines_of("rm {-v,-rf}{,}{,}{,}{,}{,}{,} y")


def test_more_words_of_braces_than_are_read_are_said() -> None:
    words = ",".join(f"a{number}" for number in range(80))
    assert read_shell(f"touch {{{words},/etc/x}}", WORK).inconclusive == "too_many_brace_words"
