"""Ids of decisions, made from the input's coordinates: a redelivery gives the same id, and no index is
needed."""

from __future__ import annotations

from topics.catalog import MEMORY_WRITES

_DECISION_PARTS = 3


def verdict_id(decision_id: str) -> str:
    """The one verdict on an action."""
    return "verdict:" + decision_id


def escalation_id(decision_id: str) -> str:
    """The one escalation that a verdict may open."""
    return "escalation:" + decision_id


def outcome_id(decision_id: str, place: int = 0) -> str:
    """The id of a settlement; `place` counts the accounts if an outcome settles in several."""
    return f"outcome:{decision_id}" if place == 0 else f"outcome:{decision_id}:{place + 1}"


def refusal_id(decision_id: str) -> str:
    """The id of an input's refusal."""
    return "refusal:" + decision_id


def dead_letter_id(decision_id: str) -> str:
    """The dead letter of an input."""
    return "dead_letter:" + decision_id


def memory_id(decision_id: str) -> str:
    """The id of a memory, whatever the decision on its write."""
    return "memory:" + decision_id


def quality_id(decision_id: str, place: int = 0) -> str:
    """The decision on one item of a retrieval; `place` counts its items from 0."""
    return f"quality:{decision_id}" if place == 0 else f"quality:{decision_id}:{place + 1}"


def served_id(decision_id: str) -> str:
    """The id of the record of what an agent may see of a retrieval."""
    return "served:" + decision_id


def report_event_id(decision_id: str) -> str:
    """The id of the record that says how far decisions cover a store's report."""
    return "report:" + decision_id


def coordinates_of(an_id: str) -> tuple[str, int, int]:
    """Topic, partition and offset of the input from which an id is made; the id may begin with its kind.

    Raises ValueError for any other text.
    """
    parts = an_id.split(":")
    topic, partition, offset = parts[1:4] if len(parts) > _DECISION_PARTS else parts
    if not topic or not (partition.isdecimal() and offset.isdecimal()):
        raise ValueError(f"no id of a decision: {an_id}")
    return topic, int(partition), int(offset)


def is_memory_id(text: str) -> bool:
    """Whether this is exactly the id of a memory: "…:0:05" is not, and an id with more text after it is
    not."""
    try:
        topic, partition, offset = coordinates_of(text)
    except ValueError:
        return False
    return topic == MEMORY_WRITES and text == memory_id(f"{topic}:{partition}:{offset}")
