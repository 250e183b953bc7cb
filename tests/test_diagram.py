"""Drawings of graphs: what they show, that hostile names stay text, and that nothing overlaps."""

from __future__ import annotations

import json
import re
import time
from xml.etree import ElementTree

import fb_builder as fb
import pytest
import raggeddnn as rd
from drawings import (
    SVG,
    attention,
    backward,
    document_of,
    every_operation,
    line_of,
    pointwise_chain,
    read_all,
    read_mermaid,
    read_svg,
    read_text,
)
from fuzz.samples import OPS, op_graph
from raggeddnn import diagram
from readme_blocks import README, python_blocks
from test_chain import Chain

HOSTILE = [
    'a "quoted" name',
    "brackets [x](y) {z} |w| ((v))",
    "two\nlines\r\tand a tab",
    "</text><script>alert(1)</script>&amp;",
    "end",
    "",
    "1. first",
    "- item",
    "`code` **bold** __init__ ~~gone~~ $$x^2$$",
    "%%{init: {}}%% --> graph TD; fa:fa-car #35; #quot;",
    "größe 大きさ 🎉👩‍🚀",
    "\u202eright to left\x00\x1b[31m",
    "n" * 300,
    "大" * 300,
    "classDef style subgraph click",
]

# ---- what is shown ----


def test_text_of_attention():
    g, _ = attention()
    lines = read_text(diagram.to_text(g))
    assert lines[0] == "graph attention" and "io_data_type half" in lines[1]
    q = line_of(lines, "─ q ")
    assert q.endswith("q              half [2, 2, 8, 16]; ragged by offsets_of_rows x 32")
    assert line_of(lines, "─ v ").endswith("half [2, 2, 8, 16]; strides [512, 16, 32, 1]")
    scale = line_of(lines, "softmax scale")
    assert "by value, runtime, default 0.125" in scale
    # Offsets are read by no node: they stand beside what refers to them.
    assert "int32 [3, 1, 1, 1]" in line_of(lines, "┊  offsets")
    assert "int32 [2, 1, 1, 1]" in line_of(lines, "seq_len_kv length_kv")
    assert line_of(lines, "┃ node 0: Sdpa 'attend'")
    attributes = " ".join(lines)
    for words in ("left_bound=3", "right_bound=0 (causal)", "padding_mask=True"):
        assert words in attributes
    result = line_of(lines, "─ o ")
    assert "output; ragged by offsets_of_rows x 32; aligned to 64" in result
    order = [lines.index(line) for line in (q, line_of(lines, "node 0"), result)]
    assert order == sorted(order)


def test_mermaid_of_attention():
    g, _ = attention()
    chart = read_mermaid(diagram.to_mermaid(g))
    assert chart.flow() == {
        ("offsets_of_rows", None, "q"),
        ("offsets_of_rows", None, "k"),
        ("q", "q", "Sdpa 'attend'"),
        ("k", "k", "Sdpa 'attend'"),
        ("v", "v", "Sdpa 'attend'"),
        ("softmax scale", "scale", "Sdpa 'attend'"),
        ("length_q", "seq_len_q", "Sdpa 'attend'"),
        ("length_kv", "seq_len_kv", "Sdpa 'attend'"),
        ("Sdpa 'attend'", "o", "result"),
    }
    kinds = {lines[0]: chart.classes[key] for key, lines in chart.labels.items()}
    assert kinds["q"] == kinds["result"] == "ragged" and kinds["v"] == "tensor"
    assert kinds["softmax scale"] == "scalar" and kinds["Sdpa 'attend'"] == "operation"
    assert chart.labels[chart.id_of("result")][1:] == [
        "half [2, 2, 8, 16]",
        "output",
        "ragged by offsets_of_rows x 32",
        "aligned to 64",
    ]


def test_svg_of_attention():
    g, _ = attention()
    chart, drawing = read_mermaid(diagram.to_mermaid(g)), read_svg(diagram.to_svg(g))
    # Mermaid and SVG share the ids of nodes only; names are unique here.
    names = {key: lines[0] for key, lines in chart.labels.items() if key.startswith("t")}
    shown = {key: texts[0] for key, texts in drawing.texts.items() if key.startswith("t")}
    assert sorted(shown.values()) == sorted(names.values())
    assert len(drawing.edges) == len(chart.edges)
    assert sum(is_offset for _, _, is_offset in drawing.edges) == 2
    v = next(key for key, name in shown.items() if name == "v")
    assert "dims [2, 2, 8, 16]\nstrides [512, 16, 32, 1]" in drawing.titles[v]
    assert {"q", "k", "v", "scale", "o", "Sdpa"} <= set(drawing.texts["n0"])
    assert drawing.classes[v] == "tensor" and drawing.classes["n0"] == "operation"


