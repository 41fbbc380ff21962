"""The process that holds the model: reads questions on standard input, answers on standard output, by line.

A process of its own: in a thread of the worker, loading held the event loop up six times as long
(docs/performance.md), and a fault in native code that reads strangers' texts would end the worker. It ends
when its input does, also in the middle of a batch: it never outlives its parent.

    → {"library": hash, "attack": [text], "benign": [text], "at_least": cosine, "margin": cosine}
    → {"id": n, "library": hash, "windows": [text]}
    ← {"ready": "sha256:…"} once, or {"failed": reason}
    ← {"id": n, "attack": [place, cosine] or null, "benign": [place, cosine] or null}

and of a library of known actions

    → {"library": hash, "harmful": [text], "harmless": [text], "closest": k}
    → {"id": n, "library": hash, "windows": [text], "weights": [w, w, w]}
    ← {"id": n, "harmful": [[place, cosine]], "harmless": [[place, cosine]], "lean": x, "unknown": share}

and of texts of which the closest are asked for

    → {"library": hash, "texts": [text]}
    → {"id": n, "library": hash, "windows": [text], "most": k}
    ← {"id": n, "nearest": [[place, cosine]]}
"""

from __future__ import annotations

import os
import platform
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from sluice.adapters.encoded_libraries import DECIMALS, EncodedLibrary, EncodedPatterns, EncodedTexts
from sluice.adapters.encoder_model import NUMBERS, ModelRefused, load_model
from sluice.adapters.stored_compilations import StoredCompilations

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sluice.adapters.encoder_model import Encoder

_TAKEN_AT_ONCE = 1 << 16

NICENESS = 15
"""Where cores are few, sessions that ask no encoder go first: their p99 was 1.7 times as high without it."""


Known = EncodedLibrary | EncodedPatterns | EncodedTexts


class Answering:
    """Answers what waits, a batch at a time, in the order of the questions."""

    def __init__(self, encoder: Encoder, libraries: int, keep: CachedVectors | None = None) -> None:
        """Only the last `libraries` are kept; the parent forgets by the same rule."""
        self._encoder = encoder
        self._vectors = encoder.compute_vectors if keep is None else partial(keep.compute_vectors, encoder)
        self._libraries: dict[str, Known] = {}
        self._max_libraries = libraries

    def answer_all(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """One answer a question; a library is learnt in its place."""
        asked = [(message, self._learn_or_find(message)) for message in messages]
        questions = [(message, library) for message, library in asked if library is not None]
        parts = [
            [p for window in message["windows"] for p in self._encoder.split_window(window)]
            for message, _ in questions
        ]
        flat = [part for of_one in parts for part in of_one]
        rows = self._encoder.compute_vectors(flat) if flat else None
        answers, at = [], 0
        for (question, library), of_one in zip(questions, parts, strict=True):
            mine = rows[at : at + len(of_one)] if rows is not None and of_one else None
            answers.append({"id": question["id"], **self._answer(question, library, mine)})
            at += len(of_one)
        return answers

    def _answer(
        self,
        question: dict[str, Any],
        library: Known,
        rows: NDArray[np.float32] | None,
    ) -> dict[str, Any]:
        if isinstance(library, EncodedLibrary):
            return library.answer(rows)
        if isinstance(library, EncodedTexts):
            return library.answer(rows, question.get("most", 0))
        unknown = self._encoder.compute_unknown_share(question["windows"])
        return library.answer(rows, question.get("weights", [1.0, -1.0, 0.0]), round(unknown, DECIMALS))

    def _learn_or_find(self, message: dict[str, Any]) -> Known | None:
        if "id" in message:
            return self._libraries[message["library"]]
        if len(self._libraries) == self._max_libraries:
            del self._libraries[next(iter(self._libraries))]
        self._libraries[message["library"]] = self._learn(message)
        return None

    def _learn(self, message: dict[str, Any]) -> Known:
        if "texts" in message:
            return EncodedTexts(self._vectors(message["texts"]))
        if "harmful" in message:
            harmful, harmless = (self._vectors(message[side]) for side in ("harmful", "harmless"))
            return EncodedPatterns(harmful, harmless, message["closest"])
        attack, benign = (self._vectors(message[side]) for side in ("attack", "benign"))
        return EncodedLibrary(attack, benign, message["at_least"], message["margin"])


class CachedVectors:
    """The vectors of libraries in a folder, so that a second start does not compute them again."""

    def __init__(self, folder: Path, model: str) -> None:
        """`model`: digest of the weights."""
        self._stored = StoredCompilations(folder)
        self._by = f"{model} onnxruntime {version('onnxruntime')} {platform.machine()}".encode()

    def compute_vectors(self, encoder: Encoder, texts: list[str]) -> NDArray[np.float32]:
        """One row a text, computed or read."""
        import numpy as np  # noqa: PLC0415

        source = self._by + orjson.dumps(texts)
        stored = self._stored.get(source)
        if stored is not None:
            return np.frombuffer(stored, "<f4").reshape(len(texts), NUMBERS)
        rows = encoder.compute_vectors(texts)
        self._stored.put(source, rows.astype("<f4").tobytes())
        return rows


def _read(source: int, waiting: SimpleQueue[bytes]) -> None:
    """Puts every line of a file descriptor. Not by a buffered reader: a thread that waits in one holds its
    lock, and the interpreter aborts (SIGABRT) when it ends and cannot have it."""
    begun = b""
    while came := os.read(source, _TAKEN_AT_ONCE):
        *whole, begun = (begun + came).split(b"\n")
        for line in whole:
            waiting.put(line)
    os._exit(0)  # the parent has closed or died; nobody reads an answer


def _take_batch(waiting: SimpleQueue[bytes], most: int) -> list[dict[str, Any]]:
    """Take the messages that wait, at least one, until their windows fill a batch."""
    batch = [orjson.loads(waiting.get())]
    while sum(len(message.get("windows", ())) for message in batch) < most:
        try:
            batch.append(orjson.loads(waiting.get_nowait()))
        except Empty:
            break
    return batch


def _reserve_output() -> BinaryIO:
    """Standard output for answers alone: what libraries print goes to standard error."""
    own = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return own


def main(options: dict[str, Any]) -> int:
    """Serve until the input ends. `options` as `sentence_encoder` writes them."""
    output = _reserve_output()
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
    keep = CachedVectors(Path(options["cache_folder"]), digest) if options["cache_folder"] else None
    answering = Answering(encoder, options["libraries"], keep)
    while True:
        answers = answering.answer_all(_take_batch(waiting, options["batch"]))
        output.write(b"".join(orjson.dumps(answer) + b"\n" for answer in answers))


if __name__ == "__main__":
    sys.exit(main(orjson.loads(sys.argv[1])))
