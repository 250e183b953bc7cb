"""SVG of a graph: layers by longest path, order by barycentre, edges that pass between boxes.

Boxes stand in rows. An edge that is longer than one row has a narrow place of its own in each row
between, so that it never runs through a box. Beyond some rows nobody follows it, and the drawing
would grow with the square of the graph: there the operation names its tensor instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from ._document import GraphModel, Node, Operand, Tensor, brackets, shorten
from .errors import InvalidValueError

_CHARACTER = 6.7  # width at 11 px of a fixed-width font, in px like all that follows
_LINE = 15
_PAD = 9
_GAP_X = 22
_GAP_Y = 46
_MARGIN = 20
_PLACE = 8  # width of the place of an edge that passes a row
_LONGEST = 42  # characters of a line
_PER_ROW = 6  # inputs of one operation side by side
_FARTHEST = 30  # rows that an edge leads down
_NAME = 24  # characters of a tensor's name beside a role
_SWEEPS = 8
_LEGEND = ("operation", "tensor", "ragged", "scalar")
_LEGEND_WORDS = ("operation", "tensor", "ragged tensor", "scalar by value")
_RULES = (
    ("text", 'font: 11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace'),
    (".name", "font-weight: bold"),
    (".role", "font-size: 10px"),
    (".caption", "font-size: 10px"),
    (".edge", "fill: none; stroke-width: 1.2"),
    (".offsets", "stroke-dasharray: 4 3"),
    (".box", "stroke-width: 1.4"),
    (".virtual .box", "stroke-dasharray: 5 3"),
)
_LIGHT = (
    ("text", "fill: #1d2733"),
    (".role", "fill: #48576a"),
    (".paper", "fill: #ffffff"),
    (".edge", "stroke: #6b7888"),
    (".head", "fill: #6b7888"),
    (".operation .box", "fill: #dbe9ff; stroke: #2b5fab"),
    (".tensor .box", "fill: #f2f2f2; stroke: #777777"),
    (".ragged .box", "fill: #dff3e1; stroke: #2f7d3b"),
    (".scalar .box", "fill: #fff3d1; stroke: #a87a10"),
)
_DARK = (
    ("text", "fill: #e6edf3"),
    (".role", "fill: #a9b6c6"),
    (".paper", "fill: #161b22"),
    (".edge", "stroke: #8b98a8"),
    (".head", "fill: #8b98a8"),
    (".operation .box", "fill: #1c3357; stroke: #6ea0ee"),
    (".tensor .box", "fill: #2b3036; stroke: #9aa4b0"),
    (".ragged .box", "fill: #173a20; stroke: #5fbf70"),
    (".scalar .box", "fill: #413411; stroke: #d6a93b"),
)


@dataclass(eq=False)
class _Item:
    """A box of a row, or (without lines) the place of an edge that passes it."""

    key: str
    layer: int
    width: float
    height: float
    lines: list[str] = field(default_factory=list)
    x: float = 0.0  # of its centre
    y: float = 0.0  # of its upper side
    above: list[_Item] = field(default_factory=list)
    below: list[_Item] = field(default_factory=list)
    ports: dict[str, float] = field(default_factory=dict)  # x of each port, from the centre


@dataclass(eq=False)
class _Edge:
    source: str
    target: str
    source_port: str = ""
    target_port: str = ""
    is_offset: bool = False
    path: list[_Item] = field(default_factory=list)


def _width(text: str) -> float:
    # Beyond Latin a character may be as wide as two.
    return sum(_CHARACTER if ord(c) < 0x2E80 else 2 * _CHARACTER for c in text)


def _short(lines: Sequence[str]) -> list[str]:
    return [shorten(line, _LONGEST) for line in lines if line]


def _port(side: str, i: int) -> str:
    return f"{side}{i}"


class _Layout:
    """Boxes with places, and edges through them."""

    def __init__(self, model: GraphModel) -> None:
        if model.cycle:
            nodes = ", ".join(str(number) for number in model.cycle)
            raise InvalidValueError(
                f"graph {model.name!r}: nodes {nodes} wait for each other's results, expected a "
                "graph without cycles"
            )
        self.model = model
        self.layers = self._layers()
        self.words: dict[tuple[str, str], str] = {}  # at each port of each operation
        self.edges = list(self._edges())
        self.boxes = {item.key: item for item in self._boxes()}
        self.rows = self._rows()
        self._order()
        self._place()

    def _edges(self) -> Iterator[_Edge]:
        """What is drawn as a line. Other offsets are named in the boxes that refer to them."""
        for aux, users in self.model.offset_users.items():
            for uid in users:
                edge = _Edge(f"t{aux}", f"t{uid}", is_offset=True)
                if not self.model.tensors[uid].producers and self._is_drawn(edge):
                    yield edge
        for node in self.model.nodes:
            key = f"n{node.number}"
            for i, use in enumerate(node.inputs):
                edge = _Edge(f"t{use.uid}", key, target_port=_port("in", i))
                yield from self._line_or_words(edge, key, edge.target_port, f"{use.role} ←", use)
            for i, use in enumerate(node.outputs):
                edge = _Edge(key, f"t{use.uid}", source_port=_port("out", i))
                yield from self._line_or_words(edge, key, edge.source_port, f"{use.role} →", use)

    def _is_drawn(self, edge: _Edge) -> bool:
        # Offsets may stand beside or below what refers to them: read by the same operation, or
        # written by a later one.
        return 0 < self.layers[edge.target] - self.layers[edge.source] <= _FARTHEST

    def _line_or_words(
        self, edge: _Edge, key: str, port: str, words: str, use: Operand
    ) -> Iterator[_Edge]:
        if self._is_drawn(edge):
            self.words[key, port] = use.role
            yield edge
        else:
            self.words[key, port] = f"{words} {shorten(self.model.tensors[use.uid].label, _NAME)}"

    # ---- boxes and their layers ----

    def _boxes(self) -> Iterator[_Item]:
        layers = self.layers
        lowest = min(layers.values(), default=0)
        for uid, tensor in self.model.tensors.items():
            lines = _short(tensor.lines)
            width = max(_width(line) for line in lines) + 2 * _PAD
            height = len(lines) * _LINE + _PAD
            yield _Item(f"t{uid}", layers[f"t{uid}"] - lowest, width, height, lines)
        for node in self.model.nodes:
            yield self._node_box(node, layers[f"n{node.number}"] - lowest)

    def _node_box(self, node: Node, layer: int) -> _Item:
        lines = _short([node.operation, f"'{node.name}'" if node.name else "", *node.attributes])
        widths = [max(_width(line) for line in lines) + 2 * _PAD]
        for side, uses in (("in", node.inputs), ("out", node.outputs)):
            roles = [self.words[f"n{node.number}", _port(side, i)] for i in range(len(uses))]
            widths.append(sum(map(_role_width, roles)) + _PAD)
        height = (len(lines) + 2) * _LINE + _PAD
        return _Item(f"n{node.number}", layer, max(widths), height, lines)

    def _layers(self) -> dict[str, int]:
        """Longest paths; what has no producer stands just above its first reader."""
        layers: dict[str, int] = {}
        for node in self.model.nodes:
            sources = [use.uid for use in node.inputs if not self.model.tensors[use.uid].producers]
            rows = -(-len(set(sources)) // _PER_ROW)
            above = [layers[f"t{use.uid}"] for use in node.inputs if f"t{use.uid}" in layers]
            # Below what offsets of its tensors are written or read by others, with room between.
            offsets = [layers[f"t{aux}"] for aux in self._aux_of(sources) if f"t{aux}" in layers]
            layer = max([rows, *(n + 1 for n in above), *(n + 2 for n in offsets)])
            layers[f"n{node.number}"] = layer
            new = [uid for uid in dict.fromkeys(sources) if f"t{uid}" not in layers]
            for i, uid in enumerate(new):
                layers[f"t{uid}"] = layer - 1 - i // _PER_ROW
            for use in node.outputs:
                key = f"t{use.uid}"
                layers[key] = max(layers.get(key, 0), layer + 1)
        for uid in self.model.tensors:
            layers.setdefault(f"t{uid}", 0)
        for aux, users in self.model.offset_users.items():
            readers = [uid for uid in users if not self.model.tensors[uid].producers]
            is_free = not (self.model.tensors[aux].consumers or self.model.tensors[aux].producers)
            if is_free and readers:
                layers[f"t{aux}"] = min(layers[f"t{uid}"] for uid in readers) - 1
        return layers

    def _aux_of(self, uids: Sequence[int]) -> list[int]:
        found = (self.model.tensors[uid].aux for uid in uids)
        return [aux for aux in found if aux is not None]

    # ---- rows ----

    def _rows(self) -> list[list[_Item]]:
        count = 1 + max((box.layer for box in self.boxes.values()), default=0)
        rows: list[list[_Item]] = [[] for _ in range(count)]
        for box in self.boxes.values():
            rows[box.layer].append(box)
        places: dict[tuple[str, str, bool, int], _Item] = {}
        for edge in self.edges:
            start, end = self.boxes[edge.source], self.boxes[edge.target]
            edge.path = [start]
            for layer in range(start.layer + 1, end.layer):
                # Edges from one place run together as far as they go the same way.
                key = (edge.source, edge.source_port, edge.is_offset, layer)
                if key not in places:
                    places[key] = _Item("", layer, _PLACE, 0)
                    rows[layer].append(places[key])
                    self._join(edge.path[-1], places[key])
                edge.path.append(places[key])
            self._join(edge.path[-1], end)
            edge.path.append(end)
        return rows

    @staticmethod
    def _join(upper: _Item, lower: _Item) -> None:
        upper.below.append(lower)
        lower.above.append(upper)

    def _order(self) -> None:
        """Sort each row by the mean place of what it is joined to, from above and from below."""
        for row in self.rows:
            for i, item in enumerate(row):
                item.x = float(i)
        for sweep in range(_SWEEPS):
            is_down = sweep % 2 == 0
            rows = self.rows[1:] if is_down else self.rows[-2::-1]
            for row in rows:
                means = [_mean(item.above if is_down else item.below) for item in row]
                wish = {
                    id(item): item.x if mean is None else mean
                    for item, mean in zip(row, means, strict=True)
                }
                row.sort(key=lambda item: wish[id(item)])
                for i, item in enumerate(row):
                    item.x = float(i)

    def _place(self) -> None:
        y = float(_MARGIN)
        for row in self.rows:
            x = 0.0
            for item in row:
                item.x, item.y = x + item.width / 2, y
                x += item.width + _GAP_X
            y += max((item.height for item in row), default=0) + _GAP_Y
        for _ in range(_SWEEPS):
            for row in self.rows[1:]:
                _settle(row, [_mean(item.above) for item in row])
            for row in self.rows[-2::-1]:
                _settle(row, [_mean(item.below) for item in row])
        items = [item for row in self.rows for item in row]
        left = min((item.x - item.width / 2 for item in items), default=0)
        for item in items:
            item.x += _MARGIN - left
        for row in self.rows:
            height = max((item.height for item in row), default=0)
            for item in row:
                if not item.lines:
                    item.height = height
        self._place_ports()

    def _place_ports(self) -> None:
        """Ports in the order of what they lead to, so that edges at one box do not cross."""
        for node in self.model.nodes:
            box = self.boxes[f"n{node.number}"]
            for side, uses in (("in", node.inputs), ("out", node.outputs)):
                neighbours = {}
                for edge in self.edges:
                    if side == "in" and edge.target == box.key:
                        neighbours[edge.target_port] = edge.path[-2].x
                    elif side == "out" and edge.source == box.key:
                        neighbours[edge.source_port] = edge.path[1].x
                ports = [_port(side, i) for i in range(len(uses))]
                ports.sort(key=lambda port: neighbours.get(port, box.x))
                widths = {port: _role_width(self.words[box.key, port]) for port in ports}
                spare = box.width - sum(widths.values())
                x = -box.width / 2
                for port in ports:
                    share = widths[port] + spare / len(uses)
                    box.ports[port] = x + share / 2
                    x += share

    @property
    def size(self) -> tuple[float, float]:
        items = list(self.boxes.values())
        right = max((item.x + item.width / 2 for row in self.rows for item in row), default=0)
        return right + _MARGIN, max((item.y + item.height for item in items), default=0) + _MARGIN


def _role_width(words: str) -> float:
    return _width(words) + _PAD


def _mean(items: Sequence[_Item]) -> float | None:
    return sum(item.x for item in items) / len(items) if items else None


def _settle(row: list[_Item], wishes: Sequence[float | None]) -> None:
    """Move items towards their wishes, in order and apart; neighbours in each other's way share.

    Each block of items that touch lies at the mean of what its members wish.
    """
    blocks: list[tuple[float, list[tuple[_Item, float]]]] = []
    for item, wish in zip(row, wishes, strict=True):
        members = [(item, 0.0)]
        centre = item.x if wish is None else wish
        total, count = centre, 1
        while blocks:
            other, earlier = blocks[-1]
            last, shift = earlier[-1]
            apart = (last.width + members[0][0].width) / 2 + _GAP_X
            if other + shift + apart <= total / count:
                break
            blocks.pop()
            moved = shift + apart
            total += other * len(earlier) - moved * count
            count += len(earlier)
            members = [*earlier, *((member, by + moved) for member, by in members)]
        blocks.append((total / count, members))
    for start, members in blocks:
        for item, by in members:
            item.x = start + by


# ---- drawing ----


def _style() -> str:
    """Rules that hold in these drawings only: a notebook puts them in the page around as well."""

    def scoped(rules: Sequence[tuple[str, str]]) -> str:
        return "\n".join(f".raggeddnn {where} {{ {what} }}" for where, what in rules)

    dark = f"@media (prefers-color-scheme: dark) {{\n{scoped(_DARK)}\n}}"
    return "\n".join([scoped(_RULES), scoped(_LIGHT), dark])


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, css: str, words: str) -> str:
    return (
        f'<text x="{_number(x)}" y="{_number(y)}" class="{css}" text-anchor="middle">'
        f"{escape(words)}</text>"
    )


def _shape(kind: str, x: float, y: float, size: tuple[float, float]) -> str:
    """Operations round, scalars as capsules, ragged tensors with one corner cut, others square."""
    width, height = size
    if kind == "ragged":
        right, bottom, cut = x + width, y + height, 10
        corners = [(x, y), (right - cut, y), (right, y + cut), (right, bottom), (x, bottom)]
        points = " ".join(f"{_number(a)},{_number(b)}" for a, b in corners)
        return f'<polygon class="box" points="{points}"/>'
    radius = {"operation": 8.0, "scalar": 14.0}.get(kind, 0.0)
    return (
        f'<rect class="box" x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" '
        f'height="{_number(height)}" rx="{_number(radius)}"/>'
    )


def _tensor_title(tensor: Tensor) -> str:
    facts = [
        f"{tensor.name or tensor.label} (uid {tensor.uid})",
        f"type {tensor.data_type}",
        f"dims {brackets(tensor.dims)}",
        f"strides {brackets(tensor.strides)}",
    ]
    return "\n".join([*facts, *tensor.marks])


def _tensor_svg(tensor: Tensor, box: _Item) -> Iterator[str]:
    virtual = " virtual" if "virtual" in tensor.marks else ""
    yield f'<g class="{tensor.kind}{virtual}" id="{box.key}">'
    yield f"<title>{escape(_tensor_title(tensor))}</title>"
    yield _shape(tensor.kind, box.x - box.width / 2, box.y, (box.width, box.height))
    for i, line in enumerate(box.lines):
        yield _text(box.x, box.y + (i + 1) * _LINE, "name" if i == 0 else "mark", line)
    yield "</g>"


def _node_svg(node: Node, box: _Item, words: Mapping[tuple[str, str], str]) -> Iterator[str]:
    title = "\n".join([f"node {node.number}: {node.title}", *node.attributes])
    yield f'<g class="operation" id="{box.key}">'
    yield f"<title>{escape(title)}</title>"
    yield _shape("operation", box.x - box.width / 2, box.y, (box.width, box.height))
    for i, line in enumerate(box.lines):
        yield _text(box.x, box.y + (i + 2) * _LINE + 3, "name" if i == 0 else "mark", line)
    for side, uses, y in (
        ("in", node.inputs, box.y + 11),
        ("out", node.outputs, box.y + box.height - 5),
    ):
        for port in (_port(side, i) for i in range(len(uses))):
            yield _text(box.x + box.ports[port], y, "role", words[box.key, port])
    yield "</g>"


def _edge_svg(edge: _Edge, rows: Sequence[float]) -> str:
    """Straight down past a row, curved between rows; ``rows`` has each row's lower side."""
    start, end = edge.path[0], edge.path[-1]
    x, y = start.x + start.ports.get(edge.source_port, 0), start.y + start.height
    path = [f"M{_number(x)} {_number(y)}"]
    for upper, lower in zip(edge.path, edge.path[1:], strict=False):
        bottom = rows[upper.layer]
        path.append(f"V{_number(bottom)}")
        to_x = lower.x + (lower.ports.get(edge.target_port, 0) if lower is end else 0)
        to_y = lower.y - (6 if lower is end else 0)
        middle = (bottom + to_y) / 2
        path.append(
            f"C{_number(x)} {_number(middle)} {_number(to_x)} {_number(middle)} "
            f"{_number(to_x)} {_number(to_y)}"
        )
        x = to_x
    css = "edge offsets" if edge.is_offset else "edge"
    return (
        f'<path class="{css}" d="{" ".join(path)}" marker-end="url(#raggeddnn-arrow)" '
        f'data-from="{edge.source}" data-to="{edge.target}"/>'
    )


