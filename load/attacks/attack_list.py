"""Every attack, in the order of the guarantees that they attack."""

from __future__ import annotations

from functools import partial

from load.attacks import (
    caller_words,
    changed_calls,
    copied_tokens,
    false_outcomes,
    forged_answers,
    forged_records,
    hidden_commands,
    hostile_mcp,
    hostile_receivers,
    idle_partition,
    interrupted_calls,
    known_ways,
    large_sessions,
    lost_policy,
    lost_topics,
    other_installation,
    others_answers,
    own_hurry,
    planted_entries,
    raced_answers,
    released_text,
    reused_reviews,
    second_signature,
    self_running_files,
    server_side_requests,
    slow_requests,
    strangers,
    structured_calls,
)
from load.attacks.attempt import Attack

_OF_GATES = known_ways.ROOT / "tests" / "unit" / "core" / "actions"
_OF_HOOKS = known_ways.ROOT / "tests" / "unit" / "gateway"
_OF_VERIFIER = known_ways.ROOT / "tests" / "unit" / "verifier"
_OF_PROXY = known_ways.ROOT / "tests" / "adapters"
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
        24,
        "understated_effects",
        "a command that is said to do less than it does, so that nobody is asked",
        hidden_commands.understate,
    ),
    Attack.run_test_file(
        24,
        "past_destinations",
        "an address or an account of a stranger that passes for one that is known",
        partial(known_ways.run_tests, _OF_GATES / "test_destinations_attacked.py"),
    ),
    Attack.run_test_file(
        24,
        "past_mandates",
        "a call that nobody asked for, or more calls than were asked for, under a mandate",
        partial(known_ways.run_tests, _OF_GATES / "test_mandate_attacked.py"),
    ),
    Attack.run_test_file(
        24,
        "past_limits",
        "more within a window than a limit above the session says, without a person",
        partial(known_ways.run_tests, _OF_GATES / "test_limits_attacked.py"),
    ),
    Attack.run_test_file(
        36,
        "past_hooks",
        "a coding agent's call that runs by another call's verdict or approval, or under another's name",
        partial(known_ways.run_tests, _OF_HOOKS / "test_hooks_attacked.py"),
    ),
    Attack.run_test_file(
        37,
        "past_mcp",
        "a request or a tool of an MCP server that passes unjudged, or holds up the proxy and its clients",
        partial(known_ways.run_tests, _OF_PROXY / "test_mcp_attacked.py"),
    ),
    Attack.run_test_file(
        40,
        "past_packages",
        "an audit package that says less than the ledger, another thing to another reader, or ends a check",
        partial(known_ways.run_tests, _OF_VERIFIER / "test_packages_attacked.py"),
    ),
    Attack.run_test_file(
        40,
        "past_heads",
        "two histories that one witness co-signs, or a proof that holds and must not",
        partial(known_ways.run_tests, _OF_VERIFIER / "test_heads_attacked.py"),
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
        22,
        "lost_policy",
        "a decision under less policy than was in force, by control topics put back without a part of it",
        lost_policy.run,
    ),
    Attack(
        23,
        "second_signature",
        "a control relaxed, or an agent led to a laxer bundle, by one approver where two must agree",
        second_signature.run,
    ),
    Attack.run_on_broker(
        22,
        "lost_topics",
        "a worker that starts on real control topics put back with less, or a ledger called intact on them",
        lost_topics.run_on,
    ),
    Attack(
        9,
        "unknown_classes",
        "an item served laxer under a misspelt content class than under its right one",
        caller_words.misspell_classes,
    ),
    Attack(
        22,
        "copied_tokens",
        "another tenant's sealed value opened, or written plain, by its token in an own input",
        copied_tokens.run,
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
        "slow_requests",
        "connections and memory of a gateway held by requests that never end or never fit",
        slow_requests.run,
    ),
    Attack(
        22,
        "hidden_commands",
        "a destructive command behind options, behind a redirection or in an expression",
        hidden_commands.run,
    ),
    Attack.run_on_broker(
        22,
        "hostile_mcp",
        "an order of an MCP server that reaches the agent unjudged, or a secret that reaches the server",
        hostile_mcp.run_on,
    ),
    Attack.run_on_broker(
        22,
        "changed_calls",
        "a guarded tool that runs another call than the one that was judged",
        changed_calls.run_on,
    ),
    Attack(
        22,
        "own_hurry",
        "an action that a model denies let go for want of time or of room, which its agent took away itself",
        own_hurry.run,
    ),
    Attack.run_on_broker(
        22,
        "interrupted_calls",
        "a call judged in another's session, or a tool that runs, or is not reported, after it was cancelled",
        interrupted_calls.run_on,
    ),
    Attack(
        22,
        "server_side_requests",
        "a request of a worker to what only it can reach, or one that hangs on what it asked",
        server_side_requests.run,
    ),
    Attack(
        22,
        "hostile_receivers",
        "a token or a record that a webhook's or Slack's answer leads astray, or a notifier that it stops",
        hostile_receivers.run,
    ),
    Attack(
        22,
        "others_answers",
        "an answer of a model that was for another tenant, had, spoiled or found out",
        others_answers.run,
        needs_redis=True,
    ),
    Attack.run_on_broker(
        22,
        "raced_answers",
        "an escalation that ends twice, a tool that runs twice, or a grant used more often than was signed",
        raced_answers.run_on,
    ),
    Attack.run_on_broker(
        22,
        "reused_reviews",
        "a memory released or an item served by a review that was signed for another, or has counted already",
        reused_reviews.run_on,
    ),
)
