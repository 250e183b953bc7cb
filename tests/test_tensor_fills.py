"""The data SDK: fills, sentinels, exchange of memory, layouts, device memory."""

from __future__ import annotations

import math
from itertools import product

import cpp_build
import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.tensor import (
    RaggedTensor,
    ShallowTensor,
    Tensor,
    TensorBase,
    all_close_skip_sentinel,
    random_ragged_layout,
)
from tensor_fixtures import DIMS, INVALID, OFFSETS, REALS, STRIDES, TYPES, T, aux_of, owning


def test_data_is_taken_over():
    tensor = owning(count=30)
    tensor.fill_with_data(np.arange(24, dtype=np.float32).reshape(4, 2, 3))
    assert tensor.get_host_value([2, 0, 1, 2]) == 23
    tensor.fill_with_data(np.arange(30, dtype=np.float32)[::1])
    assert tensor.numpy()[29] == 29
    for count in (23, 25, 31):
        with pytest.raises(INVALID, match=f"got {count} elements of FLOAT, expected 30"):
            tensor.fill_with_data(np.zeros(count, np.float32))
    with pytest.raises(INVALID, match="type float64, expected FLOAT"):
        tensor.fill_with_data(np.zeros(30))
    with pytest.raises(INVALID, match="expected numbers of INT32"):
        aux_of([2**31])


@pytest.mark.parametrize("data_type", TYPES)
def test_random_values_depend_on_the_seed_alone(data_type):
    aux = aux_of(OFFSETS)
    one = RaggedTensor(DIMS, STRIDES, 1, aux, data_type=data_type)
    two = RaggedTensor(DIMS, [24, 6, 1, 2], 1, aux, 40, data_type=data_type)
    for tensor in (one, two):
        tensor.fill_with_random_values(0, 1, seed=5)
    values = [one.get_host_value(i) for i in one.indices()]
    assert values == [two.get_host_value(i) for i in two.indices()]
    assert all(0 <= v <= 1 for v in values) and len(set(values)) > 1
    one.fill_with_random_values()
    assert [one.get_host_value(i) for i in one.indices()] != values or data_type == T.BOOLEAN
    with pytest.raises(INVALID, match="expected two finite numbers in order"):
        one.fill_with_random_values(1, 0)


@pytest.mark.parametrize("data_type", TYPES)
def test_sentinels(data_type):
    tensor = RaggedTensor(DIMS, STRIDES, 1, aux_of(OFFSETS), 30, data_type=data_type)
    tensor.fill_with_sentinel_value()
    raw = tensor.numpy().view(np.uint8).reshape(30, -1)
    assert (raw == raw[0]).all() and raw.any()
    value = tensor.get_host_value([0, 0, 0, 0])
    assert math.isnan(value) if data_type in REALS else value
    if data_type in REALS:  # and not the NaN that arithmetic makes
        computed = np.array([np.nan], np.float64).astype(tensor.numpy().dtype)
        assert (raw[0] != computed.view(np.uint8)).any()


def test_comparison_skips_what_the_reference_left():
    reference, other = owning(), owning()
    reference.fill_with_sentinel_value()
    other.fill_with_random_values(5, 6, 1)
    for tensor in (reference, other):
        for index in product([0], [0, 1], range(2), range(3)):
            tensor.set_host_value(2, index)
    report = all_close_skip_sentinel(reference, other)
    assert report and report.passed
    assert (report.compared, report.skipped, report.mismatched) == (12, 12, 0)
    other.set_host_value(2.5, [0, 1, 1, 2])
    report = all_close_skip_sentinel(reference, other, absolute=0.25)
    assert not report
    assert (report.worst_index, report.worst_error) == ((0, 1, 1, 2), 0.5)
    assert "the worst at [0, 1, 1, 2] got 2.5, expected 2 within 0.25" in report.text
    assert all_close_skip_sentinel(reference, other, relative=0.25)
    with pytest.raises(INVALID, match="got dense dims"):
        all_close_skip_sentinel(reference, Tensor(DIMS))


def test_a_sentinel_before_the_tail_is_a_result():
    reference, other = owning(), owning()
    reference.fill_with_sentinel_value()
    reference.set_host_value(1, [0, 1, 0, 0])  # so that rows 0 and 1 are written, row 2 is not
    report = all_close_skip_sentinel(reference, other)
    assert (report.compared, report.genuine_sentinels, report.skipped) == (12, 11, 12)
    assert report.mismatched == 12


