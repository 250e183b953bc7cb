"""Streams, and arrays on GPUs, as far as no GPU is needed: how they are told apart and refused."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import raggeddnn as rd
from dlpack_by_hand import CUDA, ROCM, Producer
from plugins.fakes import SHAPE, UNTOUCHED, LikeTorch, load, small

INVALID = rd.InvalidValueError
FLOATS = {"typestr": "<f4", "shape": SHAPE, "strides": None, "version": 3}


class Interface:
    """``__cuda_array_interface__`` over an array of the host."""

    def __init__(self, array, **changes):
        self.array = array
        data = (int(array.ctypes.data), not array.flags.writeable)
        self.__cuda_array_interface__ = {**FLOATS, "shape": array.shape, "data": data, **changes}


@pytest.fixture
def on_hip():
    """A plan whose engine says that it works on HIP's memory, and on the host's truly does."""
    load("fake_on_hip")
    sdpa = small()
    return sdpa, sdpa.graph.build(rd.Handle(device="hip"), engine="FAKE_ON_HIP_ENGINE")


def exported(array, device):
    return Producer(array, array.shape, device=device)


def pack_on_hip(sdpa, **more):
    """Everything as HIP's memory, but what is given."""
    pack = sdpa.pack(**more)
    given = {sdpa.tensors[name] for name in more}
    return {t: x if t in given else exported(x, ROCM) for t, x in pack.items()}


KINDS = {
    "dlpack": lambda x: exported(x, ROCM),
    "interface": Interface,
    "interface with strides": lambda x: Interface(x, strides=x.strides),
    "torch": lambda x: LikeTorch(x, "cuda"),  # PyTorch's name for either
}


@pytest.mark.parametrize("wrap", KINDS.values(), ids=KINDS)
def test_memory_of_the_plan_s_device_is_taken(on_hip, wrap):
    sdpa, plan = on_hip
    o = np.full(SHAPE, UNTOUCHED, np.float32)
    plan.execute(pack_on_hip(sdpa, o=wrap(o)))
    assert (o == 0.5).all()


WRONG = {
    "numpy": (lambda x: x, "cpu"),
    "dlpack": (lambda x: exported(x, 1), "cpu"),
    "the other runtime's": (lambda x: exported(x, CUDA), "cuda"),
}


@pytest.mark.parametrize(("wrap", "device"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("role", ["q", "o"])
def test_memory_elsewhere_is_refused_by_name(on_hip, wrap, device, role):
    sdpa, plan = on_hip
    array = np.full(SHAPE, UNTOUCHED, np.float32)
    with pytest.raises(INVALID, match=f"'{role}'.* got memory on device {device}, expected hip"):
        plan.execute(pack_on_hip(sdpa, **{role: wrap(array)}))
    assert (array == UNTOUCHED).all()


@pytest.mark.parametrize("wrap", [KINDS["dlpack"], Interface, lambda x: exported(x, CUDA)])
def test_memory_of_a_gpu_is_refused_by_a_plan_for_the_host(wrap):
    sdpa = small("host")
    plan = sdpa.graph.build(engine="reference")
    with pytest.raises(INVALID, match=r"'q'.* got memory on device (cuda|hip), expected cpu"):
        plan.execute(sdpa.pack(q=wrap(np.zeros(SHAPE, np.float32))))


def test_a_workspace_elsewhere_is_refused(on_hip):
    sdpa, plan = on_hip
    with pytest.raises(INVALID, match="workspace got memory on device cpu, expected hip"):
        plan.execute(pack_on_hip(sdpa), workspace=np.zeros(8, np.uint8))
    plan.execute(pack_on_hip(sdpa), workspace=exported(np.zeros(8, np.float32), ROCM))


def test_exporters_are_told_the_stream_of_the_execute(on_hip):
    sdpa, plan = on_hip
    q = exported(np.zeros(SHAPE, np.float32), ROCM)
    pack = pack_on_hip(sdpa, q=q)
    plan.execute(pack)
    plan.execute(pack, stream=0x1230)
    small().graph.tensor_like(q)  # looks only
    host = exported(np.zeros(SHAPE, np.float32), 1)
    reference = small("host")
    reference.graph.build(engine="reference").execute(reference.pack(q=host))
    assert [options.get("stream") for options in q.asked] == [0, 0x1230, -1]
    assert "stream" not in host.asked[0]


def test_a_device_that_is_none(on_hip):
    sdpa, plan = on_hip
    q = exported(np.zeros(SHAPE, np.float32), ROCM)
    q.__class__ = type("Odd", (Producer,), {"__dlpack_device__": lambda self: ("cuda", 0)})
    with pytest.raises(INVALID, match=r"'q'.*__dlpack_device__ is no \(type, id\)"):
        plan.execute(pack_on_hip(sdpa, q=q))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"typestr": "<f8"}, "of type float64, expected FLOAT"),
        ({"typestr": "nonsense"}, "typestr is 'nonsense', expected that of a NumPy type"),
        ({"shape": (2,)}, "memory of 2 elements, expected at least"),
        ({"shape": "abc"}, "shape is 'abc', expected a tuple"),
        ({"strides": (1,)}, "dims and 1 strides, expected as many|multiples of its element size"),
        ({"strides": (2, 2, 2, 2)}, "strides are no multiples of its element size"),
        ({"data": (1,)}, "data is no .address, is read-only."),
        ({"data": ("x", False)}, "data got str, expected an array or an int pointer"),
        ({"stream": 0}, "stream is 0, expected 1 or more"),
    ],
    ids=str,
)
def test_an_interface_that_does_not_fit_is_refused(on_hip, changes, words):
    sdpa, plan = on_hip
    array = Interface(np.zeros(SHAPE, np.float32), **changes)
    with pytest.raises(INVALID, match=f"'q'.*({words})"):
        plan.execute(pack_on_hip(sdpa, q=array))
    del array.__cuda_array_interface__["data"]
    with pytest.raises(INVALID, match=r"'q'.*has no data"):
        plan.execute(pack_on_hip(sdpa, q=array))
    array.__cuda_array_interface__ = 7
    with pytest.raises(INVALID, match=r"'q'.*interface__ is 7, expected a dict"):
        plan.execute(pack_on_hip(sdpa, q=array))


