"""Mend 22.25: options are read as each program documents them, and words behind a redirection still count."""

from __future__ import annotations

import pytest

from sluice.detection.commands.shell import read_shell
from tests.unit.detection.commands.shipped import is_blocked, silent

RUNS_RM = [
    "echo $(( $(rm -rf /srv) + 1 ))",
    'echo "$(( $(rm -rf /srv) ))"',
    "echo $(( a[$(rm -rf /srv)] ))",
    "a[$(rm -rf /srv)]=1",
    'echo ${x:-"a$(rm -rf /srv)"}',
    "x='a[$(rm -rf /srv)]'; echo $((x))",
    "parallel rm -rf ::: /srv",
    "parallel -j4 --colsep , --bar rm -rf {} ::: /srv",
    "parallel rm -rf /{1.}{2/} ::: s.x ::: a/rv",
    "parallel ::: 'rm -rf /srv'",
    "echo /srv | parallel -I% rm -rf %",
    "sem -j 2 --id x rm -rf /srv",
    "echo /srv | xargs --replace rm -rf {}",
    "echo /srv | xargs --replace=X rm -rf X",
    "echo /srv | xargs -0I {} rm -rf {}",
    "echo /srv | xargs -i rm -rf {}",
    "xargs --eof -l1 --max-pr 8 rm -rf /srv < list",
    "env -S 'rm -rf /srv'",
    "env -S'rm -rf' /srv",
    "env -iS '-u A B=1 rm -rf /srv'",
    "env -P /bin rm -rf /srv",
    "env - rm -rf /srv",
    "sudo -nu root rm -rf /srv",
    "screen -dmS x rm -rf /srv",
    "timeout --kill 5 10 rm -rf /srv",
    "sudo 2>&1 rm -rf /srv",
    "rm 2>log -rf /srv",
    "rm -rf 3<>/tmp/x /srv",
    "rm -rf {log}>/tmp/x /srv 0</dev/null",
    "echo | sudo 0</dev/null rm -rf >a /srv >b",
]


@pytest.mark.parametrize("text", RUNS_RM)
def test_the_command_is_read_with_its_words_and_no_others(text: str) -> None:
    found = [one for one in read_shell(text).commands if one.program == "rm"]
    assert found
    assert {one.args[0] for one in found} == {"-rf"}
    assert {one.args[1] for one in found} == {"/srv"}
    assert {len(one.args) for one in found} == {2}
    assert is_blocked({"command": text})


@pytest.mark.parametrize(
    ("text", "redirects"),
    [
        ("ls 2>file", [(">", "file")]),
        ("ls 123>/dev/null", [(">", "/dev/null")]),
        ("ls 0</dev/null", [("<", "/dev/null")]),
        ("ls {log}>>file", [(">>", "file")]),
        ("ls 1<>/dev/sda", [(">>", "/dev/sda")]),
        ("ls >a 0<b", [(">", "a"), ("<", "b")]),
        ("(ls 2>file", [(">", "file")]),
    ],
)
def test_a_number_or_name_before_a_redirection_is_no_word(
    text: str, redirects: list[tuple[str, str]]
) -> None:
    command = read_shell(text).commands[-1]
    assert (command.program, command.args, list(command.redirects)) == ("ls", (), redirects)


def test_what_is_redirected_behind_a_pipeline_is_its_last_stages() -> None:
    first, last = read_shell("cat a | tee -a >/dev/sda b").commands
    assert (first.redirects, last.redirects, last.args) == ((), ((">", "/dev/sda"),), ("-a", "b"))


@pytest.mark.parametrize(
    "text",
    [
        "git checkout -qbX",
        "git checkout -qbfix",
        "git checkout -Bfix",
        "git switch -cX",
        "git switch -cfoo",
        "git -C repo switch -Cfix main",
        "git push -ofoo origin main",
        "git branch -uorigin/fix",
        "git commit -mfix",
        "git tag -mfix v1",
        "parallel --dry-run rm -rf ::: /srv",
        "rm -rf node_modules 2>/dev/null",
        "rm -rf node_modules 0</dev/null",
        "rm -rf node_modules {log}>/dev/null",
        "(rm -rf node_modules 2>/dev/null",
        "ls | xargs --replace cat {}",
        "echo $(( $(wc -l < a) + 1 ))",
        "a[$(wc -l < a)]=1",
    ],
)
def test_a_value_in_an_options_word_is_no_option(text: str) -> None:
    assert silent({"command": text})


@pytest.mark.parametrize(
    "text",
    ["git checkout -qf", "git switch -qf main", "git switch -cx -f", "git push -of -f", "pkill -9 -uroot"],
)
def test_the_options_around_such_a_value_count(text: str) -> None:
    assert not silent({"command": text})


def test_splits_within_splits_end() -> None:
    assert read_shell("env " + "-S " * 900 + "x").commands
