"""Plans of an engine that may refuse: a refusal skips, but the reference engine refuses nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import raggeddnn as rd
from raggeddnn.testing.checks import is_reference

Made = TypeVar("Made")


def made_or_skip(engine: str, make: Callable[[], Made]) -> Made:
    """What ``make`` makes on ``engine``; skips the test where that refuses."""
    try:
        return make()
    except rd.NotSupportedError as refusal:
        if is_reference(engine):
            raise
        pytest.skip(f"{engine} refuses: {refusal}")


def build_or_skip(graph: Any, engine: str) -> rd.ExecutionPlan:
    """The plan of ``graph`` on ``engine``."""
    plan: rd.ExecutionPlan = made_or_skip(engine, lambda: graph.build(engine=engine))
    return plan