def test_a_read_only_output_is_refused(on_hip):
    sdpa, plan = on_hip
    o = np.full(SHAPE, UNTOUCHED, np.float32)
    o.setflags(write=False)
    with pytest.raises(INVALID, match=r"'o'.*read-only"):
        plan.execute(pack_on_hip(sdpa, o=Interface(o)))


# ---- streams and pointers ----


class Named:
    """What has one attribute."""

    def __init__(self, name, value):
        setattr(self, name, value)


class OfNvidia:
    def __init__(self, given):
        self.given = given

    def __cuda_stream__(self):
        return self.given


class Pointer:
    """As hip-python's, which are no integers."""

    def __init__(self, address):
        self.address = address

    def __int__(self):
        return self.address

    def as_c_void_p(self):
        return ctypes.c_void_p(self.address)


class Wrapped(Pointer):
    """As cuda-bindings': getPtr() is where the wrapper itself is."""

    as_c_void_p = property()

    def getPtr(self):  # noqa: N802
        return id(self)


STREAMS = {
    "int": 0x1230,
    "numpy": np.int64(0x1230),
    "torch": Named("cuda_stream", 0x1230),
    "cupy": Named("ptr", 0x1230),
    "protocol": OfNvidia((0, 0x1230)),
    "hip-python": Pointer(0x1230),
    "cuda-bindings": Wrapped(0x1230),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_streams_of_every_library_are_taken(on_hip, stream):
    sdpa, plan = on_hip
    handle = rd.Handle(stream=stream, device="hip")
    assert handle.stream == 0x1230
    handle.stream = None
    assert handle.stream == 0
    handle.stream = stream
    assert handle.stream == 0x1230
    q = exported(np.zeros(SHAPE, np.float32), ROCM)
    pack = pack_on_hip(sdpa, q=q)
    plan.execute(pack, stream=stream)
    assert q.asked[0]["stream"] == 0x1230


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        ("text", "stream got str"),
        (1.5, "stream got float"),
        (True, "stream got bool"),
        (OfNvidia(7), r"__cuda_stream__\(\) got 7, expected \(version, address\)"),
        (OfNvidia((0, None)), r"__cuda_stream__\(\) got NoneType"),
        (Named("cuda_stream", "x"), r"stream\.cuda_stream got str"),
    ],
    ids=repr,
)
def test_what_is_no_stream_is_refused(stream, words):
    with pytest.raises(INVALID, match=words):
        rd.Handle(stream=stream)


@pytest.mark.parametrize("kind", [Pointer, Wrapped])
def test_pointer_objects_are_addresses(on_hip, kind):
    sdpa, plan = on_hip
    o = np.full(SHAPE, UNTOUCHED, np.float32)
    plan.execute(pack_on_hip(sdpa, o=kind(int(o.ctypes.data))))
    assert (o == 0.5).all()


def test_objects_of_cuda_bindings():
    runtime = pytest.importorskip("cuda.bindings.runtime")
    driver = pytest.importorskip("cuda.bindings.driver")
    for made in (runtime.cudaStream_t(init_value=0x1230), driver.CUstream(0x1230)):
        assert rd.Handle(stream=made).stream == 0x1230
    assert rd.Handle(stream=driver.CUdeviceptr(0x1230)).stream == 0x1230  # a pointer as any other


def test_objects_of_hip_python():
    hip = pytest.importorskip("hip.hip")
    assert rd.Handle(stream=hip.ihipStream_t.fromObj(0x1230)).stream == 0x1230
