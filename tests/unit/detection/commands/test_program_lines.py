"""Mend 7: a tool that is named after a program is read as that program's command line."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.detection.commands.program_lines import find_program, lines_of
from tests.unit.detection.commands.shipped import LIBRARY, is_blocked, silent

PROGRAMS = LIBRARY.programs


@pytest.mark.parametrize(
    ("tool", "parameters", "line"),
    [
        ("kubectl", {"args": ["delete", "ns", "prod"]}, "kubectl delete ns prod"),
        ("kubectl", {"args": "delete ns prod"}, "kubectl delete ns prod"),
        ("kubectl", {"command": "delete", "resource": "ns", "name": "prod"}, "kubectl delete ns prod"),
        ("kubectl", {"command": "kubectl delete ns prod"}, "kubectl delete ns prod"),
        ("kubectl", {"input": {"args": ["get", "pods"]}}, "kubectl get pods"),
        ("kubectl_exec", {"args": ["get", "pods"]}, "kubectl get pods"),
        ("run_kubectl", {"args": ["get", "pods"]}, "kubectl get pods"),
        ("mcp__kubectl__run", {"args": ["get", "pods"]}, "kubectl get pods"),
        ("git_push", {"branch": "main", "force": True}, "git push main --force"),
        ("git_reset", {"mode": "hard"}, "git reset --mode hard --hard"),
        ("redis", {"command": "FLUSHALL"}, "redis-cli FLUSHALL"),
        ("redis-cli", {"args": ["FLUSHALL"]}, "redis-cli FLUSHALL"),
        ("terraform", {"command": "destroy", "auto_approve": True}, "terraform destroy -auto-approve"),
        ("helm", {"flags": {"namespace": "x"}, "command": "list"}, "helm list --namespace x"),
        ("docker", {"args": ["rm", "a b"]}, "docker rm 'a b'"),
        ("bash", {"args": ["-c", "rm -rf /"]}, "bash -c 'rm -rf /'"),
        ("find", {"args": ["/", "-delete"]}, "find / -delete"),
        ("aws_cli", {"command": "rb", "service": "s3", "args": ["s3://b"]}, "aws s3 rb s3://b"),
    ],
)
def test_the_parameters_make_the_line(tool: str, parameters: dict[str, Any], line: str) -> None:
    program = find_program(tool, PROGRAMS)
    assert program is not None
    assert lines_of(program, parameters)[0] == line


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("github_api", {"command": "x"}),
        ("find_orders", {"args": ["x"]}),
        ("find", {"q": "open orders"}),
        ("kubernetes_api", {"verb": "delete"}),
        ("trello", {"action": "delete", "card": "5"}),
        ("bash", {"command": "ls"}),
        ("get_weather", {"options": {"unit": "c"}}),
    ],
)
def test_a_tool_that_is_no_program_makes_none(tool: str, parameters: dict[str, Any]) -> None:
    program = find_program(tool, PROGRAMS)
    assert program is None or lines_of(program, parameters) == ()


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("kubectl", {"args": ["delete", "ns", "prod"]}),
        ("kubectl", {"command": "get pods; kubectl delete ns prod"}),
        ("kubectl", {"command": "delete", "resource": "ns", "name": "prod"}),
        ("git", {"args": ["push", "--force", "origin", "main"]}),
        ("git", {"command": "push", "options": {"force": True}, "remote": "origin"}),
        ("terraform", {"command": "destroy"}),
        ("terraform_destroy", {"auto_approve": True}),
        ("helm", {"command": "uninstall", "release": "shop"}),
        ("gcloud", {"args": "projects delete shop --quiet"}),
        ("docker", {"args": ["system", "prune", "-af"]}),
        ("redis", {"args": ["FLUSHDB"]}),
        ("aws", {"command": "s3 rb s3://shop --force"}),
        ("az", {"args": ["group", "delete", "-n", "shop", "--yes"]}),
        ("psql", {"args": ["-c", "DROP TABLE users"]}),
        ("mysql", {"args": ["-e", "DROP DATABASE shop"]}),
        ("systemctl", {"args": ["stop", "postgresql"]}),
        ("find", {"args": ["/", "-delete"]}),
        ("rm", {"path": "/", "recursive": True, "force": True}),
    ],
    ids=str,
)
def test_a_line_that_destroys_is_blocked(tool: str, parameters: dict[str, Any]) -> None:
    assert is_blocked(parameters, tool)


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("kubectl", {"args": ["get", "ns", "prod"]}),
        ("kubectl", {"args": ["delete", "ns", "prod", "--dry-run=client"]}),
        ("kubectl", {"command": "delete", "resource": "ns", "name": "prod", "dry_run": "client"}),
        ("git", {"args": ["push", "origin", "main"]}),
        ("git_commit", {"message": "delete the force push; rm -rf / is gone"}),
        ("terraform", {"command": "plan"}),
        ("helm", {"command": "list"}),
        ("gcloud", {"args": "projects list"}),
        ("docker", {"args": ["ps", "-a"]}),
        ("redis", {"command": "GET", "key": "flushall"}),
        ("aws", {"command": "s3 ls"}),
        ("systemctl", {"args": ["status", "postgresql"]}),
        ("npm", {"args": ["run", "build"]}),
    ],
    ids=str,
)
def test_a_line_that_destroys_nothing_passes(tool: str, parameters: dict[str, Any]) -> None:
    assert silent(parameters, tool)


@pytest.mark.parametrize(
    "more",
    [
        {"dry_run": True},
        {"help": True},
        {"command": "get"},
        {"action": "get", "verb": "describe"},
        {"options": {}},
    ],
    ids=str,
)
def test_what_stands_beside_the_arguments_makes_them_no_laxer(more: dict[str, Any]) -> None:
    assert is_blocked({"args": ["delete", "ns", "prod"], **more}, "kubectl")
