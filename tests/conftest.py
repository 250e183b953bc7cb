"""Fixtures that run a test on every engine of this machine that works on host memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pass_by_value_matrix
import pytest
import ragged_matrix
import raggeddnn as rd
import raggeddnn.varlen
from engine_builds import build_or_skip, made_or_skip
from raggeddnn.testing.graphs import SdpaGraph
from raggeddnn.testing.op_graphs import OpGraph


def _host_engines() -> list[str]:
    """Names of the engines that are available and take host arrays; the reference engine is one."""
    return [
        e.name for e in rd.engines() if e.available and str(e.device).lower() in ("cpu", "host")
    ]


@pytest.fixture(params=_host_engines())
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine."""
    name: str = request.param
    return name


@pytest.fixture
def build(engine: str) -> Callable[[SdpaGraph | OpGraph], rd.ExecutionPlan]:
    """Build a graph's plan with ``engine``; a refusal skips, but the reference engine refuses
    nothing.
    """
    return lambda graph: build_or_skip(graph, engine)


@pytest.fixture
def varlen(engine: str) -> Callable[..., Any]:
    """``raggeddnn.varlen.sdpa`` on ``engine``, with the same rule about refusals."""

    def call(*args: Any, **options: Any) -> Any:
        return made_or_skip(engine, lambda: rd.varlen.sdpa(*args, engine=engine, **options))

    return call


TABLES = {
    "runtime pass-by-value document, section 9": pass_by_value_matrix.MATRIX,
    "ragged-tensor document, sections 4 and 7": ragged_matrix.MATRIX,
}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What the two documents demand: every statement, its tests, and how they went."""
    outcomes: dict[str, set[str]] = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.getreports(outcome):
            name = report.nodeid.split("/")[-1]
            for key in {name, name.split("[")[0]}:
                outcomes.setdefault(key, set()).add(outcome)
    for title, table in TABLES.items():
        if not any(name in outcomes for names in table.values() for name in names):
            continue
        terminalreporter.section(title)
        for statement, names in table.items():
            for name in names:
                found = outcomes.get(name, {"not run"})
                worst = next(
                    o for o in ("error", "failed", "skipped", "passed", "not run") if o in found
                )
                terminalreporter.write_line(f"{statement:<48} {name}: {worst}")
