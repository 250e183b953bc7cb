"""Timing: every layout on every engine, interleaved, with checks against the float64 oracle."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import raggeddnn as rd

from ..testing import assert_sdpa_close
from ..testing.checks import is_named, is_reference
from ..testing.graphs import SdpaGraph, sdpa_graph
from ..testing.oracle import Array
from .layouts import PADDED, RAGGED, Layout, make_layouts, padded_work
from .presets import Preset

# Seconds of measuring that a command without --repeats aims at.
TIME_BUDGET = 15.0
MIN_REPEATS, MAX_REPEATS = 3, 50
# More work than this, in floating-point operations, is not given to the reference engine unasked.
REFERENCE_WORK = 10e9
CHECKED_SEQUENCES = 4

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class BenchOptions:
    """What to measure.

    ``engine`` None is each engine that takes host memory, ``repeats`` None as many as time allows.
    ``check_all`` compares every sequence with the oracle; otherwise the longest, the shortest and
    two more.
    """

    preset: Preset
    engine: str | None = None
    dtype: str = "float32"
    causal: bool = False
    seed: int = 0
    repeats: int | None = None
    check_all: bool = False


@dataclass
class Measurement:
    """One layout on one engine. Times in seconds per execute, memory in bytes, padding 0 to 1."""

    engine: str
    layout: str
    tokens: int
    padding: float
    times: list[float] = field(default_factory=list)
    memory: int = 0
    speedup: float | None = None
    checked: int = 0
    note: str = ""

    @property
    def median(self) -> float | None:
        return statistics.median(self.times) if self.times else None

    @property
    def spread(self) -> float | None:
        """Half the range between the quartiles, relative to the median."""
        if len(self.times) < 2 or not self.median:
            return None
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return (high - low) / 2 / self.median


@dataclass
class _Job:
    """A plan with its arrays, ready to be executed again and again."""

    result: Measurement
    layout: Layout
    sdpa: SdpaGraph
    plan: rd.ExecutionPlan
    pack: dict[rd.TensorAttributes, Any]
    outputs: dict[str, Array]

    def time(self) -> float:
        start = time.perf_counter()
        self.plan.execute(self.pack)
        return time.perf_counter() - start


def host_engines() -> list[str]:
    """Names of the available engines that take host memory."""
    return [
        e.name for e in rd.engines() if e.available and str(e.device).lower() in ("cpu", "host")
    ]


def check_engine(name: str) -> None:
    """Raise ValueError unless the name, full or short, is that of an engine to measure here."""
    found = [engine for engine in rd.engines() if is_named(engine.name, name)]
    if not found:
        known = ", ".join(engine.name for engine in rd.engines()) or "none"
        raise ValueError(f"no engine is named {name!r}; there are {known}")
    if not any(engine.available for engine in found):
        raise ValueError(f"the engine {found[0].name} is not available: {found[0].reason}")
    if not any(engine.name in host_engines() for engine in found):
        raise ValueError(
            f"the engine {found[0].name} works on {found[0].device} memory, "
            "expected one for host memory"
        )


def _choose_engines(options: BenchOptions, work: float) -> tuple[list[str], list[str]]:
    """Engines to run, and notes about those left out."""
    if options.engine is not None:
        return [options.engine], []
    names, notes = host_engines(), []
    if work > REFERENCE_WORK:
        slow = [name for name in names if is_reference(name)]
        names = [name for name in names if name not in slow]
        notes = [
            f"{name}: left out, {work / 1e9:.0f} GFLOP is much for it; ask with --engine"
            for name in slow
        ]
    return names, notes


def _prepare(layout: Layout, engine: str) -> tuple[Measurement, _Job | None]:
    result = Measurement(engine, layout.name, layout.tokens, layout.padding_share)
    sdpa = sdpa_graph(layout.problem)
    try:
        plan = sdpa.build(engine)
    except rd.NotSupportedError as refusal:
        result.note = f"refused: {refusal}"
        return result, None
    outputs = sdpa.new_outputs(layout.problem, 0.0)
    pack = sdpa.pack(layout.problem, outputs)
    held = [
        pack[sdpa.tensors[name]] for name in ("q", "k", "v", "o", "bias") if name in sdpa.tensors
    ]
    result.memory = sum(int(array.nbytes) for array in held) + int(plan.workspace_size)
    return result, _Job(result, layout, sdpa, plan, pack, outputs)


def _repeats(options: BenchOptions, first: float) -> int:
    """How many rounds, given the seconds of the first one."""
    if options.repeats is not None:
        return options.repeats
    affordable = int(TIME_BUDGET / max(first, 1e-9))
    least = MIN_REPEATS if first < TIME_BUDGET else 1
    return min(max(affordable, least), MAX_REPEATS)


def _check(job: _Job, packed: Layout, check_all: bool) -> None:
    """Compare the job's last output with the oracle; AssertionError names the worst element."""
    rows = job.layout.packed_rows(job.sdpa.o_rows(job.outputs, job.layout.problem))
    order = sorted(range(len(packed.lens)), key=lambda batch: packed.lens[batch])
    if check_all or len(order) <= CHECKED_SEQUENCES:
        chosen = order
    else:
        third = len(order) // 3
        chosen = [order[0], order[third], order[2 * third], order[-1]]
    label = f"{job.result.engine}, {job.layout.name},"
    assert_sdpa_close(rows, None, packed.problem, label=label, batches=tuple(chosen))
    job.result.checked = len(chosen)


def run_bench(options: BenchOptions, progress: Progress) -> tuple[list[Measurement], list[str]]:
    """Measure all layouts on all engines; returns the measurements and notes for the reader.

    ``progress(done, total, what)`` is called before each run; total may change once, after the
    first round. Layouts take turns within a round, so that a slow moment of the machine hits all
    alike. Raises AssertionError when a result is wrong, ``raggeddnn.Error`` when a named engine
    does not exist.
    """
    layouts = make_layouts(options.preset, options.dtype, options.causal, options.seed)
    engines, notes = _choose_engines(options, padded_work(layouts[0]))
    results: list[Measurement] = []
    jobs: list[_Job] = []
    for engine in engines:
        for layout in layouts:
            result, job = _prepare(layout, engine)
            results.append(result)
            if job is not None:
                jobs.append(job)
    if not jobs:
        return results, [*notes, "no engine ran"]
    warm_up = []
    for done, job in enumerate(jobs):
        progress(done, 2 * len(jobs), _describe(job))
        warm_up.append(job.time())
    rounds = _repeats(options, sum(warm_up))
    total = len(jobs) * (rounds + 1)
    for turn in range(rounds):
        for place in range(len(jobs)):
            job = jobs[(place + turn) % len(jobs)]
            progress(len(jobs) * (turn + 1) + place, total, _describe(job))
            job.result.times.append(job.time())
    progress(total, total, "checking against the oracle")
    packed = next(layout for layout in layouts if layout.name == RAGGED)
    for job in jobs:
        _check(job, packed, options.check_all)
    _compare(results)
    return results, notes


def _describe(job: _Job) -> str:
    return f"{job.result.engine}, {job.layout.name}"


def _compare(results: list[Measurement]) -> None:
    """Fill in each speed-up: relative to the padded layout on the same engine."""
    padded = {r.engine: r.median for r in results if r.layout == PADDED}
    for result in results:
        base, own = padded.get(result.engine), result.median
        if base is not None and own:
            result.speedup = base / own
