"""The yardstick of the gate with embeddings: sentence-transformers alone, one process, one torch thread.

It encodes a list of texts as its users do, with its own batches of 32, and compares with nothing. It reads
256 word pieces of a text and drops the rest unsaid.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.adapters.encoder_model import PACKAGE, PIECES

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH = 32


class BareEncoder:
    """The same weights as the gate's, loaded into this process."""

    def __init__(self) -> None:
        """Takes seconds."""
        os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
        import torch  # noqa: PLC0415 - reads the environment when it is imported
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415
        from tokenizers import Tokenizer  # noqa: PLC0415
        from transformers.utils import logging  # noqa: PLC0415

        found = importlib.util.find_spec(PACKAGE)
        if found is None or found.origin is None:
            raise RuntimeError(f"the package {PACKAGE} is not installed")
        torch.set_num_threads(1)
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        place = Path(found.origin).parent / "model"
        self._tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._model: Any = SentenceTransformer(str(place), device="cpu", local_files_only=True)

    def encode(self, texts: Sequence[str], batch: int = BATCH) -> None:
        """All of the texts."""
        self._model.encode(list(texts), batch_size=batch, normalize_embeddings=True, show_progress_bar=False)

    def read_of(self, texts: Sequence[str]) -> float:
        """The share of the texts' word pieces that it reads of them."""
        pieces = [len(self._tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
        return sum(min(one, PIECES) for one in pieces) / sum(pieces)
