"""Named attention cases, shared by the tests and benchmarks of every engine and of both passes.

A :class:`Case` is a description; :func:`make_problem` turns it into arrays. In all layouts the
arrays are token-major rows ``(R, H, D)``, and sequence b owns the rows ``[starts[b], starts[b] +
blocks[b])``, of which the first ``lens[b]`` are valid. The layouts differ only in these numbers,
and in what tells an engine:

* packed: a block is its sequence's length; offsets.
* slack: a block has a few rows more, and two rows follow the last block; offsets and lengths.
* padded: a block is S_max; lengths.
* dense: a block is S_max, and all of it is valid; nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .oracle import Array, SdpaOptions, sdpa_oracle, slice_bias
from .philox import dropout_factors
from .tolerance import assert_sequence_close

LAYOUTS = ("packed", "slack", "padded", "dense")
SCALE_STATES = ("absent", "baked", "baked_tensor", "runtime_default", "runtime")
TAIL_ROWS = 2
DROPOUT_SEED, DROPOUT_OFFSET = 2**40 + 7, 3


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's data type of that name; ``"bfloat16"`` comes from ml_dtypes."""
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


@dataclass(frozen=True)
class Case:
    """One attention call. Lengths are in rows, bounds in keys; ``heads`` are those of q, k, v.

    ``d_v`` None means ``d``. ``scale_state`` says how the scale reaches the graph, ``scale`` its
    value (None: 1/sqrt(d), only with ``absent``). ``bias`` names the axes [b, h, q, k] that are not
    broadcast, for instance ``"11qk"``; ``bias_fill`` is ``random``, ``holes`` (some -inf) or a
    number written as text. ``poison`` (``nan`` or ``inf``) fills slack and padding rows of the
    inputs. ``stats`` is ``none``, ``dense`` or ``ragged`` (dense where Q is not ragged).
    ``offset_unit`` is ``row`` (offsets times a multiplier) or ``element``; ``index_dtype`` and
    ``index_stride`` (elements) are those of offsets and lengths. ``memory`` is that of
    padded and dense tensors, ``bshd`` or ``bhsd``. ``capacity``, when not 0, is S_max of both
    sides, so that one graph can serve several cases. ``dropout`` is the probability; seed and
    offset are :data:`DROPOUT_SEED` and :data:`DROPOUT_OFFSET`. ``dstats``: the loss depends on the
    log-sum-exp as well (backward only).
    """

    name: str
    lens_q: tuple[int, ...]
    lens_kv: tuple[int, ...]
    heads: tuple[int, int, int] = (2, 2, 2)
    d: int = 16
    d_v: int | None = None
    dtype: str = "float32"
    layout: str = "packed"
    causal: bool = False
    left_bound: int | None = None
    right_bound: int | None = None
    alignment: str = "top_left"
    scale_state: str = "absent"
    scale: float | None = None
    bias: str | None = None
    bias_fill: str = "random"
    amplitude: float = 1.0
    poison: str | None = None
    stats: str = "ragged"
    offset_unit: str = "row"
    index_dtype: str = "int32"
    index_stride: int = 1
    memory: str = "bshd"
    capacity: int = 0
    dropout: float = 0.0
    dstats: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS or self.scale_state not in SCALE_STATES:
            raise ValueError(f"[{self.name}] unknown layout or scale state")
        if len(self.lens_q) != len(self.lens_kv):
            raise ValueError(f"[{self.name}] lens_q and lens_kv differ in length")
        if (self.scale is None) != (self.scale_state == "absent"):
            raise ValueError(f"[{self.name}] scale and scale_state disagree")

    @property
    def value_dim(self) -> int:
        return self.d if self.d_v is None else self.d_v

    @property
    def options(self) -> SdpaOptions:
        return SdpaOptions(
            scale=self.scale,
            causal=self.causal,
            left_bound=self.left_bound,
            right_bound=self.right_bound,
            diagonal_alignment=self.alignment,
        )

    @property
    def is_ragged(self) -> bool:
        return self.layout in ("packed", "slack")

    @property
    def has_ragged_stats(self) -> bool:
        return self.is_ragged and self.stats == "ragged"

    @property
    def gives_lengths(self) -> bool:
        return self.layout in ("slack", "padded")


