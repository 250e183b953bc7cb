"""A small GPT over bytes, and its training on padded or packed documents.

Source: Radford et al., GPT-2 (2019), in the form of nanoGPT without biases and dropout.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ._layouts import Batch

BYTES = 256
WARM_UP = 100  # steps in which the learning rate rises to its value
_NOTHING = -100  # no target: left out of the loss


@dataclass(frozen=True)
class Sizes:
    """Of the model. ``context``: the longest document, in tokens."""

    layers: int
    heads: int
    head_dim: int
    context: int


class Block(nn.Module):
    """Attention and a feed-forward network, each of its normalised input and added to it."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.heads * sizes.head_dim
        self.heads = sizes.heads
        self.attention_norm = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.project = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width, bias=False)
        self.widen = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        qkv = self.qkv(self.attention_norm(x))
        q, k, v = qkv.unflatten(-1, (3, self.heads, -1)).unbind(-3)
        x = x + self.project(batch.attend(q, k, v).flatten(-2))
        return x + self.narrow(F.gelu(self.widen(self.norm(x))))


class Gpt(nn.Module):
    """Logits [rows, 256] of the next byte."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.heads * sizes.head_dim
        self.words = nn.Embedding(BYTES, width)
        self.places = nn.Embedding(sizes.context, width)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(width, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                is_residual = name.endswith(("project.weight", "narrow.weight"))
                scale = 1 / math.sqrt(2 * sizes.layers) if is_residual else 1.0
                nn.init.normal_(weight, std=0.02 * scale)

    def forward(self, batch: Batch) -> Tensor:
        x = self.words(batch.ids) + self.places(batch.positions)
        for block in self.blocks:
            x = block(x, batch)
        return F.linear(self.norm(x), self.words.weight)


@dataclass
class Run:
    """A model in training: ``layout`` arranges its batches, on ``threads`` threads of PyTorch.

    ``losses`` (nats per token) and ``seconds`` have an entry for each step, ``rows`` counts those
    that the model has computed.
    """

    name: str
    layout: Callable[..., Batch]
    threads: int
    model: Gpt
    optimizer: Any
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rows: int = 0

    @property
    def pace(self) -> float:
        """Seconds of a step: the mean without the first, which builds plans and loads code."""
        return statistics.fmean(self.seconds[1:])

    def step(self, documents: Sequence[Tensor]) -> None:
        """Learn from some documents, in tokens."""
        torch.set_num_threads(self.threads)
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * min(1.0, (len(self.losses) + 1) / WARM_UP)
        begin = time.perf_counter()
        batch = self.layout([x[:-1] for x in documents], causal=True)
        targets = batch.arrange([x[1:] for x in documents], _NOTHING)
        logits = self.model(batch)
        loss = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=_NOTHING)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        self.seconds.append(time.perf_counter() - begin)
        self.rows += batch.ids.numel()


def start(
    name: str, layout: Callable[..., Batch], threads: int, sizes: Sizes, rate: float, seed: int
) -> Run:
    """A run at its beginning; the same sizes and seed give the same model."""
    torch.manual_seed(seed)
    model = Gpt(sizes)
    optimizer = torch.optim.AdamW([{"params": list(model.parameters()), "initial_lr": rate}])
    return Run(name, layout, threads, model, optimizer)


def train(
    runs: Sequence[Run], batches: Sequence[Sequence[bytes]], show: Callable[..., None]
) -> None:
    """All runs learn from the same batches of documents, in turns: what else keeps the machine busy
    slows them alike. ``show(done, total, what)`` is called before each step.
    """
    threads = torch.get_num_threads()
    try:
        for done, batch in enumerate(batches):
            documents = [torch.tensor(list(text)) for text in batch]
            for run in runs:
                show(done, len(batches), run.name)
                run.step(documents)
    finally:
        torch.set_num_threads(threads)
