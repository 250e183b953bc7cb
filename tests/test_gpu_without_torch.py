"""A GPU without PyTorch: tensors there, streams, arrays of other libraries, ``varlen``. On a GPU by
``pytest -m gpu``; ``test_gpu_on_host.py`` runs this file on a fake one.
"""

from __future__ import annotations

import contextlib

import ml_dtypes
import numpy as np
import pytest
import raggeddnn as rd
from dlpack_by_hand import CUDA, ROCM, Producer
from gpu_runtime import ENGINE, IS_FAKE, OnlyExports, OnlyInterface, Runtime, address_of
from raggeddnn import _core
from raggeddnn.tensor import BHSD_SEQ_AXIS, RaggedTensor, Tensor
from raggeddnn.testing import Case, assert_sdpa_close, make_problem
from raggeddnn.testing.checks import assert_same_bits
from raggeddnn.testing.graphs import sdpa_graph
from readme_blocks import python_blocks

pytestmark = pytest.mark.gpu
INVALID = rd.InvalidValueError


@pytest.fixture(scope="module")
def gpu():
    return Runtime()


def small(**changes):
    """Packed, with an empty sequence, rows that see no key, and rows past the last block."""
    given = {"layout": "slack", "poison": "nan", "causal": True, "alignment": "bottom_right"}
    given |= {"dtype": "float16", "heads": (2, 1, 1), "d": 32, **changes}
    return make_problem(Case("small", (5, 0, 12), (7, 3, 4), **given))


class OnGpu:
    """A problem's graph, built for the GPU, and its tensors there."""

    def __init__(self, gpu, problem, fill=np.nan):
        self.gpu, self.problem, self.sdpa = gpu, problem, sdpa_graph(problem)
        self.plan = self.sdpa.graph.build(rd.Handle(device=gpu.device), engine=ENGINE)
        self.outputs = self.sdpa.new_outputs(problem, fill)
        pack = self.sdpa.pack(problem, self.outputs)
        self.pack = {
            t: gpu.tensor(x) if isinstance(x, np.ndarray) and x.ndim else x for t, x in pack.items()
        }

    def output(self, name):
        return self.pack[self.sdpa.tensors[name]]

    def check(self):
        """What is there now against the oracle."""
        found = {name: self.output(name).numpy() for name in self.outputs}
        o, lse = (rows(found, self.problem) for rows in (self.sdpa.o_rows, self.sdpa.lse_rows))
        assert_sdpa_close(o, lse, self.problem, label=ENGINE)


# ---- tensors ----


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32", "int64"])
def test_what_is_filled_is_there_and_what_is_there_is_read(gpu, dtype):
    values = np.arange(24).reshape(2, 3, 4)
    values = values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    tensor = gpu.tensor(values)
    kind = {"cuda": CUDA, "hip": ROCM}[gpu.device]
    assert tensor.device() == gpu.device and tensor.__dlpack_device__() == (kind, 0)
    assert_same_bits(gpu.read(address_of(tensor), values), values, "filled")
    _core.fill_gpu_with_zeros(address_of(tensor), 8 * values.itemsize, 0)
    values.reshape(-1)[:8] = 0
    assert_same_bits(tensor.numpy(), values, "read")
    tensor.set_host_value(5, [0, 0, 0])
    values[0, 0, 0] = 5
    assert tensor.get_host_value([0, 0, 0]) == 5
    assert_same_bits(gpu.read(address_of(tensor), values), values, "filled again")
    copy = tensor.numpy()
    copy[:] = 9
    assert_same_bits(tensor.numpy(), values, "a copy")


def test_whoever_shares_the_memory_may_write_at_any_time(gpu):
    tensor = gpu.tensor(np.ones(4, np.float32))
    address = address_of(tensor)
    for n in (1, 2, 3):  # without asking the tensor for it again
        _core.fill_gpu_with_zeros(address, 4 * n, 0)
        assert tensor.numpy().tolist() == [0] * n + [1] * (4 - n)


