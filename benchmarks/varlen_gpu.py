"""Packed attention on a CUDA GPU beside PyTorch's ``varlen_attn`` and, where they are installed,
cuDNN with ragged offsets (nvidia-cudnn-frontend) and FlashAttention 4 (flash-attn-4): the rows of
the README's table.

    python benchmarks/varlen_gpu.py [ROW ...]

bfloat16, forward (without gradients, but for the log-sum-exp) and backward, full and causal. All
take turns; printed are TFLOP/s of the visible pairs of valid tokens (backward: 2.5 times the
forward's operations), from medians of 7 runs of several calls each, and how many times as long the
others take. The first row also has PyTorch's flash attention on the padded batch, for the same
useful work.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
from gpu_peers import CONTENDERS, Batch, Passes, of_autograd
from torch.nn.attention import SDPBackend, sdpa_kernel

RUNS = 7


def log_uniform(count: int, shortest: int, longest: int) -> list[int]:
    torch.manual_seed(7)
    span = math.log(longest) - math.log(shortest)
    lengths = torch.exp(math.log(shortest) + torch.rand(count) * span).round().long().tolist()
    return [longest, *lengths[1:]]


def rows() -> dict[str, Batch]:
    return {
        "ragged_h16_d128": Batch(log_uniform(24, 128, 8192), 16, 16, 128),
        "ragged_gqa32_8_d128": Batch(log_uniform(32, 64, 4096), 32, 8, 128),
        "ragged_h16_d64": Batch(log_uniform(32, 64, 4096), 16, 16, 64),
        "dense_s4k_d128": Batch([4096] * 4, 16, 16, 128),
        "dense_s16k_d128": Batch([16384], 16, 16, 128),
        "short_h16_d128": Batch(log_uniform(256, 16, 256), 16, 16, 128),
    }


def times(calls: list[Callable[[], Any]]) -> list[float]:
    """Milliseconds of one call of each, from runs of about 10 ms: the wait for the first launch
    then hardly counts.
    """
    counts = []
    for call in calls:
        call()
        counts.append(max(3, round(10 / elapsed(call, 3))))
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(RUNS):
        for call, count, own in zip(calls, counts, found, strict=True):
            own.append(elapsed(call, count))
    return [statistics.median(own) for own in found]


def elapsed(call: Callable[[], Any], count: int) -> float:
    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
    begin.record()
    for _ in range(count):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / count


def padded_flash(batch: Batch, causal: bool) -> Passes:
    *qkv, d_o = (
        torch.nn.utils.rnn.pad_sequence(list(x.detach().split(batch.lengths)), batch_first=True)
        .transpose(1, 2)
        .contiguous()
        for x in (*batch.qkv, batch.d_o)
    )

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return of_autograd([x.requires_grad_() for x in qkv], d_o, call)


def measure(name: str, batch: Batch, causal: bool) -> list[str]:
    """A line for each pass."""
    made = dict(CONTENDERS)
    if name == "ragged_h16_d128":
        made["padded flash"] = padded_flash
    passes: dict[str, Passes] = {}
    for contender, make in made.items():
        try:
            passes[contender] = make(batch, causal)
        except ImportError as error:
            print(f"{contender} is not installed: {error}", file=sys.stderr)
    pairs = sum(n * (n + 1) // 2 if causal else n * n for n in batch.lengths)
    lines = []
    for which, share in (("forward", 1.0), ("backward", 2.5)):
        own, *others = times([getattr(x, which) for x in passes.values()])
        work = share * 4e-9 * pairs * batch.heads * batch.width  # per millisecond: TFLOP/s
        line = f"{name} {'causal' if causal else 'full'} {which}: {work / own:.0f} TFLOP/s"
        for other, time in zip(list(passes)[1:], others, strict=True):
            line += f"; {other} {work / time:.0f}, {time / own:.2f} x"
        lines.append(line)
    return lines


def main() -> None:
    for name, batch in rows().items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        for causal in (False, True):
            print(*measure(name, batch, causal), sep="\n", flush=True)


if __name__ == "__main__":
    main()
