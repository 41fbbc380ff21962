"""Why a worker ends whose consumer has ended: the line names what aiokafka met, and the missing right."""

from __future__ import annotations

from aiokafka.errors import GroupAuthorizationFailedError, KafkaConnectionError

from sluice.stream.consumer import explain_end


def test_the_line_names_the_fault_and_how_a_missing_right_is_set() -> None:
    refused = explain_end(GroupAuthorizationFailedError("sluice"))
    assert "GroupAuthorizationFailedError" in refused
    assert "`sluice topics acl --role worker`" in refused
    other = explain_end(KafkaConnectionError("gone"))
    assert "gone" in other
    assert "topics acl" not in other
    assert explain_end(None) == "the consumer's background task ended"
