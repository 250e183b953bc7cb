"""Attention whose tensors lie in memory each in its own way, forward.

The named cases give all tensors of a graph one layout; the graph does not ask for that. Here each
has a :class:`Place`, and offsets of its own in the unit of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import raggeddnn as rd

from ..testing.cases import Case, Problem, Side, in_other_order, lay_out, make_problem
from ..testing.graphs import KEY_SIDE, graph_dtype, index_memory
from ..testing.oracle import Array
from ..testing.tolerance import Expected, expected_sequence
from .subject import Call, Key, Subject, VerifyCase


@dataclass(frozen=True)
class Place:
    """Where a tensor lies: ``layout`` as in :mod:`raggeddnn.testing.cases`, the order of its axes
    in memory, outermost first (s rows, h heads, d width; s comes first where it is ragged), and
    whether its offsets count elements, or rows.
    """

    layout: str = "packed"
    order: str = "shd"
    in_elements: bool = False

    @property
    def is_ragged(self) -> bool:
        return self.layout in ("packed", "slack")

    def strides(self, heads: int, rows: int, width: int) -> list[int]:
        """Of dims [B, H, S, D]."""
        extent = {"h": heads, "s": rows, "d": width}
        found, step = {}, 1
        for axis in reversed(self.order):
            found[axis] = step
            step *= extent[axis]
        return [step, found["h"], found["s"], found["d"]]


PACKED, SLACK, PADDED = Place(), Place("slack"), Place("padded")
IN_ELEMENTS = Place(in_elements=True)


@dataclass(frozen=True)
class Layout:
    """Places of q, k, v, o and stats; type, and stride in elements, of offsets and lengths."""

    about: str
    places: Mapping[str, Place]
    index_dtype: str = "int32"
    index_stride: int = 1

    @property
    def gives_lengths(self) -> bool:
        return any(place.layout != "packed" for place in self.places.values())

    def case(self) -> Case:
        """The attention that lies so."""
        return Case(
            "layouts",
            (5, 0, 17, 2),
            (9, 4, 20, 31),
            heads=(4, 2, 1),
            d=8,
            d_v=12,
            causal=True,
            alignment="bottom_right",
            index_dtype=self.index_dtype,
            index_stride=self.index_stride,
        )


def _places(q: Place, k: Place, v: Place, o: Place, stats: Place) -> dict[str, Place]:
    return {"q": q, "k": k, "v": v, "o": o, "stats": stats}


def _all(place: Place) -> dict[str, Place]:
    return _places(place, place, place, place, Place(place.layout))


LAYOUTS = {
    "q-packed-kv-padded": Layout(
        "queries packed, keys padded", _places(PACKED, PADDED, PADDED, PACKED, PACKED)
    ),
    "q-padded-kv-packed": Layout(
        "queries padded, keys packed",
        _places(PADDED, PACKED, IN_ELEMENTS, PADDED, PADDED),
        "int64",
    ),
    "q-padded-o-packed": Layout(
        "queries padded, their results packed",
        _places(PADDED, PACKED, PACKED, IN_ELEMENTS, PACKED),
    ),
    "q-packed-o-padded": Layout(
        "queries packed, their results padded",
        _places(IN_ELEMENTS, PACKED, PACKED, PADDED, PACKED),
        "int64",
    ),
    "k-packed-v-padded": Layout(
        "keys packed, values padded", _places(PACKED, PACKED, PADDED, PACKED, PADDED)
    ),
    "k-padded-v-slack": Layout(
        "keys padded, values with slack", _places(SLACK, PADDED, SLACK, SLACK, SLACK)
    ),
    "units-differ": Layout(
        "offsets in rows and in elements", _places(PACKED, IN_ELEMENTS, PACKED, IN_ELEMENTS, PACKED)
    ),
    "units-differ-int64": Layout(
        "offsets in elements and in rows",
        _places(IN_ELEMENTS, PACKED, IN_ELEMENTS, PACKED, IN_ELEMENTS),
        "int64",
        2,
    ),
    "heads-innermost": Layout("heads innermost in memory", _all(Place("packed", "sdh"))),
    "heads-innermost-padded": Layout("heads innermost in memory", _all(Place("padded", "sdh"))),
    "each-its-own": Layout(
        "each tensor in its own layout, indices apart",
        _places(
            Place("slack", "sdh", in_elements=True),
            Place("padded", "hsd"),
            Place("slack"),
            Place("padded", "sdh"),
            Place("slack", in_elements=True),
        ),
        "int64",
        3,
    ),
}


def _rows_of(name: str) -> str:
    return "kv" if name in KEY_SIDE else "q"


def _lens(case: Case, rows: str) -> tuple[int, ...]:
    return case.lens_q if rows == "q" else case.lens_kv


def _capacity(case: Case, rows: str) -> int:
    return max(_lens(case, rows)) + 3  # the most that slack adds


class _Placed:
    """The graph of one case with its tensors by name, and calls for it."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.case = layout, layout.case()
        (q_heads, k_heads, v_heads), case = self.case.heads, self.case
        self.shapes = {
            "q": (q_heads, case.d),
            "k": (k_heads, case.d),
            "v": (v_heads, case.value_dim),
            "o": (q_heads, case.value_dim),
            "stats": (q_heads, 1),
        }
        self.graph = rd.Graph(io_data_type=rd.DataType.FLOAT, compute_data_type=rd.DataType.FLOAT)
        self.indices: dict[str, rd.TensorAttributes] = {}
        inputs = {name: self._place(name, self.graph.tensor(_named(name))) for name in "qkv"}
        lengths: dict[str, Any] = {}
        if layout.gives_lengths:
            lengths = {name: self._index(name, 0) for name in ("seq_len_q", "seq_len_kv")}
        o, stats = self.graph.sdpa(
            *inputs.values(),
            generate_stats=True,
            right_bound=0,
            diagonal_alignment=rd.DiagonalAlignment.BOTTOM_RIGHT,
            **lengths,
        )
        assert stats is not None
        self.tensors = {**inputs, "o": self._place("o", o), "stats": self._place("stats", stats)}
        for name in ("o", "stats"):
            self.tensors[name].set_output(True)

    def _index(self, name: str, more: int) -> rd.TensorAttributes:
        """Lengths, or offsets, one ``more`` than the sequences."""
        case = self.case
        self.indices[name] = self.graph.tensor(
            name=name,
            dim=[len(case.lens_q) + more, 1, 1, 1],
            stride=[case.index_stride, 1, 1, 1],
            data_type=graph_dtype(case.index_dtype),
        )
        return self.indices[name]

    def _place(self, name: str, tensor: rd.TensorAttributes) -> rd.TensorAttributes:
        place, (heads, width) = self.layout.places[name], self.shapes[name]
        rows = _capacity(self.case, _rows_of(name))
        tensor.set_name(name).set_dim([len(self.case.lens_q), heads, rows, width])
        tensor.set_stride(place.strides(heads, rows, width)).set_data_type(rd.DataType.FLOAT)
        if place.is_ragged:
            tensor.set_ragged_offset(self._index(f"offset_{name}", 1))
            tensor.set_ragged_offset_multiplier(1 if place.in_elements else heads * width)
        return tensor

    def _side(self, case: Case, name: str) -> Side:
        rows = _rows_of(name)
        layout = self.layout.places[name].layout
        return lay_out(_lens(case, rows), layout, _capacity(case, rows))

    def memory(self, case: Case, name: str, parts: list[Array], fill: float) -> Array:
        """Sequences [rows, heads, width] in the order of the tensor's memory, flat."""
        side, place = self._side(case, name), self.layout.places[name]
        rows = np.full((side.rows, *self.shapes[name]), fill, parts[0].dtype)
        for start, part in zip(side.starts, parts, strict=True):
            rows[start : start + len(part)] = part
        blocks = 1 if place.is_ragged else len(side.lens)
        axes = [1 + "shd".index(axis) for axis in place.order]
        by_block = rows.reshape(blocks, -1, *self.shapes[name])
        return np.ravel(by_block.transpose(0, *axes))

    def call(self, problem: Problem, marks: dict[str, list[Array]]) -> Call:
        case = problem.case
        sequences = [sequence[:3] for _, sequence in problem.sequences()]
        inputs: dict[Key, Array] = {}
        for i, name in enumerate("qkv"):
            parts = [sequence[i].transpose(1, 0, 2) for sequence in sequences]
            inputs[self.tensors[name]] = self.memory(case, name, parts, np.nan)
        for name, tensor in self.indices.items():
            numbers: Sequence[int] = _lens(case, name.removeprefix("seq_len_"))
            if name.startswith("offset_"):
                of = name.removeprefix("offset_")
                heads, width = self.shapes[of]
                unit = heads * width if self.layout.places[of].in_elements else 1
                numbers = [row * unit for row in self._side(case, of).offsets]
            inputs[tensor] = index_memory(numbers, case)
        call = Call(inputs, {})
        found = [expected_sequence(sequence, problem.options) for sequence in sequences]
        for name, results in (("o", [o for o, _ in found]), ("stats", [lse for _, lse in found])):
            tensor, shape = self.tensors[name], self.shapes[name]
            values, bounds = (
                self.memory(case, name, [_rows(getattr(r, kind), shape) for r in results], 0.0)
                for kind in ("values", "bounds")
            )
            call.expected[tensor] = Expected(values, bounds)
            call.marks[tensor] = self.memory(case, name, marks[name], np.nan)
        return call