@pytest.mark.parametrize("state", ["COMPILE_TIME_CONST", "RUNTIME_PARAM"])
def test_the_chain_of_three_nodes(state):
    lines, chart, drawing = read_all(Chain(state).graph)
    boxes = [line for line in lines if "┃ node" in line]
    assert [line.split()[3] for line in boxes] == ["Pointwise", "Sdpa", "RMSNorm"]
    # What the first node writes leads on, on the left, to the second.
    start = lines.index(line_of(lines, "┴─ out_0"))
    end = lines.index(line_of(lines, "┬─ q", "(from node 0)"))
    assert lines[start].startswith("┌─") and lines[end].startswith("└─") and start < end
    assert all(line.startswith("│") for line in lines[start + 1 : end])
    assert "double [3, 2, 12, 4]; virtual; ragged by off x 8" in lines[start]
    flow = chart.flow()
    assert ("Pointwise", "out_0", "pointwise::out") in flow
    assert ("pointwise::out", "q", "Sdpa") in flow and ("sdpa::o", "x", "RMSNorm") in flow
    constant = "by value, constant 0.0078125"
    runtime = "by value, runtime, default 0.0078125"
    expected = constant if state == "COMPILE_TIME_CONST" else runtime
    assert expected in line_of(lines, "─ epsilon") and [expected] == [
        mark for texts in drawing.texts.values() for mark in texts if "0.0078125" in mark
    ]
    rows = [drawing.boxes[f"n{i}"].top for i in range(3)]
    assert rows == sorted(set(rows))


def test_backward_with_everything_on():
    lines, chart, drawing = read_all(backward())
    roles = {role for _, role, _ in chart.edges}
    assert roles >= {"q", "do", "stats", "dstats", "seed", "offset", "attn_mask", "dq", "dbias"}
    assert "dropout_probability=0.1," in " ".join(lines)
    assert roles - {None} <= set(drawing.texts["n0"])


def test_every_operation_of_the_graph_api():
    g = every_operation()
    lines, chart, drawing = read_all(g)
    titles = [line for line in lines if "┃ node" in line]
    assert len(titles) == len(document_of(g)["nodes"]) == 12
    assert len(chart.edges) == len(drawing.edges)
    # x + x: both operands come from one tensor.
    assert sum(b == "n0" for _, _, b in chart.edges) == 2
    first, again = (line_of(lines, f"─ in_{i} ") for i in (0, 1))
    assert "float [2, 3, 4, 4]" in first and "(see above)" in again


FLAT = {
    "CustomOpAttributes": {"output[0]", "output[1]", "output[2]"},
    "ReductionAttributes": {"out"},
    "ResampleFwdAttributes": {"y", "index"},
    "ResampleBwdAttributes": {"dx"},
}


@pytest.mark.parametrize("op", OPS)
def test_every_operation_of_the_wire(op):
    data = op_graph(op, "full")
    node = json.loads(rd.Graph.deserialize(data).to_json())["nodes"][0]
    read_text(diagram.to_text(data))
    chart = read_mermaid(diagram.to_mermaid(data))
    written = {role for source, role, _ in chart.edges if source == "n0"}
    if op in FLAT:
        assert written == FLAT[op]
    else:
        assert written == {key.removesuffix("_tensor_uid") for key in node["outputs"]}
    read = {role for _, role, target in chart.edges if target == "n0"}
    assert read and not read & written
    shown = "\n".join(chart.labels["n0"])
    assert "tensor_uid" not in shown


@pytest.mark.parametrize("fill", ["unset", "zero"])
@pytest.mark.parametrize("op", OPS)
def test_operations_without_tensors_are_drawn(op, fill):
    """Uid 0 stands in every place: a tensor that is not in the graph, and that feeds itself."""
    data = op_graph(op, fill)
    assert any(f"node 0: {op.removesuffix('Attributes')}" in line
               for line in read_text(diagram.to_text(data)))  # fmt: skip
    read_mermaid(diagram.to_mermaid(data))


# ---- names ----


