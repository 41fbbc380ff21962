"""What is remembered under an idempotency key, for how long, and for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.idempotency import (
    KEPT_S,
    IdempotentRequests,
    RememberedRequest,
    SqliteAnswers,
    StoredAnswer,
    compute_fingerprint,
    name_request,
)

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = RememberedRequest("f", "agent", True, "session", "a-1", '{"ü": 1}', 10.0)
ANSWER = StoredAnswer(200, "{}", {"schema": "s", "advisories": [{"source": "a", "text": "b"}]})


def test_what_is_written_is_read_back() -> None:
    assert RememberedRequest.parse(REQUEST.serialize()) == REQUEST


def test_a_key_is_its_callers_alone() -> None:
    assert name_request("acme/1", "k") == name_request("acme/1", "k") != name_request("acme/2", "k")
    assert compute_fingerprint(b"a", b"b") != compute_fingerprint(b"ab", b"")


async def test_an_entry_is_kept_for_a_day_and_survives_in_a_file(tmp_path: Path) -> None:
    now = [0.0]
    store = SqliteAnswers(tmp_path / "answers", lambda: now[0])
    assert await store.add("n", b"1") is None
    assert await store.add("n", b"2") == b"1"
    await store.put("n", b"3")
    await store.close()
    store = SqliteAnswers(tmp_path / "answers", lambda: now[0])
    now[0] = KEPT_S
    assert await store.add("n", b"4") == b"3"
    now[0] = KEPT_S + 1
    assert await store.add("n", b"5") is None


async def test_an_answer_is_decided_once_and_another_request_refused() -> None:
    asked = []

    async def decide(request: RememberedRequest) -> StoredAnswer:
        asked.append(request)
        return ANSWER

    requests = IdempotentRequests(SqliteAnswers(None))
    assert await requests.answer("n", lambda: REQUEST, decide) == (ANSWER, False)
    assert await requests.answer("n", lambda: REQUEST, decide) == (ANSWER, True)
    assert asked == [REQUEST]
    other = RememberedRequest("g", "agent", True, "session", "a-1", "{}", 10.0)
    with pytest.raises(HttpError) as error:
        await requests.answer("n", lambda: other, decide)
    assert (error.value.status, error.value.code) == (422, "idempotency_conflict")


async def test_what_was_not_answered_is_asked_again_with_the_first_bytes() -> None:
    asked = []

    async def decide(request: RememberedRequest) -> StoredAnswer:
        asked.append(request.value)
        if len(asked) == 1:
            raise HttpError(504, "not_decided", "late")
        return ANSWER

    requests = IdempotentRequests(SqliteAnswers(None))
    with pytest.raises(HttpError):
        await requests.answer("n", lambda: REQUEST, decide)
    again = RememberedRequest("f", "agent", True, "other session", "a-2", "{}", 10.0)
    assert await requests.answer("n", lambda: again, decide) == (ANSWER, True)
    assert asked == [REQUEST.value, REQUEST.value]