def _rows(x: Array, shape: tuple[int, int]) -> Array:
    """[heads, rows, width] or [heads, rows] as [rows, heads, width]."""
    heads, width = shape
    rows: Array = x.reshape(heads, -1, width).transpose(1, 0, 2)
    return rows


def _named(name: str) -> rd.TensorAttributes:
    return rd.TensorAttributes().set_name(name)


def layout_subject(layout: Layout) -> Subject:
    """A graph in this layout, called with its sequences in two orders."""
    placed = _Placed(layout)
    problem = make_problem(placed.case)
    marks = {
        name: [
            np.arange(n * heads * width, dtype=np.float64).reshape(n, heads, width) + batch * 2**20
            for batch, n in enumerate(placed.case.lens_q)
        ]
        for name, (heads, width) in placed.shapes.items()
    }
    moved, _, _ = in_other_order(problem)
    marks_moved = {name: [*parts[1:], parts[0]] for name, parts in marks.items()}
    return Subject(placed.graph, [placed.call(problem, marks), placed.call(moved, marks_moved)])


def layout_cases() -> Iterator[VerifyCase]:
    """One for each layout."""
    for name, layout in LAYOUTS.items():
        said = f"{layout.about}, {layout.index_dtype} indices"
        yield VerifyCase(f"sdpa/layout-{name}", f"float32, {said}", partial(layout_subject, layout))
