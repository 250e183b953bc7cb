"""Our contenders: each layout on each engine, as built plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import raggeddnn as rd

from .._arrays import GPU_DEVICES
from ..testing import BackwardProblem, Problem
from ..testing.checks import is_named, is_reference
from ..testing.gradients import GRADIENTS
from ..testing.graphs import SdpaGraph, sdpa_graph
from ..testing.graphs_backward import SdpaBackwardGraph, sdpa_backward_graph
from ..testing.oracle import Array
from .device import CPU
from .layouts import LAYOUTS, PADDED, PADDED_LENGTHS, Layout, make_layout
from .ours_torch import torch_contenders
from .peers import Peer
from .work import BACKWARD, FORWARD, Batch, UnavailableError, Workload

# More work than this, in floating-point operations, is not given to the reference engine unasked.
REFERENCE_WORK = 40e9

Pack = dict[rd.TensorAttributes, Any]


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


@dataclass
class _Call:
    """One part of a layout: its forward graph, and its backward graph unless that is not run."""

    part: Problem
    sdpa: SdpaGraph
    outputs: dict[str, Array]
    forward: Pack
    backward: _Backward | None = None

    def results(self) -> dict[str, Array]:
        """What the last run wrote, as rows of the part."""
        found = {"o": self.sdpa.o_rows(self.outputs, self.part)}
        if self.backward is not None:
            back = self.backward
            found.update(back.graph.gradient_rows(back.gradients, back.problem))
        return found


@dataclass
class _Backward:
    graph: SdpaBackwardGraph
    problem: BackwardProblem
    gradients: dict[str, Array]
    pack: Pack


class _Plans:
    """The plans of one job; parts of equal shape share theirs."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self._forward: dict[tuple[int, ...], tuple[SdpaGraph, rd.ExecutionPlan]] = {}
        self._backward: dict[tuple[int, ...], tuple[SdpaBackwardGraph, rd.ExecutionPlan]] = {}

    def forward(self, part: Problem) -> tuple[SdpaGraph, rd.ExecutionPlan]:
        if part.side_q.lens not in self._forward:
            graph = sdpa_graph(part)
            self._forward[part.side_q.lens] = (graph, graph.build(self.engine))
        return self._forward[part.side_q.lens]

    def backward(self, back: BackwardProblem) -> tuple[SdpaBackwardGraph, rd.ExecutionPlan]:
        lens = back.forward.side_q.lens
        if lens not in self._backward:
            graph = sdpa_backward_graph(back, with_dbias=False)
            self._backward[lens] = (graph, graph.build(self.engine))
        return self._backward[lens]

    @property
    def workspace(self) -> int:
        plans = [plan for _, plan in (*self._forward.values(), *self._backward.values())]
        return max(int(plan.workspace_size) for plan in plans)


def _bytes_of(packs: list[Pack]) -> int:
    """Bytes of the arrays in the packs, each counted once."""
    arrays = {
        array.__array_interface__["data"][0]: int(array.nbytes)
        for pack in packs
        for array in pack.values()
        if isinstance(array, np.ndarray)
    }
    return sum(arrays.values())


class LayoutJob:
    """A layout on an engine, ready to be executed."""

    def __init__(self, layout: Layout, engine: str, batch: Batch) -> None:
        self._layout, self._plans = layout, _Plans(engine)
        self._steps: list[tuple[rd.ExecutionPlan, Pack]] = []
        self._calls: list[_Call] = []
        for part, do in zip(layout.parts, layout.spread(batch.do), strict=True):
            self._add(part, do, batch.work.pass_name)
        packs = [call.forward for call in self._calls]
        packs += [call.backward.pack for call in self._calls if call.backward is not None]
        self.memory = _bytes_of(packs) + self._plans.workspace
        self.run()

    def _add(self, part: Problem, do: Array, pass_name: str) -> None:
        sdpa, plan = self._plans.forward(part)
        outputs = sdpa.new_outputs(part, 0.0)
        call = _Call(part, sdpa, outputs, sdpa.pack(part, outputs))
        self._calls.append(call)
        if pass_name != BACKWARD:
            self._steps.append((plan, call.forward))
        if pass_name == FORWARD:
            return
        plan.execute(call.forward)  # the backward pass reads its output and log-sum-exp
        lse = sdpa.lse_rows(outputs, part)
        assert lse is not None
        back = BackwardProblem(part, do, sdpa.o_rows(outputs, part), lse, None)
        graph, plan_back = self._plans.backward(back)
        gradients = graph.new_gradients(back, 0.0)
        pack = {
            **graph.inputs(back),
            **{graph.tensors[name]: gradients[name] for name in GRADIENTS},
            **_shared(sdpa, graph, call.forward),
        }
        call.backward = _Backward(graph, back, gradients, pack)
        self._steps.append((plan_back, pack))

    def run(self) -> None:
        for plan, pack in self._steps:
            plan.execute(pack)

    def results(self) -> dict[str, Array]:
        rows = [call.results() for call in self._calls]
        return {name: self._layout.packed_rows([part[name] for part in rows]) for name in rows[0]}


def _shared(sdpa: SdpaGraph, back: SdpaBackwardGraph, forward: Pack) -> Pack:
    """The forward pass's arrays under the backward graph's tensors, so that none is held twice."""
    names = ("q", "k", "v", "o", "stats", "bias")
    return {
        back.tensors[name]: forward[sdpa.tensors[name]] for name in names if name in sdpa.tensors
    }


@dataclass(frozen=True)
class EngineContender:
    """A layout on an engine of ours. ``asked``: the command names it, so it runs at any size."""

    engine: str
    layout: str
    asked: bool = False
    is_ours: bool = True

    def stored_padding(self, work: Workload) -> float:
        return work.padding_share if self.layout in (PADDED, PADDED_LENGTHS) else 0.0

    def prepare(self, batch: Batch) -> LayoutJob:
        work = batch.work
        flops = work.padded_flops if self.layout == PADDED else work.useful_flops
        if is_reference(self.engine) and not self.asked and flops > REFERENCE_WORK:
            raise UnavailableError(
                f"left out, {flops / 1e9:.0f} GFLOP is much for it; ask with --engine"
            )
        try:
            return LayoutJob(make_layout(self.layout, batch), self.engine, batch)
        except rd.NotSupportedError as refusal:
            raise UnavailableError(f"refused: {refusal}") from refusal
        except MemoryError as error:
            raise UnavailableError(f"not enough memory: {error}") from error


@dataclass(frozen=True)
class NoEngine:
    """Stands for our engines on a device that none of them works on."""

    device: str
    engine: str = "raggeddnn"
    layout: str = LAYOUTS[0]
    is_ours: bool = True

    def stored_padding(self, _: Workload) -> float:
        return 0.0

    def prepare(self, _: Batch) -> LayoutJob:
        others = ", ".join(f"{e.name} on {e.device or '-'}" for e in rd.engines())
        raise UnavailableError(f"no engine works on {self.device} memory; there are {others}")


def our_contenders(engine: str | None, device: str) -> list[EngineContender | NoEngine | Peer]:
    """Every layout on ``engine``, or on all that take host memory; on a GPU, on what the library
    chooses there.
    """
    if device != CPU:
        there = [e.name for e in rd.engines() if e.available and e.device in GPU_DEVICES]
        if not there:
            return [NoEngine(device)]
        return [*torch_contenders(there[0] if len(there) == 1 else "raggeddnn", device)]
    names = host_engines() if engine is None else [engine]
    return [
        EngineContender(name, layout, asked=engine is not None)
        for name in names
        for layout in LAYOUTS
    ]
