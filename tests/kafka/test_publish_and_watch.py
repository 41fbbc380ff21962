"""`sluice publish` and `sluice watch` against a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from sluice_topics.catalog import VERDICTS
from tests.kafka.laid_ledger import Ledger, genuine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

WELL, FOUND, IMPOSSIBLE = 0, 1, 2
COMMAND = (sys.executable, "-c", "from sluice.cli.main import main; main()")


@pytest.fixture
def ledger(kafka: str, prefix: str) -> Ledger:
    return Ledger(kafka, prefix)


async def test_published_actions_are_watched_as_they_were_sent(ledger: Ledger, tmp_path: Path) -> None:
    await ledger.lay(genuine())
    action = {"action_id": "a1", "agent_id": "g", "session_id": "s1", "toolName": "t", "parameters": {}}
    line = json.dumps(action)
    file = tmp_path / "actions.jsonl"
    file.write_text(f"{line}\nnot json\n")
    publish = ("publish", str(file), "--json")
    assert (await asyncio.to_thread(ledger.sluice, *publish))[0] == FOUND
    code, out = await asyncio.to_thread(ledger.sluice, *publish, "--skip-invalid")
    assert code == FOUND
    invalid, place = map(json.loads, out.splitlines())
    assert (invalid["line"], invalid["error"]["code"], place["line"]) == (2, "not_json", 1)
    watch = ("watch", "gate.actions.proposed", "--from-beginning", "--timeout", "5", "--json")
    code, out = await asyncio.to_thread(ledger.sluice, *watch)
    (seen,) = map(json.loads, out.splitlines())
    assert (code, seen["value"], seen["partition"]) == (0, action, place["partition"])


async def test_raw_bytes_are_published_as_they_are(ledger: Ledger, tmp_path: Path) -> None:
    await ledger.lay(genuine())
    file = tmp_path / "raw.jsonl"
    file.write_bytes(b'{"session_id":"s1"\n\xff\xfe\n')
    assert (await asyncio.to_thread(ledger.sluice, "publish", str(file), "--raw"))[0] == 0
    watch = ("watch", "gate.actions.proposed", "--from-beginning", "--max", "2", "--json")
    _, out = await asyncio.to_thread(ledger.sluice, *watch)
    assert {json.loads(line)["value"] for line in out.splitlines()} == {'{"session_id":"s1"', "\ufffd\ufffd"}


async def test_watch_and_show_read_only_the_time_that_is_asked_for(ledger: Ledger, tmp_path: Path) -> None:
    """Mend 22.24: from the offsets for a time, and an end when every partition has passed it."""
    await ledger.lay(genuine())
    file = tmp_path / "lines"
    for one in "ab":
        file.write_text(f'{{"action_id":"{one}","session_id":"{one}"}}\n')
        await asyncio.to_thread(ledger.sluice, "publish", str(file), "--raw")
        await asyncio.sleep(0.01)  # broker times have whole milliseconds

    async def watch(*words: str) -> list[str]:
        watch = ("watch", "gate.actions.proposed", *words, "--whole", "--json")
        code, out = await asyncio.to_thread(ledger.sluice, *watch)
        assert code == WELL
        return sorted(json.loads(line)["value"]["action_id"] for line in out.splitlines())

    every = ("watch", "gate.actions.proposed", "--from-beginning", "--max", "2", "--json")
    _, out = await asyncio.to_thread(ledger.sluice, *every)
    second_ms = max(json.loads(line)["timestamp"] for line in out.splitlines())
    second = datetime.fromtimestamp(second_ms / 1000, UTC).isoformat()
    assert await watch("--from-beginning", "--until", second) == ["a"]
    assert await watch("--since", second, "--max", "1") == ["b"]
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    assert await watch("--since", "1h", "--until", soon) == ["a", "b"], "it waits for that time"
    assert await watch("--since", "2d", "--until", "1d") == []
    assert (await asyncio.to_thread(ledger.sluice, "watch", VERDICTS, "--since", "then"))[0] == IMPOSSIBLE
    decided = next(json.loads(one.value or b"") for one in genuine() if one.topic == VERDICTS)
    show = ("show", decided["verdict_id"], "--json")
    told = [await asyncio.to_thread(ledger.sluice, *show, *span) for span in ((), ("--since", "1d"))]
    assert told[0] == told[1]
    assert (told[0][0], len(json.loads(told[0][1])["stories"])) == (WELL, 1)
    for span in (("--until", "1d"), ("--since", soon)):
        assert (await asyncio.to_thread(ledger.sluice, *show, *span))[0] == FOUND, span


def test_an_unknown_topic_is_refused_with_the_list(ledger: Ledger) -> None:
    assert ledger.sluice("watch", "gate.verdict")[0] == IMPOSSIBLE
    assert ledger.sluice("publish", "-", "--topic", VERDICTS)[0] == IMPOSSIBLE


async def test_watching_stops_well_on_ctrl_c(ledger: Ledger) -> None:
    await ledger.lay(genuine())
    env = {**os.environ, **ledger.environment()}
    watching = await asyncio.create_subprocess_exec(
        *COMMAND, "watch", VERDICTS, stderr=asyncio.subprocess.PIPE, env=env
    )
    assert watching.stderr is not None
    assert b"watching" in await watching.stderr.readline()
    watching.send_signal(signal.SIGINT)
    assert await watching.wait() == WELL