@dataclass(frozen=True)
class Side:
    """Where the sequences of Q, or those of K and V, lie in their rows. All numbers are rows."""

    lens: tuple[int, ...]
    blocks: tuple[int, ...]
    starts: tuple[int, ...]
    rows: int
    s_max: int

    @property
    def offsets(self) -> list[int]:
        """B+1 row offsets: the start of each block and the end of the last."""
        return [*self.starts, self.starts[-1] + self.blocks[-1]] if self.starts else [0]

    @property
    def written(self) -> Array:
        """A boolean per row: is it a valid row of some sequence?"""
        mask = np.zeros(self.rows, dtype=bool)
        for start, length in zip(self.starts, self.lens, strict=True):
            mask[start : start + length] = True
        return mask


def lay_out(lens: tuple[int, ...], layout: str, capacity: int = 0) -> Side:
    """Place sequences of these lengths in the given layout; ``capacity`` fixes S_max (rows)."""
    longest = max(lens, default=0)
    tail = 0
    if layout == "packed":
        blocks = lens
    elif layout == "slack":
        blocks = tuple(n + 1 + b % 3 for b, n in enumerate(lens))
        tail = TAIL_ROWS
    else:
        if layout == "dense" and any(n != (capacity or longest) for n in lens):
            raise ValueError("a dense layout needs equal lengths")
        blocks = tuple(max(capacity or longest + (layout == "padded"), longest) for _ in lens)
    if capacity and max(blocks, default=0) > capacity:
        raise ValueError(f"a block has {max(blocks)} rows, the capacity is {capacity}")
    starts = tuple(int(n) for n in np.cumsum([0, *blocks])[:-1])
    return Side(lens, blocks, starts, sum(blocks) + tail, capacity or max(*blocks, 1, 1))


@dataclass
class Problem:
    """A case with its arrays: q (Rq,Hq,D), k (Rk,Hk,D), v (Rk,Hv,Dv).

    ``bias`` is [B or 1, Hq or 1, Sq or 1, Skv or 1], or None.
    """

    case: Case
    q: Array
    k: Array
    v: Array
    bias: Array | None
    side_q: Side
    side_kv: Side
    options: SdpaOptions = field(init=False)

    def __post_init__(self) -> None:
        self.options = self.case.options

    @property
    def batch(self) -> int:
        return len(self.side_q.lens)

    def rows_of(self, batch: int) -> tuple[slice, slice]:
        """The valid rows of one sequence: those of Q, and those of K and V."""
        at_q, at_kv = self.side_q.starts[batch], self.side_kv.starts[batch]
        return (
            slice(at_q, at_q + self.side_q.lens[batch]),
            slice(at_kv, at_kv + self.side_kv.lens[batch]),
        )

    def sequence(self, batch: int) -> tuple[Array, Array, Array, Array | None]:
        """q [Hq,Sq,D], k [Hk,Skv,D], v [Hv,Skv,Dv] and bias of one sequence, valid rows only."""
        at_q, at_kv = self.rows_of(batch)
        rows, cols = self.side_q.lens[batch], self.side_kv.lens[batch]
        return (
            self.q[at_q].transpose(1, 0, 2),
            self.k[at_kv].transpose(1, 0, 2),
            self.v[at_kv].transpose(1, 0, 2),
            slice_bias(self.bias, batch, rows, cols),
        )

    def dropout_of(self, batch: int) -> Array | None:
        """What the probabilities [Hq,Sq,Skv] of one sequence are multiplied with, or None."""
        case = self.case
        if case.dropout == 0:
            return None
        shape = (case.heads[0], self.side_q.lens[batch], self.side_kv.lens[batch])
        return dropout_factors(case.dropout, DROPOUT_SEED, DROPOUT_OFFSET, batch, shape)

    def sequences(self) -> Iterator[tuple[int, tuple[Array, Array, Array, Array | None]]]:
        for batch in range(self.batch):
            yield batch, self.sequence(batch)

    def expected(self) -> tuple[Array, Array, Array]:
        """Oracle ``(o (Rq,Hq,Dv), lse (Hq,Rq), written (Rq,))``; other rows hold 0 and -inf."""
        heads = self.case.heads[0]
        wide = np.longdouble if self.q.dtype == np.float64 else np.float64
        o = np.zeros((self.side_q.rows, heads, self.case.value_dim), dtype=wide)
        lse = np.full((heads, self.side_q.rows), -np.inf, dtype=wide)
        for batch, (q, k, v, bias) in self.sequences():
            at = self.rows_of(batch)[0]
            part_o, lse[:, at] = sdpa_oracle(
                q, k, v, self.options, bias=bias, dropout=self.dropout_of(batch)
            )
            o[at] = part_o.transpose(1, 0, 2)
        return o, lse, self.side_q.written


