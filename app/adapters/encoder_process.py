"""The process that holds the model: reads questions on standard input, answers on standard output, by line.

A process of its own: in a thread of the worker, loading held the event loop up six times as long
(docs/performance.md), and a fault in native code that reads strangers' texts would end the worker. It ends
when its input does, also in the middle of a batch: it never outlives its parent.

    → {"library": hash, "attack": [text], "benign": [text], "at_least": cosine, "margin": cosine}
    → {"id": n, "library": hash, "windows": [text]}
    ← {"ready": "sha256:…"} once, or {"failed": reason}
    ← {"id": n, "attack": [place, cosine] or null, "benign": [place, cosine] or null}
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from app.adapters.encoder_model import ModelRefused, load_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from app.adapters.encoder_model import Encoder

_DECIMALS = 6
"""The last bits of a vector depend on what else was in its batch; what is left is the text's own."""

_TAKEN_AT_ONCE = 1 << 16

NICENESS = 15
"""Where cores are few, sessions that ask no encoder go first: their p99 was 1.7 times as high without it."""


@dataclass(frozen=True, slots=True)
class EncodedLibrary:
    """A library's vectors and calibration."""

    attack: NDArray[np.float32]
    benign: NDArray[np.float32]
    at_least: float
    margin: float


class Answering:
    """Answers what waits, a batch at a time, in the order of the questions."""

    def __init__(self, encoder: Encoder, libraries: int) -> None:
        """Only the last `libraries` are kept; the parent forgets by the same rule."""
        self._encoder = encoder
        self._libraries: dict[str, EncodedLibrary] = {}
        self._kept = libraries

    def answers(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """One answer a question; a library is learnt in its place."""
        asked = [(one, self._learn_or_find(one)) for one in messages]
        questions = [(one, known) for one, known in asked if known is not None]
        parts = [
            [p for window in one["windows"] for p in self._encoder.parts(window)] for one, _ in questions
        ]
        flat = [part for of_one in parts for part in of_one]
        rows = self._encoder.vectors(flat) if flat else None
        answers, at = [], 0
        for (one, known), of_one in zip(questions, parts, strict=True):
            mine = rows[at : at + len(of_one)] if rows is not None and of_one else None
            answers.append({"id": one["id"], **_nearest(mine, known)})
            at += len(of_one)
        return answers

    def _parts(self, windows: list[str]) -> list[str]:
        return [part for window in windows for part in self._encoder.parts(window)]

    def _learn_or_find(self, message: dict[str, Any]) -> EncodedLibrary | None:
        if "id" in message:
            return self._libraries[message["library"]]
        attack, benign = (self._encoder.vectors(message[side]) for side in ("attack", "benign"))
        if len(self._libraries) == self._kept:
            del self._libraries[next(iter(self._libraries))]
        known = EncodedLibrary(attack, benign, message["at_least"], message["margin"])
        self._libraries[message["library"]] = known
        return None


def _nearest(rows: NDArray[np.float32] | None, known: EncodedLibrary) -> dict[str, Any]:
    """Of the part that speaks most for an attack: the nearest texts of both sides, as place and cosine."""
    if rows is None:
        return {"attack": None, "benign": None}
    attack = rows @ known.attack.T
    nearest = attack.max(axis=1)
    evidence = nearest - known.at_least
    if len(known.benign):
        benign = rows @ known.benign.T
        evidence = evidence.clip(max=nearest - benign.max(axis=1) - known.margin)
    best = evidence.argmax()
    return {"attack": _best(attack[best]), "benign": _best(benign[best]) if len(known.benign) else None}


def _best(cosines: NDArray[np.float32]) -> tuple[int, float]:
    place = int(cosines.argmax())
    return place, round(float(cosines[place]), _DECIMALS)


def _read(source: int, waiting: SimpleQueue[bytes]) -> None:
    """Puts every line of a file descriptor. Not by a buffered reader: a thread that waits in one holds its
    lock, and the interpreter aborts (SIGABRT) when it ends and cannot have it."""
    begun = b""
    while came := os.read(source, _TAKEN_AT_ONCE):
        *whole, begun = (begun + came).split(b"\n")
        for line in whole:
            waiting.put(line)
    os._exit(0)  # the parent has closed or died; nobody reads an answer


def _batch(waiting: SimpleQueue[bytes], most: int) -> list[dict[str, Any]]:
    """What waits, at least one message, until its windows fill a batch."""
    batch = [orjson.loads(waiting.get())]
    while sum(len(one.get("windows", ())) for one in batch) < most:
        try:
            batch.append(orjson.loads(waiting.get_nowait()))
        except Empty:
            break
    return batch


def _private_output() -> BinaryIO:
    """Standard output for answers alone: what libraries print goes to standard error."""
    own = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return own


def main(options: dict[str, Any]) -> int:
    """Serve until the input ends. `options` as `sentence_encoder` writes them."""
    output = _private_output()
    os.nice(NICENESS)
    waiting: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_read, args=(sys.stdin.fileno(), waiting), daemon=True).start()
    directory, checksums = Path(options["directory"]), Path(options["checksums"])
    try:
        encoder, digest = load_model(directory, checksums, options["threads"], options["together"])
    except ModelRefused as refusal:
        output.write(orjson.dumps({"failed": str(refusal)}) + b"\n")
        return 1
    output.write(orjson.dumps({"ready": digest}) + b"\n")
    answering = Answering(encoder, options["libraries"])
    while True:
        answers = answering.answers(_batch(waiting, options["batch"]))
        output.write(b"".join(orjson.dumps(one) + b"\n" for one in answers))


if __name__ == "__main__":
    sys.exit(main(orjson.loads(sys.argv[1])))
