"""Readable text of a serialized graph, plan or container, from the core's JSON of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from .bench.report import text_table

Document = dict[str, Any]

_KINDS = {
    "graph": "graph",
    "execution_plan": "execution plan",
    "graph_and_plan": "graph with execution plan",
}
_NODE_KEYS = ("type", "name", "inputs", "outputs", "compute_data_type")


def _brackets(values: Any) -> str:
    return "[" + ", ".join(str(n) for n in values or ()) + "]"


def _version(value: Any) -> str:
    if isinstance(value, dict):
        return ".".join(str(value.get(part, 0)) for part in ("major", "minor", "patch"))
    return str(value)


def _value(value: Any) -> str:
    """A scalar's value, whether written plainly or as a one-field object."""
    if isinstance(value, dict):
        inner = [v for k, v in value.items() if k not in ("type", "value_type")]
        return ", ".join(_value(v) for v in inner)
    return str(value)


def _marks(tensor: Document, names: dict[int, str]) -> str:
    marks = []
    if tensor.get("virtual") or tensor.get("is_virtual"):
        marks.append("virtual")
    aux = tensor.get("ragged_offset_tensor_uid")
    if aux is not None:
        times = tensor.get("ragged_offset_multiplier", 1)
        marks.append(f"ragged by {names.get(aux, aux)}{f' x {times}' if times != 1 else ''}")
    value = tensor.get("value")
    if tensor.get("is_runtime_pass_by_value"):
        marks.append("by value, runtime" + ("" if value is None else f", default {_value(value)}"))
    elif value is not None:
        marks.append(f"by value, constant {_value(value)}")
    alignment = tensor.get("alignment", 16)
    if alignment != 16:
        marks.append(f"aligned to {alignment}")
    return "; ".join(marks)


def _tensor_names(graph: Document) -> dict[int, str]:
    """What to call each tensor: its name if it has one of its own, else its uid."""
    tensors = graph.get("tensors") or []
    given = [tensor.get("name") for tensor in tensors]
    return {
        tensor["uid"]: name if name and given.count(name) == 1 else f"#{tensor['uid']}"
        for tensor, name in zip(tensors, given, strict=True)
    }


def _tensor_table(graph: Document, names: dict[int, str]) -> str:
    rows = [
        [
            str(tensor["uid"]),
            str(tensor.get("name") or ""),
            str(tensor.get("data_type", "unset")),
            _brackets(tensor.get("dims")),
            _brackets(tensor.get("strides")),
            _marks(tensor, names),
        ]
        for tensor in graph.get("tensors") or []
    ]
    return text_table(("uid", "name", "type", "dims", "strides", "marks"), rows)


def _operands(operands: Document, names: dict[int, str]) -> str:
    parts = []
    for key, uid in operands.items():
        if uid is None:
            continue
        shown = names.get(uid, f"#{uid}") if isinstance(uid, int) else str(uid)
        parts.append(f"{key.removesuffix('_tensor_uid').removesuffix('_uid')}={shown}")
    return ", ".join(parts)


def _node_lines(node: Document, names: dict[int, str]) -> Iterator[str]:
    title = f"{node.get('type', 'unknown operation')}"
    if node.get("name"):
        title += f" {node['name']!r}"
    if node.get("compute_data_type", "unset") != "unset":
        title += f", computed in {node['compute_data_type']}"
    yield title
    operands: Document = {}
    attributes: Document = {}
    for key, value in node.items():
        if key in _NODE_KEYS:
            continue
        # Ops differ: some nest their fields in a group, others have them beside the name.
        for field, content in (value if isinstance(value, dict) else {key: value}).items():
            (operands if field.endswith("_tensor_uid") else attributes)[field] = content
    for kind, group in (
        ("inputs", node.get("inputs")),
        ("outputs", node.get("outputs")),
        ("tensors", operands),
    ):
        if group:
            yield f"    {kind:<11}{_operands(group, names)}"
    silent = (None, "unset")
    shown = [f"{k}={v}" for k, v in attributes.items() if v not in silent and v is not False]
    if shown:
        yield f"    attributes {', '.join(shown)}"


def _graph_lines(graph: Document) -> Iterator[str]:
    names = _tensor_names(graph)
    yield f"graph {graph.get('name') or '(unnamed)'!s}"
    types = ("io_data_type", "intermediate_data_type", "compute_data_type")
    yield "  " + ", ".join(f"{key} {graph.get(key, 'unset')}" for key in types)
    shown = {*types, "name", "tensors", "nodes", "min_required_engine_api_version"}
    needed = graph.get("min_required_engine_api_version")
    yield f"  needs plugin API {'1.0.0' if needed is None else _version(needed)}"
    for key, value in graph.items():
        if key not in shown and value not in (None, False):
            yield f"  {key} {value}"
    yield ""
    yield from _tensor_table(graph, names).splitlines()
    yield ""
    for number, node in enumerate(graph.get("nodes") or []):
        first, *rest = _node_lines(node, names)
        yield f"node {number}: {first}"
        yield from rest


def _plan_lines(plan: Document) -> Iterator[str]:
    yield "execution plan"
    for key, value in plan.items():
        if key == "plugin_payload" and isinstance(value, list):
            yield f"  {key} {len(value)} bytes, CRC-32 {zlib.crc32(bytes(value)):08x}"
        else:
            yield f"  {key} {_brackets(value) if isinstance(value, list) else value}"


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
