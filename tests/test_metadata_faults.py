"""Bad offsets and lengths where no host reads them: nothing out of bounds is touched, the other
batches are right, and the plan tells of the first fault when asked, in the words that an engine on
the host raises. On emulated waves; test_hip_engine.py has the same for a GPU.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from dataclasses import replace

import numpy as np
import pytest
import raggeddnn as rd
from metadata_faults import (
    CASE,
    FAULTS,
    FILL,
    LENGTHS,
    address,
    host_message,
    index_tensor,
    name_of,
    put,
    rows_of_batch,
)
from plugins.fakes import load, small
from raggeddnn.testing import Case, make_problem
from raggeddnn.testing.checks import assert_same_bits
from raggeddnn.testing.graphs import sdpa_graph

ARCHITECTURES = ("nvidia", "cdna", "rdna3", "rdna4")
FENCE = 64 << 20  # bytes at either side that nobody may touch
PAGE = mmap.PAGESIZE


class Fenced:
    """Copies of arrays that end where memory may not be touched: a read or write past the end, or
    far before the start, kills the process. What is between the start and the fence before it holds
    ``margin``, NaN in half types.
    """

    MARGIN = 0xFF

    def __init__(self) -> None:
        self.regions: list[tuple[mmap.mmap, np.ndarray]] = []

    def copy(self, array: np.ndarray) -> np.ndarray:
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        size = -(-array.nbytes // PAGE) * PAGE
        region = mmap.mmap(-1, size + 2 * FENCE)
        raw = np.frombuffer(region, np.uint8)
        for start in (0, FENCE + size):
            at = ctypes.c_void_p(raw.ctypes.data + start)
            assert protect(at, ctypes.c_size_t(FENCE), 0) == 0, ctypes.get_errno()
        inside = raw[FENCE : FENCE + size]
        inside[:] = self.MARGIN
        start = (size - array.nbytes) // 16 * 16
        made = inside[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        made[...] = array
        self.regions.append((region, inside[:start]))
        return made

    def check(self) -> None:
        for _, margin in self.regions:
            assert (margin == self.MARGIN).all()


class Runs:
    """A case's plan on one emulated architecture, and its runs on fenced memory."""

    def __init__(self, architecture: str, case: Case = CASE) -> None:
        load(f"emulated_{architecture}")
        self.architecture = architecture
        self.problem = make_problem(case)
        self.sdpa = sdpa_graph(self.problem)
        self.plan = self.sdpa.build(f"EMULATED_{architecture.upper()}_ENGINE")
        self.workspace = np.zeros(self.plan.workspace_size, np.uint8)

    def pack(self):
        outputs = self.sdpa.new_outputs(self.problem, FILL)
        return outputs, self.sdpa.pack(self.problem, outputs)

    def run(self, *faults):
        """O rows, LSE rows, and what the host says of the same pack (where there are faults)."""
        outputs, pack = self.pack()
        for fault, tensor in faults:
            put(fault, tensor, self.sdpa, pack)
        message = host_message(self.sdpa, pack) if faults else None
        fenced = Fenced()
        inside = {
            tensor: fenced.copy(array) if isinstance(array, np.ndarray) and array.ndim else array
            for tensor, array in pack.items()
        }
        self.plan.execute(
            {tensor: address(array) for tensor, array in inside.items()}, workspace=self.workspace
        )
        fenced.check()
        made = {name: inside[self.sdpa.tensors[name]] for name in outputs}
        o, lse = self.sdpa.o_rows(made, self.problem), self.sdpa.lse_rows(made, self.problem)
        return o, lse, message

    def faults(self) -> str | None:
        return self.plan.metadata_faults(self.workspace)


@pytest.fixture(params=ARCHITECTURES, scope="module")
def runs(request):
    made = Runs(request.param)
    made.good = made.run()
    return made


@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
def test_a_fault_is_reported_and_harms_no_other_batch(runs, fault):
    # Each architecture takes the next tensor: the code that reads metadata is the same for all.
    turn = FAULTS.index(fault) + ARCHITECTURES.index(runs.architecture)
    tensor = fault.tensors[turn % len(fault.tensors)]
    o, lse, message = runs.run((fault, tensor))
    assert runs.faults() == message
    good_o, good_lse, _ = runs.good
    for batch in range(runs.problem.batch):
        rows = rows_of_batch(runs.problem, batch)
        if batch not in fault.batches:
            assert_same_bits(o[rows], good_o[rows], f"{fault.name} of {tensor}: O of {batch}")
            assert_same_bits(lse[:, rows], good_lse[:, rows], f"{fault.name}: LSE of {batch}")
        elif fault.is_empty and tensor in ("k", "v"):  # no keys
            assert (o[rows] == 0).all() and (lse[:, rows] == -np.inf).all()
        elif fault.is_empty:  # no rows
            assert (o[rows] == FILL).all() and (lse[:, rows] == FILL).all()


