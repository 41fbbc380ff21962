"""Runs with a head signer beside them: what a run that fails or is cancelled leaves behind."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, cast

import pytest

from load import faults, head_signers
from load.head_signers import Attendants, Signers
from load.installations.command_process import start_command
from load.installations.fleet import RunFailed
from load.installations.installation import SHORT
from load.scene import Bed

if TYPE_CHECKING:
    from pathlib import Path

    from load.installations.forked_process import ForkedProcess
    from load.installations.installation import TestInstallation


class _Unfinished:
    """Attendants whose run failed: nobody may wait for them."""

    async def finish(self) -> None:
        raise AssertionError("attendants of a run that failed were waited for")


async def test_a_run_that_fails_leaves_no_attendants_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = Bed(cast("Any", None), tmp_path, 1, "salt", attended=[])

    async def fail(bed: Bed, _: object) -> list[Any]:
        assert bed.attended is not None
        bed.attended.append(cast("Attendants", _Unfinished()))
        raise RunFailed("on purpose")

    async def pass_by(*_: object) -> list[Any]:
        return []

    monkeypatch.setattr(faults, "RUNS", {"first": fail, "second": pass_by})
    with pytest.raises(RunFailed, match="on purpose"):
        await faults.carry_out("first", bed, SHORT)
    figures = await faults.carry_out("second", bed, SHORT)
    assert [figure.name for figure in figures] == ["second.seconds"]
    assert bed.attended == []


class _Place:
    """An installation whose broker accepts connections and never answers."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.settings = {"SLUICE_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{port}"}


async def test_a_command_of_the_witness_ends_with_the_run_that_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes: list[ForkedProcess] = []

    def start(*words: Any) -> ForkedProcess:
        processes.append(start_command(*words))
        return processes[-1]

    monkeypatch.setattr(head_signers, "start_command", start)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        signers = Signers(cast("TestInstallation", _Place(tmp_path, silent.getsockname()[1])))
        signers.copy.write_bytes(b"a head\n")
        witnessing = asyncio.create_task(signers.witness())
        while not processes:
            assert not witnessing.done()
            await asyncio.sleep(0.05)
        assert not await asyncio.wait_for(asyncio.to_thread(processes[0].poll), 20)
        witnessing.cancel()
        await asyncio.wait([witnessing], timeout=30)
        assert processes[0].poll() is not None
