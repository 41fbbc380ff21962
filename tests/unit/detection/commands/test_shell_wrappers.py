"""Wrappers are seen through: what they run is read as if it stood alone, and they are listed in `via`."""

from __future__ import annotations

import pytest

from sluice.detection.commands.shell import read_shell

WRAPPED = {
    "sudo rm -rf /": ("sudo",),
    "sudo -u root -n rm -rf /": ("sudo",),
    "doas rm -rf /": ("doas",),
    "env A=1 B=2 rm -rf /": ("env",),
    "env -i rm -rf /": ("env",),
    "env -S 'rm -rf /'": ("env",),
    "nohup rm -rf / &": ("nohup",),
    "timeout -s KILL 5 rm -rf /": ("timeout",),
    "nice -n 19 rm -rf /": ("nice",),
    "ionice -c 3 rm -rf /": ("ionice",),
    "time rm -rf /": ("time",),
    "stdbuf -oL rm -rf /": ("stdbuf",),
    "watch -n 1 'rm -rf /'": ("watch",),
    "echo / | xargs rm -rf": ("xargs",),
    "echo / | xargs -I {} -n 1 rm -rf": ("xargs",),
    "find / -exec rm -rf {} \\;": ("find",),
    "find / -execdir rm -rf {} +": ("find",),
    "bash -c 'rm -rf /'": ("bash",),
    "bash -lc 'rm -rf /'": ("bash",),
    "sh -x -e -c 'rm -rf /'": ("sh",),
    "command rm -rf /": ("command",),
    "builtin command rm -rf /": ("builtin", "command"),
    "exec rm -rf /": ("exec",),
    "ssh -i key -p 22 me@host 'rm -rf /'": ("ssh",),
    "ssh host rm -rf /": ("ssh",),
    "docker exec -it -u root web rm -rf /": ("docker",),
    "docker run --rm -v a:b alpine rm -rf /": ("docker",),
    "kubectl -n prod exec pod -c app -- rm -rf /": ("kubectl",),
    "chroot /mnt rm -rf /": ("chroot",),
    "su - admin -c 'rm -rf /'": ("su",),
    "runuser -u admin -- rm -rf /": ("runuser",),
    "busybox rm -rf /": ("busybox",),
    "script -qc 'rm -rf /' out": ("script",),
    "strace -f -o t rm -rf /": ("strace",),
    "flock /tmp/l rm -rf /": ("flock",),
    "flock /tmp/l -c 'rm -rf /'": ("flock",),
    "systemd-run --unit x rm -rf /": ("systemd-run",),
    "poetry run rm -rf /": ("poetry",),
    "sudo env nice bash -c 'command rm -rf /'": ("sudo", "env", "nice", "bash", "command"),
    "powershell -Command rm -rf /": ("powershell",),
}


@pytest.mark.parametrize(("text", "via"), WRAPPED.items())
def test_a_wrapper_is_seen_through(text: str, via: tuple[str, ...]) -> None:
    last = read_shell(text).commands[-1]
    assert (last.program, last.args, last.via) == ("rm", ("-rf", "/"), via)


@pytest.mark.parametrize(
    "text", ["command -v rm", "command -V rm", "sudo -l", "kubectl get pods", "docker ps"]
)
def test_a_wrapper_that_runs_nothing_runs_nothing(text: str) -> None:
    assert len(read_shell(text).commands) == 1


def test_find_names_a_file_below_where_its_tests_narrow_what_is_found() -> None:
    assert read_shell("find /etc -name '*.bak' -exec rm {} +").commands[-1].args == ("/etc/*.bak",)


@pytest.mark.parametrize(
    ("text", "nested"),
    [
        ("psql -h db -c 'DROP TABLE t'", ("DROP TABLE t", "sql")),
        ("psql --command='DROP TABLE t'", ("DROP TABLE t", "sql")),
        ("mysql -u root -e 'DROP TABLE t'", ("DROP TABLE t", "sql")),
        ("sqlite3 file.db 'DROP TABLE t'", ("DROP TABLE t", "sql")),
        ("echo 'DROP TABLE t' | mysql db", ("DROP TABLE t", "sql")),
        ("psql <<E\nDROP TABLE t\nE", ("DROP TABLE t\n", "sql")),
        ("sudo -u postgres psql -c 'DROP TABLE t'", ("DROP TABLE t", "sql")),
        ("python3.11 -c 'print(1)'", ("print(1)", "python")),
        ("mongosh --eval 'db.dropDatabase()'", ("db.dropDatabase()", "javascript")),
        ("awk 'BEGIN { x }'", ("BEGIN { x }", "awk")),
        ("docker exec db psql -c 'DROP TABLE t'", ("DROP TABLE t", "sql")),
    ],
)
def test_code_for_an_interpreter_is_handed_on_with_its_language(text: str, nested: tuple[str, str]) -> None:
    assert nested in [(one.text, one.language) for one in read_shell(text).nested]
