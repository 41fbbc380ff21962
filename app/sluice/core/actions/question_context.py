"""What the gates that ask a model show it beside the action: the task of its mandate, and where its values
come from.

Text does not tell a harmful call from an honest one where only the address is wrong; what the agent was asked
to do, and where the address was first seen, may. Both are in the verdict (`session.mandate`,
`session.values`), so a rerun builds the same question. No fingerprint is shown, and of a parameter's path
only what a person would be shown: its names come from the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.actions.destinations import describe_origins, list_origins
from sluice.core.actions.mandate import find_mandate
from sluice.core.actions.model_questions import QuestionContext

if TYPE_CHECKING:
    from sluice.core.actions.stage import ActionContext


def find_context(context: ActionContext) -> QuestionContext:
    """What is known beside an action. A mandate that has ended, or does not fit the action's
    originalIntentHash, is none: nobody asks for what it says."""
    mandate = find_mandate(context)
    task_hash, task = (None, None) if mandate is None else (mandate["task_hash"], mandate.get("task"))
    return QuestionContext(task_hash, task, describe_origins(list_origins(context)))