def assert_sdpa_close(
    got_o: Array,
    got_lse: Array | None,
    problem: Problem,
    *,
    label: str = "",
    batches: tuple[int, ...] | None = None,
) -> None:
    """Fail unless ``got_o`` (Rq,Hq,Dv) and ``got_lse`` (Hq,Rq) keep the derived bounds at all valid
    rows.

    ``batches`` limits the check to some sequences. Raises AssertionError naming case, sequence,
    element, value got and value expected.
    """
    for batch in range(problem.batch) if batches is None else batches:
        at = problem.rows_of(batch)[0]
        q, k, v, bias = problem.sequence(batch)
        assert_sequence_close(
            got_o[at].transpose(1, 0, 2),
            None if got_lse is None else got_lse[:, at],
            (q, k, v),
            problem.options,
            bias=bias,
            dropout=problem.dropout_of(batch),
            label=f"{problem.case.name}{' ' if label else ''}{label} sequence {batch}",
        )


def _fill_unused(rows: Array, side: Side, poison: str | None) -> Array:
    rows[~side.written] = 0 if poison is None else float(poison)
    return rows


def _make_bias(case: Case, side_q: Side, side_kv: Side, rng: np.random.Generator) -> Array | None:
    if case.bias is None:
        return None
    full = (len(case.lens_q), case.heads[0], side_q.s_max, side_kv.s_max)
    shape = tuple(1 if axis == "1" else n for axis, n in zip(case.bias, full, strict=True))
    if case.bias_fill in ("random", "holes"):
        bias = rng.standard_normal(shape)
        if case.bias_fill == "holes":
            bias[rng.random(shape) < 0.2] = -np.inf
            bias[..., 0] = -np.inf
    else:
        bias = np.full(shape, float(case.bias_fill))
    if case.poison is not None and case.bias == "bhqk":
        for batch, (rows, cols) in enumerate(zip(case.lens_q, case.lens_kv, strict=True)):
            bias[batch, :, rows:] = np.nan
            bias[batch, :, :, cols:] = np.nan
    return bias.astype(numpy_dtype(case.dtype))


def make_problem(case: Case) -> Problem:
    """The arrays of a case; the same case gives the same bits on every run."""
    rng = np.random.default_rng([case.seed, zlib.crc32(case.name.encode())])
    dtype = numpy_dtype(case.dtype)
    side_q = lay_out(case.lens_q, case.layout, case.capacity)
    side_kv = lay_out(case.lens_kv, case.layout, case.capacity)

    def draw(side: Side, heads: int, dim: int, amplitude: float) -> Array:
        rows = rng.standard_normal((side.rows, heads, dim)) * amplitude
        return _fill_unused(rows.astype(dtype), side, case.poison)

    return Problem(
        case=case,
        q=draw(side_q, case.heads[0], case.d, case.amplitude),
        k=draw(side_kv, case.heads[1], case.d, case.amplitude),
        v=draw(side_kv, case.heads[2], case.value_dim, 1.0),
        bias=_make_bias(case, side_q, side_kv, rng),
        side_q=side_q,
        side_kv=side_kv,
    )


