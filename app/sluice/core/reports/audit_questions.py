"""The questions of an auditor, by the verb that asks each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.reports.audit_coverage import Undecided
from sluice.core.reports.audit_models import ModelAnswers
from sluice.core.reports.audit_overrides import Overrides
from sluice.core.reports.audit_people import AgentActivity, PersonAnswers
from sluice.core.reports.audit_policy import PolicyChanges
from sluice.core.reports.audit_rows import PLACE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.reports.audit_rows import AuditQuestion

QUESTIONS: Mapping[str, type[AuditQuestion]] = {
    question.name: question
    for question in (AgentActivity, PersonAnswers, PolicyChanges, ModelAnswers, Overrides, Undecided)
}
SCHEMA = "sluice/audit_answer/v1"
_NUMBERS = frozenset({"partition", "sequence", "decisions_before", "decisions_after"})


def build_answer_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of an answer as `--json` writes it: each row has its question's columns."""
    text, number = ({"type": [kind, "null"]} for kind in ("string", "integer"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "AuditAnswer",
        "oneOf": [
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["schema", "question", "scope", "columns", "rows", "count"],
                "properties": {
                    "schema": {"const": SCHEMA},
                    "question": {"const": name},
                    "scope": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["tenant", "agent", "since", "until"],
                        "properties": dict.fromkeys(("tenant", "agent", "since", "until"), text),
                    },
                    "columns": {"const": _list_columns(question)},
                    "rows": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": _list_columns(question),
                            "properties": {
                                column: number if column in _NUMBERS else text
                                for column in _list_columns(question)
                            },
                        },
                    },
                    "count": {"type": "integer", "minimum": 0},
                },
            }
            for name, question in QUESTIONS.items()
        ],
    }


def _list_columns(question: type[AuditQuestion]) -> list[str]:
    return [*PLACE, *question.own]
