"""Every attack, in the order of the guarantees that they attack."""

from __future__ import annotations

from load.attacks import (
    caller_words,
    changed_calls,
    false_outcomes,
    forged_answers,
    forged_records,
    hidden_commands,
    hostile_mcp,
    idle_partition,
    large_sessions,
    other_installation,
    own_hurry,
    planted_entries,
    released_text,
    self_running_files,
    strangers,
    structured_calls,
    unknown_classes,
)
from load.attacks.attempt import Attack

ATTACKS: tuple[Attack, ...] = (
    Attack(
        1,
        "caller_words",
        "a harmful call allowed, or counted for less, because of what the caller says of it",
        caller_words.run,
    ),
    Attack(
        2,
        "false_outcomes",
        "a session's total lower than what was done, or beyond all measure, by what is said afterwards",
        false_outcomes.run,
    ),
    Attack(
        3,
        "strangers",
        "an agent's next input denied for want of room that others have filled",
        strangers.run,
    ),
    Attack(
        4,
        "large_sessions",
        "a session so large that its every transaction holds up the others",
        large_sessions.run,
    ),
    Attack(
        5,
        "forged_records",
        "a ledger that says otherwise than the workers decided, with every hash in order",
        forged_records.run,
    ),
    Attack(
        5,
        "other_installation",
        "what was signed for another installation counting here, where keys and coordinates are the same",
        other_installation.run,
    ),
    Attack(
        6,
        "released_text",
        "an order that reaches a reader in an id, a reference or a class, or split over several of them",
        released_text.run,
    ),
    Attack(
        7,
        "structured_calls",
        "a destructive call in a structure that nobody reads as one",
        structured_calls.run,
    ),
    Attack(
        7,
        "self_running_files",
        "destruction that waits in a file, in code, in a condition, or behind what looks like cleaning",
        self_running_files.run,
    ),
    Attack(
        8,
        "idle_partition",
        "a worker that slept until its producer id expired writes what follows from an old state",
        idle_partition.run,
        needs_broker=True,
    ),
    Attack(
        22,
        "forged_answers",
        "a tool run, a memory kept or an item read by an answer that no worker wrote",
        forged_answers.run,
        needs_broker=True,
    ),
    Attack(
        9,
        "unknown_classes",
        "an item served laxer under a misspelt content class than under its right one",
        unknown_classes.run,
    ),
    Attack(
        22,
        "planted_entries",
        "an answer, a log-in or a limit that an attacker wrote into the Redis of gateways and workers",
        planted_entries.run,
        needs_redis=True,
    ),
    Attack(
        22,
        "hidden_commands",
        "a destructive command behind options, behind a redirection or in an expression",
        hidden_commands.run,
    ),
    Attack(
        22,
        "hostile_mcp",
        "an order of an MCP server that reaches the agent unjudged, or a secret that reaches the server",
        hostile_mcp.run,
        needs_broker=True,
        run_on=hostile_mcp.run_on,
    ),
    Attack(
        22,
        "changed_calls",
        "a guarded tool that runs another call than the one that was judged",
        changed_calls.run,
        needs_broker=True,
        run_on=changed_calls.run_on,
    ),
    Attack(
        22,
        "own_hurry",
        "an action that a model denies let go for want of time or of room, which its agent took away itself",
        own_hurry.run,
    ),
)
