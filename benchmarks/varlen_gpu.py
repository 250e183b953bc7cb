"""Packed attention on a CUDA GPU beside PyTorch's ``varlen_attn``: the rows of the README's table.

    python benchmarks/varlen_gpu.py [ROW ...]

bfloat16, forward and backward through ``raggeddnn.torch``, full and causal. Both take turns;
printed are TFLOP/s of the visible pairs of valid tokens (backward: 2.5 times the forward's
operations), from medians of 7 runs of several calls each, and the ratio of the times. The first row
also compares with PyTorch's flash attention on the padded batch, for the same useful work.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import raggeddnn.torch as rt
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.varlen import varlen_attn

RUNS = 7


@dataclass(frozen=True)
class Row:
    lengths: list[int]
    heads: int
    heads_kv: int
    width: int
    calls: int = 3  # timed together: so many that the wait for the first launch hardly counts


def log_uniform(count: int, shortest: int, longest: int) -> list[int]:
    torch.manual_seed(7)
    span = math.log(longest) - math.log(shortest)
    lengths = torch.exp(math.log(shortest) + torch.rand(count) * span).round().long().tolist()
    return [longest, *lengths[1:]]


def rows() -> dict[str, Row]:
    return {
        "ragged_h16_d128": Row(log_uniform(24, 128, 8192), 16, 16, 128),
        "ragged_gqa32_8_d128": Row(log_uniform(32, 64, 4096), 32, 8, 128),
        "ragged_h16_d64": Row(log_uniform(32, 64, 4096), 16, 16, 64),
        "dense_s4k_d128": Row([4096] * 4, 16, 16, 128),
        "dense_s16k_d128": Row([16384], 16, 16, 128),
        "short_h16_d128": Row(log_uniform(256, 16, 256), 16, 16, 128, calls=60),
    }


def times(contenders: list[Callable[[], Any]], calls: int) -> list[float]:
    """Milliseconds of one call of each."""
    found: list[list[float]] = [[] for _ in contenders]
    for call in contenders * 2:
        call()
    for _ in range(RUNS):
        for call, own in zip(contenders, found, strict=True):
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            begin.record()
            for _ in range(calls):
                call()
            end.record()
            torch.cuda.synchronize()
            own.append(begin.elapsed_time(end) / calls)
    return [statistics.median(own) for own in found]


def padded_flash(row: Row, qkv: list[torch.Tensor], causal: bool) -> Callable[[], Any]:
    padded = [
        torch.nn.utils.rnn.pad_sequence(list(x.detach().split(row.lengths)), batch_first=True)
        .transpose(1, 2)
        .contiguous()
        for x in qkv
    ]

    def call() -> Any:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(*padded, is_causal=causal)

    return call


def measure(name: str, row: Row, causal: bool) -> str:
    total, longest = sum(row.lengths), max(row.lengths)
    offsets = torch.tensor([0, *row.lengths]).cumsum(0).int().cuda()
    shapes = [(total, h, row.width) for h in (row.heads, row.heads_kv, row.heads_kv)]
    qkv = [torch.randn(s, device="cuda").bfloat16().requires_grad_() for s in shapes]
    window = (-1, 0) if causal else (-1, -1)
    args = (*qkv, offsets, offsets, longest, longest)
    is_grouped = row.heads != row.heads_kv
    forward: list[Callable[[], Any]] = [
        lambda: varlen_attn(*args, window_size=window),
        lambda: rt.varlen_attn(*args, window_size=window, enable_gqa=is_grouped),
    ]
    outputs = [call() for call in forward]
    d_o = torch.randn_like(outputs[0])
    backward: list[Callable[[], Any]] = [
        lambda o=o: torch.autograd.grad(o, qkv, d_o, retain_graph=True) for o in outputs
    ]
    if name == "ragged_h16_d128":
        forward.append(padded_flash(row, qkv, causal))
    with torch.no_grad():
        theirs, ours, *padded = times(forward, row.calls)
    pairs = sum(n * (n + 1) // 2 if causal else n * n for n in row.lengths)
    work = 4e-9 * pairs * row.heads * row.width  # per millisecond: TFLOP/s
    text = f"{name} {'causal' if causal else 'full'}: "
    text += f"forward {work / ours:.0f} TFLOP/s, PyTorch {work / theirs:.0f}, {theirs / ours:.2f} x"
    if padded:
        text += f" (padded: {padded[0] / ours:.2f} x)"
    theirs, ours = (2.5 * work / t for t in times(backward, row.calls))
    return f"{text}; backward {ours:.0f}, PyTorch {theirs:.0f}, {ours / theirs:.2f} x"


def main() -> None:
    for name, row in rows().items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        for causal in (False, True):
            print(measure(name, row, causal), flush=True)


if __name__ == "__main__":
    main()
