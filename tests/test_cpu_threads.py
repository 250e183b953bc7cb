"""The CPU engine's threads: the same bits for any number of them, on OpenMP's or its own, in forked
children, within parallel regions, from several callers.

Everything that depends on what is loaded, and when, runs in a process of its own.
"""

from __future__ import annotations

import functools
import os

import cpp_build
import cpu_runs
import pytest
from cpu_runs import python

DIGESTS = """
import cpu_runs
with cpu_runs.most_threads() as seen:
    found = cpu_runs.digests()
print(seen[0], cpu_runs.threads_at_rest(), *found)
"""
COUNT = len(cpu_runs.in_types(cpu_runs.long_cases()))


def words(code, **options):
    return python(code, **options).split()


@functools.cache
def serial() -> tuple[str, ...]:
    """Digests of all results, with one thread."""
    most, after, *digests = words(DIGESTS, OMP_NUM_THREADS="1")
    assert (most, after) == ("1", "1")
    assert len(digests) == COUNT and len(set(digests)) == COUNT
    return tuple(digests)


@pytest.mark.parametrize("threads", [2, 3])
def test_the_same_bits_for_any_number_of_threads(threads):
    """And OpenMP has as many threads as it was told to have."""
    most, after, *digests = words(DIGESTS, OMP_NUM_THREADS=str(threads))
    assert tuple(digests) == serial()
    assert (most, after) == (str(threads), str(threads))


def test_a_bound_first_thread_does_not_bind_the_engine():
    """OMP_PROC_BIND leaves the first thread a single processor; the others have theirs."""
    code = """
import os
import cpu_runs
processors = len(os.sched_getaffinity(0))
cpu_runs.in_parallel(1, lambda: None)
bound, threads = len(os.sched_getaffinity(0)), cpu_runs.threads_at_rest()
cpu_runs.digest(cpu_runs.long_cases()[0])
print(processors, bound, threads, cpu_runs.threads_at_rest())
"""
    processors, bound, before, after = map(int, words(code, OMP_PROC_BIND="true"))
    assert (bound, before) == (1, 1)
    assert after > 1 or processors == 1


NO_OPENMP = """
import cpu_runs
with cpu_runs.most_threads() as seen:
    found = cpu_runs.digests()
assert not cpu_runs.open_mp_libraries(), cpu_runs.open_mp_libraries()
print(seen[0], cpu_runs.threads_at_rest(), *found)
"""


def test_without_any_openmp_library():
    preloaded = [os.environ.get("LD_PRELOAD", ""), str(cpp_build.built_plugin("no_openmp"))]
    most, after, *digests = words(
        NO_OPENMP, OMP_NUM_THREADS="3", LD_PRELOAD=":".join(filter(None, preloaded))
    )
    assert tuple(digests) == serial()
    assert after == "1"
    assert 3 <= int(most) <= 5  # two of an earlier call may still be listed


FORK = """
import os
import cpu_runs

def child(work):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with os.fdopen(write, "w") as to:
                print(*work(), file=to)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as text:
        found = text.read().split()
    assert os.waitpid(pid, 0)[1] == 0
    return found
"""


def test_a_forked_child_has_the_same_bits_and_so_has_its_parent_afterwards():
    code = """
before = cpu_runs.digests()
forked = child(lambda: cpu_runs.digests() + child(cpu_runs.digests))
assert forked == before + before
assert cpu_runs.digests() == before
print(*before)
"""
    assert tuple(words(FORK + code, OMP_NUM_THREADS="3")) == serial()


def test_an_engine_first_loaded_in_a_forked_child_leaves_its_parents_threads_alone():
    """OpenMP's threads did not come along, and the library does not know."""
    code = """
import sys
cpu_runs.in_parallel(3, lambda: None)
assert "raggeddnn" not in sys.modules
print(*child(cpu_runs.digests))
"""
    assert tuple(words(FORK + code, OMP_NUM_THREADS="3")) == serial()


def test_several_callers_at_once():
    code = """
import cpu_runs
from concurrent.futures import ThreadPoolExecutor
cases = cpu_runs.in_types(cpu_runs.long_cases())
with ThreadPoolExecutor(4) as pool:
    print(*pool.map(cpu_runs.digest, cases))
"""
    assert tuple(words(code, OMP_NUM_THREADS="3")) == serial()


def test_no_threads_are_added_within_a_parallel_region():
    """Even where OpenMP would nest them."""
    code = """
import cpu_runs
found = []
with cpu_runs.most_threads() as seen:
    cpu_runs.in_parallel(2, lambda: found.append(cpu_runs.digests()))
assert found[0] == found[1] and len(found) == 2
print(seen[0], *found[0])
"""
    variables = {"OMP_NUM_THREADS": "3", "OMP_MAX_ACTIVE_LEVELS": "4"}
    most, *digests = words(code, **variables)
    assert tuple(digests) == serial()
    assert most == "2"


def test_sequences_without_queries_beside_long_ones():
    """Their chunks have no rows to wait for each other by."""
    code = """
import cpu_runs
from raggeddnn.testing import Case
lens = (300, *[0] * 200), (700, *[513] * 200)
case = Case("no-queries", *lens, heads=(8, 8, 8), d=8, dtype="bfloat16")
print(*{cpu_runs.digest(case) for _ in range(12)})
"""
    found = words(code, OMP_NUM_THREADS="4")
    assert len(found) == 1
    assert found == words(code, OMP_NUM_THREADS="1")


def test_sums_of_dq_that_fewer_than_all_threads_have_room_for():
    """Where S_max is large, units of several chunks wait for each other's memory."""
    code = """
import cpu_runs
from dataclasses import replace
from raggeddnn.testing import Case
case = Case("vast", (400,), (1000,), heads=(32, 32, 32), d=8, dtype="bfloat16")
vast = replace(case, capacity=2**22)
print(cpu_runs.digest(case), cpu_runs.digest(vast))
"""
    small, vast = words(code, OMP_NUM_THREADS="8")
    assert small == vast
    assert (small, vast) == tuple(words(code, OMP_NUM_THREADS="1"))