def test_ragged_tensors_are_there_too(gpu):
    offsets = gpu.tensor(np.array([0, 2, 3], np.int32), (3, 1, 1, 1))
    ragged = RaggedTensor(
        [2, 1, 4, 8], [32, 32, 8, 1], BHSD_SEQ_AXIS, offsets, 40, ragged_offset_multiplier=8,
        device=gpu.device,
    )  # fmt: skip
    ragged.fill_with_value(2)
    assert ragged.element_count() == 24
    want = np.repeat(np.array([2, 0], np.float32), [24, 16])
    assert_same_bits(gpu.read(address_of(ragged), want), want, "ragged")


def test_streams_of_dlpack_are_numbered_as_it_says(gpu):
    tensor = Tensor([2], device=gpu.device)
    default, others = {"cuda": ((1, 2), (0, -2)), "hip": ((0,), (1, 2, -2))}[gpu.device]
    with gpu.stream() as stream:
        for number in (None, -1, *default, stream):
            assert "dltensor" in repr(tensor.__dlpack__(stream=number))
    for number in (*others, "1", True):
        with pytest.raises(BufferError, match=r"stream got .*, expected None"):
            tensor.__dlpack__(stream=number)
    for options in ({"dl_device": (1, 0)}, {"copy": True}):
        with pytest.raises(BufferError, match=r"got .*, expected"):
            tensor.__dlpack__(**options)


def test_the_other_runtime_s_device_is_refused(gpu):
    other = {"cuda": "hip", "hip": "cuda"}[gpu.device]
    with pytest.raises(INVALID, match=f"device got '{other}', expected 'cpu' or '{gpu.device}'"):
        Tensor([2], device=other)
    with pytest.raises(INVALID, match="device got 'tpu'"):
        Tensor([2], device="tpu")


# ---- plans ----


def test_a_plan_runs_on_the_default_stream_with_its_own_workspace(gpu):
    run = OnGpu(gpu, small())
    assert run.plan.workspace_size > 0
    run.plan.execute(run.pack)
    run.check()


def test_a_given_stream_and_workspace(gpu):
    run = OnGpu(gpu, small())
    workspace = Tensor([run.plan.workspace_size], None, rd.DataType.UINT8, device=gpu.device)
    workspace.fill_with_value(0xA5)
    with gpu.stream() as stream:
        run.plan.execute(run.pack, workspace=workspace, stream=stream)
        run.check()  # reading waits for the stream that the tensor was last given to
        handle = rd.Handle(stream=stream, device=gpu.device)
        again = OnGpu(gpu, small())
        again.sdpa.graph.execute(again.pack, workspace=workspace, handle=handle)
        gpu.finish(stream)
        again.check()


def test_one_thread_s_workspace_serves_streams_in_turn(gpu):
    runs = [OnGpu(gpu, small(seed=seed)) for seed in range(4)]
    address = address_of(runs[0].output("o"))
    with gpu.stream() as one, gpu.stream() as two:
        runs[0].plan.execute(runs[0].pack, stream=one)
        runs[1].plan.execute(runs[1].pack, stream=two)
        first = gpu.read(address, runs[0].outputs["o"])  # done, for its workspace is taken
        for run, stream in zip(runs[2:], (one, None), strict=True):
            run.plan.execute(run.pack, stream=stream)
        for run in runs:
            run.check()
    assert_same_bits(first, runs[0].output("o").numpy(), "o")


@pytest.mark.parametrize("wrap", [OnlyInterface, OnlyExports, address_of], ids=lambda f: f.__name__)
def test_arrays_of_other_libraries_are_used_where_they_are(gpu, wrap):
    run = OnGpu(gpu, small())
    run.plan.execute({t: wrap(x) if isinstance(x, Tensor) else x for t, x in run.pack.items()})
    run.check()


def test_exporters_are_told_the_stream(gpu):
    run = OnGpu(gpu, small())
    q = run.sdpa.tensors["q"]
    run.pack[q] = OnlyExports(run.pack[q])
    run.plan.execute(run.pack)
    with gpu.stream() as stream:
        run.plan.execute(run.pack, stream=stream)
        assert run.pack[q].asked == [1 if gpu.device == "cuda" else 0, stream]
        run.check()


