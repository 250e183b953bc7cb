"""Attention on a CPU beside PyTorch's SDPA: the rows of the README's table.

    python benchmarks/varlen_cpu.py [ragged] [dense] [short] [peak]

All contenders take turns in one run; times are medians. Ours is called through ``raggeddnn.torch``,
with autograd where a backward pass is timed. GFLOP/s count the visible pairs of valid tokens
(forward 4 D operations each, backward 2.5 times that).

ragged  B 16, H 8, D 64, log-uniform lengths from 32 to 2048, three seeds (geometric means of
        ratios); peers: a loop over ``q.split(lens)``, and the padded batch (under a mask, or
        ``is_causal``). All threads.
dense   sequences of 64, 512 and 2048 rows, D 64 and 128, one thread and H 8 (B 8, or what fills
        4096 rows): the ratio to PyTorch's SDPA.
short   64 sequences of 1 to 16 rows against 16 of 64, time a row; and one call on one token.
peak    the share of the machine's own peak: a loop of independent multiply-adds (float), or of dot
        products of pairs (bfloat16) in the same run, one thread, 2048 rows. Needs a C compiler.
"""

from __future__ import annotations

import ctypes
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import raggeddnn.torch as rt
import torch
from torch.nn.functional import scaled_dot_product_attention

HEADS = 8
BUDGET = 0.4  # seconds for a contender in one row
Call = Callable[[], Any]

PEAK = """
#include <immintrin.h>
#if defined(__AVX512F__)
#define VECTOR __m512
#define ZERO _mm512_setzero_ps()
#define ADD(a) _mm512_fmadd_ps(a, a, a)
#define LANES 16
#else
#define VECTOR __m256
#define ZERO _mm256_setzero_ps()
#define ADD(a) _mm256_fmadd_ps(a, a, a)
#define LANES 8
#endif
#ifdef __AVX512BF16__
#define PAIRS(a) _mm512_dpbf16_ps(a, (__m512bh)a, (__m512bh)a)
#else
#define PAIRS(a) ADD(a)
#endif
#define LOOP(NAME, OPERATION)                                                              \\
    double NAME(long steps) {                                                              \\
        VECTOR a0 = ZERO, a1 = ZERO, a2 = ZERO, a3 = ZERO, a4 = ZERO, a5 = ZERO, a6 = ZERO; \\
        VECTOR a7 = ZERO, a8 = ZERO, a9 = ZERO, b0 = ZERO, b1 = ZERO;                       \\
        for (long i = 0; i < steps; ++i) {                                                 \\
            a0 = OPERATION(a0); a1 = OPERATION(a1); a2 = OPERATION(a2); a3 = OPERATION(a3); \\
            a4 = OPERATION(a4); a5 = OPERATION(a5); a6 = OPERATION(a6); a7 = OPERATION(a7); \\
            a8 = OPERATION(a8); a9 = OPERATION(a9); b0 = OPERATION(b0); b1 = OPERATION(b1); \\
            __asm__ volatile("" : "+v"(a0), "+v"(a1), "+v"(a2), "+v"(a3), "+v"(a4), "+v"(a5)); \\
            __asm__ volatile("" : "+v"(a6), "+v"(a7), "+v"(a8), "+v"(a9), "+v"(b0), "+v"(b1)); \\
        }                                                                                  \\
        return 12.0 * LANES * (double)steps;                                               \\
    }
LOOP(floats, ADD)
LOOP(pairs, PAIRS)
"""


