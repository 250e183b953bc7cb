"""One plan, executed from several threads with buffers and scalars of their own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import raggeddnn as rd
from plugins.fakes import DEPTH, HEADS, SHAPE, UNTOUCHED, Small, load, runtime, small

THREADS, RUNS = 8, 12
ROW = HEADS * DEPTH


def arrays(seed: int) -> dict[str, object]:
    """Numbers, offsets and a scale that no other seed has."""
    rng = np.random.default_rng(seed)
    operands = {name: rng.standard_normal(SHAPE, dtype=np.float32) for name in ("q", "k", "v")}
    return {
        **operands,
        "offsets": np.array([0, 1 + seed % 4, 2 + 5 * seed % 4], np.int32),
        "scale": float(seed) / 16 - 2,
    }


def run_all(sdpa: Small, plan: rd.ExecutionPlan) -> tuple[list[bytes], list[bytes]]:
    """The results of every seed, one after the other and from THREADS threads at once."""
    inputs = [arrays(seed) for seed in range(THREADS * RUNS)]
    serial = [sdpa.run(plan, **more).tobytes() for more in inputs]
    start = threading.Barrier(THREADS)

    def work(thread: int) -> list[bytes]:
        start.wait()
        return [sdpa.run(plan, **more).tobytes() for more in inputs[thread::THREADS]]

    with ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(work, range(THREADS)))
    return serial, [parts[i % THREADS][i // THREADS] for i in range(len(inputs))]


@pytest.mark.parametrize("engine", ["reference", "RAGGEDDNN_FAKE_ENGINE"])
def test_results_from_threads_are_the_serial_ones(engine):
    load("fake_1_4_0")
    sdpa = small("fake threads", scale=runtime(), ragged=True, multiplier=ROW)
    plan = sdpa.graph.build(engine=engine)
    serial, parallel = run_all(sdpa, plan)
    assert parallel == serial
    assert len(set(serial)) > len(serial) // 2, "the seeds should differ in their results"


def test_an_error_in_one_thread_is_its_own():
    sdpa = small("threads", scale=runtime())
    plan = sdpa.graph.build(engine="reference")
    want = sdpa.run(plan, scale=0.5).tobytes()

    def work(index: int) -> str:
        pack = sdpa.pack(scale=0.5)
        if index % 2:
            role = ("q", "k", "v", "o")[index // 2 % 4]
            del pack[sdpa.tensors[role]]
            with pytest.raises(rd.InvalidValueError) as caught:
                plan.execute(pack)
            uid = sdpa.tensors[role].get_uid()
            assert f"(uid {uid})" in str(caught.value)
            if role != "o":
                assert (pack[sdpa.tensors["o"]] == UNTOUCHED).all()
        else:
            plan.execute(pack)
            assert pack[sdpa.tensors["o"]].tobytes() == want
        return "done"

    with ThreadPoolExecutor(THREADS) as pool:
        assert set(pool.map(work, range(THREADS * 16))) == {"done"}


def test_a_plan_outlives_the_thread_and_the_graph_that_made_it():
    made: list[tuple[Small, rd.ExecutionPlan]] = []

    def make() -> None:
        sdpa = small("short-lived", scale=runtime())
        made.append((Small(rd.Graph(), sdpa.tensors), sdpa.graph.build(engine="reference")))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    sdpa, plan = made[0]
    o = sdpa.run(plan, scale=0.5)
    assert np.isfinite(o).all() and not (o == UNTOUCHED).any()


def test_a_handle_of_its_own_per_thread_gives_the_same():
    sdpa = small("handles", scale=runtime())
    sdpa.graph.build(engine="reference")
    want = sdpa.pack(scale=0.5)
    sdpa.graph.execute(want)

    def work(_: int) -> bytes:
        handle = rd.Handle(device="cpu")
        pack = sdpa.pack(scale=0.5)
        for _ in range(RUNS):
            sdpa.graph.execute(pack, handle=handle)
        return pack[sdpa.tensors["o"]].tobytes()

    with ThreadPoolExecutor(THREADS) as pool:
        assert set(pool.map(work, range(THREADS))) == {want[sdpa.tensors["o"]].tobytes()}


def test_building_from_several_threads():
    load("fake_1_4_0")

    def work(index: int) -> float:
        sdpa = small("fake built in a thread", scale=float(index))
        return float(sdpa.run(sdpa.graph.build(engine="RAGGEDDNN_FAKE_ENGINE")).max())

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(work, range(32))) == [float(index) for index in range(32)]
