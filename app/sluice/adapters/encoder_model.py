"""The sentence encoder itself: all-MiniLM-L6-v2 in config/models, computed by onnxruntime.

Only the child process of `sentence_encoder` computes. onnxruntime, tokenizers and numpy are imported where
they are used, onnxruntime after both files were held against their SHA-256; they are loaded from those bytes.
`load/fit/make_encoder.py` makes the files.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.shipped import SHIPPED_FILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

MODELS = SHIPPED_FILES / "models"
CHECKSUMS = Path(__file__).with_name("all_minilm_l6_v2.sha256")
MODEL = "all-minilm-l6-v2.int8.onnx"
TOKENIZER = "tokenizer.json"
TOKENS = 256
"""Tokens of a text that the model reads."""
PIECES = TOKENS - 2
"""Word pieces among them: two tokens frame the text."""
OVERLAP = 48
"""Pieces that two parts of a window share. A word has at most 100 (longer ones are one unknown piece), so
that parts which begin with a word still advance."""
UNKNOWN = "[UNK]"
NUMBERS = 384
"""Of a vector."""


class ModelRefused(Exception):
    """The model's files are absent or are not those that are expected; the message says which."""


class Encoder:
    """Texts to vectors of length 1, `together` at a time. Not for an event loop."""

    def __init__(self, session: Any, tokenizer: Any, together: int) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._together = together
        self._unknown = tokenizer.token_to_id(UNKNOWN)

    def compute_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of 384 numbers a text. Only the first 254 word pieces of each count: see `parts`."""
        import numpy as np  # noqa: PLC0415 - a worker imports this module and computes nothing

        tokens = [_frame(encoding.ids) for encoding in self._tokenizer.encode_batch(list(texts))]
        rows = np.empty((len(tokens), NUMBERS), np.float32)
        by_length = sorted(range(len(tokens)), key=lambda index: len(tokens[index]))
        for start in range(0, len(by_length), self._together):
            places = by_length[start : start + self._together]
            rows[places] = self._run([tokens[index] for index in places])
        return rows

    def split_window(self, window: str) -> list[str]:
        """`window`, or overlapping parts that cover it when it has more pieces than the model reads."""
        pieces = self._tokenizer.encode(window, add_special_tokens=False)
        if len(pieces.ids) <= PIECES:
            return [window]
        return [window[start:end] for start, end in _cut_ranges(pieces.offsets, pieces.word_ids)]

    def compute_unknown_share(self, windows: Sequence[str]) -> float:
        """Compute the share of the windows' word pieces that the vocabulary does not have; 0 without any."""
        encodings = self._tokenizer.encode_batch(list(windows), add_special_tokens=False)
        pieces = sum(len(encoding.ids) for encoding in encodings)
        return sum(encoding.ids.count(self._unknown) for encoding in encodings) / pieces if pieces else 0.0

    def _run(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """The vectors of one batch, shorter texts filled up with what the mask leaves out."""
        import numpy as np  # noqa: PLC0415

        ids = np.zeros((len(tokens), max(map(len, tokens))), np.int64)
        mask = np.zeros_like(ids)
        for row, token in enumerate(tokens):
            ids[row, : len(token)] = token
            mask[row, : len(token)] = 1
        vectors: NDArray[np.float32] = self._session.run(["vectors"], {"ids": ids, "mask": mask})[0]
        return vectors


def _frame(ids: list[int]) -> list[int]:
    """Frame as many ids as the model reads, the closing token the last."""
    return ids if len(ids) <= TOKENS else [*ids[: TOKENS - 1], ids[-1]]


def _cut_ranges(offsets: Sequence[tuple[int, int]], words: Sequence[int | None]) -> list[tuple[int, int]]:
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


def load_model(
    directory: Path = MODELS, checksums: Path = CHECKSUMS, threads: int = 1, together: int = 8
) -> tuple[Encoder, str]:
    """The encoder, and "sha256:" with the digest of its ONNX file.

    Raises ModelRefused before anything of the directory is used.
    """
    files = read_checked(directory, checksums)
    import onnxruntime  # noqa: PLC0415 - a third of a second of import, wanted only here
    from tokenizers import Tokenizer  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # multiply the weights out at once
    session = onnxruntime.InferenceSession(files[MODEL], options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_buffer(files[TOKENIZER])
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return Encoder(session, tokenizer, together), f"sha256:{hashlib.sha256(files[MODEL]).hexdigest()}"


def read_checked(directory: Path = MODELS, checksums: Path = CHECKSUMS) -> dict[str, bytes]:
    """The model's files by name. Raises ModelRefused where one cannot be read or is not the expected one."""
    files: dict[str, bytes] = {}
    for line in checksums.read_text().splitlines():
        expected, name = line.split(maxsplit=1)
        try:
            files[name] = (directory / name).read_bytes()
        except OSError as error:
            raise ModelRefused(f"{directory / name} cannot be read: {error.strerror}") from None
        digest = hashlib.sha256(files[name]).hexdigest()
        if digest != expected:
            raise ModelRefused(
                f"{directory / name} has SHA-256 {digest}, expected {expected}: it is not loaded"
            )
    return files
