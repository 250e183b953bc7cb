"""The BERT encoder of a sentence-transformers folder, and its sentence embeddings.

Source: Devlin et al., BERT (2019), in the form of Hugging Face's ``BertModel``; pooling and
normalising as the folder's ``modules.json`` of all-MiniLM-L6-v2 has them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ._layouts import Batch

# Our names of the parts, and those in the folder.
_EMBEDDINGS = {"words": "word_embeddings", "places": "position_embeddings", "norm": "LayerNorm"}
_LAYER = {
    "project": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "widen": "intermediate.dense",
    "narrow": "output.dense",
    "output_norm": "output.LayerNorm",
}


class Layer(nn.Module):
    """Attention and a feed-forward network, each added to its input and normalised."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, inner = config["hidden_size"], config["intermediate_size"]
        self.heads = config["num_attention_heads"]
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=config["layer_norm_eps"])
        self.widen = nn.Linear(width, inner)
        self.narrow = nn.Linear(inner, width)
        self.output_norm = nn.LayerNorm(width, eps=config["layer_norm_eps"])

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        x = self.attention_norm(x + self.project(batch.attend(q, k, v).flatten(-2)))
        return self.output_norm(x + self.narrow(F.gelu(self.widen(x))))


class Bert(nn.Module):
    """Hidden states [rows, width] of a batch. ``config`` is the folder's config.json."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.words = nn.Embedding(config["vocab_size"], width)
        self.places = nn.Embedding(config["max_position_embeddings"], width)
        self.norm = nn.LayerNorm(width, eps=config["layer_norm_eps"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))

    def forward(self, batch: Batch) -> Tensor:
        x = self.norm(self.words(batch.ids) + self.places(batch.positions))
        for layer in self.layers:
            x = layer(x, batch)
        return x


def _renamed(theirs: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """The folder's tensors under our names."""
    prefixes = {ours: f"embeddings.{name}" for ours, name in _EMBEDDINGS.items()}
    for i in range(layers):
        prefixes |= {f"layers.{i}.{x}": f"encoder.layer.{i}.{name}" for x, name in _LAYER.items()}
    ours = {
        f"{prefix}.{kind}": theirs[f"{name}.{kind}"]
        for prefix, name in prefixes.items()
        for kind in ("weight", "bias")
        if f"{name}.{kind}" in theirs
    }
    # Every token is of the first of two kinds, which BERT adds as it does the positions.
    ours["places.weight"] = (
        ours["places.weight"] + theirs["embeddings.token_type_embeddings.weight"][0]
    )
    for i in range(layers):
        for kind in ("weight", "bias"):
            ours[f"layers.{i}.qkv.{kind}"] = torch.cat(
                [
                    theirs[f"encoder.layer.{i}.attention.self.{name}.{kind}"]
                    for name in ("query", "key", "value")
                ]
            )
    return ours


def load(folder: Path) -> Bert:
    """The encoder of ``folder``: its config.json and model.safetensors."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    with torch.device("meta"):  # no memory, no initial values
        model = Bert(config)
    weights = load_file(folder / "model.safetensors")
    model.load_state_dict(_renamed(weights, config["num_hidden_layers"]), assign=True)
    model.eval()
    return model


def embed(model: Bert, batch: Batch) -> Tensor:
    """A vector of length 1 for each sequence of a batch, (sequences, width)."""
    with torch.inference_mode():
        return F.normalize(batch.mean(model(batch)), dim=-1)
