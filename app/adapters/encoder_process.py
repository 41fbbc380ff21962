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
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from app.adapters.encoder_model import NUMBERS, ModelRefused, load_model
from app.adapters.kept_compilations import KeptCompilations

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

    def answer(self, rows: NDArray[np.float32] | None) -> dict[str, Any]:
        """Of the part that speaks most for an attack: the nearest texts of both sides, as place and
        cosine."""
        if rows is None:
            return {"attack": None, "benign": None}
        attack = rows @ self.attack.T
        nearest = attack.max(axis=1)
        evidence = nearest - self.at_least
        if len(self.benign):
            benign = rows @ self.benign.T
            evidence = evidence.clip(max=nearest - benign.max(axis=1) - self.margin)
        best = evidence.argmax()
        return {"attack": _best(attack[best]), "benign": _best(benign[best]) if len(self.benign) else None}


class EncodedPatterns:
    """The vectors of known actions, and the direction from the harmless side to the harmful one."""

    def __init__(self, harmful: NDArray[np.float32], harmless: NDArray[np.float32], closest: int) -> None:
        """`closest`: of each side so many count."""
        self._sides = (harmful, harmless)
        self._closest = closest
        self._direction, self._middle = direction(harmful, harmless)

    def figures(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """For each row: the mean cosines to the closest harmful and harmless entries, and the lean."""
        import numpy as np  # noqa: PLC0415 - the process imports it when it loads the model

        means = [closest(rows, side, self._closest)[1].mean(axis=1) for side in self._sides]
        return np.stack([*means, rows @ self._direction - self._middle], axis=1).astype(np.float64)

    def answer(
        self, rows: NDArray[np.float32] | None, weights: list[float], unknown: float
    ) -> dict[str, Any]:
        """Of the part with the highest weighted sum of its figures: the closest entries of both sides."""
        told: dict[str, Any] = {"harmful": [], "harmless": [], "lean": 0.0, "unknown": unknown}
        if rows is None:
            return told
        figures = self.figures(rows)
        best = int((figures @ weights).argmax())
        for name, side in zip(("harmful", "harmless"), self._sides, strict=True):
            places, cosines = closest(rows[best : best + 1], side, self._closest)
            told[name] = [
                [int(place), round(float(cosine), _DECIMALS)]
                for place, cosine in zip(places[0], cosines[0], strict=True)
            ]
        return {**told, "lean": round(float(figures[best, 2]), _DECIMALS)}


def closest(
    rows: NDArray[np.float32], vectors: NDArray[np.float32], most: int
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """For each row the places of the `most` closest vectors, the closest first, and their cosines."""
    cosines = rows @ vectors.T
    most = min(most, len(vectors))
    places = (-cosines).argpartition(most - 1, axis=1)[:, :most]
    found = _taken(cosines, places)
    order = (-found).argsort(axis=1, kind="stable")
    return _taken(places, order), _taken(found, order)


def _taken(table: Any, places: NDArray[np.intp]) -> Any:
    import numpy as np  # noqa: PLC0415

    return np.take_along_axis(table, places, axis=1)


RIDGE = 0.03
"""How far the direction is drawn to the difference of both sides' means, chosen with whole sources left
out."""


def direction(
    harmful: NDArray[np.float32], harmless: NDArray[np.float32]
) -> tuple[NDArray[np.float32], np.float32]:
    """The ridge regression of the sides (1 and -1, each with the same weight) on the vectors: a direction,
    and the product of their middle with it. `rows @ direction - middle` is the lean of rows."""
    import numpy as np  # noqa: PLC0415

    both = np.concatenate([harmful, harmless]).astype(np.float64)
    counts = (len(harmful), len(harmless))
    weights = np.repeat([1 / count for count in counts], counts)
    middle = weights @ both / 2
    centred = both - middle
    weighted = centred * weights[:, None]
    found = np.linalg.solve(
        weighted.T @ centred + RIDGE * np.eye(both.shape[1]), weighted.T @ np.repeat([1.0, -1.0], counts)
    )
    return found.astype(np.float32), np.float32(middle @ found)


class Answering:
    """Answers what waits, a batch at a time, in the order of the questions."""

    def __init__(self, encoder: Encoder, libraries: int, keep: KeptVectors | None = None) -> None:
        """Only the last `libraries` are kept; the parent forgets by the same rule."""
        self._encoder = encoder
        self._vectors = encoder.vectors if keep is None else partial(keep.vectors, encoder)
        self._libraries: dict[str, EncodedLibrary | EncodedPatterns] = {}
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
            answers.append({"id": one["id"], **self._answer(one, known, mine)})
            at += len(of_one)
        return answers

    def _answer(
        self,
        question: dict[str, Any],
        known: EncodedLibrary | EncodedPatterns,
        rows: NDArray[np.float32] | None,
    ) -> dict[str, Any]:
        if isinstance(known, EncodedLibrary):
            return known.answer(rows)
        unknown = self._encoder.unknown_share(question["windows"])
        return known.answer(rows, question.get("weights", [1.0, -1.0, 0.0]), round(unknown, _DECIMALS))

    def _learn_or_find(self, message: dict[str, Any]) -> EncodedLibrary | EncodedPatterns | None:
        if "id" in message:
            return self._libraries[message["library"]]
        if len(self._libraries) == self._kept:
            del self._libraries[next(iter(self._libraries))]
        self._libraries[message["library"]] = self._learnt(message)
        return None

    def _learnt(self, message: dict[str, Any]) -> EncodedLibrary | EncodedPatterns:
        if "harmful" in message:
            harmful, harmless = (self._vectors(message[side]) for side in ("harmful", "harmless"))
            return EncodedPatterns(harmful, harmless, message["closest"])
        attack, benign = (self._vectors(message[side]) for side in ("attack", "benign"))
        return EncodedLibrary(attack, benign, message["at_least"], message["margin"])


class KeptVectors:
    """The vectors of libraries in a folder, so that a second start does not compute them again."""

    def __init__(self, folder: Path, model: str) -> None:
        """`model`: digest of the weights."""
        self._kept = KeptCompilations(folder)
        self._by = f"{model} onnxruntime {version('onnxruntime')} {platform.machine()}".encode()

    def vectors(self, encoder: Encoder, texts: list[str]) -> NDArray[np.float32]:
        """One row a text, computed or read."""
        import numpy as np  # noqa: PLC0415

        source = self._by + orjson.dumps(texts)
        kept = self._kept.get(source)
        if kept is not None:
            return np.frombuffer(kept, "<f4").reshape(len(texts), NUMBERS)
        rows = encoder.vectors(texts)
        self._kept.put(source, rows.astype("<f4").tobytes())
        return rows


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
    keep = KeptVectors(Path(options["kept"]), digest) if options["kept"] else None
    answering = Answering(encoder, options["libraries"], keep)
    while True:
        answers = answering.answers(_batch(waiting, options["batch"]))
        output.write(b"".join(orjson.dumps(one) + b"\n" for one in answers))


if __name__ == "__main__":
    sys.exit(main(orjson.loads(sys.argv[1])))
