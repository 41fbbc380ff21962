"""Mend 7: a tool call that is a request is read as one, whatever structure it is written in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.detection.commands.shipped import inspect, silent

if TYPE_CHECKING:
    from sluice.detection.commands.inspection import Inspection

ITEM = "https://api.example.com/v2/tickets/17"
REPOSITORY = "https://api.github.com/repos/acme/shop"


def _nest(inner: dict[str, Any]) -> dict[str, Any]:
    """Twenty objects within each other, each with a type and an address of its own."""
    for place in range(20):
        inner = {"type": f"block{place}", "url": f"/{place}", "child": inner}
    return inner


def severity(tool: str, parameters: dict[str, Any]) -> str:
    found: Inspection = inspect(parameters, tool)
    return (
        "block"
        if any(hit.severity == "critical" for hit in found.hits)
        else "doubt"
        if found.hits
        else "pass"
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"method": "DELETE", "url": ITEM},
        {"verb": "delete", "url": ITEM},
        {"http_method": " Delete ", "url": ITEM},
        {"httpMethod": "DELETE", "endpoint": "/tickets/17"},
        {"options": {"method": "DELETE"}, "url": ITEM},
        {"request": {"method": "DELETE", "url": ITEM}},
        {"url": ITEM, "config": {"axios": {"method": "delete"}}},
        {"request": f"DELETE {ITEM} HTTP/1.1"},
        {"endpoint": "DELETE /v2/tickets/17"},
        {"args": ["DELETE", "/v2/tickets/17"]},
        {"method": ["DELETE"], "url": ITEM},
        {"method": "DELETE", "address": ITEM},
        {"method": "POST", "url": ITEM, "headers": {"X-HTTP-Method-Override": "DELETE"}},
        {"method": "POST", "url": ITEM, "headers": {"x-method-override": "delete"}},
        {"method": "POST", "url": ITEM, "headers": ["X-HTTP-Method: DELETE"]},
        {"method": "POST", "url": ITEM, "headers": [{"name": "X-HTTP-Method-Override", "value": "DELETE"}]},
        {"method": "POST", "url": ITEM, "headers": "Accept: */*\r\nX-HTTP-Method-Override: DELETE"},
        {"method": "POST", "url": f"{ITEM}?_method=DELETE"},
        {"method": "POST", "url": ITEM, "body": "_method=delete&x=1"},
        {"method": "POST", "url": ITEM, "params": {"_method": "DELETE"}},
        {"method": "GET", "url": ITEM, "headers": {"X-HTTP-Method-Override": "DELETE"}},
        {"method": "GET", "verb": "DELETE", "url": ITEM},
        {"input": json.dumps({"method": "DELETE", "url": ITEM})},
        {"requests": [{"method": "GET", "url": ITEM}, {"method": "DELETE", "url": ITEM}]},
        {"method": "POST", "url": f"{ITEM}/delete"},
        {"method": "POST", "url": "https://api.example.com/v2/tickets:batchDelete"},
        {"method": "POST", "url": "https://api.example.com/v2/%64elete/17"},
        {"method": "POST", "url": "https://slack.com/api/chat.delete", "json": {"ts": "1"}},
        {"method": "POST", "url": "https://api.example.com/x.php?action=deleteUser&id=5"},
        {"method": "POST", "url": "/bulk", "body": '{"delete": {"_id": 1}}\n{"delete": {"_id": 2}}\n'},
        {"method": "POST", "url": "/batch", "json": {"requests": [{"deleteSheet": {"sheetId": 1}}]}},
        {"endpoint": "/v2/tickets/17/delete"},
        {":method": "DELETE", ":path": "/v2/tickets/17"},
        {"type": "DELETE", "url": ITEM},
        {"m": "DELETE", "u": ITEM},
        {"raw": "DELETE /v2/tickets/17 HTTP/1.1\r\nHost: api.example.com"},
        {"method": "POST", "url": "/$batch", "body": "--b\r\n\r\nDELETE /Users(5) HTTP/1.1\r\n\r\n--b--"},
        {"url": "/soap", "headers": {"SOAPAction": "urn:DeleteUser"}},
        {"method": "POST", "url": "/", "headers": {"X-Amz-Target": "DynamoDB_20120810.DeleteTable"}},
        {"method": "POST", "url": "/", "body": "Action=TerminateInstances&InstanceId.1=i-1"},
        {"method": "GET", "url": "https://ec2.amazonaws.com/?Action=TerminateInstances&InstanceId.1=i-1"},
        {"method": "GET", "url": "/graphql?query=mutation%7BdeleteUser(id:5)%7Bid%7D%7D"},
        {"method": "GET", "url": "http://db:8086/query?q=DROP%20DATABASE%20%22telemetry%22"},
        {"method": "POST", "url": "/rpc", "body": json.dumps({"a": json.dumps({"method": "delete_user"})})},
    ],
    ids=lambda parameters: json.dumps(parameters)[:80],
)
def test_an_http_request_that_deletes_is_seen(parameters: dict[str, Any]) -> None:
    assert severity("http_request", parameters) in ("doubt", "block")


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("http_request", {"method": "DELETE", "url": REPOSITORY}),
        ("github_api", {"endpoint": "DELETE /repos/acme/shop"}),
        ("github_api", {"endpoint": "/repos/{owner}/{repo}", "method": "DELETE", "owner": "acme"}),
        ("http_request", {"method": "DELETE", "url": "https://es.example.com:9200/logs-2024"}),
        ("http_request", {"method": "DELETE", "url": "http://shop.s3.eu-west-1.amazonaws.com/"}),
        ("http_request", {"method": "DELETE", "url": "https://x.example.com/v1/databases/shop"}),
        ("http_request", {"method": "DELETE", "url": "https://k8s:6443/api/v1/namespaces/prod"}),
        ("http_request", {"method": "DELETE", "url": "https://x.example.com/v1/users"}),
        ("http_request", {"method": "DELETE", "url": "https://x.example.com/v1/tickets/*"}),
        (
            "http_request",
            {"method": "POST", "url": "/logs/_delete_by_query", "body": {"query": {"match_all": {}}}},
        ),
        ("http_request", {"method": "PUT", "url": "http://es:9200/_cluster/settings", "body": {}}),
        ("graphql", {"query": "mutation { deleteRepository(input: {id: 1}) { id } }"}),
        ("hasura", {"query": "mutation { delete_users(where: {}) { affected_rows } }"}),
        ("aws", {"service": "s3", "operation": "DeleteBucket", "parameters": {"Bucket": "b"}}),
        ("boto3", {"client": "dynamodb", "method": "delete_table", "kwargs": {"TableName": "t"}}),
        ("octokit", {"method": "repos.delete", "owner": "acme", "repo": "shop"}),
        ("mongo_call", {"operation": "deleteMany", "collection": "users", "filter": {}}),
        ("es", {"api": "indices.delete", "index": "*"}),
        ("mcp", {"method": "tools/call", "params": {"name": "delete_repository", "arguments": {}}}),
        ("kms", {"operation": "ScheduleKeyDeletion", "KeyId": "k"}),
        ("k8s_client", {"verb": "delete", "resource": "namespaces", "name": "prod"}),
        ("redis_api", {"operation": "flushall"}),
        ("anything", {"action": "delete all users"}),
        ("anything", {"operation": "Delete Bucket"}),
        ("mongo_client", {"command": {"dropDatabase": 1}}),
    ],
    ids=str,
)
def test_what_destroys_much_is_blocked(tool: str, parameters: dict[str, Any]) -> None:
    assert severity(tool, parameters) == "block"


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("jsonrpc", {"jsonrpc": "2.0", "method": "delete_user", "params": {"id": 5}}),
        ("stripe", {"call": "stripe.Refund.create", "params": {"charge": "ch_1"}}),
        ("stripe_api", {"method": "POST", "endpoint": "/v1/refunds", "data": {"charge": "ch_1"}}),
        ("anything", {"operation": "delete_user", "id": 5}),
        ("anything", {"action": "user-delete"}),
        ("anything", {"function": "findOneAndDelete"}),
        ("anything", {"operationName": "DeleteUser", "variables": {"id": 5}}),
        ("graphql", {"query": "mutation M { safe: deleteUser(id: 5) { id } }"}),
        ("graphql", {"query": "mutation { ...F } fragment F on Mutation { deleteUser(id: 5) { id } }"}),
        ("graphql", {"query": "mutation { ... on Mutation { deleteUser(id: 5) { id } } }"}),
        ("http_request", {"method": "POST", "body": '{"query": "mutation { deleteUser(id: 5) { id } }"}'}),
        ("iam", {"service": "iam", "operation": "AttachUserPolicy"}),
    ],
    ids=str,
)
def test_an_operation_is_read_by_its_name(tool: str, parameters: dict[str, Any]) -> None:
    assert severity(tool, parameters) in ("doubt", "block")


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("http_request", {"method": "GET", "url": REPOSITORY}),
        ("http_request", {"method": "HEAD", "url": "https://x.example.com/delete"}),
        ("http_request", {"method": "OPTIONS", "url": ITEM}),
        (
            "http_request",
            {"method": "GET", "url": "https://x.example.com/audit", "params": {"action": "delete"}},
        ),
        ("http_request", {"method": "POST", "url": "/logs/_search", "body": {"query": {"match_all": {}}}}),
        ("http_request", {"method": "POST", "url": "/tickets", "json": {"title": "delete old rows"}}),
        ("http_request", {"method": "PUT", "url": "/files/delete_notes.txt", "body": "x"}),
        ("http_request", {"method": "PATCH", "url": "/tickets/5", "json": {"deleted": False}}),
        ("http_request", {"method": "DELETE", "url": f"{ITEM}?dry_run=true"}),
        (
            "http_request",
            {"method": "DELETE", "url": "https://k8s:6443/api/v1/namespaces/prod?dryRun=All"},
        ),
        ("fetch", {"url": "https://docs.example.com/how-to/delete"}),
        ("graphql", {"query": "query { deletedUsers { id } }"}),
        ("graphql", {"query": 'mutation { createIssue(input: {title: "deleteRepository"}) { id } }'}),
        ("graphql", {"query": '{ repository(name: "mutation delete") { id } }'}),
        ("aws", {"service": "s3", "operation": "ListBuckets"}),
        ("aws", {"service": "ec2", "operation": "TerminateInstances", "params": {"DryRun": True}}),
        ("octokit", {"method": "repos.get", "owner": "acme", "repo": "shop"}),
        ("jsonrpc", {"jsonrpc": "2.0", "method": "list_deleted_users", "params": {}}),
        ("search_audit_log", {"action": "delete", "actor": "bob"}),
        ("list_events", {"filter": {"operation": "DeleteBucket"}}),
        ("anything", {"operation": "can_delete"}),
        ("anything", {"operation": "cancel_deletion"}),
        ("anything", {"operation": "undelete_user"}),
        ("anything", {"action": "create", "title": "Delete the repository"}),
        ("send_message", {"message": "mutation of the gene {TP53} explains it, delete my repository"}),
        ("labels", {"action": "remove_label", "label": "bug"}),
        ("slack_api", {"method": "chat.postMessage", "text": "please delete my account"}),
        ("anything", {"action": "create_event", "title": "Remove the old server"}),
        ("stripe", {"operation": "charges.list"}),
        ("http_request", {"method": "POST", "url": "/m", "json": _nest({"text": "delete the repository"})}),
    ],
    ids=str,
)
def test_what_changes_nothing_or_little_passes(tool: str, parameters: dict[str, Any]) -> None:
    assert silent(parameters, tool)


def test_a_parameter_that_asks_to_only_try_lowers_a_request_by_one_step_where_a_server_may_ignore_it() -> (
    None
):
    assert severity("http_request", {"method": "DELETE", "url": f"{REPOSITORY}?dry_run=true"}) == "doubt"
    assert (
        severity("http_request", {"method": "DELETE", "url": REPOSITORY, "json": {"dry_run": True}})
        == "doubt"
    )
    assert severity("sdk", {"operation": "delete_database", "dry_run": True}) == "doubt"
    assert severity("sdk", {"operation": "delete_ticket", "dry_run": True}) == "pass"
    assert (
        severity("boto3", {"client": "s3", "method": "delete_bucket", "kwargs": {"DryRun": True}}) == "block"
    )


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("http_request", {"method": "DELETE", "url": REPOSITORY, "dry_run": True}),
        ("http_request", {"method": "DELETE", "url": REPOSITORY, "verb": "GET", "http_method": "HEAD"}),
        ("http_request", {"method": "DELETE", "url": "/x", "endpoint": REPOSITORY}),
        ("http_request", {"method": "DELETE", "url": f"{REPOSITORY}?dryRun=All"}),
        ("anything", {"action": "delete", "resource": "repository", "type": "label"}),
        ("anything", {"action": "list", "operation": "delete_repository"}),
        ("sdk", {"method": "GET", "url": "/x", "params": {"operation": "delete_repository"}}),
        ("rpc", {"method": "GET", "url": "/x", "params": {"name": "delete_repository", "arguments": {}}}),
        ("boto3", {"service": "iam", "client": "s3", "operation": "delete_bucket"}),
    ],
    ids=str,
)
def test_no_parameter_beside_a_request_makes_it_laxer(tool: str, parameters: dict[str, Any]) -> None:
    assert severity(tool, parameters) in ("doubt", "block")


def test_a_hit_says_where_the_request_says_it() -> None:
    (hit,) = inspect({"calls": [{"method": "GET", "url": ITEM}, {"method": "DELETE", "url": ITEM}]}).hits
    assert (hit.id, hit.path, hit.form) == ("calls.delete", "$.parameters.calls[1].method", "http")


@pytest.mark.parametrize(
    ("parameters", "changes"),
    [
        ({"method": "POST", "url": "/tickets", "json": {}}, True),
        ({"method": "PATCH", "url": "/tickets/5"}, True),
        ({"query": "mutation { createIssue(a: 1) { id } }"}, True),
        ({"method": "GET", "url": "/tickets"}, False),
        ({"method": "POST", "url": "/logs/_search", "json": {}}, False),
        ({"query": "query { issues { id } }"}, False),
    ],
)
def test_a_request_that_writes_counts_as_a_change(parameters: dict[str, Any], changes: bool) -> None:
    assert inspect(parameters, "http_request").changes is changes
