"""Drawings of graphs for people: characters for a terminal, Mermaid, and SVG.

Each function takes a :class:`raggeddnn.Graph` (which stays as it is, finished or not), the bytes of
a serialized graph or container, or the JSON document of ``Graph.to_json`` as text or as a dict.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from ._core import Graph, describe_blob
from ._document import Document, GraphModel, Node, Operand, Tensor, shorten
from ._svg import draw_svg
from .errors import InvalidValueError

__all__ = ["to_mermaid", "to_svg", "to_text"]

_WIDTH = 100  # columns of the text drawing
_LANES = 10  # at most so many tensors are drawn from node to node; others are named only
_NAME = 32  # characters of a name in the text drawing
_LABEL = 60  # and in the others, where a name has its own line


def to_text(graph: Graph | bytes | str | Document) -> str:
    """The graph in characters, at most 100 columns wide, nodes in topological order.

    Above each node stand the tensors that it reads, below it those that it writes. A line on the
    left leads a tensor to the nodes further down that read it too. Offsets stand where a ragged
    tensor first refers to them.

    Raises InvalidValueError for anything else than a graph, its bytes, or its JSON document.
    """
    return "\n".join(draw_text(_model_of(graph)))


def to_mermaid(graph: Graph | bytes | str | Document) -> str:
    """The graph as a Mermaid flowchart, top to bottom; ids are its own, names are only labels.

    Raises InvalidValueError as :func:`to_text` does.
    """
    return "\n".join(_mermaid_lines(_model_of(graph)))


def to_svg(graph: Graph | bytes | str | Document) -> str:
    """The graph as an SVG document of its own: no fonts, scripts or styles from elsewhere.

    Raises InvalidValueError as :func:`to_text` does, and for a graph with a cycle.
    """
    return draw_svg(_model_of(graph))


def _model_of(source: object) -> GraphModel:
    try:
        return _checked_model(_document_of(source))
    except RecursionError as error:
        raise InvalidValueError(
            "diagram got a document nested too deep, expected one of raggeddnn"
        ) from error


def _checked_model(document: Any) -> GraphModel:
    if isinstance(document, dict) and "nodes" not in document and "graph" in document:
        document = document["graph"]
        if document is None:
            raise InvalidValueError("diagram got a plan without a graph, expected a graph")
    if not isinstance(document, dict) or "nodes" not in document:
        raise InvalidValueError(
            f"diagram got JSON of {type(document).__name__}, expected an object with 'tensors' "
            "and 'nodes'"
        )
    uids = []
    for group in ("tensors", "nodes"):
        for i, entry in enumerate(_entries(document, group)):
            if not isinstance(entry, dict):
                raise InvalidValueError(f"diagram: {group}[{i}] is {entry!r}, expected an object")
            if group == "tensors":
                uids.append(_checked_uid(i, entry))
    if len(set(uids)) != len(uids):
        raise InvalidValueError("diagram: two tensors have one uid, expected unique uids")
    try:
        return GraphModel(document)
    except (TypeError, AttributeError, ValueError) as error:
        raise InvalidValueError(
            f"diagram: the document is no graph of raggeddnn ({error})"
        ) from error


def _document_of(source: object) -> Any:
    if isinstance(source, Graph):
        return json.loads(source.draft_json())
    if isinstance(source, (bytes, bytearray, memoryview)):
        return json.loads(describe_blob(bytes(source)))
    if isinstance(source, str):
        try:
            return json.loads(source)
        except ValueError as error:
            raise InvalidValueError(f"diagram got text that is no JSON: {error}") from error
    if isinstance(source, dict):
        return source
    raise InvalidValueError(
        f"diagram got {type(source).__name__}, expected a Graph, its bytes or its JSON document"
    )


def _entries(document: Document, group: str) -> list[Any]:
    entries = document.get(group) or []
    if not isinstance(entries, list):
        raise InvalidValueError(f"diagram: {group!r} is {entries!r}, expected a list")
    return entries


def _checked_uid(i: int, tensor: Document) -> int:
    uid = tensor.get("uid")
    if not isinstance(uid, int) or isinstance(uid, bool):
        raise InvalidValueError(f"diagram: tensors[{i}].uid is {uid!r}, expected an integer")
    for key in ("dims", "strides"):
        numbers = tensor.get(key) or []
        if not isinstance(numbers, list) or not all(isinstance(n, int) for n in numbers):
            raise InvalidValueError(
                f"diagram: tensors[{i}].{key} is {numbers!r}, expected a list of integers"
            )
    return uid


# ---- text ----


def _columns(text: str) -> int:
    """Columns of a terminal: none for marks that combine, two for wide characters."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _pad(text: str, width: int) -> str:
    return text + " " * max(width - _columns(text), 0)


