"""The data SDK: every statement of the ragged-tensor document (see ragged_matrix.py)."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.tensor import (
    BHSD_SEQ_AXIS,
    BSHD_SEQ_AXIS,
    RaggedTensor,
    ShallowRaggedTensor,
    ShallowTensor,
    Tensor,
    random_ragged_layout,
)
from tensor_fixtures import DIMS, INVALID, OFFSETS, STRIDES, TYPES, T, aux_of, owning, shallow

both = pytest.mark.parametrize("make", [owning, shallow])


# ---- dense tensors ----


@pytest.mark.parametrize("data_type", TYPES)
def test_dense_tensors_iterate_densely(data_type):
    tensor = Tensor([2, 1, 3], data_type=data_type)
    assert tensor.data_type() == data_type
    assert (tensor.dims(), tensor.strides()) == ([2, 1, 3], [3, 3, 1])
    assert tensor.element_count() == tensor.element_space() == 6
    assert tensor.is_packed() and tensor.has_regular_dims()
    assert tensor.ragged_offset() is None
    assert list(tensor.indices()) == list(product(range(2), range(1), range(3)))
    tensor.set_host_value(True if data_type == T.BOOLEAN else 1, [1, 0, 2])
    assert tensor.get_host_value((1, 0, 2)) == 1
    assert tensor.get_host_value([0, 0, 0]) == 0


def test_strides_give_gaps_and_orders():
    gaps = Tensor([2, 2], [4, 1])
    assert (gaps.element_count(), gaps.element_space()) == (4, 6)
    assert not gaps.is_packed() and gaps.has_regular_dims()
    turned = Tensor([2, 3], [1, 2])
    assert turned.is_packed()
    assert [turned.get_index(i) for i in turned.indices()] == [0, 2, 4, 1, 3, 5]
    turned.fill_with_data(np.arange(6, dtype=np.float32).reshape(2, 3))  # by index
    assert turned.get_host_value([1, 0]) == 3
    turned.fill_with_data(np.arange(6, dtype=np.float32))  # as the memory is
    assert turned.get_host_value([1, 0]) == 1
    gaps.fill_with_value(2)
    assert np.asarray(gaps.numpy()).tolist() == [[2, 2], [2, 2]]
    scalar = Tensor([])
    assert list(scalar.indices()) == [()]
    assert list(Tensor([2, 0]).indices()) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([2, -1],), "no negative extent"),
        (([2, 2], [1]), "got rank 1, expected 2"),
        (([2], [-1]), "no negative stride"),
        (([2**40, 2**40],), "2\\^63"),
        (([2], None, T.FP8_E4M3), "got data type FP8_E4M3"),
        (([2], None, T.NOT_SET), "got data type NOT_SET"),
    ],
)
def test_wrong_dense_tensors_are_rejected(arguments, text):
    with pytest.raises(INVALID, match=text):
        Tensor(*arguments)


def test_too_much_memory_is_an_error_of_ours():
    with pytest.raises(rd.Error, match="expected one that fits") as caught:
        Tensor([2**60], None, T.DOUBLE)
    assert caught.value.status == "ALLOC_FAILED"


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (T.INT8, 128),
        (T.INT8, -129),
        (T.UINT8, -1),
        (T.INT32, 2**31),
        (T.INT64, 2**63),
        (T.HALF, 1e6),
        (T.INT32, 0.5),
        (T.BOOLEAN, 2),
        (T.FLOAT, "1"),
    ],
)
def test_a_value_out_of_range_is_rejected(data_type, value):
    tensor = Tensor([1], None, data_type)
    with pytest.raises(INVALID, match="expected"):
        tensor.set_host_value(value, [0])
    with pytest.raises(INVALID, match="expected"):
        tensor.fill_with_value(value)


# ---- 4.5 ----


@pytest.mark.parametrize("data_type", [T.INT32, T.INT64])
@both
def test_offsets_of_both_types(make, data_type):
    tensor = make(aux=aux_of(OFFSETS, data_type))
    assert tensor.element_count() == 24
    assert tensor.get_index([2, 0, 1, 0]) == 21
    numpy_type = np.int32 if data_type == T.INT32 else np.int64
    from_array = make(aux=np.array(OFFSETS, numpy_type))
    assert list(from_array.indices()) == list(tensor.indices())


@both
def test_dims_are_reported_as_given(make):
    tensor = make(dims=[3, 9, 2, 3])
    assert tensor.dims() == [3, 9, 2, 3]
    assert tensor.strides() == STRIDES


@both
def test_too_long_an_index_is_rejected(make):
    for tensor in (make(), Tensor(DIMS)):
        with pytest.raises(INVALID, match=r"got 5 numbers .* expected at most 4"):
            tensor.get_index([0, 0, 0, 0, 0])


@both
def test_every_way_to_an_element_is_ragged_aware(make):
    tensor = make()
    tensor.set_host_value(7, [2, 0, 1, 2])
    assert tensor.get_host_value([2, 0, 1, 2]) == 7
    assert tensor.numpy()[18 + 5] == 7
    assert np.from_dlpack(tensor)[18 + 5] == 7
    assert [i for i in tensor.indices() if tensor.get_host_value(i)] == [(2, 0, 1, 2)]


@both
def test_iteration_visits_each_element_once_in_the_order_of_dims(make):
    tensor = make()
    visited = list(tensor.indices())
    expected = [
        (b, *rest)
        for b, rows in enumerate((3, 0, 1))
        for rest in product(range(rows), range(2), range(3))
    ]
    assert visited == expected
    assert len(visited) == tensor.element_count() < math.prod(DIMS)
    assert [tensor.get_index(i) for i in visited] == list(range(24))


@both
def test_iteration_of_both_orders_of_dims(make):
    tensor = make([3, 2, 4, 3], [24, 3, 6, 1], BHSD_SEQ_AXIS)
    visited = list(tensor.indices())
    assert visited == sorted(visited)
    assert visited[:10] == [*product([0], [0], range(3), range(3)), (0, 1, 0, 0)]
    assert sorted(tensor.get_index(i) for i in visited) == list(range(24))


def test_iteration_does_not_know_valid_lengths():
    layout = random_ragged_layout(3, 6, 9, "slack")
    assert sum(layout.seq_lens) < layout.row_offsets[-1] < layout.physical_rows
    tensor = owning([6, 9, 2], [18, 2, 1], aux=layout.row_offsets, multiplier=2)
    assert len(list(tensor.indices())) == 2 * layout.row_offsets[-1]


@both
def test_the_sequence_axis_is_the_caller_s(make):
    # The same strides and dims but for one head: only the axis given says which one varies.
    first = make([1, 4, 1, 3], [12, 3, 3, 1], 1, [0, 6])
    second = make([1, 1, 4, 3], [12, 3, 3, 1], 2, [0, 6])
    assert list(first.indices())[-1] == (0, 1, 0, 2)
    assert list(second.indices())[-1] == (0, 0, 1, 2)
    for axis in (0, 4, -1):
        with pytest.raises(INVALID, match=f"seq_axis got {axis}, expected 1 to 3"):
            make(axis=axis)


@both
def test_heads_outermost_is_rejected(make):
    with pytest.raises(INVALID, match="expected axis 2 to be the outermost one"):
        make([3, 2, 4, 3], [24, 12, 3, 1], BHSD_SEQ_AXIS)


@pytest.mark.parametrize("strides", [[24, 6, 2, 1], [48, 12, 3, 1], [24, 6, 1, 1], [24, 6, 4, 1]])
@both
def test_rows_with_gaps_or_overlap_are_rejected(make, strides):
    with pytest.raises(INVALID, match="without gaps"):
        make(strides=strides, aux=[0, 12, 12, 24])
    make(strides=strides, aux=[0, 0, 0, 0])  # nothing is addressed


@both
def test_a_batch_has_as_many_rows_as_its_offsets_say(make):
    tensor = make()
    rows = [{i[1] for i in tensor.indices() if i[0] == b} for b in range(3)]
    assert rows == [{0, 1, 2}, set(), {0}]
    turned = make(strides=[24, 6, 1, 2])  # another order within a row
    assert sorted(turned.get_index(i) for i in turned.indices()) == list(range(24))


@both
def test_empty_dims_are_rejected(make):
    with pytest.raises(INVALID, match="padded_dims got \\[\\]"):
        make([], [])
    with pytest.raises(INVALID, match="strides got rank 3, expected 4"):
        make(strides=[24, 6, 3])
    with pytest.raises(INVALID, match="no negative extent"):
        make([3, -4, 2, 3])


def test_no_aux_is_rejected():
    with pytest.raises(INVALID, match="ragged_offset got None"):
        RaggedTensor(DIMS, STRIDES, BSHD_SEQ_AXIS, None)
    with pytest.raises(INVALID, match="ragged_offset got object, expected an array"):
        RaggedTensor(DIMS, STRIDES, BSHD_SEQ_AXIS, object())


@both
def test_an_aux_of_other_length_is_rejected(make):
    for offsets in ([0, 18, 24], [0, 18, 18, 24, 24]):
        with pytest.raises(INVALID, match=f"got {len(offsets)} elements, expected 4"):
            make(aux=aux_of(offsets))


@pytest.mark.parametrize("dims", [[4], [4, 1], [4, 1, 1], [4, 1, 1, 1, 1]])
@both
def test_an_aux_of_other_rank_is_rejected(make, dims):
    with pytest.raises(INVALID, match=f"got rank {len(dims)} .*expected rank 4"):
        make(aux=Tensor(dims, None, T.INT32))


@pytest.mark.parametrize("data_type", [t for t in TYPES if t not in (T.INT32, T.INT64)])
@both
def test_an_aux_of_another_type_is_rejected(make, data_type):
    with pytest.raises(INVALID, match=f"got data type {data_type.name} .*expected INT32 or INT64"):
        make(aux=Tensor([4, 1, 1, 1], None, data_type))


@both
def test_an_aux_with_gaps_is_rejected(make):
    with pytest.raises(INVALID, match="expected a packed tensor"):
        make(aux=Tensor([4, 1, 1, 1], [2, 1, 1, 1], T.INT32))


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ([6, 18, 18, 24], "ragged_offset\\[0\\] got 6, expected 0"),
        ([-6, 0, 0, 0], "ragged_offset\\[0\\] got -6, expected 0"),
        ([0, 18, 12, 24], "ragged_offset\\[2\\] got 12, expected at least 18"),
        ([0, 18, 24, 18], "ragged_offset\\[3\\] got 18, expected at least 24"),
        ([0, 17, 18, 24], "batch 0 got 17 elements, expected whole rows of 6"),
        ([0, 18, 18, 25], "batch 2 got 7 elements, expected whole rows of 6"),
        ([0, 30, 30, 36], "batch 0 got 5 rows, expected at most 4"),
    ],
)
@both
def test_bad_offsets_are_rejected(make, offsets, text):
    for data_type in (T.INT32, T.INT64):
        with pytest.raises(INVALID, match=text):
            make(aux=aux_of(offsets, data_type))


@both
def test_no_sequence_stride_is_rejected(make):
    with pytest.raises(INVALID, match="stride of sequence axis 1 got 0, expected a positive one"):
        make(strides=[24, 0, 3, 1])


@both
def test_counts(make):
    tensor = make()
    assert tensor.element_count() == tensor.element_space() == 24
    roomy = make(count=30)
    assert (roomy.element_count(), roomy.element_space()) == (24, 30)
    assert len(list(roomy.indices())) == 24
    assert roomy.numpy().shape == (30,)


@both
def test_too_small_a_physical_count_is_rejected(make):
    with pytest.raises(INVALID, match="physical_element_count got 23, expected at least 24"):
        make(count=23)


@both
def test_never_packed_and_never_regular(make):
    for tensor in (make(), make(count=30), make([3, 4, 2, 3], aux=[0, 24, 48, 48])):
        assert not tensor.is_packed()
        assert not tensor.has_regular_dims()


@both
def test_a_multiplier_makes_offsets_of_rows_elements(make):
    tensor = make(aux=aux_of([0, 3, 3, 4]), multiplier=6)
    assert list(tensor.indices()) == list(make().indices())
    assert tensor.get_index([2]) == 18
    assert tensor.ragged_offset().get_host_value([1, 0, 0, 0]) == 3
    for multiplier in (0, -6):
        with pytest.raises(INVALID, match=f"multiplier got {multiplier}, expected at least 1"):
            make(multiplier=multiplier)
    with pytest.raises(INVALID, match="2\\^63"):
        make(aux=aux_of(OFFSETS, T.INT64), multiplier=2**62)


# ---- 4.6 and 4.7 ----


@both
def test_the_layout_is_read_once(make):
    aux = aux_of(OFFSETS)
    tensor = make(aux=aux)
    aux.fill_with_value(0)
    assert tensor.ragged_offset() is aux
    assert not hasattr(tensor, "set_ragged_offset")
    assert tensor.element_count() == 24 and tensor.get_index([2]) == 18


@both
def test_an_index_starts_at_its_batch(make):
    tensor = make()
    assert tensor.get_index([]) == 0
    assert [tensor.get_index([b]) for b in range(3)] == [0, 18, 18]
    assert tensor.get_index([2, 0, 1]) == 18 + 3
    assert tensor.get_index([0, 2, 1, 1]) == 2 * 6 + 3 + 1


@pytest.mark.parametrize(
    "index", [[3], [-1], [0, 3], [1, 0], [2, 1, 0, 0], [0, 0, 2], [0, 0, 0, -1]]
)
@both
def test_an_index_outside_is_rejected(make, index):
    for call in ("get_index", "get_host_value"):
        with pytest.raises(INVALID, match=r"index got .*expected"):
            getattr(make(), call)(index)
    with pytest.raises(INVALID, match=r"index got .*expected"):
        make().set_host_value(1, index)


def test_one_aux_for_several_tensors():
    aux = aux_of(OFFSETS)
    tensors = [owning(aux=aux), shallow(aux=aux), owning([3, 2, 4, 3], [24, 3, 6, 1], 2, aux)]
    assert all(tensor.ragged_offset() is aux for tensor in tensors)
    del aux
    assert tensors[0].ragged_offset().get_host_value([3, 0, 0, 0]) == 24


def test_a_shallow_tensor_is_the_array_s_memory():
    memory = np.zeros((5, 6), np.float64)
    ragged = ShallowRaggedTensor(memory, DIMS, STRIDES, BSHD_SEQ_AXIS, OFFSETS)
    dense = ShallowTensor(memory, [2, 3], [6, 1])
    assert ragged.data_type() == dense.data_type() == T.DOUBLE
    ragged.set_host_value(4, [2, 0, 0, 1])
    dense.set_host_value(5, [1, 2])
    assert memory[3, 1] == 4 and memory[1, 2] == 5
    del memory
    assert ragged.get_host_value([2, 0, 0, 1]) == 4  # it keeps the array alive
    with pytest.raises(INVALID, match="array of 23 elements, expected at least 24"):
        ShallowRaggedTensor(np.zeros(23), DIMS, STRIDES, BSHD_SEQ_AXIS, OFFSETS)
    with pytest.raises(INVALID, match="array of 8 elements, expected at least 9"):
        ShallowTensor(np.zeros(8), [2, 3], [6, 1])
    with pytest.raises(INVALID, match="got list, expected an array"):
        ShallowTensor([1.0], [1], [1])
    with pytest.raises(INVALID, match="got an array of type complex128"):
        ShallowTensor(np.zeros(2, complex), [1], [1])


def test_read_only_memory_is_read_and_not_written():
    memory = np.arange(6, dtype=np.float32)
    memory.flags.writeable = False
    tensor = ShallowTensor(memory, [6], [1])
    assert tensor.get_host_value([5]) == 5
    assert not tensor.numpy().flags.writeable
    assert not np.from_dlpack(tensor).flags.writeable
    for write in (lambda: tensor.set_host_value(1, [0]), lambda: tensor.fill_with_value(1)):
        with pytest.raises(INVALID, match="read-only array, expected a writable one"):
            write()
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()


def test_a_shallow_tensor_is_filled_with_a_value_only():
    for tensor in (shallow(), ShallowTensor(np.zeros(6, np.float32), [2, 3], [3, 1])):
        tensor.fill_with_value(2)
        assert {tensor.get_host_value(i) for i in tensor.indices()} == {2}
        data = np.zeros(tensor.element_space(), np.float32)
        for fill in (
            lambda t=tensor: t.fill_with_random_values(0, 1, 1),
            lambda t=tensor, d=data: t.fill_with_data(d),
            lambda t=tensor, d=data: t.fill_from_host(d),
        ):
            with pytest.raises(rd.NotSupportedError, match="owns its memory"):
                fill()