@pytest.mark.parametrize("data_type", TYPES)
def test_exchange_shares_memory(data_type):
    for tensor in (Tensor([2, 3], None, data_type), Tensor([2, 3], [1, 2], data_type)):
        one = True if data_type == T.BOOLEAN else 1
        tensor.set_host_value(one, [0, 2])
        assert tensor.__dlpack_device__() == (1, 0)
        seen: TensorBase = ShallowTensor(tensor, [6], [1])
        assert seen.data_type() == data_type
        assert seen.get_host_value([tensor.get_index([0, 2])]) == 1
        array = tensor.numpy()
        assert array.shape == (2, 3) and array[0, 2] == 1
        tensor.set_host_value(one, [1, 1])
        assert array[1, 1] == 1
        if data_type != T.BFLOAT16:  # NumPy's DLPack has none
            exported = np.from_dlpack(tensor)
            del tensor
            assert exported.dtype == array.dtype and exported[1, 1] == 1


def test_exchange_says_what_it_cannot_do():
    tensor = Tensor([2])
    for options in ({"stream": 1}, {"dl_device": (2, 0)}, {"copy": True}):
        with pytest.raises(BufferError, match=r"got .*expected"):
            tensor.__dlpack__(**options)
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(tensor.__dlpack__(max_version=(0, 8)))


def test_tensors_go_into_a_variant_pack():
    graph = rd.Graph("", rd.DataType.FLOAT)
    lengths = [0, 3, 3, 4]
    aux = graph.tensor(name="offsets", dim=[4, 1, 1, 1], stride=[1] * 4, data_type=T.INT32)
    make = {"dim": [3, 2, 4, 3], "stride": [24, 3, 6, 1], "ragged_offset": aux}
    q, k, v = (graph.tensor(name=name, ragged_offset_multiplier=6, **make) for name in "qkv")
    out, _ = graph.sdpa(q, k, v, attn_scale=1.0)
    out.set_output(True).set_dim([3, 2, 4, 3]).set_stride([24, 3, 6, 1])
    out.set_ragged_offset(aux).set_ragged_offset_multiplier(6)
    plan = graph.build(engine="reference")
    offsets = aux_of(lengths)
    tensors = [
        RaggedTensor(make["dim"], make["stride"], 2, offsets, ragged_offset_multiplier=6)
        for _ in range(4)
    ]
    for seed, tensor in enumerate(tensors):
        tensor.fill_with_random_values(-1, 1, seed)
    plan.execute({aux: offsets, **dict(zip((q, k, v, out), tensors, strict=True))})
    # The last batch has one row, which attends to itself alone.
    for index in product([2], range(2), [0], range(3)):
        assert tensors[3].get_host_value(index) == pytest.approx(tensors[2].get_host_value(index))


# ---- layouts, device memory ----


@pytest.mark.parametrize("kind", ["uniform", "zeros", "one_long", "full", "slack"])
def test_layouts_are_plausible_and_repeat(kind):
    layout = random_ragged_layout(11, 8, 40, kind)
    assert layout == random_ragged_layout(11, 8, 40, kind)
    assert kind == "full" or layout != random_ragged_layout(12, 8, 40, kind)
    owning([8, 40, 1], [40, 1, 1], aux=layout.row_offsets, count=layout.physical_rows)
    if kind == "zeros":
        assert 0 in layout.seq_lens
    with pytest.raises(INVALID, match="kind got other, expected one of uniform, zeros"):
        random_ragged_layout(1, 8, 40, "other")


@pytest.mark.parametrize(
    ("runtime", "failing"),
    [("HIP", ""), ("CUDA", ""), *(("HIP", f) for f in ("hipMalloc", "hipHostMalloc", "hipMemcpy"))],
)
def test_device_memory_through_a_runtime(tmp_path, runtime, failing):
    library = {"HIP": "libamdhip64.so", "CUDA": "libcudart.so"}[runtime]
    (tmp_path / library).symlink_to(cpp_build.built_plugin("fake_gpu_runtime"))
    environ = {"LD_LIBRARY_PATH": str(tmp_path)} | ({"FAKE_GPU_FAILS": failing} if failing else {})
    cpp_build.run([cpp_build.built_check("test_tensor_device"), runtime], environ)