def _fit(text: str, width: int) -> str:
    """:func:`shorten` by columns."""
    limit = width
    while _columns(shorten(text, limit)) > width:
        limit -= 1
    return shorten(text, limit)


def _wrap(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` columns, broken at spaces where there are some."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if _columns(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(_fit(word, width))
    return [line for line in lines if line] or [""]


class _TextDrawing:
    """Draws node after node; ``lanes`` has the uid that each column on the left leads on."""

    def __init__(self, model: GraphModel) -> None:
        self.model = model
        self.lanes: list[int | None] = []
        self.left = {uid: len(tensor.consumers) for uid, tensor in model.tensors.items()}
        self.seen: set[int] = set()
        self.widths = (0, 0)  # of the roles and of the names beside one node

    def node_lines(self, node: Node) -> Iterator[str]:
        self._reserve_lanes(node)
        yield self._margin().rstrip()
        self._measure(node, node.inputs)
        for i in range(len(node.inputs)):
            yield from self._input(node, i)
        yield from self._offsets("│", node.inputs)
        if node.inputs:
            yield self._margin() + "▼"
        yield from self._box(node)
        self._measure(node, node.outputs)
        for i, operand in enumerate(node.outputs):
            yield from self._output(operand, i == len(node.outputs) - 1)
        yield from self._offsets(" ", node.outputs)

    def _measure(self, node: Node, side: tuple[Operand, ...]) -> None:
        roles = [use.role for use in (*node.inputs, *node.outputs)]
        names = [_fit(self.model.tensors[use.uid].label, _NAME) for use in side]
        self.widths = (max(map(_columns, ["offsets", *roles])), max(map(_columns, ["", *names])))

    def _reserve_lanes(self, node: Node) -> None:
        """Columns for all that begins at this node, so that its lines have one left side."""
        while self.lanes and self.lanes[-1] is None:
            self.lanes.pop()
        read = {use.uid for use in node.inputs}
        begins = {uid for uid in read if uid not in self.seen and self.left[uid] > 1}
        ends = {uid for uid in read if uid in self.lanes and self.left[uid] == 1}
        results = {use.uid for use in node.outputs if self.left[use.uid]}
        free = self.lanes.count(None)
        needed = max(len(begins), len(begins) + len(results) - len(ends)) - free
        if len(read) < len(node.inputs):
            needed += 1  # a tensor that is read twice takes a lane for the lines between
        self.lanes += [None] * min(needed, _LANES - len(self.lanes))

    def _take_lane(self, uid: int) -> int | None:
        if None not in self.lanes:
            return None
        lane = self.lanes.index(None)
        self.lanes[lane] = uid
        return lane

    def _margin(self) -> str:
        return "".join("  " if uid is None else "│ " for uid in self.lanes) + "  "

    def _branch(self, lane: int | None, corner: str) -> str:
        """The margin with a line from ``lane``, which has ``corner``, to its right end."""
        margin = self._margin()
        if lane is None:
            return margin
        return margin[: 2 * lane] + corner + margin[2 * lane + 1 :].replace(" ", "─")

    def tensor_lines(self, start: str, then: str, role: str, tensor: Tensor) -> Iterator[str]:
        """A tensor at the end of its line: in full at first, later only where it is from."""
        roles, names = self.widths
        head = f"{_pad(role, roles)} {_pad(_fit(tensor.label, _NAME), names)}  "
        if tensor.uid in self.seen:
            origin = f"from node {tensor.producers[0]}" if tensor.producers else "see above"
            yield f"{start}{head}({origin})"
            return
        self.seen.add(tensor.uid)
        text = "; ".join(_fit(line, 2 * _NAME) for line in tensor.lines[1:])
        first, *more = _wrap(text, max(_WIDTH - _columns(start + head), 24))
        yield start + head + first
        for line in more:
            yield then + " " * _columns(head) + line

    def _offsets(self, bus: str, uses: tuple[Operand, ...]) -> Iterator[str]:
        """Offsets that these tensors are the first to refer to."""
        for use in uses:
            aux = self.model.tensors[use.uid].aux
            if aux is not None and aux not in self.seen:
                then = f"{self._margin()}{bus}  "
                tensor = self.model.tensors[aux]
                yield from self.tensor_lines(f"{self._margin()}┊  ", then, "offsets", tensor)

    def _input(self, node: Node, i: int) -> Iterator[str]:
        role, uid = node.inputs[i].role, node.inputs[i].uid
        is_again = uid in {use.uid for use in node.inputs[i + 1 :]}
        if not is_again:
            self.left[uid] -= 1
        goes_on = self.left[uid] > 0
        lane, corner = None, ""
        if uid in self.lanes:
            lane, corner = self.lanes.index(uid), "├" if goes_on else "└"
        elif uid not in self.seen and goes_on:
            lane, corner = self._take_lane(uid), "┌"
        joint = ("┬" if i == 0 else "┼") if lane is not None else ("┌" if i == 0 else "├")
        start = self._branch(lane, corner) + joint + "─ "
        if lane is not None and not goes_on:
            self.lanes[lane] = None
        then = self._margin() + "│  "
        yield from self.tensor_lines(start, then, role, self.model.tensors[uid])

    def _output(self, use: Operand, is_last: bool) -> Iterator[str]:
        is_new = self.left[use.uid] > 0 and use.uid not in self.lanes
        lane = self._take_lane(use.uid) if is_new else None
        joint = ("┴" if is_last else "┼") if lane is not None else ("└" if is_last else "├")
        start = self._branch(lane, "┌") + joint + "─ "
        then = self._margin() + ("   " if is_last else "│  ")
        yield from self.tensor_lines(start, then, use.role, self.model.tensors[use.uid])

    def _box(self, node: Node) -> Iterator[str]:
        margin = self._margin()[:-2]
        room = _WIDTH - len(margin) - 4
        name = f" '{_fit(node.name, _NAME)}'" if node.name else ""
        title = f"node {node.number}: {_fit(node.operation, 2 * _NAME)}{name}"
        lines = _wrap(title, room)
        if node.attributes:
            lines += _wrap(", ".join(node.attributes), room)
        width = max(_columns(line) for line in lines)
        yield f"{margin}┏━{'━' * width}━┓"
        for line in lines:
            yield f"{margin}┃ {_pad(line, width)} ┃"
        yield f"{margin}┗━{'┯' if node.outputs else '━'}{'━' * (width - 1)}━┛"


def draw_text(model: GraphModel) -> Iterator[str]:
    """The lines of :func:`to_text`; the first two are the graph's name and types."""
    drawing = _TextDrawing(model)
    yield f"graph {_fit(model.name, 2 * _NAME) or '(unnamed)'}"
    yield "  " + ", ".join(f"{kind}_data_type {data_type}" for kind, data_type in model.types)
    for node in model.nodes:
        yield from drawing.node_lines(node)
    alone = [tensor for uid, tensor in model.tensors.items() if uid not in drawing.seen]
    if alone:
        yield ""
        yield "not used:"
    drawing.widths = (0, max((_columns(_fit(tensor.label, _NAME)) for tensor in alone), default=0))
    for tensor in alone:
        yield from drawing.tensor_lines("  ", "  ", "", tensor)


# ---- Mermaid ----

# What Mermaid would not take as text: quotes, entities (which "#" begins), HTML, Markdown's marks,
# maths, directives and icons. Brackets in quotes, and underscores within words, are text.
_SPECIAL = re.compile(
    r"""["#&<>`\\*~$%|]|_(?![^\W_])|(?<![^\W_])_|(?<=\])\(|:(?=fa\w?-)|^\d+[.)]|^[-+=]"""
)
_CLASSES = """\
    classDef operation fill:#dbe9ff,stroke:#2b5fab,color:#10233f
    classDef tensor fill:#f2f2f2,stroke:#777777,color:#222222
    classDef ragged fill:#dff3e1,stroke:#2f7d3b,color:#12331a
    classDef scalar fill:#fff3d1,stroke:#a87a10,color:#3d2c05"""


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"{match[0][:-1]}#{ord(match[0][-1])};", text)


