"""The port `embedding`: the encoder in a process of its own, started with the first question.

Importing this imports no onnxruntime. Texts that wait are encoded together; a text seen before is answered
from memory; two who ask for the same text at once wait for one answer. An answer that comes after its budget
is kept, so that the next to ask has it at once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sluice.adapters.encoder_child import ChildOptions, EncoderChild
from sluice.adapters.encoder_model import CHECKSUMS, MODELS
from sluice.core.actions.closest import NamedTexts
from sluice.core.memory.similarity import split_windows
from sluice.core.policy.pattern_library import ActionLibrary
from sluice.core.policy.similarity_settings import WindowSettings
from sluice.ports import PortBusy, PortUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sluice.adapters.encoder_child import AnyLibrary

WHOLE_ACTIONS = WindowSettings(characters=1000, overlap=200, most=32)
"""How an action is cut of which the closest texts are asked for."""
Key = tuple[str, WindowSettings, tuple[float, ...], bytes]
_CLOSED = "the encoder is closed"


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """Bounds of the encoder.

    `threads` are onnxruntime's. `batch` windows are taken up at once, sorted by length, and go through the
    model `together` at a time: on one core eight are as fast as more.
    `remembered` and `waiting` are in texts; of different bundles' libraries so many are kept. Two starts are
    `restart_wait_s` apart at least, so that a child that cannot live does not cost a start a question. One
    that is not ready after `start_limit_s` is ended: it hangs.
    """

    threads: int = 1
    batch: int = 64
    together: int = 8
    remembered: int = 16384
    waiting: int = 1024
    libraries: int = 8
    restart_wait_s: float = 5.0
    start_limit_s: float = 120.0
    close_timeout_s: float = 5.0


class SentenceEncoder:
    """Answers what `core.memory.similarity`, `core.actions.action_similarity` and `core.actions.closest` ask.

    A memory gate's question brings its library, an action gate's names one by its digest.
    """

    def __init__(
        self,
        settings: EncoderSettings = EncoderSettings(),
        directory: Path = MODELS,
        checksums: Path = CHECKSUMS,
        libraries: Sequence[AnyLibrary] = (),
        patterns: Sequence[ActionLibrary] = (),
        cache_folder: str = "",
    ) -> None:
        """`directory`: where the model's files lie; `libraries`: those to learn at the start; `patterns`:
        those that a question may name; `cache_folder`: a folder for the vectors of libraries, "" for none."""
        self._first = tuple(libraries)
        self._patterns = {pattern.hash: pattern for pattern in patterns}
        self._settings = settings
        self._options = ChildOptions(
            directory=str(directory),
            checksums=str(checksums),
            threads=settings.threads,
            batch=settings.batch,
            together=settings.together,
            libraries=settings.libraries,
            cache_folder=cache_folder,
        )
        self._remembered: OrderedDict[Key, dict[str, Any]] = OrderedDict()
        self._waiting: dict[Key, asyncio.Task[dict[str, Any]]] = {}
        self._starting: asyncio.Task[EncoderChild] | None = None
        self._started_at = -float("inf")
        self._closed = False

    async def start(self, *libraries: AnyLibrary) -> int:
        """Load the model and learn `libraries` (seconds) before the first question. The child's process id.

        A library that the child was told of is not waited for again, behind the texts that wait by then.
        Raises PortUnavailable.
        """
        child = await self._start_child()
        for library in (*self._first, *libraries):
            await child.learn(library)
        return child.pid

    async def ask(self, payload: object) -> object:
        """`payload` as `request_similarity` or `make_similarity_question` writes it. Raises PortUnavailable,
        and PortBusy where too many texts wait."""
        cached = self.recall(payload)
        if cached is not None:
            return cached
        asked = cast("dict[str, Any]", payload)
        library = self._find_library(asked)
        if library is None:
            raise PortUnavailable(f"no library of known actions is {asked['library']}")
        key = _make_key(asked, library)
        return await asyncio.shield(self._waiting.get(key) or self._begin(key, asked["text"], library))

    def recall(self, payload: object) -> object | None:
        """The answer on a text that was seen before, else None."""
        asked = cast("dict[str, Any]", payload)
        library = self._find_library(asked)
        if library is None:
            return None
        key = _make_key(asked, library)
        cached = self._remembered.get(key)
        if cached is not None:
            self._remembered.move_to_end(key)
        return cached

    def is_crowded(self) -> bool:
        """See `Crowding`."""
        return len(self._waiting) > 1

    async def close(self) -> None:
        """End the child, for good; who still waits gets PortUnavailable."""
        self._closed = True
        starting = self._starting
        if starting is None:
            return
        starting.cancel()
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            await starting.result().close(self._settings.close_timeout_s)

    def _find_library(self, asked: dict[str, Any]) -> AnyLibrary | None:
        named = asked["library"]
        return self._patterns.get(named) if isinstance(named, str) else named

    def _begin(self, key: Key, text: str, library: AnyLibrary) -> asyncio.Task[dict[str, Any]]:
        if len(self._waiting) >= self._settings.waiting:
            raise PortBusy(f"{self._settings.waiting} texts wait for the encoder already")
        task = self._waiting[key] = asyncio.create_task(self._answer(key, text, library))
        task.add_done_callback(lambda ended: self._note_end(key, ended))
        return task

    def _note_end(self, key: Key, task: asyncio.Task[dict[str, Any]]) -> None:
        """Keep an answer, also if its callers have gone. A failure is not kept; its callers see it."""
        del self._waiting[key]
        if task.cancelled() or task.exception() is not None:
            return
        self._remembered[key] = task.result()
        if len(self._remembered) > self._settings.remembered:
            self._remembered.popitem(last=False)

    async def _answer(self, key: Key, text: str, library: AnyLibrary) -> dict[str, Any]:
        child = await self._start_child()
        windows = split_windows(text, key[1])
        answer_fields = {
            "model": child.model,
            "library": library.hash,
            "windows": len(windows.texts),
            "of": windows.of,
        }
        if isinstance(library, NamedTexts):
            answer = await child.ask(library, windows.texts, most=key[2][0])
            near = [{"id": library.ids[index], "cosine": cosine} for index, cosine in answer["nearest"]]
            return {"model": child.model, "library": library.hash, "nearest": near}
        if isinstance(library, ActionLibrary):
            answer = await child.ask(library, windows.texts, weights=key[2])
            sides = {"harmful": library.harmful, "harmless": library.harmless}
            for name, side in sides.items():
                answer_fields[name] = [
                    {"id": side[index].id, "cosine": cosine} for index, cosine in answer[name]
                ]
            return {**answer_fields, "lean": answer["lean"], "unknown": answer["unknown"]}
        answer = await child.ask(library, windows.texts)
        attack = _name_text(answer["attack"], [text_entry.id for text_entry in library.attack])
        return {
            **answer_fields,
            "attack": attack,
            "benign": _name_text(answer["benign"], [n for n, _ in library.harmless]),
        }

    async def _start_child(self) -> EncoderChild:
        if self._closed:
            raise PortUnavailable(_CLOSED)
        if self._starting is None or (self._is_useless(self._starting) and self._may_start()):
            self._started_at = asyncio.get_running_loop().time()
            self._starting = asyncio.create_task(self._await_started())
        starting = self._starting
        await asyncio.wait([starting])  # and not the task itself: who stops waiting stops nobody else
        if starting.cancelled():
            raise PortUnavailable(_CLOSED)
        return starting.result()

    async def _await_started(self) -> EncoderChild:
        try:
            async with asyncio.timeout(self._settings.start_limit_s):
                return await EncoderChild.start(self._options)
        except TimeoutError as hanging:
            raise PortUnavailable(
                f"the encoder was not ready after {self._settings.start_limit_s:g} s"
            ) from hanging

    def _is_useless(self, starting: asyncio.Task[EncoderChild]) -> bool:
        if not starting.done():
            return False
        return starting.cancelled() or starting.exception() is not None or not starting.result().alive

    def _may_start(self) -> bool:
        return asyncio.get_running_loop().time() - self._started_at >= self._settings.restart_wait_s


class ClosestTexts:
    """The port `closest` on an encoder that another port starts and closes."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder

    async def ask(self, payload: object) -> object:
        """`payload` as `ask_for_closest` writes it. Raises PortUnavailable and PortBusy."""
        return await self._encoder.ask(payload)

    def is_crowded(self) -> bool:
        """See `Crowding`."""
        return self._encoder.is_crowded()

    def recall(self, payload: object) -> object | None:
        """The answer on an action that was seen before, else None."""
        return self._encoder.recall(payload)


def _make_key(asked: dict[str, Any], library: AnyLibrary) -> Key:
    written = hashlib.sha256(asked["text"].encode("utf-8", "surrogatepass")).digest()
    weights = asked.get("weights", (asked.get("most", 0),))
    return library.hash, asked.get("windows", WHOLE_ACTIONS), weights, written


def _name_text(pair: list[Any] | None, ids: list[str]) -> dict[str, Any] | None:
    """A place in one side of a library, by the id of the text there."""
    return None if pair is None else {"id": ids[pair[0]], "cosine": pair[1]}