def test_hostile_names_stay_text():
    g = rd.Graph(name=HOSTILE[0], io_data_type=rd.DataType.FLOAT)
    aux = g.tensor(name=HOSTILE[3], dim=[3, 1, 1, 1], data_type=rd.DataType.INT32)
    x = g.tensor(name="x", dim=[2, 1, 4, 4], ragged_offset=aux, ragged_offset_multiplier=4)
    for name in HOSTILE:
        x = g.pointwise(rd.PointwiseMode.IDENTITY, x, name=name).set_name(name)
    x.set_output(True)
    lines, chart, drawing = read_all(g)
    assert 'graph a "quoted" name' in lines[0]
    for name in ('a "quoted" name', "brackets [x](y) {z} |w| ((v))", "end", "1. first", "- item"):
        assert [name] in [texts[:1] for texts in chart.labels.values()]
        assert name in [texts[0] for texts in drawing.texts.values()]
    labels = [texts[0] for key, texts in chart.labels.items() if key.startswith("t")]
    assert "n" * 59 + "…" in labels and "two\\nlines\\r\\tand a tab" in labels
    assert sum(label.startswith("#") for label in labels) == 3  # "" once, HOSTILE[3] twice
    assert any("script" in title for title in drawing.titles.values())


def test_equal_and_empty_names_are_told_apart():
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    expected = (("#5", ["same"]), ("#6", ["same"]), ("#7", []), ("#8", ["#5"]))
    total = g.tensor(name="start", dim=[2, 2])
    for label, names in expected:
        x = g.tensor(name="".join(names), dim=[2, 2], uid=int(label[1:]))
        total = g.pointwise(rd.PointwiseMode.ADD, total, x)
    total.set_output(True)
    lines, chart, drawing = read_all(g)
    for label, texts in expected:
        assert chart.labels[chart.id_of(label)] == [label, *texts, "float [2, 2]"]
        assert drawing.texts[f"t{label[1:]}"] == [label, *texts, "float [2, 2]"]
        assert line_of(lines, f" {label} ").endswith("; ".join([*texts, "float [2, 2]"]))


# ---- order ----


def test_nodes_out_of_order_are_drawn_in_order():
    document = document_of(Chain("COMPILE_TIME_CONST").graph)
    in_order = read_mermaid(diagram.to_mermaid(document)).flow()
    document["nodes"].reverse()
    received = rd.Graph.from_json(json.dumps(document))
    lines, chart, drawing = read_all(received)
    titles = [line for line in lines if "┃ node" in line]
    assert [line.split()[2:4] for line in titles] == [
        ["2:", "Pointwise"],
        ["1:", "Sdpa"],
        ["0:", "RMSNorm"],
    ]
    assert chart.flow() == in_order
    assert drawing.boxes["n2"].bottom < drawing.boxes["n1"].top
    assert drawing.boxes["n1"].bottom < drawing.boxes["n0"].top


def test_a_cycle_has_text_and_mermaid_but_no_layers():
    document = document_of(pointwise_chain(3))
    first, *_, last = document["nodes"]
    first["inputs"]["in_0_tensor_uid"] = last["outputs"]["out_0_tensor_uid"]
    assert sum("┃ node" in line for line in read_text(diagram.to_text(document))) == 3
    assert len(read_mermaid(diagram.to_mermaid(document)).edges) == 6
    with pytest.raises(rd.InvalidValueError, match=r"nodes 0, 1, 2 wait .* without cycles"):
        diagram.to_svg(document)


def test_more_tensors_than_lanes():
    """Thirty results that the last node reads: those without a line are named."""
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    x = g.tensor(name="x", dim=[2, 2])
    parts = [g.pointwise(rd.PointwiseMode.RELU_FWD, x, name=f"part {i}") for i in range(30)]
    total = parts[0]
    for part in parts[1:]:
        total = g.pointwise(rd.PointwiseMode.ADD, total, part)
    total.set_output(True)
    lines, _, _ = read_all(g)
    for i in range(30):
        assert line_of(lines, f" part {i}::out ", f"(from node {i})")


def test_offsets_that_a_node_writes_are_drawn():
    """Such a graph is refused, and looked at to see why."""
    g = rd.Graph(io_data_type=rd.DataType.INT32)
    n = g.tensor(name="n", dim=[3, 1, 1, 1])
    off = g.pointwise(rd.PointwiseMode.ADD, n, n).set_output(True).set_name("off")
    x = g.tensor(name="x", dim=[2, 2, 4, 8], ragged_offset=off, ragged_offset_multiplier=16)
    g.pointwise(rd.PointwiseMode.RELU_FWD, x).set_output(True)
    lines, chart, drawing = read_all(g)
    assert line_of(lines, "─ in_0", " x ").endswith("ragged by off x 16")
    assert ("off", None, "x") in chart.flow()
    names = {key: texts[0] for key, texts in drawing.texts.items()}
    lines = {(names[a], names[b], is_offset) for a, b, is_offset in drawing.edges}
    assert ("off", "x", True) in lines and len(drawing.edges) == len(chart.edges) == 6


