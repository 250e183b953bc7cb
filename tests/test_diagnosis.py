"""What a plan says of itself, and what RAGGEDDNN_LOG prints of each execute."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import raggeddnn as rd
from plugins.fakes import load, small
from test_chain import Chain

SCRIPT = """
from plugins.fakes import load, small
load("fails_execute_with_text")
sdpa = small("logged", ragged=True)
sdpa.run(sdpa.graph.build(engine="reference"))
print("second", file=__import__("sys").stderr)
other = small("fake")
try:
    other.run(other.graph.build(engine="FAILS_EXECUTE_WITH_TEXT_ENGINE"))
except Exception as error:
    print("raised", error, file=__import__("sys").stderr)
"""


def stderr_of(level: str | None) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("RAGGEDDNN_LOG",)}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    if level is not None:
        environment["RAGGEDDNN_LOG"] = level
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment
    )
    return done.stderr


def test_each_execute_is_printed_before_it_starts():
    first, second = stderr_of("info").split("second")
    (line,) = [line for line in first.splitlines() if "execute: " in line]
    for words in (
        "SdpaAttributes(q FLOAT [2, 2, 4, 8] ragged, k FLOAT",
        "o FLOAT [2, 2, 4, 8] ragged",
        "on RAGGEDDNN_REFERENCE_ENGINE",
        "no tiles",
    ):
        assert words in line, line
    assert second.index("execute: SdpaAttributes") < second.index("raised")


@pytest.mark.parametrize("level", [None, "off", "warn"])
def test_nothing_is_printed_below_info(level):
    assert "execute: " not in stderr_of(level)


def test_a_plan_explains_each_node():
    chain = Chain("COMPILE_TIME_CONST")
    plan = chain.graph.build(engine="reference")
    lines = plan.explain_kernel().splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "PointwiseAttributes",
        "SdpaAttributes",
        "RMSNormAttributes",
    ]
    assert "one query row at a time" in lines[1]
    again = rd.ExecutionPlan.deserialize(plan.serialize())
    assert again.explain_kernel() == plan.explain_kernel()
    assert "RMSNormAttributes(x" in repr(again)


def test_a_plan_without_its_graph_explains_itself_too():
    sdpa = small("saved")
    plan = sdpa.graph.build(engine="reference")
    bare = rd.ExecutionPlan.deserialize(plan.serialize_bare())
    assert bare.explain_kernel() == plan.explain_kernel()
    assert "a plan without its graph, of 4 tensors" in repr(bare)


def test_an_engine_that_says_nothing_is_quoted_as_such():
    load("fake_1_4_0")
    plan = small("fake").graph.build(engine="RAGGEDDNN_FAKE_ENGINE")
    assert (
        plan.explain_kernel() == "engine RAGGEDDNN_FAKE_ENGINE does not say which kernels it runs"
    )
