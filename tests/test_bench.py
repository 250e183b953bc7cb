"""What ``raggeddnn bench`` measures: useful work, lengths, layouts, turns, checks and peers."""

from __future__ import annotations

import itertools
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.bench import PRESETS, BenchOptions, Preset, Workload, preset_named, run_bench
from raggeddnn.bench.checking import Checker, sequences_to_check
from raggeddnn.bench.device import HostClock, last_level_cache
from raggeddnn.bench.layouts import LAYOUTS, make_layout
from raggeddnn.bench.lengths import DISTRIBUTIONS, docstring_lengths, draw_lengths
from raggeddnn.bench.ours import REFERENCE_WORK, EngineContender, host_engines, our_contenders
from raggeddnn.bench.ours_torch import torch_contenders
from raggeddnn.bench.peers import PEERS
from raggeddnn.bench.runner import measure
from raggeddnn.bench.work import Batch, UnavailableError
from raggeddnn.testing import SdpaOptions, assert_sdpa_close, visible_keys

PASSES = ("forward", "backward", "forward+backward")
TINY = preset_named("tiny")


def tiny(pass_name="forward", dtype="float32", causal=False, seed=0, preset=TINY):
    lens = draw_lengths("documents", 4, 24, seed)
    return Workload(preset, "documents", lens, dtype, pass_name, causal, seed)


def silent(*_):
    """A progress callback."""


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d_v", [None, 5])
def test_useful_work_is_that_of_the_visible_pairs(causal, d_v):
    preset = Preset("x", "", (6, 2, 2), 8, 3, 9, value_dim=d_v)
    lens = (1, 9, 4, 4)
    seen = sum(int(visible_keys(n, n, SdpaOptions(causal=causal)).sum()) for n in lens)
    # A pair and query head: a multiplication and an addition per element of q and of v.
    forward = seen * 6 * (2 * 8 + 2 * (d_v or 8))
    work = Workload(preset, "fixed", lens, causal=causal)
    assert work.useful_flops == forward
    assert replace(work, pass_name="backward").useful_flops == 2.5 * forward
    assert replace(work, pass_name="forward+backward").useful_flops == 3.5 * forward
    assert work.padded_flops == 4 * 9 * 9 * 6 * (2 * 8 + 2 * (d_v or 8))
    assert work.padding_share == pytest.approx(1 - 18 / 36)
    assert work.typical_length == pytest.approx((1 + 81 + 16 + 16) / 18)


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_lengths_keep_their_bounds_and_follow_the_seed(kind):
    lens = draw_lengths(kind, 40, 256, 7)
    assert lens == draw_lengths(kind, 40, 256, 7)
    assert len(lens) == 40 and min(lens) >= 1 and max(lens) <= 256
    for tokens in (1, 100, sum(lens), sum(lens) + 1):
        bounded = draw_lengths(kind, 40, 256, 7, tokens)
        assert sum(bounded) == min(tokens, sum(lens)) and min(bounded) >= 1
        assert bounded[:-1] == lens[: len(bounded) - 1]
    drawn_at_random = kind in ("documents", "log-uniform")
    assert (lens != draw_lengths(kind, 40, 256, 8)) == drawn_at_random
    assert draw_lengths(kind, 3, 1, 0) in ((1, 1, 1),)


def test_many_short_lengths_are_bounded_in_linear_time():
    start = time.perf_counter()
    assert draw_lengths("fixed", 10**6, 1, 0, 10**6 - 1) == (1,) * (10**6 - 1)
    assert time.perf_counter() - start < 30


def test_lengths_are_distributed_as_named():
    assert draw_lengths("fixed", 5, 77, 0) == (77,) * 5
    assert draw_lengths("one-long", 5, 320, 0) == (320, 20, 20, 20, 20)
    spread = draw_lengths("log-uniform", 4001, 6400, 1)
    assert spread[0] == 6400 and min(spread) >= 100
    # Uniform in the logarithm: half of them are below the geometric mean of both ends.
    assert np.mean(np.array(spread) < 800) == pytest.approx(0.5, abs=0.03)
    known = docstring_lengths()
    assert len(known) > 1000 and set(draw_lengths("documents", 64, 256, 0)) <= set(known)
    assert len(draw_lengths("documents", len(known) + 5, 256, 0)) == len(known) + 5