def _moved_to_end(side: Side) -> tuple[Side, Array]:
    order = [*range(1, len(side.lens)), 0] if side.lens else []
    lens, blocks = (tuple(numbers[b] for b in order) for numbers in (side.lens, side.blocks))
    rows = [np.arange(side.starts[b], side.starts[b] + side.blocks[b]) for b in order]
    rows.append(np.arange(sum(blocks), side.rows))
    starts = tuple(int(n) for n in np.cumsum([0, *blocks])[:-1])
    return replace(side, lens=lens, blocks=blocks, starts=starts), np.concatenate(rows)


def in_other_order(problem: Problem) -> tuple[Problem, Array, Array]:
    """Another call of the same graph: the same sequences, the first one last, and another scale
    where that is given at run time; and which row of the problem each row of Q, and of K and V, is.
    """
    case = problem.case
    side_q, rows_q = _moved_to_end(problem.side_q)
    side_kv, rows_kv = _moved_to_end(problem.side_kv)
    bias = problem.bias
    if bias is not None and bias.shape[0] > 1:
        bias = np.roll(bias, -1, axis=0)
    if case.scale is not None and case.scale_state == "runtime":
        case = replace(case, scale=0.5 - case.scale)
    moved = Problem(
        case=replace(case, lens_q=side_q.lens, lens_kv=side_kv.lens),
        q=problem.q[rows_q],
        k=problem.k[rows_kv],
        v=problem.v[rows_kv],
        bias=bias,
        side_q=side_q,
        side_kv=side_kv,
    )
    return moved, rows_q, rows_kv


# Lengths at the edges of the tile sizes in use (16, 48, 64, 128), zero, one, and primes.
_EDGES_Q = (0, 1, 15, 16, 17, 31)
_EDGES_KV = (4, 0, 17, 16, 15, 37)
_TILES_Q = (47, 48, 49, 63, 64, 65)
_TILES_KV = (65, 64, 63, 49, 48, 47)

