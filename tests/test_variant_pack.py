"""What may be bound to a plan, what is refused by name, and that a refusal writes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import raggeddnn as rd
from plugins.fakes import (
    BATCH,
    DEPTH,
    HEADS,
    ROWS,
    SHAPE,
    UNTOUCHED,
    LikeTorch,
    OnlyDLPack,
    Small,
    aligned,
    constant,
    load,
    runtime,
    small,
    with_default,
)
from raggeddnn import DataType

REFERENCE = "reference"
FAKE = "RAGGEDDNN_FAKE_ENGINE"


@pytest.fixture
def dense() -> tuple[Small, rd.ExecutionPlan]:
    sdpa = small("dense", scale=runtime())
    return sdpa, sdpa.graph.build(engine=REFERENCE)


@pytest.fixture
def ragged() -> tuple[Small, rd.ExecutionPlan]:
    sdpa = small("ragged", ragged=True, multiplier=HEADS * DEPTH)
    return sdpa, sdpa.graph.build(engine=REFERENCE)


@contextlib.contextmanager
def refused(pack: dict[Any, Any], output: rd.TensorAttributes, *words: str) -> Iterator[None]:
    """InvalidValueError with all the words in its text, and the output as it was."""
    o = pack.get(output)
    outputs = [o] if isinstance(o, np.ndarray) else []
    before = [a.copy() for a in outputs]
    with pytest.raises(rd.InvalidValueError) as caught:
        yield
    for word in words:
        assert word in str(caught.value), str(caught.value)
    for array, copy in zip(outputs, before, strict=True):
        assert array.tobytes() == copy.tobytes(), "written to, although refused"


def refuse(built: tuple[Small, rd.ExecutionPlan], words: tuple[str, ...], **more: Any) -> None:
    sdpa, plan = built
    pack = sdpa.pack(**more)
    with refused(pack, sdpa.tensors["o"], *words):
        plan.execute(pack)


def expected(sdpa: Small, plan: rd.ExecutionPlan, pack: dict[Any, Any]) -> Any:
    """o of the same numbers in plain arrays."""
    o = np.full(SHAPE, UNTOUCHED, np.float32)
    plan.execute({**pack, sdpa.tensors["o"]: o})
    return o


# ---- keys ----


@pytest.mark.parametrize("key", [lambda u: u, np.int64, np.int32, np.uint8], ids=str)
def test_keys_may_be_tensors_or_uids(dense, key):
    sdpa, plan = dense
    pack = sdpa.pack(scale=0.5)
    want = expected(sdpa, plan, pack)
    o = np.full(SHAPE, UNTOUCHED, np.float32)
    by_uid = {key(tensor.get_uid()): array for tensor, array in pack.items()}
    by_uid[key(sdpa.tensors["o"].get_uid())] = o
    plan.execute(by_uid)
    assert o.tobytes() == want.tobytes() and not (o == UNTOUCHED).any()


@pytest.mark.parametrize("key", ["q", 1.0, None, True, (1,)], ids=repr)
def test_other_keys_are_refused(dense, key):
    sdpa, plan = dense
    pack = {**sdpa.pack(scale=0.5), key: 0}
    with refused(pack, sdpa.tensors["o"], f"key {key!r}", "expected a TensorAttributes or its uid"):
        plan.execute(pack)


def test_a_stranger_s_key_is_refused(dense):
    sdpa, plan = dense
    for key, word in [
        (12345, "uid 12345 is no tensor"),
        (-1, "uid -1 is no tensor"),
        (rd.TensorAttributes().set_name("stranger"), "tensor 'stranger' (no uid) is no tensor"),
        (rd.TensorAttributes().set_uid(999), "uid 999 is no tensor"),
    ]:
        pack = {**sdpa.pack(scale=0.5), key: np.zeros(1, np.float32)}
        with refused(pack, sdpa.tensors["o"], word):
            plan.execute(pack)


@pytest.mark.parametrize("uid", [2**63, -(2**70)])
def test_a_uid_beyond_64_bits_is_refused(dense, uid):
    sdpa, plan = dense
    pack = {**sdpa.pack(scale=0.5), uid: 0}
    with refused(pack, sdpa.tensors["o"], str(uid)):
        plan.execute(pack)


def test_a_tensor_given_twice_is_refused(dense):
    sdpa, plan = dense
    pack = sdpa.pack(scale=0.5)
    pack[sdpa.tensors["q"].get_uid()] = np.zeros(SHAPE, np.float32)
    with refused(pack, sdpa.tensors["o"], "'q'", "given twice"):
        plan.execute(pack)


# ---- arrays that do not fit ----


@pytest.mark.parametrize("role", ["q", "k", "v"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint16", "complex64"])
def test_a_wrong_type_is_refused(dense, role, dtype):
    array = np.zeros(SHAPE, dtype)
    refuse(dense, (f"'{role}'", f"of type {dtype}", "expected FLOAT"), scale=1.0, **{role: array})


def test_a_swapped_byte_order_is_refused(dense):
    array = np.zeros(SHAPE, np.dtype(np.float32).newbyteorder())
    refuse(dense, ("'q'", "expected FLOAT"), scale=1.0, q=array)


def test_a_read_only_output_is_refused(dense):
    sdpa, plan = dense
    o = np.full(SHAPE, UNTOUCHED, np.float32)
    o.setflags(write=False)
    refuse(dense, ("'o'", "is an output and got a read-only array"), scale=1.0, o=o)
    inputs = sdpa.pack(scale=1.0)
    for role in ("q", "k", "v"):
        inputs[sdpa.tensors[role]].setflags(write=False)
    plan.execute(inputs)


@pytest.mark.parametrize("role", ["q", "k", "v", "o"])
def test_memory_that_is_too_small_is_refused(dense, role):
    full = BATCH * HEADS * ROWS * DEPTH
    array = np.full(full - 1, UNTOUCHED, np.float32)
    words = (f"'{role}'", f"memory of {full - 1} elements", f"expected at least {full}")
    refuse(dense, words, scale=1.0, **{role: array})


def test_shape_does_not_matter_where_the_extent_does(dense):
    sdpa, plan = dense
    pack = sdpa.pack(scale=1.0)
    want = expected(sdpa, plan, pack)
    flat = {t: a.ravel() if isinstance(a, np.ndarray) else a for t, a in pack.items()}
    plan.execute(flat)
    assert flat[sdpa.tensors["o"]].tobytes() == want.tobytes()


@pytest.mark.parametrize("role", ["q", "k", "v", "o"])
def test_ragged_memory_must_reach_the_last_offset(ragged, role):
    sdpa, plan = ragged
    offsets = np.array([0, 1, 5], np.int32)
    row = HEADS * DEPTH
    array = np.full(5 * row - 1, UNTOUCHED, np.float32)
    words = (f"'{role}'", f"memory of {5 * row - 1} elements", f"at least {5 * row}", "'offsets'")
    refuse(ragged, words, offsets=offsets, **{role: array})
    exact = {r: np.zeros(5 * row, np.float32) for r in ("q", "k", "v")}
    pack = sdpa.pack(offsets=offsets, o=np.full(6 * row, UNTOUCHED, np.float32), **exact)
    plan.execute(pack)
    o = pack[sdpa.tensors["o"]]
    assert (o[: 5 * row] == 0).all() and (o[5 * row :] == UNTOUCHED).all()


def test_too_few_offsets_are_refused(ragged):
    words = ("'offsets'", "memory of 2 elements", "expected at least 3")
    refuse(ragged, words, offsets=np.zeros(2, np.int32))
    refuse(ragged, ("'offsets'", "int64", "expected INT32"), offsets=np.zeros(3, np.int64))


def test_an_offset_that_overflows_is_refused(ragged):
    last = np.iinfo(np.int32).max
    refuse(ragged, ("'offsets'",), offsets=np.array([0, 4, last], np.int32))


@pytest.mark.parametrize("role", ["q", "o"])
@pytest.mark.parametrize("past", [4, 8])
def test_a_misaligned_base_is_refused(dense, role, past):
    array = aligned(SHAPE, offset=past)
    array[:] = UNTOUCHED
    words = (f"'{role}'", f"{past} bytes past a multiple", "expected a multiple of 16 bytes")
    refuse(dense, words, scale=1.0, **{role: array})


def test_a_lower_alignment_takes_what_the_default_refuses():
    sdpa = small("aligned", alignment=4)
    sdpa.tensors["o"].set_alignment(4)
    plan = sdpa.graph.build(engine=REFERENCE)
    shifted = {role: aligned(SHAPE, offset=4) for role in ("q", "k", "v", "o")}
    shifted["o"][:] = UNTOUCHED
    pack = sdpa.pack(**shifted)
    plan.execute(pack)
    assert (pack[sdpa.tensors["o"]] == 0).all()


@pytest.mark.parametrize("value", [0, None], ids=["zero", "None"])
@pytest.mark.parametrize("role", ["q", "o"])
def test_a_null_pointer_is_refused(dense, role, value):
    sdpa, plan = dense
    pack = {**sdpa.pack(scale=1.0), sdpa.tensors[role]: value}
    with refused(pack, sdpa.tensors["o"], f"'{role}'", "null pointer"):
        plan.execute(pack)


@pytest.mark.parametrize("value", [True, False, 1.5, "text", object(), -1, 2**64], ids=str)
def test_what_is_no_memory_is_refused(dense, value):
    sdpa, plan = dense
    pack = {**sdpa.pack(scale=1.0), sdpa.tensors["q"]: value}
    with refused(pack, sdpa.tensors["o"], "'q'"):
        plan.execute(pack)


@pytest.mark.parametrize(
    "array", [np.zeros(SHAPE, np.float32)[::-1], np.zeros((4, 7), np.uint8)[:, :4].view("<f4")]
)
def test_strides_that_no_tensor_can_have_are_refused(dense, array):
    refuse(dense, ("'q'", "strid"), scale=1.0, q=array)


@pytest.mark.parametrize("role", ["q", "k", "v", "o", "scale"])
def test_a_missing_tensor_is_the_engine_s_error(dense, role):
    sdpa, plan = dense
    pack = sdpa.pack(**{"scale": 1.0, role: None})
    uid = sdpa.tensors[role].get_uid()
    with refused(pack, sdpa.tensors["o"], role, f"uid {uid}", "no pointer"):
        plan.execute(pack)


def test_a_virtual_tensor_is_refused():
    load("fake_1_0_0")
    sdpa = small(generate_stats=True)
    stats = sdpa.tensors["stats"].set_is_virtual(True)
    plan = sdpa.graph.build(engine="FAKE_1_0_0_ENGINE")
    pack = {**sdpa.pack(), stats: np.zeros((BATCH, HEADS, ROWS, 1), np.float32)}
    with refused(pack, sdpa.tensors["o"], "'stats'", "is virtual"):
        plan.execute(pack)


@pytest.mark.parametrize("state", [constant, with_default])
@pytest.mark.parametrize("garbage", [None, "text", True, 0, np.zeros(9, np.int8)], ids=str)
def test_what_is_given_for_a_baked_scalar_is_ignored(state, garbage):
    sdpa = small("baked", scale=state(0.25))
    plan = sdpa.graph.build(engine=REFERENCE)
    want = sdpa.run(plan)
    pack = {**sdpa.pack(), sdpa.tensors["scale"]: garbage}
    plan.execute(pack)
    assert pack[sdpa.tensors["o"]].tobytes() == want.tobytes()


# ---- kinds of memory ----


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda a: a,
    "dlpack-versioned": lambda a: OnlyDLPack(a, versioned=True),
    "dlpack-legacy": lambda a: OnlyDLPack(a, versioned=False),
    "torch-like": LikeTorch,
    "pointer": lambda a: int(a.ctypes.data),
    "numpy-integer": lambda a: np.uint64(a.ctypes.data),
}


@pytest.mark.parametrize("kind", WRAPPERS)
def test_every_kind_of_memory_gives_the_same_result(dense, kind):
    sdpa, plan = dense
    pack = sdpa.pack(scale=0.5)
    want = expected(sdpa, plan, pack)
    plan.execute(
        {t: a if t is sdpa.tensors["scale"] else WRAPPERS[kind](a) for t, a in pack.items()}
    )
    assert pack[sdpa.tensors["o"]].tobytes() == want.tobytes()


@pytest.mark.parametrize("kind", ["numpy", "dlpack-versioned", "dlpack-legacy", "torch-like"])
def test_every_kind_of_array_is_checked(dense, kind):
    wrap = WRAPPERS[kind]
    small_one = np.zeros(SHAPE[1:], np.float32)
    refuse(dense, ("'q'", "expected at least"), scale=1.0, q=wrap(small_one))
    if kind != "torch-like":
        refuse(dense, ("'q'", "expected FLOAT"), scale=1.0, q=wrap(np.zeros(SHAPE)))
        o = np.full(SHAPE, UNTOUCHED, np.float32)
        o.setflags(write=False)
        if kind != "dlpack-legacy":  # the old capsule cannot say so, and NumPy refuses to make it
            refuse(dense, ("'o'", "read-only"), scale=1.0, o=wrap(o))


def test_a_torch_like_array_is_checked_by_what_it_says(dense):
    zeros = np.zeros(SHAPE, np.float32)
    for device in ("cuda", "hip", "meta"):
        words = ("'q'", f"memory on device {device}", "expected cpu")
        refuse(dense, words, scale=1.0, q=LikeTorch(zeros, device))
    words = ("'q'", "of type bfloat16", "expected FLOAT")
    halves = zeros.astype(np.float16)
    refuse(dense, words, scale=1.0, q=LikeTorch(halves, dtype="torch.bfloat16"))


def test_a_dlpack_exporter_that_fails_is_named(dense):
    class Broken:
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("requires grad")

    class Empty:
        def __dlpack__(self, **options: Any) -> Any:
            return object()

    refuse(dense, ("'q'", "DLPack cannot export", "requires grad"), scale=1.0, q=Broken())
    refuse(dense, ("'q'", "no DLPack capsule"), scale=1.0, q=Empty())


def test_a_view_with_the_graph_s_strides_is_used_as_it_is(dense):
    sdpa, plan = dense
    pack = sdpa.pack(scale=0.5)
    want = expected(sdpa, plan, pack)
    # The graph's memory order is [B, S, H, D]: logical views of it, each a part of a larger array.
    views = {}
    for role in ("q", "k", "v", "o"):
        large = aligned((3 * BATCH * ROWS * HEADS * DEPTH,))
        part = large[16 : 16 + BATCH * ROWS * HEADS * DEPTH].reshape(BATCH, ROWS, HEADS, DEPTH)
        part[:] = pack[sdpa.tensors[role]].reshape(part.shape)
        views[role] = part.transpose(0, 2, 1, 3)
    plan.execute({**pack, **{sdpa.tensors[role]: view for role, view in views.items()}})
    got = views["o"].transpose(0, 2, 1, 3)
    assert got.tobytes() == want.tobytes()


def test_bfloat16_arrays_of_ml_dtypes_are_taken():
    g = rd.Graph(io_data_type=DataType.BFLOAT16)
    q, k, v = (g.tensor(name=name, dim=[1, 1, 2, 8]) for name in "qkv")
    o, _ = g.sdpa(q, k, v)
    o.set_name("o").set_output(True).set_data_type(DataType.BFLOAT16)
    plan = g.build(engine=REFERENCE)
    one = np.ones((1, 1, 2, 8), ml_dtypes.bfloat16)
    out = np.zeros_like(one)
    plan.execute({q: one, k: one, v: one * 3, o: out})
    assert (out.astype(np.float32) == 3).all()
    with pytest.raises(rd.InvalidValueError, match=r"'k'.* float16, expected BFLOAT16"):
        plan.execute({q: one, k: one.astype(np.float16), v: one, o: out})


# ---- numbers for runtime scalars ----


def bits(value: Any, dtype: Any) -> int:
    return int(np.array(value, dtype).view(np.uint16))


NUMBERS: list[tuple[DataType, Any, float]] = [
    (DataType.FLOAT, 0.1, float(np.float32(0.1))),
    (DataType.FLOAT, 3, 3.0),
    (DataType.FLOAT, np.float64(0.1), float(np.float32(0.1))),
    (DataType.FLOAT, np.int8(-3), -3.0),
    (DataType.DOUBLE, 0.1, float(np.float32(0.1))),
    (DataType.DOUBLE, np.float16(0.5), 0.5),
    (DataType.HALF, 0.1, bits(0.1, np.float16)),
    (DataType.HALF, np.float64(-65504), bits(-65504, np.float16)),
    (DataType.BFLOAT16, 0.1, bits(0.1, ml_dtypes.bfloat16)),
    (DataType.BFLOAT16, ml_dtypes.bfloat16(3), bits(3, ml_dtypes.bfloat16)),
    (DataType.INT32, -7, -7.0),
    (DataType.INT32, np.int64(2**20), 2.0**20),
    (DataType.INT64, 2**40, 2.0**40),
    (DataType.INT64, np.uint8(200), 200.0),
]


@pytest.mark.parametrize(("data_type", "value", "delivered"), NUMBERS, ids=str)
def test_a_number_arrives_in_the_scalar_s_type(data_type, value, delivered):
    load("fake_1_4_0")
    sdpa = small(scale=runtime(data_type))
    plan = sdpa.graph.build(engine=FAKE)
    assert (sdpa.run(plan, scale=value) == delivered).all()


@pytest.mark.parametrize(("value", "delivered"), [(True, 1), (False, 0), (np.bool_(True), 1)])
def test_a_bool_arrives_where_one_is_due(value, delivered):
    load("fake_1_4_0")
    sdpa = small(scale=0.5, seed=runtime(DataType.BOOLEAN).set_name("seed"))
    plan = sdpa.graph.build(engine=FAKE)
    assert sdpa.run(plan, seed=value).ravel()[-1] == delivered


@pytest.mark.parametrize(
    ("data_type", "value", "words"),
    [
        (DataType.FLOAT, 1e39, "out of range for FLOAT"),
        (DataType.HALF, 65520.0, "out of range for HALF"),
        (DataType.BFLOAT16, 3.4e38, "out of range for BFLOAT16"),
        (DataType.INT32, 2**31, "out of range for INT32"),
        (DataType.INT64, 2**63, "out of range for INT64"),
        (DataType.INT32, 0.5, "expected an integer for INT32"),
        (DataType.INT32, np.float32(1), "expected an integer for INT32"),
        (DataType.FLOAT, True, "expected a number for FLOAT"),
        (DataType.FLOAT, np.bool_(True), "expected a number for FLOAT"),
        (DataType.INT32, np.bool_(True), "expected a"),
        (DataType.FLOAT, "0.5", "'scale'"),
        (DataType.FLOAT, None, "null pointer"),
        (DataType.FLOAT, np.array([0.5]), "expected FLOAT"),
        (DataType.FLOAT, np.zeros(0, np.float32), "empty array"),
    ],
    ids=str,
)
def test_a_number_that_does_not_fit_is_refused(data_type, value, words):
    sdpa = small("numbers", scale=runtime(data_type))
    plan = sdpa.graph.build(engine=REFERENCE)
    pack = {**sdpa.pack(), sdpa.tensors["scale"]: value}
    with refused(pack, sdpa.tensors["o"], "'scale'", words):
        plan.execute(pack)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int64(7)], ids=repr)
def test_no_number_is_taken_for_a_bool(value):
    load("fake_1_4_0")
    sdpa = small(scale=0.5, seed=runtime(DataType.BOOLEAN).set_name("seed"))
    plan = sdpa.graph.build(engine=FAKE)
    pack = sdpa.pack(seed=value)
    with refused(pack, sdpa.tensors["o"], "'seed'", "expected a bool"):
        plan.execute(pack)


def test_a_host_scalar_needs_no_more_than_its_type_s_alignment():
    load("fake_1_4_0")
    sdpa = small(scale=runtime())
    plan = sdpa.graph.build(engine=FAKE)
    array = aligned((1,), offset=4)
    array[0] = 2.5
    for given in (
        array,
        array[0:].reshape(()),
        OnlyDLPack(array, versioned=True),
        LikeTorch(array),
    ):
        assert (sdpa.run(plan, scale=given) == 2.5).all()
    # A plain int is a number where a scalar is due, not an address.
    assert (sdpa.run(plan, scale=7) == 7).all()


def test_a_device_scalar_is_refused_where_a_host_scalar_is_due(dense):
    array = np.ones(1, np.float32)
    words = ("'scale'", "memory on device cuda", "expected cpu", "a runtime scalar is host memory")
    refuse(dense, words, scale=LikeTorch(array, "cuda"))


# ---- workspace ----


@pytest.mark.parametrize("workspace", [True, "text", 1.5, -1], ids=repr)
def test_a_workspace_is_memory_or_none(dense, workspace):
    sdpa, plan = dense
    pack = sdpa.pack(scale=1.0)
    with refused(pack, sdpa.tensors["o"], "workspace"):
        plan.execute(pack, workspace=workspace)
    plan.execute(pack, workspace=None)
    plan.execute(pack, workspace=np.zeros(plan.workspace_size + 16, np.uint8))
