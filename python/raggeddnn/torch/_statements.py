"""A call of an op as plain data: its inputs and outputs by name, the checks of what no two calls
of a kind differ in, and the problem whose plan serves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

import raggeddnn as rd

from .._plans import FLOATS, Integers, Memory, Problem, is_token_major

MaybeTensor: TypeAlias = Tensor | None

_SEEDS = ("seed", "offset")
_VARLEN_TABLES = ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", *_SEEDS)
_DENSE_TABLES = ("seq_len_q", "seq_len_kv", *_SEEDS)
_GRADIENTS = ("o", "lse", "do", "dlse")


@dataclass(frozen=True)
class Kind:
    """The inputs of one op in the order of a call, the first ``rows`` of which are data, and its
    outputs.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: int
    is_varlen: bool


VARLEN_FORWARD = Kind("varlen_fwd", ("q", "k", "v", *_VARLEN_TABLES), ("o", "lse"), 3, True)
VARLEN_BACKWARD = Kind(
    "varlen_bwd", ("q", "k", "v", *_GRADIENTS, *_VARLEN_TABLES), ("dq", "dk", "dv"), 7, True
)
DENSE_FORWARD = Kind("dense_fwd", ("q", "k", "v", "bias", *_DENSE_TABLES), ("o", "lse"), 4, False)
DENSE_BACKWARD = Kind(
    "dense_bwd",
    ("q", "k", "v", "bias", *_GRADIENTS, *_DENSE_TABLES),
    ("dq", "dk", "dv", "dbias"),
    8,
    False,
)

# What the arguments of a public function are called, of its queries and of its keys: caller,
# cumulative lengths, lengths, longest length, rows, values.
_QUERY_KEY_VALUE = (("query", "value"), ("key", "value"))
_WORDS = {
    caller: tuple((caller, *side, *rows) for side, rows in zip(sides, names, strict=True))
    for caller, sides, names in (
        (
            "flash_attn_varlen_func",
            (
                ("cu_seqlens_q", "seqused_q", "max_seqlen_q"),
                ("cu_seqlens_k", "seqused_k", "max_seqlen_k"),
            ),
            (("q", "v"), ("k", "v")),
        ),
        (
            "varlen_attn",
            (("cu_seq_q", "seqused_q", "max_q"), ("cu_seq_k", "seqused_k", "max_k")),
            _QUERY_KEY_VALUE,
        ),
        (
            "scaled_dot_product_attention",
            (
                ("query.offsets", "query.lengths", "max_seqlen"),
                ("key.offsets", "key.lengths", "max_seqlen"),
            ),
            _QUERY_KEY_VALUE,
        ),
        (
            "transformers",
            (
                ("cu_seq_lens_q", "attention_mask", "max_length_q"),
                ("cu_seq_lens_k", "attention_mask", "max_length_k"),
            ),
            _QUERY_KEY_VALUE,
        ),
    )
}


def words_of(caller: str) -> tuple[tuple[str, ...], ...]:
    """Of an op that is called by itself, whatever ``caller`` it names, those of its schema."""
    return _WORDS.get(caller, _WORDS["flash_attn_varlen_func"])


class Options(NamedTuple):
    """What a plan depends on beside its tensors. Negative bounds are open; ``capacities`` are those
    of a packed call; so many of the outputs are wanted.
    """

    left: int
    right: int
    is_top_left: bool
    dropout: float
    is_deterministic: bool
    outputs: int
    engine: str | None
    capacities: tuple[int, int] = (0, 0)