def test_a_cycle_through_offsets_is_drawn():
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    x, b = (g.tensor(name=name, dim=[2, 2, 4, 4]) for name in "xb")
    c = g.matmul(x, b).set_name("c")
    x.set_ragged_offset(c)
    _, chart, drawing = read_all(g)
    assert ("c", None, "x") in chart.flow()
    # No line leads up; the box names the offsets.
    assert {(a, b) for a, b, _ in drawing.edges} == {("t1", "n0"), ("t2", "n0"), ("n0", "t3")}
    assert "ragged by c" in drawing.texts["t1"]


def far_readers(length: int) -> rd.Graph:
    """Each node adds `x` to the result before."""
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    total = x = g.tensor(name="x", dim=[4, 4])
    for _ in range(length):
        total = g.pointwise(rd.PointwiseMode.ADD, total, x)
    total.set_output(True)
    return g


def test_what_is_read_far_below_is_named_there():
    drawing = read_svg(diagram.to_svg(far_readers(40)))
    roles = [drawing.texts[f"n{i}"][-3:-1] for i in range(40)]
    named = [i for i in range(40) if "in_1 ← x" in roles[i]]
    led = [i for i in range(40) if ("t1", f"n{i}", False) in drawing.edges]
    assert led + named == list(range(40)) and len(led) > 10 and len(named) > 10
    assert all({"in_0", "in_1"} == set(roles[i]) for i in led)


@pytest.mark.parametrize("shape", ["far", "side by side"])
def test_a_drawing_grows_with_its_graph(shape):
    """Twice the nodes, about twice the drawing, whoever reads what."""

    def size(count: int) -> int:
        if shape == "far":
            return len(diagram.to_svg(far_readers(count)))
        g = rd.Graph(io_data_type=rd.DataType.FLOAT)
        x = g.tensor(name="x", dim=[4, 4])
        for _ in range(count):
            g.pointwise(rd.PointwiseMode.RELU_FWD, x).set_output(True)
        return len(diagram.to_svg(g))

    assert size(400) < 2.2 * size(200) < 1_000_000


def test_two_hundred_nodes_take_less_than_a_second():
    g = pointwise_chain(200)
    start = time.perf_counter()
    svg = diagram.to_svg(g)
    assert time.perf_counter() - start < 1
    assert len([key for key in ElementTree.fromstring(svg).iter(f"{SVG}title")]) == 1 + 200 + 201


# ---- what may be given, and what is left alone ----


def test_graph_bytes_container_and_json_give_one_drawing():
    g, _ = attention()
    plan = g.build(engine="reference")
    text = diagram.to_text(g)
    for source in (g.serialize(), plan.serialize(), g.to_json(), json.loads(g.to_json())):
        assert diagram.to_text(source) == text
    assert diagram.to_text(bytearray(g.serialize())) == text


NOT_GRAPHS = {
    "a number": (3, "got int"),
    "nothing": (None, "got NoneType"),
    "text": ("flowchart", "no JSON"),
    "a list": ("[1]", "JSON of list"),
    "another document": ({"a": 1}, "'tensors' and 'nodes'"),
    "a plan": (fb.build_plan(), "a plan without a graph"),
    "noise": (b"\x00\x01noise" * 9, "graph"),
    "nodes": ({"nodes": 3}, "'nodes' is 3"),
    "a node": ({"nodes": [3]}, r"nodes\[0\] is 3"),
    "a tensor": ({"nodes": [], "tensors": [{"name": "x"}]}, r"tensors\[0\].uid is None"),
    "one uid": ({"nodes": [], "tensors": [{"uid": 1}, {"uid": 1}]}, "one uid"),
    "dims": ({"nodes": [], "tensors": [{"uid": 1, "dims": 3}]}, r"dims is 3, expected a list"),
    "operands": ({"nodes": [{"inputs": {"q_tensor_uid": {}}}]}, "no graph of raggeddnn"),
}


@pytest.mark.parametrize("draw", [diagram.to_text, diagram.to_mermaid, diagram.to_svg])
@pytest.mark.parametrize("kind", NOT_GRAPHS)
def test_what_is_no_graph_is_refused(draw, kind):
    source, words = NOT_GRAPHS[kind]
    with pytest.raises(rd.InvalidValueError, match=words):
        draw(source)