def _legend_svg(y: float) -> Iterator[str]:
    yield '<g id="legend">'
    x = float(_MARGIN)
    for kind, words in zip(_LEGEND, _LEGEND_WORDS, strict=True):
        width = _width(words) + 2 * _PAD
        yield f'<g class="{kind}">{_shape(kind, x, y, (width, 22))}'
        yield f"{_text(x + width / 2, y + 15, 'caption', words)}</g>"
        x += width + _PAD
    yield "</g>"


def _legend_width() -> float:
    return 2 * _MARGIN + sum(_width(words) + 3 * _PAD for words in _LEGEND_WORDS)


def draw_svg(model: GraphModel) -> str:
    """The whole document; raises InvalidValueError for a graph with a cycle."""
    layout = _Layout(model)
    width, legend_y = layout.size
    width, height = max(width, _legend_width()), legend_y + 22 + _MARGIN
    bottoms = [max((i.y + i.height for i in row), default=0.0) for row in layout.rows]
    size = f"{_number(width)} {_number(height)}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="raggeddnn" viewBox="0 0 {size}" '
        f'width="{_number(width)}" height="{_number(height)}">',
        f"<title>{escape(model.name or 'graph')}</title>",
        f"<style>{_style()}</style>",
        '<defs><marker id="raggeddnn-arrow" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="6" '
        'markerHeight="6" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
        f'<rect class="paper" width="{_number(width)}" height="{_number(height)}"/>',
    ]
    lines += [_edge_svg(edge, bottoms) for edge in layout.edges]
    for tensor in model.tensors.values():
        lines += _tensor_svg(tensor, layout.boxes[f"t{tensor.uid}"])
    for node in model.nodes:
        lines += _node_svg(node, layout.boxes[f"n{node.number}"], layout.words)
    lines += [*_legend_svg(legend_y), "</svg>"]
    return "\n".join(lines)
