"""A graph's JSON document as objects with the words that people read: names, marks, operands."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Document = dict[str, Any]

_NODE_KEYS = ("inputs", "outputs", "type", "name", "compute_data_type")
_SUFFIXES = ("_tensor_uids", "_tensor_uid")
# Outputs of the operations whose JSON has no groups "inputs" and "outputs".
_FLAT_OUTPUTS = {
    "CustomOpAttributes": ("output_tensor_uids",),
    "ReductionAttributes": ("out_tensor_uid",),
    "ResampleFwdAttributes": ("y_tensor_uid", "index_tensor_uid"),
    "ResampleBwdAttributes": ("dx_tensor_uid",),
}
_AXIS = "axis_tensor_uid"  # an axis, whatever its name says
_SILENT: tuple[Any, ...] = (None, "unset", "AUTO", "", [])
_LONGEST_VALUE = 60  # characters of an attribute's value


def brackets(values: Any) -> str:
    """Dims or strides as text."""
    return "[" + ", ".join(str(n) for n in values or ()) + "]"


def printable(text: object) -> str:
    """Text on one line: whatever a terminal would act on is written as its escape."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text)
    )


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` characters, the last one an ellipsis where something is left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _value(value: Any) -> str:
    """A value, whether written plainly or as a one-field object; floats as short as they can be."""
    if isinstance(value, dict):
        inner = [v for k, v in value.items() if k not in ("type", "value_type")]
        return ", ".join(_value(v) for v in inner)
    if isinstance(value, float):
        with np.errstate(over="ignore"):
            single = np.float32(value)
        if float(single) == value:
            return str(single)
    return printable(value)


@dataclass(frozen=True)
class Operand:
    """A tensor in the place ``role`` of a node."""

    role: str
    uid: int


@dataclass(frozen=True)
class Node:
    """An operation; ``number`` is its place in the file."""

    number: int
    operation: str
    name: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.operation} '{self.name}'" if self.name else self.operation


@dataclass
class Tensor:
    """A tensor; ``label`` is its name if that is its own, else ``#uid``."""

    uid: int
    name: str
    label: str
    data_type: str
    dims: list[int]
    strides: list[int]
    marks: tuple[str, ...]
    aux: int | None
    is_by_value: bool
    producers: list[int] = field(default_factory=list)  # numbers of nodes
    consumers: list[int] = field(default_factory=list)

    @property
    def type_and_dims(self) -> str:
        return f"{self.data_type} {brackets(self.dims)}"

    @property
    def kind(self) -> str:
        """Which of the shapes and colours the tensor has: "tensor", "ragged" or "scalar"."""
        if self.is_by_value:
            return "scalar"
        return "tensor" if self.aux is None else "ragged"

    @property
    def lines(self) -> list[str]:
        """Name, type and dims, and the marks one by one."""
        own_name = [self.name] if self.name and self.name != self.label else []
        strides = [] if self.has_default_strides else [f"strides {brackets(self.strides)}"]
        return [self.label, *own_name, self.type_and_dims, *strides, *self.marks]

    @property
    def has_default_strides(self) -> bool:
        """Row-major; of a ragged [B, H, S, D] rows outermost in a batch. An axis of 1 is free."""
        dims, default = self.dims, [1] * len(self.dims)
        order = list(range(len(dims)))
        if self.aux is not None and len(dims) == 4:
            order = [0, 2, 1, 3]
        for outer, inner in zip(order[-2::-1], order[:0:-1], strict=True):
            default[outer] = default[inner] * max(dims[inner], 1)
        if len(self.strides) != len(dims):
            return False
        return all(n == 1 or a == b for n, a, b in zip(dims, self.strides, default, strict=True))


def _marks(tensor: Document, labels: Mapping[int, str], is_output: bool) -> Iterator[str]:
    if is_output:
        yield "output"
    if tensor.get("virtual") or tensor.get("is_virtual"):
        yield "virtual"
    aux = tensor.get("ragged_offset_tensor_uid")
    if aux is not None:
        times = tensor.get("ragged_offset_multiplier", 1)
        yield f"ragged by {labels.get(aux, f'#{aux}')}{f' x {times}' if times != 1 else ''}"
    value = tensor.get("value")
    if tensor.get("is_runtime_pass_by_value"):
        yield "by value, runtime" + ("" if value is None else f", default {_value(value)}")
    elif value is not None:
        yield f"by value, constant {_value(value)}"
    alignment = tensor.get("alignment", 16)
    if alignment != 16:
        yield f"aligned to {alignment}"


def _operands(fields: Mapping[str, Any]) -> Iterator[Operand]:
    for key, value in fields.items():
        role = key
        for suffix in _SUFFIXES:
            role = role.removesuffix(suffix)
        if isinstance(value, list):
            yield from (Operand(f"{role}[{i}]", uid) for i, uid in enumerate(value))
        elif value is not None:
            yield Operand(role, value)


def _attribute(key: str, value: Any) -> str:
    text = f"{key.removesuffix('_tensor_uid')}={shorten(_value(value), _LONGEST_VALUE)}"
    return f"{text} (causal)" if (key, value) == ("right_bound", 0) else text


def _node(number: int, document: Document) -> Node:
    operation = str(document.get("type") or "unknown operation")
    groups: dict[str, Document] = {"inputs": {}, "outputs": {}}
    attributes: Document = {}
    if document.get("compute_data_type", "unset") != "unset":
        attributes["compute"] = document["compute_data_type"]
    flat_outputs = _FLAT_OUTPUTS.get(operation, ())

    def sort(group: str, key: str, value: Any) -> None:
        if not key.endswith(_SUFFIXES) or key == _AXIS:
            attributes[key] = value
        else:
            groups["outputs" if key in flat_outputs else group][key] = value

    for group in ("inputs", "outputs"):
        for key, value in (document.get(group) or {}).items():
            sort(group, key, value)
    for key, value in document.items():
        if key not in _NODE_KEYS:
            # Ops differ: some nest their fields in a group, others have them beside the name.
            for inner, content in (value if isinstance(value, dict) else {key: value}).items():
                sort("inputs", inner, content)
    shown = [_attribute(k, v) for k, v in attributes.items() if v not in _SILENT and v is not False]
    return Node(
        number=number,
        operation=printable(operation.removesuffix("Attributes")),
        name=printable(document.get("name") or ""),
        inputs=tuple(_operands(groups["inputs"])),
        outputs=tuple(_operands(groups["outputs"])),
        attributes=tuple(shown),
    )


def _labels(tensors: list[Document]) -> dict[int, str]:
    """What to call each tensor: its name if it has one of its own, else its uid."""
    given = [printable(tensor.get("name") or "") for tensor in tensors]
    count = Counter(given)
    return {
        tensor["uid"]: name
        if name and count[name] == 1 and not name.startswith("#")
        else f"#{tensor['uid']}"
        for tensor, name in zip(tensors, given, strict=True)
    }


def _tensor(document: Document, labels: Mapping[int, str], is_output: bool) -> Tensor:
    return Tensor(
        uid=document["uid"],
        name=printable(document.get("name") or ""),
        label=labels[document["uid"]],
        data_type=printable(document.get("data_type", "unset")),
        dims=list(document.get("dims") or ()),
        strides=list(document.get("strides") or ()),
        marks=tuple(_marks(document, labels, is_output)),
        aux=document.get("ragged_offset_tensor_uid"),
        is_by_value=bool(document.get("is_runtime_pass_by_value"))
        or document.get("value") is not None,
    )


class GraphModel:
    """``nodes`` in topological order (that of the file where it is one), ``tensors`` by uid.

    Nodes that wait for each other's results come last; ``cycle`` has their numbers.
    A uid that a node or an offset names and no tensor has stands for a tensor marked so.
    """

    def __init__(self, document: Document) -> None:
        self.name = printable(document.get("name") or "")
        self.types = tuple(
            (kind, printable(document.get(f"{kind}_data_type", "unset")))
            for kind in ("io", "intermediate", "compute")
        )
        nodes = [_node(i, node) for i, node in enumerate(document.get("nodes") or [])]
        tensors: list[Document] = list(document.get("tensors") or [])
        self._add_missing(tensors, nodes)
        labels = _labels(tensors)
        written = {operand.uid for node in nodes for operand in node.outputs}
        self.tensors: dict[int, Tensor] = {}
        for tensor in tensors:
            is_output = tensor["uid"] in written and not tensor.get("virtual")
            self.tensors[tensor["uid"]] = _tensor(tensor, labels, is_output)
            if "missing" in tensor:
                self.tensors[tensor["uid"]].marks = ("not in the graph",)
        self.nodes = self._connect(nodes)
        self.offset_users: dict[int, list[int]] = {}
        for known in self.tensors.values():
            if known.aux is not None:
                self.offset_users.setdefault(known.aux, []).append(known.uid)

    @staticmethod
    def _add_missing(tensors: list[Document], nodes: list[Node]) -> None:
        known = {tensor["uid"] for tensor in tensors}
        used: list[int | None]
        used = [operand.uid for node in nodes for operand in (*node.inputs, *node.outputs)]
        used += [tensor.get("ragged_offset_tensor_uid") for tensor in tensors]
        for uid in used:
            if uid is not None and uid not in known:
                known.add(uid)
                tensors.append({"uid": uid, "missing": True})

    def _connect(self, nodes: list[Node]) -> list[Node]:
        """Fill producers and consumers; the nodes in topological order."""
        for node in nodes:
            for operand in node.outputs:
                self.tensors[operand.uid].producers.append(node.number)
            for uid in dict.fromkeys(operand.uid for operand in node.inputs):
                self.tensors[uid].consumers.append(node.number)
        waits = {
            node.number: {p for use in node.inputs for p in self.tensors[use.uid].producers}
            for node in nodes
        }
        feeds: dict[int, list[int]] = {node.number: [] for node in nodes}
        for number, producers in waits.items():
            for producer in producers:
                feeds[producer].append(number)
        # The lowest number first, so that a file in order keeps its order.
        ready = [number for number, producers in waits.items() if not producers]
        ordered: list[Node] = []
        while ready:
            number = heapq.heappop(ready)
            ordered.append(nodes[number])
            for fed in feeds[number]:
                waits[fed].discard(number)
                if not waits[fed]:
                    heapq.heappush(ready, fed)
        self.cycle = tuple(number for number, producers in waits.items() if producers)
        return ordered + [nodes[number] for number in self.cycle]