def test_work_on_the_stream_that_an_array_names_comes_first(gpu):
    run, zeros = OnGpu(gpu, small()), OnGpu(gpu, small())
    q = run.sdpa.tensors["q"]
    memory = run.pack[q]
    values = memory.numpy()
    zeros.pack[zeros.sdpa.tensors["q"]] = gpu.tensor(np.zeros_like(values))
    zeros.plan.execute(zeros.pack)  # from here on the workspace is the default stream's
    with gpu.stream() as stream:
        run.pack[q] = OnlyInterface(memory, stream=stream)
        _core.fill_gpu_with_zeros(address_of(memory), values.nbytes, stream)
        run.plan.execute(run.pack)
        o = run.output("o").numpy()
    assert_same_bits(o, zeros.output("o").numpy(), "q of zeros")


def test_an_importer_s_stream_sees_what_a_plan_wrote(gpu):
    run = OnGpu(gpu, small())
    o = run.output("o")
    address = address_of(o)
    with gpu.stream() as one, gpu.stream() as two:
        run.plan.execute(run.pack, stream=one)
        o.__dlpack__(stream=two)
        found = gpu.read(address, run.outputs["o"])  # waits for neither
        run.check()
    assert_same_bits(found, o.numpy(), "o")


def refused(run, words, **changes):
    """InvalidValueError with the words, before anything is written."""
    changed = {run.sdpa.tensors[name]: x for name, x in changes.items() if name != "workspace"}
    before = run.output("o").numpy()
    with pytest.raises(INVALID, match=words):
        run.plan.execute({**run.pack, **changed}, workspace=changes.get("workspace"))
    assert_same_bits(run.output("o").numpy(), before, "o")


def test_arrays_elsewhere_are_refused_by_name(gpu):
    run = OnGpu(gpu, small(), fill=3.0)
    q = run.pack[run.sdpa.tensors["q"]].numpy()
    expected = f"'q'.* got memory on device {{}}, expected {gpu.device}"
    refused(run, expected.format("cpu"), q=q)
    refused(run, expected.format("cpu"), q=Producer(q, q.shape, bits=16))
    other, name = {"cuda": (ROCM, "hip"), "hip": (CUDA, "cuda")}[gpu.device]
    refused(run, expected.format(name), q=Producer(q, q.shape, bits=16, device=other))
    workspace = np.zeros(run.plan.workspace_size, np.uint8)
    refused(run, f"workspace got memory on device cpu, expected {gpu.device}", workspace=workspace)
    memory = run.pack[run.sdpa.tensors["q"]]
    for words, changes in [
        ("'q'.*type int16, expected HALF", {"typestr": "<i2"}),
        ("'q'.*__cuda_array_interface__ has no shape", {"shape": None}),
        ("'q'.*typestr is 'x9', expected", {"typestr": "x9"}),
        ("'q'.*stream is 0, expected 1 or more", {"stream": 0}),
    ]:
        array = OnlyInterface(memory, **changes)
        if changes.get("shape", ()) is None:
            del array.interface["shape"]
        refused(run, words, q=array)
    read_only = OnlyInterface(run.output("o"), data=(address_of(run.output("o")), True))
    refused(run, "'o'.*read-only", o=read_only)


# ---- varlen ----


def arguments(gpu, problem):
    case, integer = problem.case, np.dtype(problem.case.index_dtype)
    tables = [np.array(s.offsets, integer) for s in (problem.side_q, problem.side_kv)]
    options = {"scale": case.scale, "causal": case.causal, "engine": ENGINE, "return_lse": True}
    if case.gives_lengths:
        options["seqused_q"] = gpu.tensor(np.array(problem.side_q.lens, integer))
        options["seqused_k"] = gpu.tensor(np.array(problem.side_kv.lens, integer))
    return [gpu.tensor(x) for x in (problem.q, problem.k, problem.v, *tables)], options


VARLEN = {
    "slack": {},
    "packed": {"layout": "packed", "poison": None},
    "int64": {"index_dtype": "int64"},
    "bfloat16": {"dtype": "bfloat16"},
}


