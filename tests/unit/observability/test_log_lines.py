"""Log lines: one line each, as text or as JSON, and never a payload."""

from __future__ import annotations

import io
import json
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.foundation.errors import CoreError
from sluice.observability.log_lines import LONGEST, configure_logging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.observability.log_lines import LogFormat

PAYLOAD = "4111-1111-1111-1111"


@pytest.fixture
def restored() -> Iterator[None]:
    """The root logger as it was before the test."""
    root, ours = logging.getLogger(), logging.getLogger("sluice")
    kept = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], root.level, ours.level = kept


def write(form: LogFormat, level: str = "INFO") -> tuple[io.StringIO, logging.Logger]:
    stream = io.StringIO()
    configure_logging(form, level, stream)
    return stream, logging.getLogger("sluice.test")


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.usefixtures("restored")
def test_a_line_of_text_has_time_level_logger_and_text() -> None:
    stream, log = write("lines")
    log.info("open: partitions %s", [1, 2], extra={"partitions": [1, 2]})
    pattern = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO sluice\.test: open: partitions \[1, 2\]\n"
    assert re.fullmatch(pattern, stream.getvalue())


@pytest.mark.usefixtures("restored")
def test_a_json_line_has_the_same_and_its_fields_apart() -> None:
    stream, log = write("json")
    log.info("open: partitions %s", [1, 2], extra={"partitions": [1, 2], "parameters": PAYLOAD})
    (line,) = read(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("time"))
    event = "open: partitions [1, 2]"
    assert line == {"level": "info", "logger": "sluice.test", "event": event, "partitions": [1, 2]}


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("form", ["lines", "json"])
def test_a_fault_is_one_line_without_the_payload_that_its_text_has(form: LogFormat) -> None:
    stream, log = write(form)
    try:
        try:
            int(PAYLOAD)
        except ValueError as error:
            raise CoreError(f"cannot read {PAYLOAD}") from error
    except CoreError as error:
        log.error("the core raised", exc_info=error)  # noqa: TRY400 - as the engine does
        log.exception("again")
    assert len(stream.getvalue().splitlines()) == 2
    assert PAYLOAD not in stream.getvalue()
    assert "CoreError at test_log_lines.py:" in stream.getvalue()
    assert re.search(r"(←|\\u2190) ValueError at test_log_lines\.py:", stream.getvalue())


@pytest.mark.usefixtures("restored")
def test_a_fault_of_the_network_says_what_it_is() -> None:
    stream, log = write("lines")
    log.error("away", exc_info=ConnectionRefusedError(111, "Connection refused"))
    assert "away (ConnectionRefusedError: [Errno 111] Connection refused)" in stream.getvalue()


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("form", ["lines", "json"])
def test_nothing_in_a_text_begins_a_line_or_acts_on_a_terminal(form: LogFormat) -> None:
    stream, log = write(form)
    log.warning("x\n2026-01-01 00:00:00,000 ERROR forged: y\r\x1b[31m\u202e%s", "z\u2028")
    log.warning("a" * (LONGEST + 1_000))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert all(sign.isprintable() for sign in lines[0])
    assert "\x1b" not in stream.getvalue()
    assert len(lines[1]) < LONGEST + 200


@pytest.mark.usefixtures("restored")
def test_other_libraries_are_heard_from_warnings_on_and_ours_from_the_setting_on() -> None:
    stream, log = write("json", "ERROR")
    logging.getLogger("aiokafka.client").info("no")
    logging.getLogger("aiokafka.client").warning("yes")
    log.warning("no")
    log.error("yes")
    lines = [(one["logger"], one["event"]) for one in read(stream)]
    assert [one for one in lines if one[0] in ("aiokafka.client", "sluice.test")] == [
        ("aiokafka.client", "yes"),
        ("sluice.test", "yes"),
    ]
