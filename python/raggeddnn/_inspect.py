"""Readable text of a serialized graph, plan or container, from the core's JSON of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from ._document import Document, GraphModel, brackets
from .bench.report import text_table
from .diagram import draw_text

_KINDS = {
    "graph": "graph",
    "execution_plan": "execution plan",
    "graph_and_plan": "graph with execution plan",
}
_SHOWN = ("name", "tensors", "nodes", "min_required_engine_api_version")


def _version(value: Any) -> str:
    if isinstance(value, dict):
        return ".".join(str(value.get(part, 0)) for part in ("major", "minor", "patch"))
    return str(value)


def _tensor_table(model: GraphModel) -> str:
    rows = [
        [
            str(tensor.uid),
            tensor.name,
            tensor.data_type,
            brackets(tensor.dims),
            brackets(tensor.strides),
            "; ".join(tensor.marks),
        ]
        for tensor in model.tensors.values()
    ]
    return text_table(("uid", "name", "type", "dims", "strides", "marks"), rows)


def _graph_lines(graph: Document) -> Iterator[str]:
    model = GraphModel(graph)
    needed = graph.get("min_required_engine_api_version")
    first, types, *drawing = draw_text(model)
    yield from (first, types)
    yield f"  needs plugin API {'1.0.0' if needed is None else _version(needed)}"
    shown = {*_SHOWN, *(f"{kind}_data_type" for kind, _ in model.types)}
    for key, value in graph.items():
        if key not in shown and value not in (None, False):
            yield f"  {key} {value}"
    yield ""
    yield from _tensor_table(model).splitlines()
    yield from drawing


def _plan_lines(plan: Document) -> Iterator[str]:
    yield "execution plan"
    for key, value in plan.items():
        if key == "plugin_payload" and isinstance(value, list):
            yield f"  {key} {len(value)} bytes, CRC-32 {zlib.crc32(bytes(value)):08x}"
        else:
            yield f"  {key} {brackets(value) if isinstance(value, list) else value}"


def describe(document: Document) -> str:
    """Text for people: kind, graph (types, tensors, nodes), plan, warnings."""
    kind = document.get("kind", "")
    sections = [[f"kind: {_KINDS.get(kind, kind or 'unknown')}"]]
    if document.get("graph"):
        sections.append(list(_graph_lines(document["graph"])))
    if document.get("plan"):
        sections.append(list(_plan_lines(document["plan"])))
    warnings = document.get("warnings") or []
    if warnings:
        sections.append([f"warning: {text}" for text in warnings])
    return "\n\n".join("\n".join(lines) for lines in sections)
