"""Readers of the three drawings of a graph, which check what each keeps, and graphs to draw."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import pytest
import raggeddnn as rd
from raggeddnn import diagram

SVG = "{http://www.w3.org/2000/svg}"


@dataclass
class Flowchart:
    """Labels (lines) and classes by id; edges as (from, label, to), of offsets with label None."""

    labels: dict[str, list[str]]
    classes: dict[str, str]
    edges: list[tuple[str, str | None, str]]

    def id_of(self, first_line: str) -> str:
        found = [key for key, lines in self.labels.items() if lines[0] == first_line]
        assert len(found) == 1, (first_line, self.labels)
        return found[0]

    def flow(self) -> set[tuple[str, str | None, str]]:
        return {(self.labels[a][0], role, self.labels[b][0]) for a, role, b in self.edges}


NODE = re.compile(r'    ([nt]\d+)(\[/|\(\[|\[|\{\{)"([^"]+)"(/\]|\]\)|\]|\}\}):::(\w+)')
EDGE = re.compile(r'    ([nt]\d+) (?:-->\|"([^"]+)"\||-\.->) ([nt]\d+)')
CLOSING = {"[/": "/]", "([": "])", "[": "]", "{{": "}}"}


def read_mermaid(text: str) -> Flowchart:
    """Every line must be one of four kinds, and quoted text free of what Mermaid acts on."""
    first, *lines = text.splitlines()
    assert first == "flowchart TD"
    chart = Flowchart({}, {}, [])
    for line in lines:
        if line.startswith("    classDef "):
            assert re.fullmatch(r"    classDef \w+ [\w:#,]+", line)
        elif node := NODE.fullmatch(line):
            key, opening, label, closing, css = node.groups()
            assert closing == CLOSING[opening] and key not in chart.labels
            chart.labels[key] = [plain(part) for part in label.split("<br/>")]
            chart.classes[key] = css
        else:
            edge = EDGE.fullmatch(line)
            assert edge, line
            chart.edges.append((edge[1], edge[2] and plain(edge[2]), edge[3]))
    ends = {end for source, _, target in chart.edges for end in (source, target)}
    assert ends <= set(chart.labels)
    return chart


def plain(label: str) -> str:
    assert not re.search(r"[\"&<>`\\%$*~]|#(?!\d+;)", label), label
    assert not re.match(r"\d+[.)]|[-+=]", label), label
    return re.sub(r"#(\d+);", lambda match: chr(int(match[1])), label)


@dataclass
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def holds(self, x: float, y: float, slack: float = 0.0) -> bool:
        return (
            self.left - slack < x < self.right + slack
            and self.top - slack < y < self.bottom + slack
        )


def box_of(shape: ElementTree.Element) -> Box:
    if shape.tag == f"{SVG}polygon":
        points = [tuple(map(float, point.split(","))) for point in shape.attrib["points"].split()]
        xs, ys = zip(*points, strict=True)
        return Box(min(xs), min(ys), max(xs), max(ys))
    x, y, width, height = (float(shape.attrib[key]) for key in ("x", "y", "width", "height"))
    return Box(x, y, x + width, y + height)


def curve(d: str) -> list[tuple[float, float]]:
    """Points along a path of M, V and C."""
    points: list[tuple[float, float]] = []
    for command, numbers in re.findall(r"([MVC])([^MVC]+)", d):
        values = [float(number) for number in numbers.split()]
        if command == "M":
            points.append((values[0], values[1]))
        elif command == "V":
            points.append((points[-1][0], values[0]))
        else:
            (x0, y0), (x1, y1, x2, y2, x3, y3) = points[-1], values
            for i in range(1, 33):
                t, s = i / 32, 1 - i / 32
                weights = (s**3, 3 * s * s * t, 3 * s * t * t, t**3)
                points.append(
                    (
                        sum(w * x for w, x in zip(weights, (x0, x1, x2, x3), strict=True)),
                        sum(w * y for w, y in zip(weights, (y0, y1, y2, y3), strict=True)),
                    )
                )
    return points


@dataclass
class Drawing:
    boxes: dict[str, Box]
    texts: dict[str, list[str]]
    titles: dict[str, str]
    classes: dict[str, str]
    edges: list[tuple[str, str, bool]]


def read_svg(text: str) -> Drawing:
    """Parsed, and checked for what every drawing keeps."""
    root = ElementTree.fromstring(text)
    x, y, width, height = map(float, root.attrib["viewBox"].split())
    assert (x, y) == (0, 0) and root.attrib["width"] == root.attrib["viewBox"].split()[2]
    style = str(root.findtext(f"{SVG}style"))
    rules = re.sub(
        r"@media \(prefers-color-scheme: dark\) {\n(.*)\n}", r"\1", style, flags=re.DOTALL
    )
    assert rules != style and all(line.startswith(".raggeddnn ") for line in rules.splitlines())
    assert root.attrib["class"] == "raggeddnn"
    drawing = Drawing({}, {}, {}, {}, [])
    shapes = [box_of(shape) for shape in root.iter() if shape.attrib.get("class") == "box"]
    for box in shapes:
        assert box.left >= 0 and box.top >= 0 and box.right <= width and box.bottom <= height
    for i, box in enumerate(shapes):
        assert not any(box.overlaps(other) for other in shapes[:i])
    for group in root.iter(f"{SVG}g"):
        key = group.attrib.get("id", "")
        if not key or key == "legend":
            continue
        assert key not in drawing.boxes
        drawing.boxes[key] = box_of(next(e for e in group if e.attrib.get("class") == "box"))
        drawing.texts[key] = [str(t.text) for t in group.iter(f"{SVG}text")]
        drawing.titles[key] = str(group.findtext(f"{SVG}title"))
        drawing.classes[key] = group.attrib["class"]
        check_texts(group, drawing.boxes[key])
    for path in root.iter(f"{SVG}path"):
        if not path.attrib.get("class", "").startswith("edge"):
            continue
        ends = path.attrib["data-from"], path.attrib["data-to"]
        check_edge(drawing.boxes, ends, curve(path.attrib["d"]))
        drawing.edges.append((*ends, "offsets" in path.attrib["class"]))
    return drawing


def check_texts(group: ElementTree.Element, box: Box) -> None:
    """Texts lie in their box, and apart."""
    lines: list[Box] = []
    for text in group.iter(f"{SVG}text"):
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        width = sum(
            13.2 if unicodedata.east_asian_width(c) in "WF" else 6.6 for c in str(text.text)
        )
        line = Box(x - width / 2, y - 9, x + width / 2, y + 1)
        assert box.holds(line.left, line.top) and box.holds(line.right, line.bottom), text.text
        assert not any(line.overlaps(other) for other in lines), text.text
        lines.append(line)


def check_edge(
    boxes: dict[str, Box], ends: tuple[str, str], points: list[tuple[float, float]]
) -> None:
    """From the lower side of one box to just above the other, and through none."""
    source, target = (boxes[end] for end in ends)
    (x, y), (to_x, to_y) = points[0], points[-1]
    assert source.left <= x <= source.right and y == pytest.approx(source.bottom, abs=0.11)
    assert target.left <= to_x <= target.right and 0 < target.top - to_y < 10
    for box in boxes.values():
        assert not any(box.holds(*point, slack=-0.11) for point in points), ends


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def read_text(text: str) -> list[str]:
    lines = text.splitlines()
    assert all(columns(line) <= 100 for line in lines)
    assert all(c.isprintable() for line in lines for c in line)
    return lines


def line_of(lines: list[str], *words: str) -> str:
    found = [line for line in lines if all(word in line for word in words)]
    assert len(found) == 1, (words, found)
    return found[0]


def read_all(graph: Any) -> tuple[list[str], Flowchart, Drawing]:
    return (
        read_text(diagram.to_text(graph)),
        read_mermaid(diagram.to_mermaid(graph)),
        read_svg(diagram.to_svg(graph)),
    )


# ---- graphs ----


def attention() -> tuple[rd.Graph, rd.TensorAttributes]:
    """Ragged attention with a runtime scale, lengths, and an output aligned to 64."""
    g = rd.Graph(name="attention", io_data_type=rd.DataType.HALF)
    integers = {"dim": [3, 1, 1, 1], "data_type": rd.DataType.INT32}
    offsets = g.tensor(name="offsets_of_rows", **integers)
    ragged = {"ragged_offset": offsets, "ragged_offset_multiplier": 32}
    q, k = (g.tensor(name=name, dim=[2, 2, 8, 16], **ragged) for name in ("q", "k"))
    v = g.tensor(name="v", dim=[2, 2, 8, 16], stride=[256, 128, 16, 1])
    lengths = [
        g.tensor(name=f"length_{side}", dim=[2, 1, 1, 1], data_type=rd.DataType.INT32)
        for side in ("q", "kv")
    ]
    v.set_stride([512, 16, 32, 1])
    scale = g.tensor(
        rd.TensorAttributes(0.125, rd.ScalarType.RUNTIME_PARAM).set_name("softmax scale")
    )
    o, _ = g.sdpa(
        q, k, v, attn_scale=scale, seq_len_q=lengths[0], seq_len_kv=lengths[1],
        left_bound=3, right_bound=0, name="attend",
    )  # fmt: skip
    o.set_output(True).set_name("result").set_alignment(64)
    o.set_ragged_offset(offsets).set_ragged_offset_multiplier(32)
    return g, o


def backward() -> rd.Graph:
    """Attention's gradients with every operand there is."""
    g = rd.Graph(name="backward", io_data_type=rd.DataType.HALF)
    dim, stats_dim = [2, 4, 32, 64], [2, 4, 32, 1]
    rows, number = {"dim": [3, 1, 1, 1]}, {"dim": [1, 1, 1, 1]}
    aux = [g.tensor(name=n, data_type=rd.DataType.INT32, **rows) for n in ("off_q", "off_kv")]
    q, k, v, o, do = (
        g.tensor(name=name, dim=dim, ragged_offset=aux[i], ragged_offset_multiplier=256)
        for name, i in (("q", 0), ("k", 1), ("v", 1), ("o", 0), ("do", 0))
    )
    stats, dstats = (
        g.tensor(name=name, dim=stats_dim, data_type=rd.DataType.FLOAT)
        for name in ("stats", "dstats")
    )
    lengths = [
        g.tensor(name=name, dim=[2, 1, 1, 1], data_type=rd.DataType.INT32)
        for name in ("len_q", "len_kv")
    ]
    random = [
        g.tensor(name=name, data_type=rd.DataType.INT64, **number) for name in ("seed", "offset")
    ]
    gradients = g.sdpa_backward(
        q, k, v, o, do, stats, attn_scale=g.tensor(0.125, rd.ScalarType.RUNTIME_PARAM),
        bias=g.tensor(name="bias", dim=[1, 4, 32, 32]), seq_len_q=lengths[0],
        seq_len_kv=lengths[1], left_bound=8, right_bound=0, dropout_probability=0.1,
        seed=random[0], offset=random[1], dstats=dstats, generate_dbias=True,
    )  # fmt: skip
    for gradient in gradients:
        gradient.set_output(True)
    return g