@pytest.mark.parametrize("changes", VARLEN.values(), ids=VARLEN)
def test_varlen(gpu, changes):
    problem = small(**changes)
    args, options = arguments(gpu, problem)
    o, lse = rd.varlen.sdpa(*args, **options)
    assert isinstance(o, Tensor) and o.device() == lse.device() == gpu.device
    o, lse = o.numpy(), lse.numpy()
    assert o.shape == (problem.q.shape[0], 2, 32) and lse.shape == (2, problem.q.shape[0])
    assert_sdpa_close(o, lse, problem, label=ENGINE)
    unwritten = ~problem.side_q.written
    assert not o[unwritten].any() and np.isneginf(lse[:, unwritten]).all()
    limits = {"max_seqlen_q": max(problem.side_q.blocks), "max_seqlen_k": 8}
    # numba, hip-python and NumPy have no name for bfloat16.
    first = OnlyExports if problem.case.dtype == "bfloat16" else OnlyInterface
    wrapped = [first(args[0]), *map(OnlyExports, args[1:4]), OnlyInterface(args[4])]
    out = gpu.tensor(np.full_like(problem.q, np.nan))
    given, _ = rd.varlen.sdpa(*wrapped, **options, **limits, out=out)
    assert given is out
    assert_same_bits(out.numpy(), o, "limits given, out given, arrays of others")


def test_varlen_of_nothing(gpu):
    q = gpu.tensor(np.ones((3, 1, 8), np.float16))
    none = Tensor([0, 1, 8], None, rd.DataType.HALF, device=gpu.device)
    cu = gpu.tensor(np.array([0, 3], np.int32))
    cu_none = gpu.tensor(np.array([0, 0], np.int32))
    o, lse = rd.varlen.sdpa(q, none, none, cu, cu_none, return_lse=True, engine=ENGINE)
    assert not o.numpy().any() and np.isneginf(lse.numpy()).all()
    assert rd.varlen.sdpa(none, q, q, cu_none, cu, engine=ENGINE).dims() == [0, 1, 8]


def test_varlen_refuses_by_name_before_anything_is_written(gpu):
    problem = small()
    args, options = arguments(gpu, problem)
    q, cu_k = args[0], args[4]
    names = ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k")
    given = dict(zip(names, args, strict=True))
    out = gpu.tensor(np.full_like(problem.q, 3))
    strided = Tensor([*q.dims()[:2], 32], [32, 32 * q.dims()[0], 1], rd.DataType.HALF,
                     device=gpu.device)  # fmt: skip
    elsewhere = f"is on device cpu, expected {gpu.device}, where q is"
    for words, changes in [
        (f"k {elsewhere}", {"k": problem.k}),
        (f"cu_seqlens_q {elsewhere}", {"cu_seqlens_q": np.array(problem.side_q.offsets, np.int32)}),
        ("cu_seqlens_k: expected an array, got list", {"cu_seqlens_k": [0, 1]}),
        ("cu_seqlens_q is None", {"cu_seqlens_q": None}),
        ("cu_seqlens_q has data type float16", {"cu_seqlens_q": q}),
        (r"cu_seqlens_k has shape \(3,\), expected \(4,\)", {"cu_seqlens_k": options["seqused_k"]}),
        ("seqused_q is None and the other one is given", {"seqused_q": None}),
        (r"seqused_k has shape \(4,\), expected \(3,\)", {"seqused_k": cu_k}),
        ("v has data type int32", {"v": gpu.tensor(np.ones(problem.v.shape, np.int32))}),
        ("max_seqlen_q is -1", {"max_seqlen_q": -1}),
        ("out has shape", {"out": gpu.tensor(np.zeros((3, 2, 32), np.float16))}),
        ("out overlaps q", {"out": q}),
        ("out has strides", {"out": strided}),
        ("q has shape .* expected rows one after another", {"q": strided}),
    ]:
        call = {**given, "out": out, **options, **changes}
        with pytest.raises(INVALID, match=rf"^\[varlen\.sdpa\] {words}"):
            rd.varlen.sdpa(**call)
    with pytest.raises(rd.NotSupportedError):
        rd.varlen.sdpa(**{**given, "out": out, **options, "engine": "reference"})
    assert (out.numpy() == 3).all()


def test_the_example_of_the_readme(gpu):
    (code,) = python_blocks(on_gpu=True)
    names: dict[str, object] = {}
    text = code.replace('DEVICE = "cuda"', f'DEVICE = "{gpu.device}"')
    with contextlib.redirect_stdout(None):
        exec(compile(text, "README.md, gpu", "exec"), names)
    q, k, v = (x.numpy() for x in (names["q"], names["k"], names["v"]))
    cu = names["cu_seqlens"].numpy()
    want = rd.varlen.sdpa(q, k, v, cu, cu, causal=True, engine="reference")
    got = names["o"].numpy()
    assert np.abs(got.astype(float) - want).max() <= 4 * np.finfo(np.float16).eps * np.abs(v).max()