_CASES = (
    Case("edges", _EDGES_Q, _EDGES_KV),
    Case("edges-slack", _EDGES_Q, _EDGES_KV, layout="slack", poison="nan"),
    Case("edges-padded", _EDGES_Q, _EDGES_KV, layout="padded", poison="inf"),
    Case("padded-bhsd", (7, 0, 12), (5, 9, 0), layout="padded", memory="bhsd", poison="nan"),
    Case("dense-bhsd", (19, 19), (23, 23), layout="dense", memory="bhsd"),
    Case("tiles", _TILES_Q, _TILES_KV, heads=(2, 1, 1), d=32),
    Case("long-keys", (5, 33), (601, 700), heads=(2, 1, 1)),
    Case("tile-128", (127, 128, 129), (129, 128, 127), heads=(1, 1, 1), d=32),
    Case("tiles-causal", _TILES_Q, _TILES_KV, heads=(1, 1, 1), causal=True),
    Case(
        "tiles-causal-br",
        _TILES_Q,
        _TILES_KV,
        heads=(1, 1, 1),
        causal=True,
        alignment="bottom_right",
    ),
    Case("gqa", (7, 19), (11, 5), heads=(4, 2, 2), d=40),
    Case("gqa-k-v-differ", (7, 19), (11, 5), heads=(12, 4, 6), d=24, d_v=8),
    Case("gqa-14-2", (3, 13), (13, 8), heads=(14, 2, 2), d=80, layout="slack", poison="nan"),
    Case("mqa-wide-values", (5, 9), (8, 3), heads=(3, 1, 3), d=8, d_v=72),
    Case("d-1", (6, 2), (3, 9), d=1, d_v=1),
    Case("d-odd", (6, 2), (3, 9), d=7, d_v=13),
    Case("d-256", (5, 3), (7, 2), heads=(1, 1, 1), d=256),
    Case("dead-rows", (40, 9), (7, 9), d=64, causal=True, alignment="bottom_right"),
    Case("mixed-directions", (5, 37, 2), (37, 5, 2), causal=True, alignment="bottom_right"),
    Case("window", (10, 30, 6), (30, 10, 6), left_bound=4, right_bound=2),
    Case(
        "window-br-slack",
        (10, 30, 6),
        (30, 10, 6),
        left_bound=3,
        right_bound=1,
        alignment="bottom_right",
        layout="slack",
        poison="inf",
    ),
    Case("window-left-padded", (9, 4), (12, 20), left_bound=2, layout="padded", poison="nan"),
    Case("scale-baked", (9, 4), (12, 20), scale_state="baked", scale=0.5),
    Case("scale-baked-tensor", (9, 4), (12, 20), scale_state="baked_tensor", scale=0.5),
    Case("scale-default", (9, 4), (12, 20), scale_state="runtime_default", scale=-0.125),
    Case("scale-runtime", (9, 4), (12, 20), scale_state="runtime", scale=2.0),
    Case("bias-11qk", (9, 24), (24, 11), bias="11qk"),
    Case("bias-1h1k", (9, 24), (24, 11), heads=(4, 2, 2), bias="1h1k", layout="slack"),
    Case(
        "bias-bhqk-holes",
        (9, 24),
        (24, 11),
        heads=(4, 2, 2),
        bias="bhqk",
        bias_fill="holes",
        layout="padded",
        poison="nan",
    ),
    Case("bias-b111-causal", (9, 24), (24, 11), bias="b111", causal=True),
    # Here no batch of dense stats begins where one of packed stats would.
    Case("stats-dense", (4, 9, 0), (12, 20, 3), stats="dense"),
    Case("stats-none", (9, 4), (12, 20), stats="none", layout="slack", poison="nan"),
    Case("elements-int64", (9, 4), (5, 20), offset_unit="element", index_dtype="int64"),
    Case(
        "spaced-indices",
        (9, 4, 0),
        (5, 20, 3),
        heads=(4, 2, 1),
        layout="slack",
        poison="nan",
        index_stride=3,
    ),
    Case("spaced-lengths", (9, 4), (5, 20), layout="padded", poison="nan", index_stride=2),
    Case("double", (17, 3), (5, 31), heads=(4, 2, 1), dtype="float64"),
    Case("half", (17, 3), (5, 31), heads=(4, 2, 2), d=32, dtype="float16"),
    Case("bfloat16", (17, 3), (5, 31), heads=(4, 2, 2), d=32, dtype="bfloat16"),
    Case(
        "bfloat16-causal-slack",
        (33, 16),
        (40, 9),
        heads=(4, 2, 2),
        d=32,
        dtype="bfloat16",
        causal=True,
        alignment="bottom_right",
        layout="slack",
        poison="nan",
    ),
    Case("loud", (17, 3), (5, 31), amplitude=30.0),
    Case("very-loud", (17, 3), (5, 31), amplitude=1e17),
    Case("very-quiet", (17, 3), (5, 31), amplitude=1e-15),
    Case("dropout", (17, 0, 3), (5, 4, 31), heads=(4, 2, 2), dropout=0.25),
    Case(
        "dropout-bias-padded",
        (9, 4),
        (12, 20),
        causal=True,
        alignment="bottom_right",
        bias="bhqk",
        dropout=0.5,
        layout="padded",
        poison="nan",
    ),
    Case("dstats", (9, 0, 24), (24, 7, 11), heads=(4, 2, 1), dstats=True),
    Case(
        "dstats-window-slack",
        (9, 24),
        (24, 11),
        left_bound=3,
        right_bound=1,
        alignment="bottom_right",
        dstats=True,
        layout="slack",
        poison="nan",
    ),
    Case("no-sequences-have-keys", (3, 2), (0, 0)),
    Case("no-queries", (0, 0), (3, 2)),
)


def _with_indices(case: Case) -> Case:
    """With one of the four pairs of index type and unit, which the name decides, where the case
    states none: so that no pair is met with a few features only.
    """
    if (case.index_dtype, case.offset_unit) != ("int32", "row"):
        return case
    pair = zlib.crc32(case.name.encode()) % 4
    return replace(
        case,
        index_dtype=("int32", "int64")[pair % 2],
        offset_unit=("row", "element")[pair // 2],
    )


CASES: tuple[Case, ...] = tuple(map(_with_indices, _CASES))


def case_named(name: str) -> Case:
    """The case of that name; KeyError when there is none."""
    return {case.name: case for case in CASES}[name]
