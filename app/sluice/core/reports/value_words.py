"""The looked-up values of an escalated action in words, as every medium shows them to who is asked.

Names of paths and sources come from callers, and so do the values: who shows them escapes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.actions.destinations import KIND_WORDS, Origin, read_argument, shorten_path
from sluice.core.actions.standing_grants import object_to_lasting_answer
from sluice.core.foundation.clock import span
from sluice.core.registry.argument_roles import MOST_ARGUMENTS, Argument, read_argument_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REST = "$"
"""The path of the values that were not looked up."""
ORIGIN_WORDS: Mapping[Origin, str] = {
    "task": "the task's mandate names it",
    "registry": "an entry of the registry names it",
    "history": "this agent usually uses it",
    "trusted_result": "a trusted tool returned it",
    "peers": "agents of the same role usually use it",
    "untainted": "it was seen nowhere, and all that came into the session is trusted",
    "untrusted_read": "it stood only in what is not trusted",
    "nowhere": "it was seen nowhere: no entry names it, and nothing in the session holds it",
    "unknown": "it was not found, and not all that came into the session is known",
}


class ValueInWords(NamedTuple):
    """A looked-up value: `name` says what and where it is ("the account at $.payee.iban"), `role` its
    parameter's, `value` the value as the action has it (None: not shown, or not there), `origin` where it
    comes from; `came`, in which source and how long before ("" where it was not seen); `used`, by whom
    before."""

    name: str
    role: str
    value: str | None
    origin: str
    came: str
    used: str

    @property
    def sentence(self) -> str:
        """All but the value itself."""
        return f"{self.name} ({self.role}): {'; '.join(filter(None, self[3:]))}"


def describe_values(
    values: Sequence[Mapping[str, Any]], agent_id: str, parameters: Any = None
) -> list[ValueInWords]:
    """Describe the `values` of an EscalationOpened of this agent. `parameters`: the action's, where they are
    shown; where they are not, a value is shown that `add_texts` gave."""
    return [_describe_value(value, agent_id, parameters) for value in values]


def add_texts(values: Sequence[Mapping[str, Any]], parameters: Any) -> list[dict[str, Any]]:
    """The values, each with its `text` in an action's parameters, to be described without these."""
    texts = (_read_value(value, parameters) if isinstance(parameters, dict) else None for value in values)
    return [{**value, "text": text} for value, text in zip(values, texts, strict=True)]


def _describe_value(finding: Mapping[str, Any], agent_id: str, parameters: Any) -> ValueInWords:
    path, origin = finding["path"], finding["origin"]
    words = ORIGIN_WORDS.get(origin, str(origin).replace("_", " "))
    if path == REST:
        name = f"every value beyond the first {MOST_ARGUMENTS}"
        return ValueInWords(name, finding["role"], None, "it was not looked up", "", "")
    name = f"{KIND_WORDS.get(finding['kind'], 'the text')} at {shorten_path(path)}"
    source, before_ms, user = (finding.get(member) for member in ("source", "seen_before_ms", "used_by"))
    came = "" if source is None or before_ms is None else f"in {source}, {span(before_ms)} before"
    used = f"{agent_id} has never used it" if user is None else f"{user} has used it before"
    value = _read_value(finding, parameters) if isinstance(parameters, dict) else finding.get("text")
    return ValueInWords(name, finding["role"], value, words, came, used)


def may_remember(opened: Mapping[str, Any]) -> bool:
    """Whether a person may say how long the values of what an EscalationOpened opened are known."""
    return (
        bool(opened.get("values"))
        and object_to_lasting_answer(opened["tier"], opened.get("quorum") or 1) is None
    )


def write_known_until(until: str) -> str:
    """Say what an answer with `remember_days` does, of an EscalationResolved with `known_until`."""
    return f"Once it was carried out, its destinations are known for this agent and tool until {until}."


def _read_value(finding: Mapping[str, Any], parameters: Mapping[str, Any]) -> str | None:
    """The value as it is written; of one of several in a text, its normal form."""
    path, _, number = str(finding["path"]).rpartition("#")
    if not path or not number.isdigit():
        whole = read_argument_at(parameters, finding["path"])
        return None if whole is None else str(whole)
    text = read_argument_at(parameters, path)
    if text is None:
        return None
    listed = [*read_argument(Argument(finding["role"], path, text), finding["role"])]
    return listed[int(number) - 1].value.text if 0 < int(number) <= len(listed) else None