def every_operation() -> rd.Graph:
    """One node of each, some fed by others."""
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    x, dy = (g.tensor(name=name, dim=[2, 3, 4, 4]) for name in ("x", "dy"))
    channel = [g.tensor(name=f"channel {i}", dim=[1, 3, 1, 1]) for i in range(4)]
    width = [g.tensor(name=f"width {i}", dim=[1, 1, 1, 4]) for i in range(2)]
    epsilon = g.tensor(1e-5, rd.ScalarType.COMPILE_TIME_CONST)
    training = rd.NormFwdPhase.TRAINING
    total = g.pointwise(rd.PointwiseMode.ADD, x, x)
    product = g.matmul(total, x)
    norm, inv_rms = g.rmsnorm(product, width[0], epsilon, norm_forward_phase=training)
    _, mean, inv_variance = g.layernorm(norm, *width, epsilon, norm_forward_phase=training)
    results = [
        *g.rmsnorm_backward(dy, product, width[0], inv_rms)[:2],
        *g.layernorm_backward(dy, norm, width[0], mean, inv_variance),
        *g.batchnorm(x, channel[0], channel[1], epsilon=epsilon)[:3],
        g.batchnorm_inference(x, *channel),
        g.batchnorm_inference_variance_ext(x, *channel, epsilon),
        *g.batchnorm_backward(dy, x, *channel[:3]),
        g.reduction(rd.ReductionMode.ADD, product),
        g.sdpa(x, x, x)[0],
    ]
    for result in results:
        result.set_output(True)
    return g


def pointwise_chain(length: int) -> rd.Graph:
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    x = g.tensor(name="x", dim=[4, 4])
    for _ in range(length):
        x = g.pointwise(rd.PointwiseMode.RELU_FWD, x)
    x.set_output(True)
    return g


def document_of(graph: rd.Graph) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(graph.draft_json())
    return document