def nested(depth: int) -> dict[str, object]:
    tree: dict[str, object] = {}
    for _ in range(depth):
        tree = {"inner": tree}
    return tree


@pytest.mark.parametrize("draw", [diagram.to_text, diagram.to_mermaid, diagram.to_svg])
@pytest.mark.parametrize(
    "document",
    [
        {"nodes": [{"type": "Sdpa", "x": nested(3000)}]},
        {"nodes": [], "tensors": [{"uid": 1, "value": nested(3000)}]},
        {"nodes": nested(3000)},
        {"nodes": [], "name": nested(3000)},
    ],
    ids=["attribute", "value", "nodes", "name"],
)
def test_a_document_nested_too_deep_is_refused(draw, document):
    with pytest.raises(rd.InvalidValueError, match="nested too deep"):
        draw(document)


def test_a_drawing_leaves_the_graph_as_it_is():
    g, o = attention()
    drawn = [g.render(form) for form in ("text", "mermaid", "svg")]
    assert drawn == [diagram.to_text(g), diagram.to_mermaid(g), diagram.to_svg(g)]
    assert o.get_dim() == [] and o.get_stride() == []
    # It can still be changed, uids that the drawing made up included, and built.
    extra = g.tensor(name="extra", dim=[2, 2, 8, 16], uid=1)
    result = g.pointwise(rd.PointwiseMode.MUL, o, extra).set_output(True)
    result.set_ragged_offset(o.get_ragged_offset()).set_ragged_offset_multiplier(32)
    assert "Pointwise" in g.render()
    plan = g.build(engine="reference")
    assert plan.engine_name and extra.get_uid() == 1
    assert "Pointwise" in g.render()
    with pytest.raises(rd.InvalidValueError, match="after it was built"):
        g.tensor(name="late", dim=[1])


def test_inferred_values_do_not_stick():
    """After validate the tensors show what was inferred; another change is inferred anew."""
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    x = g.tensor(name="x", dim=[2, 3])
    y = g.pointwise(rd.PointwiseMode.RELU_FWD, x).set_output(True).set_name("y")
    g.validate()
    assert y.get_dim() == [2, 3]
    x.set_dim([5, 7]).set_stride([7, 1])
    assert "float [5, 7]" in line_of(g.render().splitlines(), "─ out_0")
    assert y.get_dim() == [2, 3]


def test_a_drawing_is_the_same_before_and_after_validation():
    """The gradients' raggedness too, which is inferred anew where their strides are not given."""
    g = backward()
    before = g.render()
    assert before.count("output; ragged by off_") == 3
    g.validate()
    assert g.render() == before
    g.serialize()
    assert g.render() == before


def test_offsets_of_another_graph_are_refused():
    g, _ = attention()
    stranger = rd.Graph().tensor(name="stranger", dim=[3, 1, 1, 1], data_type=rd.DataType.INT32)
    g.tensors[1].set_ragged_offset(stranger)
    with pytest.raises(rd.InvalidValueError, match=r"'stranger'.* not in this graph"):
        g.render()


def test_graphs_that_are_not_valid_yet_are_drawn():
    g = rd.Graph(name="new")
    assert read_text(g.render())[0] == "graph new"
    read_svg(g.render("svg"))
    g.tensor(name="alone", dim=[2])
    assert "alone" in line_of(read_text(g.render()), "bfloat16 [2]")
    q, k, v = (g.tensor(name=n, dim=[1, 2, 4, d]) for n, d in (("q", 16), ("k", 8), ("v", 16)))
    g.sdpa(q, k, v)[0].set_output(True)
    read_all(g)
    with pytest.raises(rd.InvalidValueError):
        g.validate()
    g.tensor(name="twice", dim=[2], uid=9)
    g.tensor(name="thrice", dim=[2], uid=9)
    with pytest.raises(rd.InvalidValueError, match="uid 9"):
        g.render()


def test_render_knows_three_formats():
    g, _ = attention()
    assert g._repr_svg_() == g.render("svg")
    with pytest.raises(rd.InvalidValueError, match=r"'png', expected 'text', 'mermaid' or 'svg'"):
        g.render("png")


def test_the_drawing_in_the_readme_is_what_its_graph_gives():
    names: dict[str, object] = {}
    for block in python_blocks(on_gpu=False):
        exec(block, names)
    text = README.read_text(encoding="utf-8")
    (drawing,) = re.findall(r"```mermaid\n(.*?)\n```", text, re.DOTALL)
    assert drawing == names["g"].render("mermaid")