def test_lengths_are_clamped_to_their_blocks(runs):
    names = {fault.name: fault for fault in FAULTS}
    o, lse, _ = runs.run((names["negative-length"], "seq_kv"))
    rows = rows_of_batch(runs.problem, 2)
    assert (o[rows] == 0).all() and (lse[:, rows] == -np.inf).all()
    # Three rows more than are valid count, which is all of the block.
    beyond, _, _ = runs.run((names["far-length"], "seq_q"))
    assert (beyond[rows] != 0).any(axis=(1, 2)).all()


def test_the_first_of_several_is_told(runs):
    names = {fault.name: fault for fault in FAULTS}
    first = (names["disagreeing"], "o")
    later = [(names["last-far"], "q"), (names["negative-length"], "seq_q"), (names["far"], "v")]
    _, _, message = runs.run(first)
    for _ in range(3):
        runs.run(*later, first)
        assert runs.faults() == message
    runs.run()
    assert runs.faults() is None


def test_the_first_of_more_batches_than_threads():
    lens = (2,) * 300
    case = Case("many", lens, lens, (1, 1, 1), dtype="float16", layout="padded", stats="none")
    many = Runs("cdna", case)
    _, pack = many.pack()
    lengths = pack[index_tensor(many.sdpa, LENGTHS[1])]
    for batch in (299, 99, 280, 298):
        lengths[batch] = -batch
        many.plan.execute(pack, workspace=many.workspace)
    assert many.faults() == (
        "[sdpa] seq_len_kv 'seq_kv': index 99 is -99, expected 0 to 3, the rows it has"
    )
    lengths[99] = 3
    many.plan.execute(pack, workspace=many.workspace)
    assert "index 280 is -280" in many.faults()


def test_a_dense_tensor_says_nothing_of_the_rows_of_ragged_ones():
    load("emulated_nvidia")
    g = rd.Graph(io_data_type=rd.DataType.HALF)
    q, k, v = (g.tensor(name=name, dim=[2, 1, 4, 8]) for name in "qkv")
    o, _ = g.sdpa(q, k, v)
    aux = g.tensor(name="offsets", dim=[3, 1, 1, 1], data_type=rd.DataType.INT32)
    o.set_output(True).set_ragged_offset(aux).set_ragged_offset_multiplier(8)
    arrays = [np.ones((2, 4, 8), np.float16) for _ in range(3)]
    results = []
    for engine in ("reference", "EMULATED_NVIDIA_ENGINE"):
        plan = g.build(engine=engine)
        out = np.full((5, 8), FILL, np.float16)
        pack = dict(zip((q, k, v, o), (*arrays, out), strict=True))
        plan.execute({**pack, aux: np.array([0, 3, 4], np.int32)})
        assert plan.metadata_faults() is None
        results.append(out)
    assert_same_bits(*results, "O")


# ---- whose workspace it is ----


def test_without_a_workspace_this_threads_is_looked_at():
    nvidia = Runs("nvidia")
    _, pack = nvidia.pack()
    put(FAULTS[0], "q", nvidia.sdpa, pack)
    nvidia.plan.execute({tensor: address(array) for tensor, array in pack.items()})
    assert "index 0 is 32, expected 0" in nvidia.plan.metadata_faults()
    refusals = []

    def ask_elsewhere():
        with pytest.raises(rd.InvalidValueError, match="no record of this plan") as refusal:
            nvidia.plan.metadata_faults()
        refusals.append(refusal)

    thread = threading.Thread(target=ask_elsewhere)
    thread.start()
    thread.join()
    assert refusals


def test_a_workspace_that_another_plan_has_used_is_refused():
    first, second = Runs("nvidia"), Runs("nvidia")
    first.run((FAULTS[0], "q"))
    second.workspace = first.workspace
    second.run()
    assert second.faults() is None
    with pytest.raises(rd.InvalidValueError, match="no record of this plan"):
        first.faults()
    with pytest.raises(rd.InvalidValueError, match=r"workspace has 8 bytes, expected at least"):
        first.plan.metadata_faults(np.zeros(8, np.uint8))


def test_a_plan_with_nothing_to_do_has_no_faults():
    nvidia = Runs("nvidia", replace(CASE, lens_q=(), lens_kv=(), layout="packed"))
    nvidia.run()
    assert nvidia.faults() is None


def test_engines_that_raise_have_nothing_to_tell():
    plan = sdpa_graph(make_problem(CASE)).build("reference")
    assert plan.metadata_faults() is None


def test_a_provider_that_cannot_tell_says_so():
    load("fake_1_4_0")
    plan = small("fake").graph.build(engine="RAGGEDDNN_FAKE_ENGINE")
    with pytest.raises(rd.NotSupportedError, match=r"RAGGEDDNN_FAKE_ENGINE .* cannot tell"):
        plan.metadata_faults()
