"""Mend 7: names, addresses and GraphQL documents, each read by its own grammar and within its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.detection.commands.calls.call import only_reads, operations_of
from sluice.detection.commands.calls.gather import MOST_OF_A_KIND, VALUES
from sluice.detection.commands.calls.graphql import MOST_CHARS, parse_mutations
from sluice.detection.commands.calls.http import JSON_CHARS, take_operation, target_of
from tests.unit.detection.commands.shipped import LIBRARY, inspect

HARMFUL = LIBRARY.call_verbs


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("DeleteBucket", [("delete", "bucket")]),
        ("s3:DeleteBucket", [("delete", "bucket")]),
        ("repos.delete", [("delete", "repos")]),
        ("stripe.Refund.create", [("create", "refund")]),
        ("delete_user_by_id", [("delete", "user")]),
        ("deleteRepositoryRuleset", [("delete", "ruleset")]),
        ("findOneAndDelete", [("find", ""), ("delete", "")]),
        ("user-delete", [("delete", "user")]),
        ("deletebucket", [("delete", "bucket")]),
        ("list_deleted_items", [("list", "items")]),
        ("get_delete_status", [("get", "status")]),
        ("s3.delete_bucket(Bucket='b')", [("delete", "bucket")]),
        ("users:batchDelete", [("delete", "users")]),
        ("DeleteBucketCommand", [("delete", "bucket")]),
        ("weather", []),
    ],
)
def test_the_name_of_an_operation_gives_its_verb_and_thing(name: str, said: list[tuple[str, str]]) -> None:
    assert [(one.verb, one.thing) for one in operations_of(name, HARMFUL)] == said


@pytest.mark.parametrize(
    ("method", "address", "said"),
    [
        ("delete", "/api/v1/users/5", ("delete", "users", "one")),
        ("delete", "/api/v1/users", ("delete", "users", "collection")),
        ("delete", "/users/5/sessions", ("delete", "sessions", "many")),
        ("delete", "/users/*", ("delete", "users", "all")),
        ("post", "/users/5/delete", ("delete", "users", "one")),
        ("post", "/users", ("create", "users", "collection")),
        ("get", "/users/5/delete", ("get", "delete", "one")),
    ],
)
def test_an_address_says_what_is_done_to_what(method: str, address: str, said: tuple[str, str, str]) -> None:
    done = take_operation(method, target_of(address), HARMFUL)
    assert (done.verb, done.thing, done.scope) == said


def test_a_tool_that_looks_things_up_is_told_by_its_name() -> None:
    assert only_reads("search_audit_log")
    assert not only_reads("update_ticket")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "mutation { a: deleteUser(id: 5) @skip(if: false) { id } createUser }",
            ["deleteUser", "createUser"],
        ),
        ("# deleteUser\nquery { a }", []),
        ('mutation { log(text: "} deleteUser {") }', ["log"]),
        ('mutation { log(text: """ " } deleteUser { """) }', ["log"]),
        ("query Q { a } mutation M($x: [ID!]! = [1]) { deleteUser(id: $x) }", ["deleteUser"]),
        ("fragment F on M { ...G } fragment G on M { ...F deleteUser } mutation { ...F }", ["deleteUser"]),
    ],
)
def test_graphql_is_read_by_its_grammar(text: str, names: list[str]) -> None:
    found = parse_mutations(text)
    assert found is not None
    assert [one.name for one in found] == names


@pytest.mark.parametrize(
    "text", ["", "mutation", "mutation { a", "mutation of a gene {x}", "mutation { a } }", "{ 5 }"]
)
def test_what_is_no_document_is_not_taken_for_one(text: str) -> None:
    assert not parse_mutations(text)


@pytest.mark.parametrize(
    "parameters",
    [
        {"query": "mutation { deleteUser(a: {" + "b: {" * 90 + "}" * 90 + "}) { id } }"},
        {"query": f"mutation {{ {'a ' * MOST_CHARS} deleteUser }}"},
        {"url": "/x", "body": '{"a": "' + "b" * JSON_CHARS + '", "method": "DELETE"}'},
        {"values": [{"a": [1, 2, 3]}] * VALUES, "method": "DELETE"},
        {
            "calls": [{f"x{n}": {"method": "get"}} for n in range(3)],
            **{"op" + "_" * n: "delete" for n in range(MOST_OF_A_KIND + 1)},
        },
        {"requests": [{"method": "DELETE", "url": f"/tickets/{n}"} for n in range(200)]},
        {"body": "[" * 500 + '{"method": "DELETE"}' + "]" * 500},
    ],
    ids=["nesting", "long GraphQL", "long JSON", "many values", "many names", "many requests", "deep JSON"],
)
def test_past_a_bound_a_request_is_at_least_doubtful(parameters: dict[str, Any]) -> None:
    found = inspect(parameters, "api_request")
    assert found.inconclusive is not None or found.hits


_KEYS = st.sampled_from(
    [
        "method",
        "url",
        "operation",
        "action",
        "headers",
        "body",
        "query",
        "params",
        "filter",
        "name",
        "arguments",
        "type",
        "dry_run",
        "all",
        "requests",
        "x",
    ]
)
_TEXTS = st.text(max_size=20) | st.sampled_from(
    [
        "DELETE",
        "/a/*",
        "https://[::1",
        "deleteUser",
        "a=b&_method=delete",
        "mutation { ...F }",
        "{",
        "[[",
        '{"a": 1}',
        "DELETE /x HTTP/1.1",
        "%",
        "?delete",
        "X-HTTP-Method-Override: DELETE",
        "s3:DeleteBucket",
        ".",
        "::",
        "",
        "\x00",
        "é(",
    ]
)
_VALUES = st.recursive(
    _TEXTS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS | _TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(_KEYS | _TEXTS, _VALUES, max_size=6),
    st.sampled_from(["http_request", "kubectl", "aws", "x"]),
)
def test_no_parameters_make_the_reading_fail_and_what_is_read_twice_is_read_alike(
    parameters: dict[str, Any], tool: str
) -> None:
    assert inspect(parameters, tool) == inspect(parameters, tool)


@given(
    st.lists(st.sampled_from(["mutation", "fragment", "on", "a", "...", "@", *'{}()[]:$!"'])).map(" ".join)
)
def test_no_text_makes_the_graphql_reader_fail(text: str) -> None:
    parse_mutations(f"mutation {{ a }} {text}")