def _mermaid_label(lines: list[str]) -> str:
    return "<br/>".join(_escaped(shorten(line, _LABEL)) for line in lines if line)


_MERMAID_SHAPES = {"tensor": ("[", "]"), "ragged": ("[/", "/]"), "scalar": ("([", "])")}


def _mermaid_lines(model: GraphModel) -> Iterator[str]:
    yield "flowchart TD"
    ids = {uid: f"t{i}" for i, uid in enumerate(model.tensors)}
    for uid, tensor in model.tensors.items():
        kind = tensor.kind
        before, after = _MERMAID_SHAPES[kind]
        label = _mermaid_label(tensor.lines)
        yield f'    {ids[uid]}{before}"{label}"{after}:::{kind}'
    for node in model.nodes:
        label = _mermaid_label([node.title, *node.attributes])
        yield f'    n{node.number}{{{{"{label}"}}}}:::operation'
    for aux, users in model.offset_users.items():
        for uid in users:
            if not model.tensors[uid].producers:
                yield f"    {ids[aux]} -.-> {ids[uid]}"
    for node in model.nodes:
        for operand in node.inputs:
            yield f'    {ids[operand.uid]} -->|"{_escaped(operand.role)}"| n{node.number}'
        for operand in node.outputs:
            yield f'    n{node.number} -->|"{_escaped(operand.role)}"| {ids[operand.uid]}'
    yield from _CLASSES.splitlines()
