"""Ids of decisions, made of the input's coordinates: redelivery gives the same, and none needs an index."""

from __future__ import annotations


def verdict_id(decision_id: str) -> str:
    """The one verdict on an action."""
    return "verdict:" + decision_id


def escalation_id(decision_id: str) -> str:
    """The one escalation that a verdict may open."""
    return "escalation:" + decision_id


def outcome_id(decision_id: str, place: int = 0) -> str:
    """What an outcome settled; `place` counts the accounts when it settles in several."""
    return f"outcome:{decision_id}" if place == 0 else f"outcome:{decision_id}:{place + 1}"


def refusal_id(decision_id: str) -> str:
    """Why an input was refused."""
    return "refusal:" + decision_id


def dead_letter_id(decision_id: str) -> str:
    """The dead letter of an input."""
    return "dead_letter:" + decision_id