def test_presets_state_attention_that_exists():
    for preset in PRESETS:
        q, k, v = preset.heads
        assert q % k == 0 and q % v == 0 and preset.lengths in DISTRIBUTIONS
        lens = draw_lengths(preset.lengths, preset.sequences, preset.longest, 0)
        work = Workload(preset, preset.lengths, lens, causal=preset.causal)
        assert work.padded_flops <= REFERENCE_WORK, "the reference engine would sit out"
    assert preset_named("llama-3-70b").heads == (64, 8, 8)
    with pytest.raises(ValueError, match=r"no preset is named 'x'; there are encoder, .*tiny"):
        preset_named("x")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_hold_the_same_numbers(name, causal):
    batch = Batch(tiny(causal=causal))
    layout = make_layout(name, batch)
    outputs = [part.expected()[0] for part in layout.parts]
    assert_sdpa_close(layout.packed_rows(outputs).astype(np.float32), None, batch.problem)
    assert (layout.padding_share > 0) == name.startswith("padded")
    assert len(layout.parts) == (4 if name.startswith("loop") else 1)
    back = layout.packed_rows(layout.spread(batch.do))
    np.testing.assert_array_equal(back, batch.do)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pass_name", PASSES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_every_layout_gives_the_same_result(pass_name, causal, dtype):
    options = BenchOptions(
        (tiny(pass_name, dtype, causal, seed=5),), with_peers=False, repeats=1, check_all=True
    )
    results = run_bench(options, silent)
    assert [(r.engine, r.layout) for r in results] == list(
        itertools.product(host_engines(), LAYOUTS)
    )
    for result in results:
        if not result.note.startswith("refused"):
            assert result.checked == 4 and len(result.times) == 1 and result.median > 0
            assert result.host > 0 and result.rate == result.work.useful_flops / result.median
    memory = {r.layout: r.memory for r in results if "REFERENCE" in r.engine}
    size = np.dtype(np.float16).itemsize if "16" in dtype else np.dtype(dtype).itemsize
    rows = (2 + 1 + 1 + 2) * 8 * size  # q, k, v, o of one token
    if pass_name == "forward":
        assert memory["loop over sequences"] == results[0].work.tokens * rows
    assert memory["ragged"] < memory["padded with lengths"] < memory["padded"]


def test_a_wrong_result_of_ours_is_an_error(monkeypatch):
    work = tiny("backward")
    contender = EngineContender(host_engines()[0], "ragged")
    job = contender.prepare(Batch(work))
    true_results = job.results()

    class Wrong:
        memory, run, name = 0, staticmethod(silent), "o"

        def results(self):
            found = {name: rows.copy() for name, rows in true_results.items()}
            found[self.name][-1, 0, 3] += 0.5
            return found

    monkeypatch.setattr(EngineContender, "prepare", lambda self, batch: Wrong())
    options = BenchOptions((work,), with_peers=False, repeats=1)
    for Wrong.name, words in (("o", "O at head 0"), ("dq", "dq at head 0"), ("dv", "dv at")):
        with pytest.raises(AssertionError, match=words):
            run_bench(options, silent)


@dataclass
class Fake:
    """A contender that logs its calls; ``error`` is added to its results."""

    layout: str
    log: list
    cost: float = 1e-3
    error: float = 0.0
    engine: str = "fake"
    is_ours: bool = False
    memory: int = 7
    batch: Batch | None = None

    def stored_padding(self, _):
        return 0.0

    def prepare(self, batch):
        if self.cost < 0:
            raise UnavailableError("not here")
        return replace(self, batch=batch)

    def run(self):
        self.log.append(self.layout)

    def results(self):
        return {"o": (self.batch.problem.expected()[0] + self.error).astype(np.float32)}


class FakeClock:
    def __init__(self, log, costs):
        self.log, self.costs = log, costs

    def seconds(self, call):
        before = len(self.log)
        call()
        self.log.append("timed")
        return self.costs.get(self.log[before], 0.0)

    host_seconds = seconds

    def evict(self):
        self.log.append("evict")


def fake_run(fakes, log, **options):
    clock = FakeClock(log, {fake.layout: fake.cost for fake in fakes})
    work = tiny()
    settings = BenchOptions((work,), **options)
    results = measure(Batch(work), fakes, settings, clock, silent)
    return results, log


