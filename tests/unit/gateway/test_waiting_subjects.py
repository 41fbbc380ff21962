"""What opens and what ends: each record of the topics that the gateway follows is one of them, or neither."""

from __future__ import annotations

from sluice.gateway.waiting_subjects import ENDS, ID_FIELDS, OPENS
from sluice_topics.catalog import BY_NAME, wire_schema


def test_every_record_of_the_topics_is_known() -> None:
    """Words of the records' names: a new kind of opening or end must be listed."""
    schemas = {str(wire_schema(record)) for topic in ID_FIELDS for record in BY_NAME[topic].records}
    assert schemas >= OPENS | ENDS
    opening = ("_opened/", "_entered/")
    ending = ("_resolved/", "_expired/", "_approved/", "_rejected/", "_evicted/")
    assert {one for one in schemas if any(word in one for word in opening)} == OPENS
    assert {one for one in schemas if any(word in one for word in ending)} == ENDS