def dtype_name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def stats_dtype(q: Tensor) -> torch.dtype:
    """The log-sum-exp is float32, of double data double."""
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def _named(caller: str, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
    """q, k and v by the caller's names for them."""
    of_q, of_k = words_of(caller)
    return {of_q[4]: q, of_k[4]: k, of_k[5]: v}


def check_data(caller: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Data types, devices and heads (axis 1 of q, k and v), which no call changes."""

    def refuse(text: str) -> rd.InvalidValueError:
        return rd.InvalidValueError(f"[{caller}] {text}")

    axes = 3 if q.dim() == 3 else 4
    named = _named(caller, q, k, v)
    name_q, name_k, _ = named
    for name, x in named.items():
        if x.dim() != axes:
            raise refuse(f"{name} has {x.dim()} axes, expected {axes}")
        if dtype_name(x) not in FLOATS:
            raise refuse(f"{name} has data type {dtype_name(x)}, expected one of {FLOATS}")
        if x.dtype != q.dtype:
            raise refuse(f"{name} has data type {dtype_name(x)}, {name_q} has {dtype_name(q)}")
        if x.device != q.device:
            raise refuse(f"{name} is on {x.device}, {name_q} is on {q.device}")
        if x.shape[1] == 0 or x.shape[-1] == 0:
            raise refuse(f"{name} has shape {tuple(x.shape)}, expected heads and a head_dim")
        if q.shape[1] % x.shape[1] != 0:
            raise refuse(
                f"{name} has {x.shape[1]} heads, expected a divisor of {name_q}'s {q.shape[1]}"
            )
    if k.shape[-1] != q.shape[-1]:
        raise refuse(f"{name_k} has head_dim {k.shape[-1]}, {name_q} has {q.shape[-1]}")


def _alignment(x: Tensor) -> int:
    address = x.data_ptr()
    return 16 if address == 0 else min(16, address & -address)


def check_dense(caller: str, q: Tensor, k: Tensor, v: Tensor, bias: MaybeTensor) -> None:
    """Batches and rows of [B,H,S,D] tensors, and what a bias must broadcast to."""
    name_q, name_k, name_v = _named(caller, q, k, v)
    for name, x in ((name_k, k), (name_v, v)):
        if x.shape[0] != q.shape[0]:
            raise rd.InvalidValueError(
                f"[{caller}] {name} has batch {x.shape[0]}, {name_q} has {q.shape[0]}"
            )
    if v.shape[2] != k.shape[2]:
        raise rd.InvalidValueError(
            f"[{caller}] {name_v} has {v.shape[2]} rows, {name_k} has {k.shape[2]}"
        )
    if bias is None:
        return
    scores = (*q.shape[:3], k.shape[2])
    fits = bias.dim() == 4 and all(n in (1, m) for n, m in zip(bias.shape, scores, strict=True))
    if not fits or bias.device != q.device:
        raise rd.InvalidValueError(
            f"[{caller}] attn_mask has shape {tuple(bias.shape)} on {bias.device}, expected "
            f"{scores} or 1 in place of any on {q.device}"
        )


def check_gradients(kind: Kind, tensors: Sequence[MaybeTensor], caller: str) -> None:
    """Results and gradients given to a backward op have the shape, type and device of results."""
    named = dict(zip(kind.inputs, tensors, strict=True))
    q, v = named["q"], named["v"]
    assert q is not None and v is not None
    rows = q.shape[:-1]
    expected = {
        "o": ((*rows, v.shape[-1]), q.dtype),
        "lse": ((rows[1], rows[0]) if kind.is_varlen else tuple(rows), stats_dtype(q)),
    }
    for name in _GRADIENTS:
        x = named.get(name)
        if x is None:
            continue
        shape, dtype = expected[name.removeprefix("d")]
        if tuple(x.shape) != shape or x.dtype != dtype or x.device != q.device:
            raise rd.InvalidValueError(
                f"[{caller}] {name} has shape {tuple(x.shape)} and data type {dtype_name(x)} on "
                f"{x.device}, expected {shape} and {str(dtype).removeprefix('torch.')} on "
                f"{q.device}"
            )


def check(kind: Kind, tensors: Sequence[MaybeTensor], caller: str) -> None:
    q, k, v, bias = tensors[:4]
    assert q is not None and k is not None and v is not None
    check_data(caller, q, k, v)
    if not kind.is_varlen:
        check_dense(caller, q, k, v, bias)
    check_gradients(kind, tensors, caller)
    batch = None
    for name, x in zip(kind.inputs, tensors, strict=True):
        if x is None or name not in (*_VARLEN_TABLES, *_DENSE_TABLES) or name in _SEEDS:
            continue
        extra = int(name.startswith("cu"))
        batch = (q.shape[0] if not kind.is_varlen else x.shape[0] - 1) if batch is None else batch
        if x.dtype not in (torch.int32, torch.int64) or tuple(x.shape) != (batch + extra,):
            raise rd.InvalidValueError(
                f"[{caller}] {name} has data type {dtype_name(x)} and shape {tuple(x.shape)}, "
                f"expected int32 or int64 and ({batch + extra},)"
            )
        if x.device != q.device:
            raise rd.InvalidValueError(f"[{caller}] {name} is on {x.device}, q is on {q.device}")


class Statement:
    """A call as a graph's problem."""

    def __init__(self, kind: Kind, tensors: Sequence[MaybeTensor], options: Options) -> None:
        self.kind, self.options = kind, options
        self.tensors = {
            name: x for name, x in zip(kind.inputs, tensors, strict=True) if x is not None
        }

    def copies(self) -> tuple[int, ...]:
        """Which inputs a graph cannot address as they lie."""
        found = []
        for index, name in enumerate(self.kind.inputs[: self.kind.rows]):
            x = self.tensors.get(name)
            if x is None:
                continue
            if not self.kind.is_varlen:
                if x.shape[-1] > 1 and x.stride(-1) != 1 and name not in ("lse", "dlse"):
                    found.append(index)
                continue
            if not is_token_major(*_as_rows(x.shape, x.stride()), distinct=False):
                found.append(index)
        return tuple(found)

    def _of(self, name: str, x: Tensor, shape: Sequence[int], strides: Sequence[int]) -> Memory:
        """The memory of data; ``x`` states type and, where it is this tensor, alignment."""
        alignment = _alignment(x) if self.tensors.get(name) is x else 16
        kind = (dtype_name(x), alignment)
        if not self.kind.is_varlen:
            tail = (1,) * (4 - len(shape))
            canonical = (s if n > 1 else 1 for n, s in zip(shape, strides, strict=True))
            return Memory((*shape, *tail), (*canonical, *tail), *kind)
        side = "k" if name in ("k", "v", "dk", "dv") else "q"
        table = self.tensors[f"cu_seqlens_{side}"]
        capacity = self.options.capacities[int(side == "k")]
        batch = (table.shape[0] - 1, capacity, f"cu_seqlens_{side}")
        return Memory.of_rows(*_as_rows(shape, strides), kind, batch)

    def _output(self, name: str) -> tuple[Sequence[int], Sequence[int], torch.dtype]:
        """Shape, strides and type of what the op allocates."""
        q = self.tensors["q"]
        if name == "lse":
            rows, heads = q.shape[0], q.shape[1]
            if self.kind.is_varlen:
                return (heads, rows), (1, heads), stats_dtype(q)
            return q.shape[:3], _contiguous(q.shape[:3]), stats_dtype(q)
        model = q if name == "o" else self.tensors[name[1:]]
        shape = (*q.shape[:-1], self.tensors["v"].shape[-1]) if name == "o" else model.shape
        is_plain = self.kind.is_varlen or name == "dbias"
        return shape, _contiguous(shape) if is_plain else bshd_strides(shape), model.dtype

    def memory(self) -> dict[str, Memory]:
        found = {}
        for name in self.kind.inputs[: self.kind.rows]:
            x = self.tensors.get(name)
            if x is not None:
                found[name] = self._of(name, x, tuple(x.shape), x.stride())
        for name in self.kind.outputs[: self.options.outputs]:
            shape, strides, dtype = self._output(name)
            found[name] = self._of(name, torch.empty(0, dtype=dtype), shape, strides)
        return found

    def problem(self) -> Problem:
        options = self.options
        tables = [
            Integers(name, max(x.numel(), 1), dtype_name(x), _alignment(x), _stride(x))
            for name, x in self.tensors.items()
            if name in (*_VARLEN_TABLES, *_DENSE_TABLES)
        ]
        device = self.tensors["q"].device.type
        if device == "cuda" and torch.version.hip is not None:
            device = "hip"
        return Problem(
            memory=tuple(self.memory().items()),
            integers=tuple(tables),
            bounds=(
                options.left if options.left >= 0 else None,
                options.right if options.right >= 0 else None,
            ),
            is_bottom_right=not options.is_top_left,
            dropout=options.dropout,
            engine=options.engine,
            device=device,
            device_index=self.tensors["q"].device.index or 0,
            is_deterministic=options.is_deterministic,
        )


def addressable(x: Tensor) -> Tensor:
    """A copy that a graph can address: rows whole, one after another, also those of statistics."""
    return x.t().contiguous().t() if x.dim() == 2 else x.contiguous()


def _as_rows(shape: Sequence[int], strides: Sequence[int]) -> tuple[list[int], list[int]]:
    """Shape and strides of (rows, H, D) data, or of (H, rows) statistics as (rows, H, 1)."""
    if len(shape) == 3:
        return list(shape), list(strides)
    return [shape[1], shape[0], 1], [strides[1], strides[0], 1]


def _stride(x: Tensor) -> int:
    return x.stride(0) if x.dim() == 1 and x.shape[0] > 1 else 1


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def bshd_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of [B,H,S,D] dims whose memory is [B,S,H,D]."""
    _, heads, rows, dim = shape
    return (rows * heads * dim, dim, heads * dim, 1)
