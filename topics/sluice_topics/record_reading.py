"""Bytes to a record, strictly: what is not exactly a record comes back as Unreadable, never as a guess.

Both spellings of a field are accepted (`toolName`, `tool_name`), not both at once; null stands for an absent
optional field; seed 000's `proposed_action: {action, value}` stands for `toolName` and `parameters`, and the
ids that it lacks may come from around the value.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from sluice_topics.catalog import BY_NAME, MAX_INPUT_VALUE_BYTES, get_wire_schema
from sluice_topics.json_text import Code, Step, Unreadable, parse, write_json_path
from sluice_topics.records.base import Record
from sluice_topics.records.inputs import ProposedAction, SeedAction

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Unreadable", "find_call", "read", "read_ledger_record"]

R = TypeVar("R", bound=Record)

_SEED_FORM = "proposed_action"
_SEED_RIVALS = ("toolName", "tool_name", "parameters")
_MESSAGES = {"model_type": "Input should be an object", "dict_type": "Input should be an object"}


def read(model: type[R], raw: bytes | None, ids: Mapping[str, str] | None = None) -> R | Unreadable:
    """The record in a message's value, or why there is none. Never raises, whatever the bytes.

    `ids`: those that seed 000's form takes where it has none of its own.
    """
    if not raw:
        return Unreadable("empty", "$", "no value")
    if len(raw) > MAX_INPUT_VALUE_BYTES:
        return Unreadable("too_large", "$", f"{len(raw)} bytes, at most {MAX_INPUT_VALUE_BYTES} are read")
    document = parse(raw)
    if model is ProposedAction and isinstance(document, dict) and _SEED_FORM in document:
        document = _replace_seed_form(document, ids or {})
    if isinstance(document, Unreadable):
        return document
    return _validate(model, document, ())


def read_document(
    model: type[R], document: dict[str, Any], ids: Mapping[str, str] | None = None
) -> R | Unreadable:
    """The record in the tree of a JSON text, as `read` finds it in the text."""
    if model is ProposedAction and _SEED_FORM in document:
        replaced = _replace_seed_form(document, ids or {})
        return replaced if isinstance(replaced, Unreadable) else _validate(model, replaced, ())
    return _validate(model, document, ())


def _replace_seed_form(document: dict[str, Any], ids: Mapping[str, str]) -> dict[str, Any] | Unreadable:
    rest = {key: value for key, value in document.items() if key != _SEED_FORM}
    if document[_SEED_FORM] is None:
        return rest
    for rival in _SEED_RIVALS:
        if rival in rest:
            return Unreadable("ambiguous_field", f"$.{_SEED_FORM}", f"given beside {rival}")
    seed = _validate(SeedAction, document[_SEED_FORM], (_SEED_FORM,))
    if isinstance(seed, Unreadable):
        return seed
    return {**ids, **rest, "toolName": seed.action, "parameters": seed.value}


def read_ledger_record(topic: str, fields: Mapping[str, Any]) -> Record | None:
    """The record of a topic of the ledger (base name) that these fields are; None for one that is not whole,
    which no worker wrote (`sluice ledger verify` names it)."""
    model = _list_models(topic).get(str(fields.get("schema")))
    if model is None:
        return None
    try:
        return model.model_validate(fields)
    except ValidationError:
        return None


@cache
def _list_models(topic: str) -> dict[str, type[Record]]:
    return {str(get_wire_schema(model)): model for model in BY_NAME[topic].records}


def find_call(action: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Tool and parameters of an action's document, in any form that `read` takes; None where it names no
    tool."""
    seed = action.get(_SEED_FORM)
    if isinstance(seed, dict):
        tool, value = seed.get("action"), seed.get("value")
    else:
        tool, value = action.get("toolName", action.get("tool_name")), action.get("parameters")
    return (tool, value) if isinstance(tool, str) else None


def replace_parameters(action: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """An action's document with other parameters, in the form that it has."""
    seed = action.get(_SEED_FORM)
    if isinstance(seed, dict):
        return {**action, _SEED_FORM: {**seed, "value": parameters}}
    return {**action, "parameters": parameters}


def _validate(model: type[R], document: Any, above: tuple[Step, ...]) -> R | Unreadable:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        return _describe_first_error(error, document, above)


def _describe_first_error(error: ValidationError, document: Any, above: tuple[Step, ...]) -> Unreadable:
    every = error.errors(include_url=False, include_input=False)
    kind, location, context = every[0]["type"], every[0]["loc"], every[0].get("ctx", {})
    if kind == "missing":
        return Unreadable("missing_field", write_json_path((*above, *location)), "the field is required")
    named = (*location, context["field"]) if "field" in context else location
    steps, parent, value = _resolve(named, document)
    path = write_json_path((*above, *steps))
    if kind == "extra_forbidden":
        strangers = {part["loc"][-1] for part in every if part["type"] == kind and part["loc"]}
        return _describe_stranger(path, str(steps[-1]), parent.keys() - strangers - {steps[-1]})
    return Unreadable(_choose_code(kind, value), path, _MESSAGES.get(kind, every[0]["msg"]))


def _resolve(location: tuple[Step, ...], document: Any) -> tuple[tuple[Step, ...], Any, Any]:
    """The steps of pydantic's location that the document has, with the last one's parent and its value.

    Other steps name a branch of pydantic's own schema.
    """
    parent, value, steps = None, document, []
    for step in location:
        has_step = (
            step in value if isinstance(value, dict) else isinstance(value, list) and isinstance(step, int)
        )
        if has_step:
            parent, value = value, value[step]
            steps.append(step)
    return tuple(steps), parent, value


def _describe_stranger(path: str, name: str, field_names: set[str]) -> Unreadable:
    twins = [other for other in field_names if _normalize(other) == _normalize(name)]
    if twins:
        return Unreadable("ambiguous_field", path, f"given beside its other spelling {twins[0]}")
    return Unreadable("unknown_field", path, "no such field")


def _normalize(name: str) -> str:
    return name.replace("_", "").lower()


def _choose_code(kind: str, value: object) -> Code:
    mistyped = kind.endswith("_type") or (kind == "literal_error" and not isinstance(value, str))
    return "wrong_type" if mistyped else "invalid_value"
