"""Fits the probability of the gate `similarity`: `python -m load.fit.pattern_fit LIBRARY FILE... [--write]`

Every action is rendered, cut and measured as the gate does it. Each source counts once and both labels count
alike; then the intercept is moved to actions of which PRIOR are harmful. Every source is judged by a library
without its rows and by a calibration that was fitted on the other sources. With --write the calibration of
all sources and those without each go into the library's .calibration.json, for `sluice evaluate`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson

from sluice.adapters.encoded_libraries import EncodedPatterns
from sluice.adapters.encoder_model import load_model
from sluice.core.actions.action_similarity import ActionCalibration, SimilarityPolicy
from sluice.core.memory.similarity import split_windows
from sluice.core.policy.pattern_library import CLOSEST, ActionLibrary, render_call
from sluice.offline.panels import ActionRow, load_panel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

PRIOR = 0.2
"""The share of harmful actions that a probability is meant for."""
PENALTY = 1e-5
"""On the standardised weights, so that two figures that say the same share theirs."""
FIRST = (1.0, -1.0, 0.3)
"""By what the window is chosen before there is a calibration."""
DECIMALS = 4
POLICY = SimilarityPolicy()


@dataclass(frozen=True, slots=True)
class Measured:
    """The rows' parts: `vectors` of all of them and `owner`, the row of each."""

    rows: Sequence[ActionRow]
    vectors: NDArray[np.float32]
    owner: NDArray[np.intp]

    def figures(self, library: EncodedPatterns, weights: Sequence[float]) -> NDArray[np.float64]:
        """The figures of each row's part that speaks most for harm."""
        figures = library.compute_figures(self.vectors)
        order = np.lexsort((figures @ np.array(weights), self.owner))
        last = np.append(np.flatnonzero(np.diff(self.owner[order])), len(order) - 1)
        chosen: NDArray[np.float64] = figures[order[last]]
        return chosen


def main(arguments: list[str]) -> int:
    """Prints each source as the others judge it, and their means."""
    paths = [argument for argument in arguments if argument != "--write"]
    library = ActionLibrary.from_lines(Path(paths[0]).read_bytes())
    rows = [row for path in paths[1:] for row in load_panel(Path(path)) if row.label != "ambiguous"]
    encoder, model = load_model()
    written = [render_call(row.tool, row.parameters) for row in rows]
    parts = [
        (index, part)
        for index, text in enumerate(written)
        for window in split_windows(text, POLICY.windows).texts
        for part in encoder.split_window(window)
    ]
    measured = Measured(
        rows, encoder.compute_vectors([part for _, part in parts]), np.array([index for index, _ in parts])
    )
    library_vectors = encoder.compute_vectors([action.rendered for action in library.actions])
    vectors = {action.id: vector for action, vector in zip(library.actions, library_vectors, strict=True)}
    shares = []
    without = {}
    for name in sorted({row.file for row in rows}):
        own = {row.repository for row in rows if row.file == name} - {""}
        left = library.exclude_sources(*sorted(own)) if own else library
        inside = np.array([row.file == name for row in rows])
        patterns = _patterns(left, vectors)
        fitted = fit(measured, patterns, ~inside)
        without[name] = fitted.model_dump()
        shares_of_source = _shares(measured, patterns, fitted, inside)
        shares.append(shares_of_source)
        print(f"{name:26}", *(f"{share:7.1%}" for share in shares_of_source))
    print(f"{'mean over the sources':26}", *(f"{share:7.1%}" for share in np.nanmean(shares, axis=0)))
    print("                  harmful  >= .3,  > .7; harmless  >= .3,  > .7")
    fitted = fit(measured, _patterns(library, vectors), np.ones(len(rows), bool))
    print(model, library.hash, fitted)
    if "--write" in arguments:
        told_all = {"library": library.hash, "calibration": fitted.model_dump(), "without": without}
        target = Path(paths[0]).with_suffix(".calibration.json")
        target.write_bytes(orjson.dumps(told_all, option=orjson.OPT_INDENT_2) + b"\n")
    return 0


def fit(measured: Measured, library: EncodedPatterns, chosen: NDArray[np.bool_]) -> ActionCalibration:
    """The calibration on the chosen rows; the second time the windows are those that the
    first one chooses."""
    weights: Sequence[float] = FIRST
    for _ in range(2):
        figures = measured.figures(library, weights)[chosen]
        coefficients, intercept = _logistic(figures, *_labels(measured.rows, chosen))
        weights = [float(coefficient) for coefficient in coefficients]
    moved = float(intercept) + float(np.log(PRIOR / (1 - PRIOR)))
    names = ("harmful", "harmless", "lean", "intercept")
    rounded = [round(weight, DECIMALS) for weight in (*weights, moved)]
    return ActionCalibration(**dict(zip(names, rounded, strict=True)))


def _labels(
    rows: Sequence[ActionRow], chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the chosen rows 1 for harmful, and what each counts: a source's label once, each label one half."""
    taken = [row for row, inside in zip(rows, chosen, strict=True) if inside]
    groups = [(row.file, row.label) for row in taken]
    sources = {label: len({file for file, of in groups if of == label}) for label in ("harmful", "benign")}
    counts = {group: groups.count(group) for group in set(groups)}
    weight = np.array([0.5 / counts[group] / sources[group[1]] for group in groups])
    return np.array([float(row.label == "harmful") for row in taken]), weight


def _logistic(
    figures: NDArray[np.float64], harmful: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Weighted logistic regression by Newton's method, on standardised figures; the result is for
    the figures as they are."""
    middle, spread = figures.mean(axis=0), figures.std(axis=0)
    table = np.column_stack([(figures - middle) / spread, np.ones(len(figures))])
    penalty = np.append(np.full(figures.shape[1], PENALTY), 0.0)
    solution = np.zeros(table.shape[1])
    for _ in range(50):
        probability = 1 / (1 + np.exp(-table @ solution))
        slope = table.T @ (weight * (probability - harmful)) + penalty * solution
        curve = (table * (weight * probability * (1 - probability))[:, None]).T @ table + np.diag(penalty)
        solution = solution - np.linalg.solve(curve, slope)
    plain = solution[:-1] / spread
    return plain, float(solution[-1] - plain @ middle)


def _shares(
    measured: Measured, library: EncodedPatterns, by: ActionCalibration, inside: NDArray[np.bool_]
) -> list[float]:
    """Of the harmful and of the harmless rows: sent on or more, and above. NaN of no rows."""
    figures = measured.figures(library, (by.harmful, by.harmless, by.lean))[inside]
    probabilities = np.array([by.probability(*map(float, figure)) for figure in figures])
    labels = np.array([row.label for row, mine in zip(measured.rows, inside, strict=True) if mine])
    shares = []
    for label in ("harmful", "benign"):
        mine = probabilities[labels == label]
        both = (mine >= POLICY.pass_below, mine > POLICY.harmful_above)
        shares += [float(np.mean(part)) if len(part) else float("nan") for part in both]
    return shares


def _patterns(library: ActionLibrary, vectors: dict[str, NDArray[np.float32]]) -> EncodedPatterns:
    harmful, harmless = (
        np.stack([vectors[action.id] for action in side]) for side in (library.harmful, library.harmless)
    )
    return EncodedPatterns(harmful, harmless, CLOSEST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
