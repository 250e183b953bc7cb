"""Runs of the CPU engine that tests start in processes of their own, and what they share.

A test writes a few lines of Python that use this module; :func:`python` runs them with the
variables that it names and returns what they print.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

ENGINE = "RAGGEDDNN_CPU_ENGINE"
DTYPES = ("float32", "bfloat16", "float16")


def python(code: str, *, timeout: float = 240, **variables: str) -> str:
    """Run Python code in a new process; returns its output, raises AssertionError where it fails or
    hangs.
    """
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        "OPENBLAS_NUM_THREADS": "1",
        **variables,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as hung:
        raise AssertionError(f"no end within {timeout} s of:\n{code}") from hung
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its children too
            process.wait()
    assert process.returncode == 0, f"exit status {process.returncode} of:\n{code}\n{errors}"
    return output


def long_cases():
    """Several chunks of keys and several panels of rows."""
    from raggeddnn.testing import Case

    both = {"causal": True, "alignment": "bottom_right"}
    return [
        Case("grouped", (400, 0, 5, 96), (1100, 40, 513, 512), heads=(6, 3, 2), d=24, d_v=17),
        Case("causal", (210, 400), (1100, 400), heads=(4, 4, 4), d=16, dstats=True, **both),
        Case("fewer-keys", (600, 130), (520, 7), heads=(2, 1, 1), d=12, left_bound=300, **both),
        Case(
            "far-window",
            (97, 200),
            (1300, 1100),
            heads=(2, 2, 1),
            d=33,
            left_bound=40,
            right_bound=3,
            alignment="bottom_right",
        ),
        Case("wide-window", (250,), (1500,), d=20, left_bound=7, right_bound=700, layout="slack"),
        Case("dropout", (150, 64), (650, 70), d=8, dropout=0.3, causal=True, dstats=True),
        # Errors of a sum over keys do not cancel where all weights are equal.
        Case("uniform", (3,), (20000,), d=5, scale=0.0, scale_state="baked"),
    ]


def in_types(cases, dtypes=DTYPES):
    return [replace(case, dtype=dtype) for case in cases for dtype in dtypes]


def results_of(problem, do=None):
    """Everything that both passes write, as rows: o, lse, dq, dk, dv. The backward pass reads what
    the forward pass wrote, and ``do``, or numbers drawn for it.
    """
    from raggeddnn.testing import BackwardProblem
    from raggeddnn.testing.graphs import sdpa_graph
    from raggeddnn.testing.graphs_backward import sdpa_backward_graph

    forward = sdpa_graph(problem)
    outputs = forward.run(forward.build(ENGINE), problem, 0.0)
    o, lse = forward.o_rows(outputs, problem), forward.lse_rows(outputs, problem)
    rng = np.random.default_rng(0)
    if do is None:
        do = rng.standard_normal(o.shape).astype(o.dtype)
    dstats = rng.standard_normal(lse.shape).astype(np.float32) if problem.case.dstats else None
    back = BackwardProblem(problem, do, o, lse, dstats)
    graph = sdpa_backward_graph(back)
    gradients = graph.run_backward(graph.build(ENGINE), back, 0.0)
    return {"o": o, "lse": lse, **graph.gradient_rows(gradients, back)}


def digest(case) -> str:
    """Of the bits of all results of a case."""
    from raggeddnn.testing import make_problem
    from raggeddnn.testing.checks import bits

    digested = hashlib.sha256()
    for array in results_of(make_problem(case)).values():
        digested.update(bits(array).tobytes())
    return digested.hexdigest()


def digests(dtypes=DTYPES) -> list[str]:
    return [digest(case) for case in in_types(long_cases(), dtypes)]


def thread_count() -> int:
    """Of this process, whoever started them."""
    return len(os.listdir("/proc/self/task"))


def threads_at_rest() -> int:
    """The same, without those that have ended and are still listed for a moment."""
    least = thread_count()
    for _ in range(20):
        time.sleep(0.005)
        least = min(least, thread_count())
    return least


@contextmanager
def most_threads() -> Iterator[list[int]]:
    """A list whose only element becomes the most threads seen while the body runs, without the one
    that looks.
    """
    seen, ended = [thread_count()], threading.Event()

    def look() -> None:
        while not ended.wait(0.0005):
            seen[0] = max(seen[0], thread_count() - 1)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


def in_parallel(count: int, body) -> None:
    """Calls ``body()`` on each of ``count`` threads of a parallel region of GNU's OpenMP."""
    library = ctypes.CDLL("libgomp.so.1")
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    errors: list[BaseException] = []

    def call(_: object) -> None:
        try:
            body()
        except BaseException as error:
            errors.append(error)

    library.GOMP_parallel(function(call), None, ctypes.c_uint(count), ctypes.c_uint(0))
    if errors:
        raise errors[0]


def open_mp_libraries() -> list[str]:
    """Those that this process has loaded."""
    names = ("libgomp", "libomp", "libiomp")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "/" in line}
    return sorted(path for path in paths if os.path.basename(path).startswith(names))
