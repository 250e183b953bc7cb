"""Timing: all contenders of a workload take turns, in rounds of random order, and are checked."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from .checking import Checker, sequences_to_check
from .device import CPU, Clock, clock_for
from .layouts import PADDED
from .ours import our_contenders
from .peers import PADDED_LAYOUT, PEERS
from .work import Batch, Contender, Job, UnavailableError, Workload

TIME_BUDGET = 10.0
MIN_REPEATS, MAX_REPEATS = 3, 50
# A call shorter than this many seconds is made once untimed before each timed one, so that caches
# and threads are those of this contender and not of the one before.
WARM_LIMIT = 0.05
HOST_CALLS = 20

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class BenchOptions:
    """What to measure, and how.

    ``engine`` None is each engine that takes host memory, ``repeats`` None as many rounds as
    ``budget`` seconds allow for all workloads together. ``cold``: caches are evicted before each
    timed call. ``check_all`` compares every sequence with the oracle, not a few.
    """

    workloads: tuple[Workload, ...]
    engine: str | None = None
    device: str = CPU
    with_peers: bool = True
    repeats: int | None = None
    budget: float = TIME_BUDGET
    cold: bool = False
    check_all: bool = False
    seed: int = 0


@dataclass
class Measurement:
    """One contender on one workload.

    Times and ``host`` (what a call on a batch of one token takes) in seconds, memory in bytes,
    padding (of its own rows) 0 to 1. ``speedup`` is against the padded layout of the same engine,
    or of PyTorch for the peers; ``of_fastest`` is the fastest contender's time over its own.
    """

    work: Workload
    engine: str
    layout: str
    padding: float
    times: list[float] = field(default_factory=list)
    memory: int = 0
    host: float | None = None
    speedup: float | None = None
    of_fastest: float | None = None
    checked: int = 0
    note: str = ""

    @property
    def label(self) -> str:
        """Engine and layout in few words."""
        return f"{short_name(self.engine)}: {self.layout}"

    @property
    def is_base(self) -> bool:
        """Do speed-ups compare with this one?"""
        return self.layout in (PADDED, PADDED_LAYOUT)

    @property
    def median(self) -> float | None:
        return statistics.median(self.times) if self.times else None

    @property
    def quartiles(self) -> tuple[float, float] | None:
        if len(self.times) < 2:
            return None
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return low, high

    @property
    def rate(self) -> float | None:
        """Useful operations per second."""
        return self.work.useful_flops / self.median if self.median else None


def short_name(engine: str) -> str:
    """``reference`` for RAGGEDDNN_REFERENCE_ENGINE; other names as they are."""
    return engine.removeprefix("RAGGEDDNN_").removesuffix("_ENGINE").lower()


@dataclass
class _Entry:
    """A contender that runs: its job, the seconds of its second call, how often it is timed."""

    result: Measurement
    contender: Contender
    job: Job
    first: float = 0.0
    runs: int = 0


def run_bench(options: BenchOptions, progress: Progress) -> list[Measurement]:
    """Measure all workloads; every contender has a measurement, with its reason if it did not run.

    ``progress(done, total, what)`` is called before each call. Raises AssertionError when a result
    of ours is wrong, ValueError when there is no such device.
    """
    clock = clock_for(options.device)
    contenders: list[Contender] = [*our_contenders(options.engine, options.device)]
    if options.with_peers:
        contenders += [replace(peer, device=options.device) for peer in PEERS]
    results: list[Measurement] = []
    for place, work in enumerate(options.workloads):
        prefix = f"{place + 1} of {len(options.workloads)}: " if len(options.workloads) > 1 else ""

        def show(done: int, total: int, what: str, prefix: str = prefix) -> None:
            progress(done, total, prefix + what)

        results += measure(Batch(work), contenders, options, clock, show)
    return results


def measure(
    batch: Batch,
    contenders: Sequence[Contender],
    options: BenchOptions,
    clock: Clock,
    progress: Progress,
) -> list[Measurement]:
    """Measure one workload: prepare, warm up, take turns, check, compare."""
    results, entries = _prepare(batch, contenders, progress)
    for done, entry in enumerate(entries):
        progress(done, len(entries), f"{entry.result.label}, warming up")
        entry.first = clock.seconds(entry.job.run)
        entry.result.host = _host_overhead(entry.contender, batch.work, clock)
        entry.runs = _runs(options, len(entries), _turn_cost(entry, options, clock))
    turns = _turns(entries, options.seed)
    for done, entry in enumerate(turns):
        progress(done, len(turns), entry.result.label)
        entry.result.times.append(_timed(entry, options, clock))
    progress(1, 1, "checking against the oracle")
    _check(batch, entries, options.check_all)
    _compare(results)
    return results


def _prepare(
    batch: Batch, contenders: Sequence[Contender], progress: Progress
) -> tuple[list[Measurement], list[_Entry]]:
    results, entries = [], []
    for done, contender in enumerate(contenders):
        padding = contender.stored_padding(batch.work)
        result = Measurement(batch.work, contender.engine, contender.layout, padding)
        results.append(result)
        progress(done, len(contenders), f"{result.label}, preparing")
        try:
            job = contender.prepare(batch)
        except UnavailableError as reason:
            result.note = str(reason)
            continue
        result.memory = job.memory
        entries.append(_Entry(result, contender, job))
    return results, entries


def _host_overhead(contender: Contender, work: Workload, clock: Clock) -> float | None:
    """The median time that a call on one sequence of one token keeps the host."""
    try:
        job = contender.prepare(Batch(replace(work, lens=(1,))))
    except UnavailableError:
        return None
    return statistics.median(clock.host_seconds(job.run) for _ in range(HOST_CALLS))


def _timed(entry: _Entry, options: BenchOptions, clock: Clock) -> float:
    if options.cold:
        clock.evict()
    elif entry.first < WARM_LIMIT:
        entry.job.run()
    return clock.seconds(entry.job.run)


def _turn_cost(entry: _Entry, options: BenchOptions, clock: Clock) -> float:
    if options.cold:
        return entry.first + clock.seconds(clock.evict)
    return entry.first * (2 if entry.first < WARM_LIMIT else 1)


def _runs(options: BenchOptions, contenders: int, cost: float) -> int:
    """How often a contender with turns of this many seconds is run: all share the budget alike, so
    that a slow one does not leave the others with few runs.
    """
    if options.repeats is not None:
        return options.repeats
    share = options.budget / len(options.workloads)
    least = MIN_REPEATS if MIN_REPEATS * cost < share / 2 else 1
    return min(max(int(share / contenders / max(cost, 1e-9)), least), MAX_REPEATS)


def _turns(entries: Sequence[_Entry], seed: int) -> list[_Entry]:
    """Who runs when: in rounds of random order. One with fewer runs sits out some rounds, evenly
    spread.
    """
    rounds = max((entry.runs for entry in entries), default=0)
    generator = random.Random(seed)
    turns: list[_Entry] = []
    for turn in range(rounds):
        present = [e for e in entries if (turn + 1) * e.runs // rounds > turn * e.runs // rounds]
        generator.shuffle(present)
        turns += present
    return turns


def _check(batch: Batch, entries: Sequence[_Entry], check_all: bool) -> None:
    """Compare the last results with the oracle; a peer's fault is noted, one of ours raised."""
    chosen = sequences_to_check(batch.work, check_all)
    if not chosen or not entries:
        return
    checker = Checker(batch, chosen)
    for entry in entries:
        label = f"{entry.result.engine}, {entry.result.layout}, checked"
        try:
            checker.check(entry.job.results(), label)
            entry.result.checked = checker.count
        except AssertionError as fault:
            if entry.contender.is_ours:
                raise
            entry.result.note = f"beyond the tolerance: {fault}"


def _compare(results: Sequence[Measurement]) -> None:
    """Fill in the ratios, all within one workload of one run. A wrong peer is not the fastest."""
    padded = {r.engine: r.median for r in results if r.is_base and r.median}
    right = [r for r in results if r.median and not r.note]
    fastest = min((r.median for r in right if r.median), default=None)
    for result in results:
        base = padded.get(result.engine, padded.get("torch"))
        if result.median and base:
            result.speedup = base / result.median
    for result in right:
        if result.median and fastest:
            result.of_fastest = fastest / result.median
