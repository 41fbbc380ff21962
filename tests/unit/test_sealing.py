"""Values sealed for one person: opened by their key alone, at their place alone."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.core.foundation.sealed_input import OpenedInput
from sluice_topics.sealing import (
    ERASED,
    Erased,
    PersonalField,
    SealError,
    Subject,
    SubjectKey,
    find_unsealed,
    get_key_ids,
    is_sealed,
    may_hold_sealed,
    open_document,
    open_value,
    seal,
    seal_document,
    split_pointer,
)

ANNA, BERT = SubjectKey("anna-key", b"a" * 64), SubjectKey("bert-key", b"b" * 64)
ACTION = {
    "action_id": "a1",
    "session_id": "s1",
    "toolName": "crm.update",
    "parameters": {"customer": "anna", "name": "Anna Øre", "rows": [{"who": "bert", "mail": "b@x.example"}]},
}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


class Keys:
    """Keys by id, and by person."""

    def __init__(self, **keys: SubjectKey | Erased) -> None:
        self._keys = keys

    def find(self, key_id: str) -> SubjectKey | Erased | None:
        return self._keys.get(key_id.removesuffix("-key"))

    def choose(self, subject: Subject) -> SubjectKey:
        return {"anna": ANNA, "bert": BERT}.get(subject.name, SubjectKey("session-key", b"s" * 64))


BOTH = Keys(anna=ANNA, bert=BERT)


@given(JSON_VALUES)
def test_a_value_of_any_type_comes_back(value: object) -> None:
    token = seal(ANNA, value, "action", ("parameters", "name"))
    assert is_sealed(token)
    assert may_hold_sealed(json.dumps(token).encode())
    assert open_value(BOTH, token, "action", ("parameters", "name")) == (ANNA, value)


@given(st.recursive(JSON_VALUES | st.floats(), lambda inner: st.lists(inner, max_size=3), max_leaves=4))
@example([1e-5, 2.5e-7, 1e16, float("nan"), {"b": 2**70, "a": None}])
def test_a_record_and_an_input_are_sealed_to_the_same_bytes(value: object) -> None:
    opened = OpenedInput({}, {}, ANNA)
    assert opened.seal(value, "detail", 0) == seal(ANNA, value, "record", ("detail", 0))


def test_equal_values_are_equal_for_one_person_at_one_place_alone() -> None:
    place = ("parameters", "rows", 0)
    token = seal(ANNA, "x", "action", place)
    assert token == seal(ANNA, "x", "action", ("parameters", "rows", 7))
    others = [seal(BERT, "x", "action", place), seal(ANNA, "x", "write", place)]
    others.append(seal(ANNA, "x", "action", ("parameters", "name")))
    assert len({token, *others}) == len(others) + 1


@pytest.mark.parametrize(
    ("keys", "kind", "code"),
    [
        (Keys(), "action", "sealed_key_unknown"),
        (Keys(anna=ERASED), "action", "sealed_key_erased"),
        (Keys(anna=BERT), "action", "sealed_invalid"),
        (BOTH, "write", "sealed_invalid"),
    ],
)
def test_what_cannot_be_opened_says_why(keys: Keys, kind: str, code: str) -> None:
    with pytest.raises(SealError) as failed:
        open_value(keys, seal(ANNA, "x", "action", ("parameters",)), kind, ("parameters",))
    assert (failed.value.code, failed.value.steps) == (code, ("parameters",))


def test_a_document_is_sealed_where_it_is_marked_and_opened_whole() -> None:
    fields = [
        PersonalField("action", split_pointer("/parameters/name"), split_pointer("/parameters/customer")),
        PersonalField(
            "action", split_pointer("/parameters/rows/*/mail"), split_pointer("/parameters/rows/*/who")
        ),
        PersonalField("action", split_pointer("/parameters/customer"), None, "crm.*"),
        PersonalField("action", split_pointer("/parameters/rows"), None, "mail.*"),
        PersonalField("write", ("session_id",)),
    ]
    sealed = seal_document(ACTION, "action", fields, BOTH.choose)
    parameters = sealed["parameters"]
    assert parameters["name"].startswith("sealed:1:anna-key:")
    assert parameters["customer"].startswith("sealed:1:session-key:")
    assert parameters["rows"][0]["mail"].startswith("sealed:1:bert-key:")
    assert (parameters["rows"][0]["who"], sealed["session_id"]) == ("bert", "s1")
    assert ACTION["parameters"]["name"] == "Anna Øre"  # type: ignore[index]
    assert seal_document(sealed, "action", fields, BOTH.choose) == sealed
    keys = Keys(anna=ANNA, bert=BERT, session=SubjectKey("session-key", b"s" * 64))
    document, opened = open_document(sealed, "action", keys)
    assert document == ACTION
    assert {each.value for each in opened} == {"Anna Øre", "anna", "b@x.example"}


@pytest.mark.parametrize("marked_in", ["/parameters", "/proposed_action/value"])
@pytest.mark.parametrize("sent_in", ["/parameters", "/proposed_action/value"])
def test_a_mark_holds_in_both_forms_of_an_action(marked_in: str, sent_in: str) -> None:
    pointers = (("/name", "/customer"), ("/rows/*/mail", "/rows/*/who"))
    fields = [
        PersonalField(
            "action", split_pointer(marked_in + name), split_pointer(marked_in + subject), tool="crm.*"
        )
        for name, subject in pointers
    ]
    fields.append(PersonalField("action", ("reasoning",), split_pointer(f"{marked_in}/customer")))
    parameters: Any = ACTION["parameters"]
    call: dict[str, Any] = {"toolName": "crm.update", "parameters": parameters}
    if sent_in != "/parameters":
        call = {"proposed_action": {"action": "crm.update", "value": parameters}}
    document = {"session_id": "s1", "reasoning": "hers", **call}
    assert find_unsealed(document, "action", fields) is not None
    sealed = seal_document(document, "action", fields, BOTH.choose)
    there = sealed["parameters"] if sent_in == "/parameters" else sealed["proposed_action"]["value"]
    tokens = (there["name"], there["rows"][0]["mail"], sealed["reasoning"])
    assert [get_key_ids(token) for token in tokens] == [["anna-key"], ["bert-key"], ["anna-key"]]
    assert find_unsealed(sealed, "action", fields) is None
    other = document | {"proposed_action": {"action": "crm.delete", "value": {}}}
    assert find_unsealed(other, "action", fields) is not None, "what has both forms is sealed in both"


def test_a_document_without_marked_values_stays_as_it_is() -> None:
    assert seal_document(ACTION, "action", [], BOTH.choose) == ACTION
    assert open_document(ACTION, "action", BOTH) == (ACTION, [])


def test_a_marked_value_within_a_marked_one_is_sealed_with_it() -> None:
    fields = [PersonalField("action", ("parameters",)), PersonalField("action", ("parameters", "name"))]
    assert is_sealed(seal_document(ACTION, "action", fields, BOTH.choose)["parameters"])


def test_many_values_take_no_more_each() -> None:
    """A caller chooses how many there are, and a gateway or a worker stands still meanwhile."""
    path, subject = (split_pointer(f"/parameters/rows/*/{name}") for name in ("mail", "who"))
    rows = [{"mail": "m", "who": "anna"}] * 20_000
    began_s = time.process_time()
    asked = {"session_id": "s1", "parameters": {"rows": rows}}
    sealed = seal_document(asked, "action", [PersonalField("action", path, subject)], BOTH.choose)
    copied = {"parameters": [0] * 400_000 + [seal(ANNA, "x", "action", ("parameters", 0))] * 2000}
    opened = open_document(copied, "action", BOTH)[0]
    assert time.process_time() - began_s < 20
    assert is_sealed(sealed["parameters"]["rows"][-1]["mail"])
    assert opened["parameters"][-1] == "x"


@pytest.mark.parametrize("pointer", ["", "name", "/a~2", "$.name"])
def test_what_is_no_pointer_is_refused(pointer: str) -> None:
    with pytest.raises(ValueError, match="no JSON pointer"):
        split_pointer(pointer)


def test_a_prefix_that_is_escaped_is_seen() -> None:
    raw = json.dumps(seal(ANNA, "x", "action", ("p",))).replace("s", "\\u0073", 1).encode()
    assert may_hold_sealed(raw)