def calls_of(log, pattern):
    """The contenders of the measured turns: the last entries of the log."""
    steps = [tuple(log[at : at + len(pattern)]) for at in range(0, len(log), len(pattern))]
    assert all(
        all(want in (got, "?") for got, want in zip(step, pattern, strict=True)) for step in steps
    )
    return [step[pattern.index("?")] for step in steps]


def test_contenders_take_turns_in_rounds_of_random_order():
    orders = []
    for seed in (0, 0, 1):
        log = []
        fakes = [Fake(name, log) for name in "abcde"]
        results, log = fake_run(fakes, log, repeats=6, seed=seed)
        # A short call is made untimed first, then timed.
        turns = calls_of(log[-6 * 5 * 3 :], ("?", "?", "timed"))
        rounds = [turns[at : at + 5] for at in range(0, 30, 5)]
        assert all(sorted(one) == list("abcde") for one in rounds)
        assert len({tuple(one) for one in rounds}) > 1
        orders.append(turns)
        assert all(r.times == [1e-3] * 6 and r.checked == 4 and r.memory == 7 for r in results)
    assert orders[0] == orders[1] != orders[2]


def test_cold_calls_follow_an_eviction():
    log = []
    fakes = [Fake(name, log) for name in "ab"]
    _, log = fake_run(fakes, log, repeats=2, cold=True)
    turns = calls_of(log[-2 * 2 * 3 :], ("evict", "?", "timed"))
    assert sorted(turns[:2]) == sorted(turns[2:]) == ["a", "b"]


def test_a_slow_contender_leaves_the_others_their_runs():
    log = []
    fakes = [Fake("quick", log, 0.1), Fake("slow", log, 4.0)]
    results, _ = fake_run(fakes, log, budget=6.0)
    assert [len(r.times) for r in results] == [30, 1]
    assert [r.of_fastest for r in results] == [1.0, pytest.approx(0.025)]
    results, _ = fake_run([Fake("a", log, 0.5), Fake("b", log, 1e-9)], log, budget=6.0)
    assert [len(r.times) for r in results] == [6, 50]


def test_a_peer_that_is_wrong_or_missing_is_shown():
    log = []
    results, _ = fake_run([Fake("good", log), Fake("bad", log, error=0.1)], log, repeats=1)
    assert results[0].note == "" and results[0].checked == 4
    assert results[1].note.startswith("beyond the tolerance: ") and results[1].checked == 0
    assert results[0].of_fastest == 1 and results[1].of_fastest is None
    results, _ = fake_run([Fake("absent", log, cost=-1.0)], log)
    assert results[0].note == "not here" and results[0].median is None


def test_speed_ups_compare_with_the_padded_layout_of_the_same_engine():
    log = []
    fakes = [
        Fake("ragged", log, 1.0, engine="e"),
        Fake("padded", log, 4.0, engine="e"),
        Fake("SDPA padded", log, 3.0, engine="torch"),
        Fake("varlen", log, 1.5, engine="flash-attn"),
    ]
    results, _ = fake_run(fakes, log, repeats=3)
    assert [r.speedup for r in results] == [4.0, 1.0, 1.0, 2.0]
    assert [r.of_fastest for r in results] == [
        1.0,
        0.25,
        pytest.approx(1 / 3),
        pytest.approx(2 / 3),
    ]
    assert results[0].quartiles == (1.0, 1.0)


def test_speed_ups_compare_with_pytorch_where_the_padded_layout_was_refused():
    log = []
    fakes = [
        Fake("ragged", log, 1.0, engine="e"),
        Fake("padded", log, -1.0, engine="e"),
        Fake("SDPA padded", log, 3.0, engine="torch"),
    ]
    results, _ = fake_run(fakes, log, repeats=3)
    assert [r.speedup for r in results] == [3.0, None, 1.0]


def test_a_few_sequences_are_checked_unasked():
    lens = tuple(range(1, 31))
    work = Workload(TINY, "fixed", lens)
    assert [lens[b] for b in sequences_to_check(work, False)] == [1, 11, 21, 30]
    assert len(sequences_to_check(work, True)) == 30
    too_long = Workload(preset_named("llama-3-70b"), "fixed", (64, 5000))
    assert sequences_to_check(too_long, False) == [0]


