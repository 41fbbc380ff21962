"""Calibrates the similarity library on labelled writes: `python -m load.fit.similarity_fit FILE...`

Every text is cut and measured as the gate does it. The calibration proposed is the one with the highest mean
recall over the sources among those that find every attack of the library itself and hold at most one harmless
text in a thousand of every source. Each source is then judged by what the others alone propose, with the
library less the texts that come from it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson

from load.fit.make_encoder import LIBRARY
from sluice.adapters.encoder_model import load_model
from sluice.core.memory.similarity import split_windows
from sluice.core.policy.similarity_settings import SimilaritySettings, remove_sources
from sluice.offline.panels import WriteRow, load_mixed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sluice.adapters.encoder_model import Encoder
    from sluice.core.policy.similarity_settings import SimilarityLibrary

AT_LEAST = tuple(round(0.5 + step / 40, 3) for step in range(19))
MARGINS = (0.0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2)
HELD = 0.001
"""Of a source's harmless texts, at most."""
TOGETHER = 256
"""Texts measured at once."""

Point = tuple[float, float]
POINTS: tuple[Point, ...] = tuple(product(AT_LEAST, MARGINS))


@dataclass(frozen=True, slots=True)
class TextSource:
    """What one file's texts of each label came to: of how many texts, how many each point finds."""

    name: str
    harmful: int
    benign: int
    caught: NDArray[np.int64]
    held: NDArray[np.int64]


def main(paths: list[str]) -> int:
    """Prints each source by what the others propose, what all propose, and what ships."""
    settings = SimilaritySettings.model_validate(orjson.loads(LIBRARY.read_bytes())["similarity"])
    encoder, model = load_model()
    rows = [row for path in paths for row in load_mixed(Path(path)) if isinstance(row, WriteRow)]
    sources = list(_measure(encoder, settings, rows))
    widest = _widest_margin(encoder, settings.library)
    shipped = (settings.library.calibration.at_least, settings.library.calibration.margin)
    print(f"{model}, {len(rows)} texts")
    for index, source in enumerate(sources):
        chosen = _propose([*sources[:index], *sources[index + 1 :]], widest) if len(sources) > 1 else shipped
        as_shipped, by_others = _describe([source], shipped), _describe([source], chosen)
        print(f"{source.name}: shipped {as_shipped}; others' {chosen} {by_others}")
    for what, point in (("all propose", _propose(sources, widest)), ("shipped", shipped)):
        print(f"{what} {point}: {_describe(sources, point)}")
    return 0


def _measure(encoder: Encoder, settings: SimilaritySettings, rows: list[WriteRow]) -> Iterator[TextSource]:
    for name in sorted({row.file for row in rows}):
        own = [row for row in rows if row.file == name]
        library = remove_sources(settings.library, name, *sorted({row.repository for row in own} - {""}))
        attack = encoder.compute_vectors([text.text for text in library.attack])
        benign = encoder.compute_vectors([text for _, text in library.harmless])
        counts = {}
        for label in ("harmful", "benign"):
            texts = [row.text for row in own if row.label == label]
            matches = np.zeros(len(POINTS), np.int64)
            for start in range(0, len(texts), TOGETHER):
                matches += _count_found(encoder, settings, texts[start : start + TOGETHER], attack, benign)
            counts[label] = (len(texts), matches)
        (harmful, caught), (harmless, false_alarms) = counts["harmful"], counts["benign"]
        yield TextSource(name, harmful, harmless, caught, false_alarms)


def _count_found(
    encoder: Encoder,
    settings: SimilaritySettings,
    texts: list[str],
    attack: NDArray[np.float32],
    benign: NDArray[np.float32],
) -> NDArray[np.int64]:
    """How many of the texts have a part that each point takes for an attack."""
    cut = [split_windows(text, settings.windows).texts for text in texts]
    windows = [(index, window) for index, of_one in enumerate(cut) for window in of_one]
    parts = [(index, part) for index, window in windows for part in encoder.split_window(window)]
    rows = encoder.compute_vectors([part for _, part in parts])
    nearest = (rows @ attack.T).max(axis=1)
    ahead = nearest - (rows @ benign.T).max(axis=1)
    places = np.array([index for index, _ in parts])
    return np.array(
        [len(np.unique(places[(nearest >= at_least) & (ahead >= margin)])) for at_least, margin in POINTS]
    )


def _widest_margin(encoder: Encoder, library: SimilarityLibrary) -> float:
    """At a wider one an attack of the library would not be found: one of its harmless texts is too near."""
    attack = encoder.compute_vectors([text.text for text in library.attack])
    benign = encoder.compute_vectors([text for _, text in library.harmless])
    return float(1 - (attack @ benign.T).max())


def _propose(sources: list[TextSource], widest: float) -> Point:
    """The point with the highest mean recall of those that hold few enough; of equals the strictest."""
    narrow = [point for point in POINTS if point[1] <= widest]
    allowed = [point for point in narrow if max(_compute_held(sources, point)) <= HELD]
    return max(allowed, key=lambda point: (np.mean(_compute_caught(sources, point)), point))


def _compute_caught(sources: list[TextSource], point: Point) -> list[float]:
    at = POINTS.index(point)
    return [int(source.caught[at]) / source.harmful for source in sources if source.harmful] or [0.0]


def _compute_held(sources: list[TextSource], point: Point) -> list[float]:
    at = POINTS.index(point)
    return [int(source.held[at]) / source.benign for source in sources if source.benign] or [0.0]


def _describe(sources: list[TextSource], point: Point) -> str:
    caught, false_alarms = np.mean(_compute_caught(sources, point)), np.mean(_compute_held(sources, point))
    return f"{caught:.2%} of the harmful, {false_alarms:.2%} of the harmless"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