def medians(contenders: dict[str, Call], clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of one call of each; they take turns until each has had its budget."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()
    calls = {}
    for name, call in contenders.items():
        begin = clock()
        call()
        calls[name] = max(1, int(0.01 / max(clock() - begin, 1e-7)))
    while any(sum(own) * calls[name] < BUDGET or len(own) < 7 for name, own in found.items()):
        for name, call in contenders.items():
            begin = clock()
            for _ in range(calls[name]):
                call()
            found[name].append((clock() - begin) / calls[name])
    return {name: statistics.median(own) for name, own in found.items()}


def pairs_of(lengths: list[int], causal: bool) -> int:
    return sum(n * (n + 1) // 2 if causal else n * n for n in lengths)


def leaves(shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    return [torch.randn(shape).to(dtype).requires_grad_() for _ in range(3)]


def passes(forward: Call, inputs: list[torch.Tensor], d_o: Any) -> dict[str, Call]:
    """Both passes that are timed, of one contender."""

    def without_gradients() -> Any:
        with torch.no_grad():
            return forward()

    def both() -> Any:
        found = forward()
        return torch.autograd.grad(found, inputs, d_o)

    return {"forward": without_gradients, "both": both}


def ragged_contenders(
    lengths: list[int], width: int, dtype: torch.dtype, causal: bool
) -> dict[str, dict[str, Call]]:
    total, longest = sum(lengths), max(lengths)
    offsets = torch.tensor([0, *lengths]).cumsum(0).int()
    q, k, v = packed = leaves((total, HEADS, width), dtype)
    d_o = torch.randn(total, HEADS, width).to(dtype)
    window = (-1, 0) if causal else (-1, -1)

    def ours() -> Any:
        return rt.varlen_attn(q, k, v, offsets, offsets, longest, longest, window_size=window)

    def loop() -> Any:
        parts = zip(q.split(lengths), k.split(lengths), v.split(lengths), strict=True)
        return [
            scaled_dot_product_attention(*(x.transpose(0, 1)[None] for x in part), is_causal=causal)
            for part in parts
        ]

    def pad(x: torch.Tensor) -> torch.Tensor:
        wide = torch.nn.utils.rnn.pad_sequence(list(x.detach().split(lengths)), batch_first=True)
        return wide.transpose(1, 2).contiguous()

    wide = [pad(x).requires_grad_() for x in packed]
    mask = None
    if not causal:
        hidden = torch.arange(longest)[None] >= torch.tensor(lengths)[:, None]
        mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill(hidden, -math.inf)
        mask = mask[:, None, None].contiguous()

    def padded() -> Any:
        return scaled_dot_product_attention(*wide, mask, is_causal=causal)

    return {
        "ours": passes(ours, packed, d_o),
        "loop": passes(loop, packed, [x.transpose(0, 1)[None] for x in d_o.split(lengths)]),
        "padded": passes(padded, wide, pad(d_o)),
    }


def log_uniform(seed: int) -> list[int]:
    random = torch.Generator().manual_seed(seed)
    span = math.log(2048) - math.log(32)
    drawn = torch.exp(math.log(32) + torch.rand(16, generator=random) * span)
    return [int(n) for n in drawn.round()]


def ragged() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for causal in (False, True):
            for pass_name, factor in (("forward", 1.0), ("both", 3.5)):
                rates: dict[str, list[float]] = {}
                for seed in range(3):
                    lengths = log_uniform(seed)
                    calls = ragged_contenders(lengths, 64, dtype, causal)
                    times = medians(
                        {name: own[pass_name] for name, own in calls.items()}, time.perf_counter
                    )
                    work = 4e-9 * factor * pairs_of(lengths, causal) * HEADS * 64
                    for name, seconds in times.items():
                        rates.setdefault(name, []).append(work / seconds)
                mean = {name: statistics.geometric_mean(own) for name, own in rates.items()}
                print(
                    f"{dtype} {'causal' if causal else 'full'} {pass_name}: "
                    f"ours {mean['ours']:.0f} GFLOP/s; loop {mean['ours'] / mean['loop']:.2f} x, "
                    f"padded {mean['ours'] / mean['padded']:.2f} x",
                    flush=True,
                )


def dense_contenders(
    rows: int, width: int, dtype: torch.dtype, causal: bool
) -> dict[str, dict[str, Call]]:
    batch = max(1, min(8, 4096 // rows))
    inputs = leaves((batch, HEADS, rows, width), dtype)
    d_o = torch.randn(batch, HEADS, rows, width).to(dtype)
    found = {}
    for name, attend in (
        ("ours", rt.scaled_dot_product_attention),
        ("peer", scaled_dot_product_attention),
    ):
        found[name] = passes(lambda f=attend: f(*inputs, is_causal=causal), inputs, d_o)
    return found


def dense() -> None:
    torch.set_num_threads(1)
    for dtype in (torch.float32, torch.bfloat16):
        for width in (64, 128):
            for rows in (64, 512, 2048):
                for causal in (False, True):
                    calls = dense_contenders(rows, width, dtype, causal)
                    text = f"{dtype} D {width} S {rows} {'causal' if causal else 'full'}:"
                    for pass_name in ("forward", "both"):
                        times = medians(
                            {name: own[pass_name] for name, own in calls.items()}, time.thread_time
                        )
                        text += f" {pass_name} {times['peer'] / times['ours']:.2f} x"
                    print(text, flush=True)


def short() -> None:
    batches = {"64 of 1 to 16": [1 + i % 16 for i in range(64)], "16 of 64": [64] * 16}
    calls = {
        name: ragged_contenders(lengths, 64, torch.float32, False)["ours"]["forward"]
        for name, lengths in batches.items()
    }
    calls["one token"] = ragged_contenders([1], 64, torch.float32, False)["ours"]["forward"]
    times = medians(calls, time.perf_counter)
    for name, lengths in batches.items():
        print(f"{name}: {times[name] / sum(lengths) * 1e9:.0f} ns a row", flush=True)
    print(f"one token: {times['one token'] * 1e6:.1f} us a call", flush=True)


def peak() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "peak.c", Path(folder) / "peak.so"
        source.write_text(PEAK)
        command = ["cc", "-O2", "-march=native", "-shared", "-fPIC", source, "-o", library]
        subprocess.run(command, check=True)
        loops = ctypes.CDLL(str(library))
        for loop in (loops.floats, loops.pairs):
            loop.restype, loop.argtypes = ctypes.c_double, [ctypes.c_long]
        steps = 1_000_000
        for dtype, loop, each in (
            (torch.float32, loops.floats, 2),
            (torch.bfloat16, loops.pairs, 4),
        ):
            for width in (64, 128):
                ours = dense_contenders(2048, width, dtype, causal=False)["ours"]["forward"]
                times = medians({"ours": ours, "peak": lambda f=loop: f(steps)}, time.thread_time)
                batch = 2
                rate = 4e-9 * batch * HEADS * 2048**2 * width / times["ours"]
                most = 1e-9 * each * loop(steps) / times["peak"]
                print(
                    f"{dtype} D {width} S 2048: {rate:.0f} of {most:.0f} GFLOP/s, "
                    f"{rate / most:.0%} of the peak",
                    flush=True,
                )


def main() -> None:
    parts = {"ragged": ragged, "dense": dense, "short": short, "peak": peak}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
