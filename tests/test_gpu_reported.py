"""What users of other libraries reported on GPUs: element indices beyond 2^31, memory that is less
aligned than loads are wide, and time that grows with more than the work. ``pytest -m gpu``; the
small ones on the fake GPU of ``test_gpu_on_host.py``, too.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import raggeddnn as rd
from gpu_runtime import ENGINE, IS_FAKE, Runtime, Zeros, address_of
from raggeddnn._plans import plans
from raggeddnn.testing import Case, make_problem
from raggeddnn.testing.checks import assert_same_bits, run_and_check
from raggeddnn.testing.gradients import make_backward
from raggeddnn.testing.graphs import sdpa_graph
from raggeddnn.testing.graphs_backward import run_and_check_backward, sdpa_backward_graph

pytestmark = pytest.mark.gpu
needs_a_gpu = pytest.mark.skipif(IS_FAKE, reason="too much for emulated waves")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture(scope="module")
def gpu():
    return Runtime()


# ---- packed attention of any size ----

WIDTH = 128


class Packed:
    """Tensors over packed sequences on the GPU, zeros but for the last rows, and plans for them."""

    def __init__(
        self, gpu: Runtime, lengths: list[int], heads: dict[str, int], **options: Any
    ) -> None:
        self.gpu, self.lengths, self.heads, self.options = gpu, lengths, heads, options
        self.memory: dict[str, Zeros] = {}

    def add(self, name: str, last: Any) -> None:
        self.memory[name] = self.gpu.zeros(sum(self.lengths) * last[0].nbytes)
        self.gpu.write(self.address_of_last(name, last), last)

    def address_of_last(self, name: str, rows: Any) -> int:
        return self.memory[name].address + (sum(self.lengths) - len(rows)) * rows[0].nbytes

    def last(self, name: str, like: Any) -> Any:
        return self.gpu.read(self.address_of_last(name, like), like)

    def plan(self, names: list[str], results: list[str], capacity: int, unit: str = "row") -> Any:
        """A call that executes the pass over `names` and makes `results`; S_max is `capacity`."""
        graph = rd.Graph(io_data_type=rd.DataType.BFLOAT16)
        batch = len(self.lengths)
        tables: dict[int, Any] = {}
        pack: dict[Any, Any] = {}

        def layout(name: str) -> dict[str, Any]:
            heads, width = (self.heads["q"], 1) if name == "stats" else (self.heads[name], WIDTH)
            row = heads * width
            scale = row if unit == "element" else 1
            if scale not in tables:
                tables[scale] = graph.tensor(dim=[batch + 1, 1, 1, 1], data_type=rd.DataType.INT64)
                cu = np.cumsum([0, *self.lengths]) * scale
                pack[tables[scale]] = self.gpu.tensor(cu, (batch + 1, 1, 1, 1))
            return {
                "dim": [batch, heads, capacity, width],
                "stride": [capacity * row, width, row, 1],
                "ragged_offset": tables[scale],
                "ragged_offset_multiplier": row // scale,
            }

        inputs = [graph.tensor(**layout(name)) for name in names]
        if results[0] == "o":
            outputs = graph.sdpa(*inputs, generate_stats=True, **self.options)
        else:
            stats = graph.tensor(**layout("stats"), data_type=rd.DataType.FLOAT)
            outputs = graph.sdpa_backward(*inputs, stats, **self.options)
            pack[stats] = self.memory["stats"].address
        pack |= {t: self.memory[n].address for t, n in zip(inputs, names, strict=True)}
        for name, tensor in zip(results, outputs, strict=False):
            stated = layout(name)
            tensor.set_output(True).set_dim(stated["dim"]).set_stride(stated["stride"])
            tensor.set_ragged_offset(stated["ragged_offset"])
            tensor.set_ragged_offset_multiplier(stated["ragged_offset_multiplier"])
            pack[tensor] = self.memory[name].address
        plan = graph.build(rd.Handle(device=self.gpu.device), engine=ENGINE)
        assert "without matrix instructions" not in plan.explain_kernel()
        return lambda: plan.execute(pack)

    def forward(self, capacity: int, unit: str = "row") -> Any:
        return self.plan(["q", "k", "v"], ["o", "stats"], capacity, unit)

    def backward(self, capacity: int, unit: str = "row") -> Any:
        return self.plan(["q", "k", "v", "o", "do"], ["dq", "dk", "dv"], capacity, unit)


def heads_of(query: int, key: int) -> dict[str, int]:
    return {name: key if name[-1] in "kv" else query for name in RESULTS + INPUTS}


INPUTS = ("q", "k", "v", "do")
RESULTS = ("o", "dq", "dk", "dv")


def packed(
    gpu: Runtime, lengths: list[int], heads: dict[str, int], last: int, **options: Any
) -> Packed:
    """With random numbers in the last rows of the inputs."""
    rng = np.random.default_rng(26)
    made = Packed(gpu, lengths, heads, **options)
    for name in INPUTS + RESULTS:
        rows = rng.standard_normal((last, heads[name], WIDTH), np.float32).astype(BFLOAT16)
        made.add(name, rows if name in INPUTS else np.zeros_like(rows))
    made.add("stats", np.zeros((last, heads["q"], 1), np.float32))
    return made


# ---- heads that take turns ----


@needs_a_gpu
def test_heads_alike_have_results_alike(gpu):
    """Ten heads that hold the same, long and under a causal mask: their tiles take turns, those of
    as many heads as the cache holds and then those of the others. Each is as if it were alone.
    """
    lengths, rng = [9000, 300], np.random.default_rng(5)
    inputs = {
        name: rng.standard_normal((sum(lengths), 1, WIDTH), np.float32).astype(BFLOAT16)
        for name in INPUTS
    }
    found = []
    for count in (1, 10):
        attention = Packed(gpu, lengths, heads_of(count, count), right_bound=0)
        for name, rows in inputs.items():
            attention.add(name, np.repeat(rows, count, 1))
        poison = np.full((sum(lengths), count, WIDTH), np.nan, BFLOAT16)
        for name in RESULTS:
            attention.add(name, poison)
        attention.add("stats", np.full((sum(lengths), count, 1), np.nan, np.float32))
        attention.forward(max(lengths))()
        attention.backward(max(lengths))()
        found.append({name: attention.last(name, poison) for name in RESULTS})
    alone, together = found
    for name in RESULTS:
        assert np.isfinite(alone[name].astype(np.float32)).all(), name
        assert_same_bits(together[name], np.repeat(alone[name], 10, 1), name)


# ---- T26: more than 2^31 elements ----


@needs_a_gpu
@pytest.mark.parametrize("unit", ["row", "element"])
def test_t26_more_elements_than_32_bits_count(gpu, unit):
    """The last of two sequences, and alone: the same bits. A row sees 17 keys at most."""
    heads, short = heads_of(8, 1), 40
    total = 2**31 // (heads["q"] * WIDTH) + 64
    found = []
    for lengths in ([total - short, short], [short]):
        attention = packed(gpu, lengths, heads, short, left_bound=16, right_bound=0)
        attention.forward(max(lengths), unit)()
        attention.backward(max(lengths), unit)()
        like = {n: np.empty((short, heads[n], WIDTH), BFLOAT16) for n in RESULTS}
        like["stats"] = np.empty((short, heads["q"], 1), np.float32)
        found.append({name: attention.last(name, rows) for name, rows in like.items()})
    for name, rows in found[1].items():
        assert np.isfinite(rows.astype(float)).all() and rows.astype(float).any(), name
        assert_same_bits(found[0][name], rows, name)


# ---- T27: memory less aligned than loads are wide ----


class CutPlan:
    """A plan that takes the host's arrays, and works on copies that begin `by` elements into other
    memory, of the tensors whose alignment allows it.
    """

    def __init__(self, gpu: Runtime, graph: Any, by: int) -> None:
        self.gpu, self.by = gpu, by
        self.plan = graph.graph.build(rd.Handle(device=gpu.device), engine=ENGINE)
        self.engine_name = self.plan.engine_name

    def execute(self, pack: dict[Any, Any]) -> None:
        arrays = {t: x for t, x in pack.items() if isinstance(x, np.ndarray) and x.ndim}
        there, addresses = [], {}
        for tensor, array in arrays.items():
            by = self.by if tensor.get_alignment() == array.itemsize else 0
            flat = np.zeros(array.size + by, array.dtype)
            flat[by:] = array.reshape(-1)
            there.append(self.gpu.tensor(flat))
            addresses[tensor] = address_of(there[-1]) + by * array.itemsize
        self.plan.execute({**pack, **addresses})
        for tensor, array in arrays.items():
            array[...] = self.gpu.read(addresses[tensor], array)


FORMS = {
    "even": {"d": 64},
    "odd": {"d": 41},
    "one": {"d": 1},
    "bias-43": {"d": 64, "bias": "11qk"},
    "bias-361": {"d": 16, "bias": "11qk", "lens_kv": (361, 9)},
}
CUT = ("q", "k", "v", "bias", "o", "do", "dq", "dk", "dv", "dbias")


def cut_case(dtype: str, **changes: Any) -> Case:
    given = {"lens_kv": (43, 9), "heads": (2, 1, 1), "causal": True, "dtype": dtype, **changes}
    return Case("cut", (5, 70), **given)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("by", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_t27_memory_that_begins_anywhere(gpu, form, by, dtype):
    back = make_backward(cut_case(dtype, **FORMS[form]))
    forward, backward = sdpa_graph(back.forward), sdpa_backward_graph(back)
    for graph in (forward, backward):
        for name in set(CUT) & set(graph.tensors):
            graph.tensors[name].set_alignment(back.forward.q.itemsize)
    run_and_check(forward, CutPlan(gpu, forward, by), back.forward)
    run_and_check_backward(backward, CutPlan(gpu, backward, by), back)


@pytest.mark.parametrize("name", ["q", "k", "v", "o", "bias"])
def test_t27_less_aligned_than_stated_is_refused(gpu, name):
    problem = make_problem(cut_case("bfloat16", d=64, bias="11qk"))
    sdpa = sdpa_graph(problem)
    plan = sdpa.graph.build(rd.Handle(device=gpu.device), engine=ENGINE)
    pack = sdpa.pack(problem, sdpa.new_outputs(problem, 0.0))
    there = {t: gpu.tensor(x) for t, x in pack.items() if isinstance(x, np.ndarray) and x.ndim}
    cut = sdpa.tensors[name]
    pack |= there | {cut: address_of(there[cut]) + 2}
    with pytest.raises(rd.InvalidValueError, match=rf"'{name}'.*expected a multiple of 16 bytes"):
        plan.execute(pack)


# ---- T36: time grows with the work ----

LONG = {
    "1 x 16k": [16384],
    "16 x 1k": [1024] * 16,
    "1 x 15k + 1024 x 1": [15360] + [1] * 1024,
    "16k x 1": [1] * 16384,
}


def seconds(gpu: Runtime, call: Any) -> float:
    """Of one call, the median of several, by the host's clock."""
    call()
    gpu.call("DeviceSynchronize")
    times = []
    for _ in range(15):
        start = time.perf_counter()
        call()
        gpu.call("DeviceSynchronize")
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def pass_seconds(gpu: Runtime, lengths: list[int], name: str, times: int = 1) -> float:
    attention = packed(gpu, lengths, heads_of(16, 16), min(sum(lengths), 512))
    attention.forward(max(lengths))()
    return seconds(gpu, getattr(attention, name)(times * max(lengths)))