# ---- other libraries ----


def test_streams_and_memory_of_cuda_bindings(gpu):
    runtime = pytest.importorskip("cuda.bindings.runtime")
    if IS_FAKE or gpu.device != "cuda":
        pytest.skip("needs an NVIDIA GPU")
    run = OnGpu(gpu, small())
    status, stream = runtime.cudaStreamCreateWithFlags(1)
    assert int(status) == 0
    status, workspace = runtime.cudaMalloc(run.plan.workspace_size)
    assert int(status) == 0
    event = runtime.cudaEventCreate()[1]
    run.plan.execute(run.pack, workspace=workspace, stream=stream)
    runtime.cudaEventRecord(event, stream)
    runtime.cudaEventSynchronize(event)
    run.check()
    handle = rd.Handle(stream=stream, device="cuda")
    assert handle.stream == int(stream)
    runtime.cudaStreamDestroy(stream)
    runtime.cudaFree(workspace)


def test_streams_and_memory_of_hip_python(gpu):
    hip = pytest.importorskip("hip.hip")
    if IS_FAKE or gpu.device != "hip":
        pytest.skip("needs an AMD GPU")
    run = OnGpu(gpu, small())
    status, stream = hip.hipStreamCreate()
    assert int(status) == 0
    status, workspace = hip.hipMalloc(run.plan.workspace_size)
    assert int(status) == 0
    run.plan.execute(run.pack, workspace=workspace, stream=stream)
    hip.hipStreamSynchronize(stream)
    run.check()


def test_varlen_of_torch_tensors(gpu):
    if IS_FAKE:
        pytest.skip("PyTorch brings a runtime of its own")
    torch = pytest.importorskip("torch")
    problem = small()
    args, options = arguments(gpu, problem)
    want_o, want_lse = (x.numpy() for x in rd.varlen.sdpa(*args, **options))
    lengths = [options.pop(name) for name in ("seqused_q", "seqused_k")]
    q, k, v, cu_q, cu_k, used_q, used_k = (
        torch.from_numpy(x.numpy()).cuda() for x in (*args, *lengths)
    )
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        call = {**options, "seqused_q": used_q, "seqused_k": used_k}
        o, lse = rd.varlen.sdpa(q, k, v, cu_q, cu_k, **call)
        out = torch.full_like(o, 7)
        rd.varlen.sdpa(q, k, v, cu_q, cu_k, **{**call, "return_lse": False}, out=out)
        copied = q.transpose(0, 1).contiguous().transpose(0, 1)  # heads outermost: copied
        again, _ = rd.varlen.sdpa(copied, k, v, cu_q, cu_k, **call)
        one_side, _ = rd.varlen.sdpa(q, k, v, cu_q, cu_k, **{**call, "seqused_k": cu_k.diff()})
        one_side_too, _ = rd.varlen.sdpa(q, k, v, cu_q, cu_k, **{**call, "seqused_k": None})
        found = [x.cpu().numpy() for x in (o, lse, out, again, one_side, one_side_too)]
    assert_same_bits(found[0], want_o, "o")
    assert_same_bits(np.ascontiguousarray(found[1]), np.ascontiguousarray(want_lse), "lse")
    assert_same_bits(found[2], want_o, "out")
    assert_same_bits(found[3], want_o, "copied")
    assert_same_bits(found[4], found[5], "lengths of one side")
    with pytest.raises(INVALID, match=r"out requires grad"):
        rd.varlen.sdpa(q, k, v, cu_q, cu_k, out=out.requires_grad_(), engine=ENGINE)


def test_torch_takes_a_tensor_over(gpu):
    if IS_FAKE:
        pytest.skip("PyTorch brings a runtime of its own")
    torch = pytest.importorskip("torch")
    tensor = gpu.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    taken = torch.from_dlpack(tensor)
    assert taken.is_cuda and taken.tolist() == [[0, 1, 2], [3, 4, 5]]
    taken += 1
    assert tensor.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
