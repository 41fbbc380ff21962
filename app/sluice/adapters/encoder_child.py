"""The parent's end of the encoder's process: starts it, asks it, notices its end."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sluice.core.actions.closest import NamedTexts
from sluice.core.policy.pattern_library import CLOSEST, ActionLibrary
from sluice.core.policy.similarity_settings import SimilarityLibrary
from sluice.ports import PortUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

AnyLibrary = SimilarityLibrary | ActionLibrary | NamedTexts
PROGRAM = ("-P", "-m", "sluice.adapters.encoder_process")


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """The options that the child is started with."""

    directory: str
    checksums: str
    threads: int
    batch: int
    together: int
    libraries: int
    cache_folder: str = ""

    def build_environment(self) -> dict[str, str]:
        """All of the child's environment: none of the parent's secrets, no threads of its own."""
        threads = str(self.threads)
        return {
            "TOKENIZERS_PARALLELISM": "false",
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
        }


class EncoderChild:
    """A running child that is ready. Made by `started`."""

    def __init__(self, process: Process, model: str, libraries: int) -> None:
        self.model = model
        """ "sha256:" and the digest of the weights that it loaded."""
        self.pid = process.pid
        self._process = process
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._learnt: dict[str, None] = {}
        self._libraries = libraries
        self._number = 0
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, options: ChildOptions) -> EncoderChild:
        """Returns when the model is loaded (seconds). Raises PortUnavailable with the child's reason.

        The child has its own session: an interrupt at the terminal is the parent's to handle.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *PROGRAM,
            orjson.dumps(asdict(options)).decode(),
            stdin=PIPE,
            stdout=PIPE,
            env=options.build_environment(),
            start_new_session=True,
        )
        try:
            first = await _require_output(process).readline()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        message: dict[str, str] = orjson.loads(first) if first else {}
        if "ready" in message:
            return cls(process, message["ready"], options.libraries)
        ended = f"the encoder ended while starting, exit status {await process.wait()}"
        raise PortUnavailable(message.get("failed", ended))

    @property
    def alive(self) -> bool:
        """Whether it still reads and answers."""
        return not self._reading.done()

    async def ask(self, library: AnyLibrary, windows: Sequence[str], **more: Any) -> dict[str, Any]:
        """The child's answer, with places in the library's lists; `encoder_process` says what it is. `more`:
        what else such a library is asked with.

        Raises PortUnavailable when the child ends before it has answered.
        """
        if not self.alive:
            raise PortUnavailable("the encoder has ended")
        self._teach(library)
        self._number += 1
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[self._number] = answer
        self._write({"id": self._number, "library": library.hash, "windows": list(windows), **more})
        return await answer

    async def learn(self, library: AnyLibrary) -> None:
        """Returns when the library is learnt, at once where the child was told of it before.

        Raises PortUnavailable.
        """
        if library.hash not in self._learnt:
            await self.ask(library, ())

    async def close(self, patience_s: float) -> None:
        """Ends the child: by closing its input, and by force when that takes longer than `patience_s`."""
        _require_input(self._process).close()
        try:
            async with asyncio.timeout(patience_s):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
        await self._reading

    def _teach(self, library: AnyLibrary) -> None:
        """Sends a library before its first use. Both ends keep the last few and forget the oldest."""
        if library.hash in self._learnt:
            return
        if len(self._learnt) == self._libraries:
            del self._learnt[next(iter(self._learnt))]
        self._learnt[library.hash] = None
        self._write({"library": library.hash, **_build_lesson(library)})

    def _write(self, message: dict[str, Any]) -> None:
        _require_input(self._process).write(orjson.dumps(message) + b"\n")

    async def _read(self) -> None:
        """Hands each answer to the caller that asked, until the child's output ends; then it ends every
        wait."""
        output = _require_output(self._process)
        while line := await output.readline():
            message = orjson.loads(line)
            asked = self._asked.pop(message["id"])
            if not asked.done():
                asked.set_result(message)
        reason = f"the encoder ended, exit status {await self._process.wait()}"
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(PortUnavailable(reason))


def _build_lesson(library: AnyLibrary) -> dict[str, Any]:
    if isinstance(library, NamedTexts):
        return {"texts": list(library.texts)}
    if isinstance(library, ActionLibrary):
        harmful, harmless = (
            [action.rendered for action in side] for side in (library.harmful, library.harmless)
        )
        return {"harmful": harmful, "harmless": harmless, "closest": CLOSEST}
    attack, benign = (
        [attack_text.text for attack_text in library.attack],
        [text for _, text in library.harmless],
    )
    calibration = library.calibration.model_dump(include={"at_least", "margin"})
    return {"attack": attack, "benign": benign, **calibration}


def _require_input(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None  # noqa: S101 - asked for with PIPE
    return process.stdin


def _require_output(process: Process) -> asyncio.StreamReader:
    assert process.stdout is not None  # noqa: S101 - asked for with PIPE
    return process.stdout
