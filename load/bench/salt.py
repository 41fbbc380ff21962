"""Salt in an action's texts: none is the same twice, and each means what it meant.

What is read as SQL or as shell gets the salt as a comment, as database drivers tag their queries; any other
text gets one more word. The salt is short, so that nothing takes it for an encoded text.
"""

from __future__ import annotations

from typing import Any

from app.core.gate1.languages import language_of

_TAIL = {"sql": " /* {} */", "shell": "\n# {}", "code": "\n# {}"}
_WORD = " {}"
_UNTYPED = "OTHER"


def salted(tool: str, parameters: dict[str, Any], salt: str) -> dict[str, Any]:
    """The parameters with the salt in each text, in a list in the last; where there is none, one is added."""
    done: dict[str, Any] = _salted(tool, "", parameters, salt)
    return {**parameters, "reference": salt} if done == parameters else done


def _salted(tool: str, key: str, value: Any, salt: str) -> Any:
    if isinstance(value, str):
        return value + _TAIL.get(language_of(tool, _UNTYPED, key), _WORD).format(salt)
    if isinstance(value, dict):
        return {name: _salted(tool, name, inner, salt) for name, inner in value.items()}
    if isinstance(value, list) and value:
        return [*value[:-1], _salted(tool, key, value[-1], salt)]
    return value
