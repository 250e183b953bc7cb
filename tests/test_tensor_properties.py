"""Ragged tensors of any layout: which elements iteration visits, where they are, in what order."""

from __future__ import annotations

import bisect
import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from raggeddnn.tensor import RaggedTensor, ShallowRaggedTensor, TensorBase

MOST_ROWS = 5


class Layout(NamedTuple):
    """Arguments of a ragged tensor, and what they mean."""

    dims: list[int]
    strides: list[int]
    seq_axis: int
    offsets: list[int]  # in elements
    aux: Any
    multiplier: int
    slack: int


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    lengths = draw(st.lists(st.integers(0, MOST_ROWS), max_size=6))
    others = draw(st.lists(st.integers(1, 3), max_size=3))
    seq_axis = draw(st.integers(1, len(others) + 1))
    row = math.prod(others)
    dims = [len(lengths), *others]
    dims.insert(seq_axis, draw(st.integers(max([0, *lengths]), MOST_ROWS)))
    strides = [row] * len(dims)
    axes = [axis for axis in range(1, len(dims)) if axis != seq_axis]
    step = 1
    for axis in draw(st.permutations(axes)):  # any order within a row
        strides[axis] = step
        step *= dims[axis]
    strides[0] = draw(st.integers(0, 99))  # never used
    rows = np.concatenate([[0], np.cumsum(np.array(lengths, int))])
    multiplier = draw(st.sampled_from([d for d in range(1, row + 1) if row % d == 0]))
    aux = (rows * (row // multiplier)).astype(draw(st.sampled_from([np.int32, np.int64])))
    offsets = [int(r) * row for r in rows]
    return Layout(dims, strides, seq_axis, offsets, aux, multiplier, draw(st.integers(0, 9)))


def tensors_of(layout: Layout) -> list[TensorBase]:
    count = layout.offsets[-1] + layout.slack
    where = (layout.dims, layout.strides, layout.seq_axis, layout.aux, count)
    options = {"ragged_offset_multiplier": layout.multiplier}
    memory = np.zeros(count, np.int64)
    return [RaggedTensor(*where, **options), ShallowRaggedTensor(memory, *where, **options)]


@given(layouts())
def test_iteration_visits_exactly_the_elements_of_all_batches(layout: Layout) -> None:
    for tensor in tensors_of(layout):
        visited = list(tensor.indices())
        assert len(visited) == tensor.element_count() == layout.offsets[-1]
        assert tensor.element_space() == layout.offsets[-1] + layout.slack


@given(layouts())
def test_indices_have_offsets_of_their_own_in_their_batch(layout: Layout) -> None:
    for tensor in tensors_of(layout):
        offsets = {}
        for index in tensor.indices():
            offset = tensor.get_index(index)
            assert layout.offsets[index[0]] <= offset < layout.offsets[index[0] + 1]
            assert bisect.bisect_right(layout.offsets, offset) - 1 == index[0]
            assert offset not in offsets, f"{index} and {offsets[offset]}"
            offsets[offset] = index
        assert sorted(offsets) == list(range(layout.offsets[-1]))


@given(layouts())
def test_indices_come_in_the_order_of_dims(layout: Layout) -> None:
    for tensor in tensors_of(layout):
        visited = list(tensor.indices())
        assert all(a < b for a, b in pairwise(visited))
        for index in visited:
            assert all(0 <= i < most for i, most in zip(index, layout.dims, strict=True))


@given(layouts(), st.integers(0, 2**64 - 1))
def test_values_stay_where_they_are_put(layout: Layout, seed: int) -> None:
    owning, shallow = tensors_of(layout)
    owning.fill_with_random_values(-100, 100, seed)
    for position, index in enumerate(owning.indices()):
        shallow.set_host_value(position, index)
    assert [shallow.get_host_value(i) for i in shallow.indices()] == list(range(layout.offsets[-1]))
    for tensor in (owning, shallow):
        assert not tensor.numpy()[layout.offsets[-1] :].any()  # the slack