@needs_a_gpu
@pytest.mark.parametrize("name", ["forward", "backward"])
def test_t36_a_batch_takes_as_long_as_its_parts(gpu, name):
    long, ones, short, whole = (
        pass_seconds(gpu, lengths, name) for lengths in ([15360], [1] * 1024, [1024], [16384])
    )
    for batch, parts in [
        ("1 x 15k + 1024 x 1", long + ones),
        ("16 x 1k", min(16 * short, whole)),
        ("16k x 1", 16 * ones),
    ]:
        assert pass_seconds(gpu, LONG[batch], name) <= 1.3 * parts, batch


@needs_a_gpu
@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize("lengths", LONG.values(), ids=LONG)
def test_t36_a_longest_length_eight_times_too_large_costs_nothing(gpu, lengths, name):
    exact = pass_seconds(gpu, lengths, name)
    assert pass_seconds(gpu, lengths, name, times=8) <= 1.3 * exact


@needs_a_gpu
def test_t36_new_lengths_build_no_plan(gpu):
    rng = np.random.default_rng(36)
    q, k, v = (
        gpu.tensor(rng.standard_normal((1024, 2, 64), np.float32).astype(np.float16))
        for _ in range(3)
    )
    built = None
    for _ in range(100):
        cuts = np.sort(rng.integers(0, 1025, 15))
        cu = gpu.tensor(np.array([0, *cuts, 1024], np.int32))
        rd.varlen.sdpa(q, k, v, cu, cu, max_seqlen_q=1024, max_seqlen_k=1024, engine=ENGINE)
        assert built in (None, plans.builds)
        built = plans.builds