def test_the_reference_engine_gets_much_work_only_if_asked():
    reference = next(name for name in host_engines() if "REFERENCE" in name)
    work = Workload(preset_named("llama-3-8b"), "one-long", (1024, *(32,) * 11))
    assert work.useful_flops < REFERENCE_WORK < work.padded_flops
    with pytest.raises(UnavailableError, match=r"left out, \d+ GFLOP .*--engine"):
        EngineContender(reference, "padded").prepare(Batch(work))


def test_a_batch_that_does_not_fit_is_no_crash(monkeypatch):
    def full(*_):
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr("raggeddnn.bench.ours.make_layout", full)
    results = run_bench(BenchOptions((tiny(),), with_peers=False), silent)
    assert {r.note for r in results} == {"not enough memory: Unable to allocate 9 TiB"}


def test_a_peer_without_its_library_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    results = run_bench(BenchOptions((tiny(),), repeats=1), silent)
    notes = {r.layout: r.note for r in results if not r.engine.startswith("RAGGEDDNN")}
    assert notes == {peer.layout: "PyTorch is not installed" for peer in PEERS}
    with pytest.raises(ValueError, match="--device cuda needs PyTorch"):
        run_bench(BenchOptions((tiny(),), device="cuda"), silent)


def test_on_a_gpu_our_engines_say_what_they_work_on():
    (absent,) = our_contenders(None, "cuda")
    with pytest.raises(UnavailableError, match="no engine works on cuda memory; there are RAGGED"):
        absent.prepare(Batch(tiny()))
    assert absent.stored_padding(tiny()) == 0 and absent.is_ours


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pass_name", PASSES)
def test_our_calls_with_torch_tensors_run_and_are_checked(pass_name, causal):
    """As they do in a GPU's memory."""
    pytest.importorskip("torch")
    batch = Batch(tiny(pass_name, "bfloat16" if causal else "float32", causal))
    contenders = torch_contenders("any", "cpu")
    assert [x.layout for x in contenders] == list(LAYOUTS)
    for contender in contenders:
        job = contender.prepare(batch)
        job.run()
        checker = Checker(batch, [0, 1, 2, 3])
        checker.check(job.results(), contender.layout)
        assert checker.count == 4 and job.memory > 0 and contender.is_ours
        is_padded = contender.layout.startswith("padded")
        assert (contender.stored_padding(batch.work) > 0) == is_padded


def test_on_a_gpu_our_engine_is_called_with_torch_tensors(monkeypatch):
    class Engine:
        name, device, available = "A_GPU_ENGINE", "cuda", True

    monkeypatch.setattr("raggeddnn.engines", lambda: [Engine])
    found = our_contenders(None, "cuda")
    assert [(x.engine, x.device) for x in found] == [("A_GPU_ENGINE", "cuda")] * len(LAYOUTS)


def test_a_missing_gpu_is_named():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=r"--device cuda: PyTorch .* finds no GPU"):
        run_bench(BenchOptions((tiny(),), device="cuda"), silent)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pass_name", PASSES)
def test_peers_run_and_are_checked(pass_name, causal):
    pytest.importorskip("torch")
    work = tiny(pass_name, "bfloat16" if causal else "float32", causal)
    results = run_bench(BenchOptions((work,), repeats=1, check_all=True), silent)
    found = {r.layout: r for r in results if r.engine in ("torch", "flash-attn")}
    assert set(found) == {peer.layout for peer in PEERS}
    for layout, result in found.items():
        peer = next(peer for peer in PEERS if peer.layout == layout)
        if peer.only == "cuda":
            assert result.note == "needs --device cuda, there is no kernel for cpu"
        elif layout == "SDPA nested, jagged" and causal:
            assert result.note.startswith("refused: ")
        else:
            assert result.checked == 4 and result.note == "" and result.memory > 0


def test_eviction_walks_more_than_the_last_cache():
    clock = HostClock()
    assert last_level_cache() >= 1 << 18
    clock.evict()
    assert clock._buffer.nbytes >= 2 * last_level_cache()
    walked = clock.seconds(clock.evict)
    assert walked > clock._buffer.nbytes / 1e12  # not at a terabyte per second


def test_engines_are_named_as_the_package_knows_them():
    assert set(host_engines()) <= {engine.name for engine in rd.engines()}
