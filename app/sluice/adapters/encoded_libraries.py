"""The vectors of libraries, and what is found in them: what the encoder's process answers with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DECIMALS = 6
"""The last bits of a vector depend on what else was in its batch; what is left is the text's own."""


@dataclass(frozen=True, slots=True)
class EncodedLibrary:
    """A library's vectors and calibration."""

    attack: NDArray[np.float32]
    benign: NDArray[np.float32]
    at_least: float
    margin: float

    def answer(self, rows: NDArray[np.float32] | None) -> dict[str, Any]:
        """Return for the part that speaks most for an attack the nearest texts of both sides, as place and
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
        return {
            "attack": _find_best(attack[best]),
            "benign": _find_best(benign[best]) if len(self.benign) else None,
        }


class EncodedPatterns:
    """The vectors of known actions, and the direction from the harmless side to the harmful one."""

    def __init__(self, harmful: NDArray[np.float32], harmless: NDArray[np.float32], closest: int) -> None:
        """`closest`: of each side so many count."""
        self._sides = (harmful, harmless)
        self._closest = closest
        self._direction, self._middle = fit_direction(harmful, harmless)

    def compute_figures(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Compute for each row the mean cosines to the closest harmful and harmless entries, and the lean."""
        import numpy as np  # noqa: PLC0415 - the process imports it when it loads the model

        means = [find_closest(rows, side, self._closest)[1].mean(axis=1) for side in self._sides]
        return np.stack([*means, rows @ self._direction - self._middle], axis=1).astype(np.float64)

    def answer(
        self, rows: NDArray[np.float32] | None, weights: list[float], unknown: float
    ) -> dict[str, Any]:
        """Return the closest entries of both sides for the part with the highest weighted sum of its
        figures."""
        fields: dict[str, Any] = {"harmful": [], "harmless": [], "lean": 0.0, "unknown": unknown}
        if rows is None:
            return fields
        figures = self.compute_figures(rows)
        best = int((figures @ weights).argmax())
        for name, side in zip(("harmful", "harmless"), self._sides, strict=True):
            places, cosines = find_closest(rows[best : best + 1], side, self._closest)
            fields[name] = [
                [int(row), round(float(cosine), DECIMALS)]
                for row, cosine in zip(places[0], cosines[0], strict=True)
            ]
        return {**fields, "lean": round(float(figures[best, 2]), DECIMALS)}


class EncodedTexts:
    """The vectors of texts, of which the closest are asked for."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors

    def answer(self, rows: NDArray[np.float32] | None, most: int) -> dict[str, Any]:
        """The `most` texts that are closest to some part."""
        if rows is None:
            return {"nearest": []}
        best = (rows @ self._vectors.T).max(axis=0, keepdims=True)
        places = (-best[0]).argsort(kind="stable")[:most]
        return {"nearest": [[int(row), round(float(best[0, row]), DECIMALS)] for row in places]}


def find_closest(
    rows: NDArray[np.float32], vectors: NDArray[np.float32], most: int
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Find for each row the places of the `most` closest vectors, the closest first, and their cosines."""
    cosines = rows @ vectors.T
    most = min(most, len(vectors))
    places = (-cosines).argpartition(most - 1, axis=1)[:, :most]
    neighbours = _take_rows(cosines, places)
    order = (-neighbours).argsort(axis=1, kind="stable")
    return _take_rows(places, order), _take_rows(neighbours, order)


def _take_rows(table: Any, places: NDArray[np.intp]) -> Any:
    import numpy as np  # noqa: PLC0415

    return np.take_along_axis(table, places, axis=1)


RIDGE = 0.03
"""How far the direction is drawn to the difference of both sides' means, chosen with whole sources left
out."""


def fit_direction(
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
    solution = np.linalg.solve(
        weighted.T @ centred + RIDGE * np.eye(both.shape[1]), weighted.T @ np.repeat([1.0, -1.0], counts)
    )
    return solution.astype(np.float32), np.float32(middle @ solution)


def _find_best(cosines: NDArray[np.float32]) -> tuple[int, float]:
    index = int(cosines.argmax())
    return index, round(float(cosines[index]), DECIMALS)
