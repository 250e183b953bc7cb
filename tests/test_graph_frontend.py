"""Building graphs: tensors, ragged offsets, the rules of SDPA, inference, lowering, finality."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import raggeddnn as rd
from plugins.fakes import load, runtime, small
from raggeddnn import DataType, ScalarType, TensorAttributes

B, HQ, HK, SQ, SKV, D, DV = 2, 4, 2, 3, 5, 8, 6


class Parts:
    """A graph with q, k and v of distinct sizes, and what the tests change of it."""

    def __init__(self, io: DataType = DataType.FLOAT, **changes: list[int]) -> None:
        self.graph = rd.Graph(name="parts", io_data_type=io)
        dims = {"q": [B, HQ, SQ, D], "k": [B, HK, SKV, D], "v": [B, HK, SKV, DV], **changes}
        self.q, self.k, self.v = (self.tensor(name, dims[name]) for name in ("q", "k", "v"))

    def tensor(self, name: str, dim: list[int], **more: Any) -> TensorAttributes:
        return self.graph.tensor(name=name, dim=dim, **more)

    def sdpa(self, **options: Any) -> tuple[TensorAttributes, TensorAttributes | None]:
        o, stats = self.graph.sdpa(self.q, self.k, self.v, **options)
        o.set_output(True)
        if stats is not None:
            stats.set_output(True)
        return o, stats

    def refusal(self, error: type[rd.Error] = rd.InvalidValueError) -> str:
        with pytest.raises(error) as caught:
            self.graph.validate()
        return str(caught.value)

    def wire(self) -> dict[str, Any]:
        """The node's attributes and tensors as another reader sees them."""
        graph = json.loads(self.graph.to_json())
        (node,) = graph["nodes"]
        flat = {**node["attributes"], **node["inputs"], **node["outputs"]}
        return {**flat, "tensors": {t["uid"]: t for t in graph["tensors"]}}


# ---- Graph.tensor ----


def test_the_three_forms_of_tensor():
    g = rd.Graph(io_data_type=DataType.FLOAT)
    t = TensorAttributes().set_name("a")
    assert g.tensor(t) is t and g.tensor(t) is t
    scalar = g.tensor(0.125, ScalarType.RUNTIME_PARAM)
    assert scalar.get_pass_by_value() == 0.125 and scalar.get_data_type() == DataType.FLOAT
    assert g.tensor(0.125, ScalarType.COMPILE_TIME_CONST).get_compile_time_constant() == 0.125
    aux = g.tensor(dim=[3])
    full = g.tensor(
        name="q",
        dim=[2, 4, 3, 8],
        stride=[96, 8, 32, 1],
        data_type=DataType.HALF,
        uid=11,
        alignment=2,
        ragged_offset=aux,
        ragged_offset_multiplier=32,
    )
    assert (full.get_name(), full.get_uid(), full.get_alignment()) == ("q", 11, 2)
    assert full.get_ragged_offset() is aux and full.get_ragged_offset_multiplier() == 32
    assert len(g.tensors) == 5


@pytest.mark.parametrize("value", [0.125, 1, np.float32(1)])
def test_there_is_no_bare_scalar_form(value):
    with pytest.raises(TypeError):
        rd.Graph().tensor(value)


@pytest.mark.parametrize(
    ("dim", "ragged", "stride"),
    [
        ([2, 4, 3, 8], False, [96, 24, 8, 1]),
        ([2, 4, 3, 8], True, [96, 8, 32, 1]),
        ([2, 0, 3], False, [3, 3, 1]),
        ([7], False, [1]),
    ],
)
def test_strides_left_out_are_packed(dim, ragged, stride):
    g = rd.Graph()
    aux = g.tensor(dim=[3]) if ragged else None
    assert g.tensor(dim=dim, ragged_offset=aux).get_stride() == stride


def test_types_left_out_come_from_the_graph():
    p = Parts(DataType.HALF)
    o, stats = p.sdpa(generate_stats=True)
    assert stats is not None
    inner = p.graph.tensor(TensorAttributes().set_dim([1]).set_stride([1]).set_is_virtual(True))
    p.graph.validate()
    assert p.q.get_data_type() == o.get_data_type() == DataType.HALF
    assert stats.get_data_type() == DataType.FLOAT
    assert inner.get_data_type() == DataType.FLOAT  # intermediate_data_type


def test_tensor_like_copies_an_array_s_layout():
    g = rd.Graph()
    array = np.zeros((2, 3, 4, 8), np.float16).transpose(0, 2, 1, 3)[:, :, ::1]
    t = g.tensor_like(array, name="q")
    assert (t.get_name(), t.get_dim()) == ("q", [2, 4, 3, 8])
    assert t.get_stride() == [96, 8, 32, 1] and t.get_data_type() == DataType.HALF
    assert not t.get_is_pass_by_value()


@pytest.mark.parametrize("array", [np.array(0.5, np.float32), np.array([0.5], np.float32)])
def test_tensor_like_a_host_scalar_is_a_runtime_scalar(array):
    t = rd.Graph().tensor_like(array)
    assert t.get_is_runtime_pass_by_value() and t.get_value_variant() is None
    assert t.get_data_type() == DataType.FLOAT and t.get_dim() == [1]


@pytest.mark.parametrize("value", [0.5, "text", [1.0], None, np.zeros(3, np.uint16)], ids=repr)
def test_tensor_like_needs_an_array_of_a_known_type(value):
    with pytest.raises(rd.InvalidValueError, match="tensor_like got"):
        rd.Graph().tensor_like(value)


# ---- ragged offsets ----


def ragged(change: Callable[[Parts], TensorAttributes]) -> Parts:
    p = Parts()
    p.q.set_ragged_offset(change(p)).set_stride([HQ * SQ * D, D, HQ * D, 1])
    p.sdpa()
    return p


def offsets(p: Parts, dim: list[int], data_type: DataType = DataType.INT32, **more: Any) -> Any:
    return p.tensor("aux", dim, data_type=data_type, **more)


@pytest.mark.parametrize("dim", [[B + 1, 1, 1, 1], [B + 1]])
@pytest.mark.parametrize("data_type", [DataType.INT32, DataType.INT64])
def test_good_offsets_are_written_with_rank_4(dim, data_type):
    p = ragged(lambda p: offsets(p, dim, data_type))
    p.graph.validate()
    tensors = p.wire()["tensors"].values()
    (aux,) = [t for t in tensors if t["name"] == "aux"]
    assert aux["dims"] == [B + 1, 1, 1, 1] and len(aux["strides"]) == 4
    (q,) = [t for t in tensors if t["name"] == "q"]
    assert q["ragged_offset_tensor_uid"] == aux["uid"]


BAD_OFFSETS = [
    (lambda p: offsets(p, [B + 1, 1]), "of rank 2, expected rank 4"),
    (lambda p: offsets(p, [B, 1, 1, 1]), f"of dims [{B}, 1, 1, 1], expected [{B + 1}, 1, 1, 1]"),
    (lambda p: offsets(p, [1, B + 1, 1, 1]), f"expected [{B + 1}, 1, 1, 1]"),
    (lambda p: offsets(p, [B + 2]), f"expected [{B + 1}, 1, 1, 1]"),
    (lambda p: offsets(p, [B + 1], DataType.FLOAT), "of type FLOAT, expected INT32 or INT64"),
    (lambda p: offsets(p, [B + 1]).set_is_virtual(True), "virtual, expected a tensor of"),
    (
        lambda p: offsets(p, [B + 1], ragged_offset=p.tensor("deeper", [B + 2])),
        "is ragged itself",
    ),
    (
        lambda _: TensorAttributes().set_name("aux").set_dim([B + 1]).set_stride([1]),
        "which is not in this graph",
    ),
]


@pytest.mark.parametrize(("make", "words"), BAD_OFFSETS, ids=[b[1] for b in BAD_OFFSETS])
def test_bad_offsets_are_named(make, words):
    text = ragged(make).refusal()
    assert "tensor 'q'" in text and "'aux'" in text and words in text


def test_a_ragged_row_must_not_reach_into_the_next():
    p = Parts()
    p.q.set_ragged_offset(offsets(p, [B + 1]))  # its strides are BHSD
    p.sdpa()
    text = p.refusal()
    assert f"q 'q' is ragged and has sequence stride {D}, expected at least" in text


# ---- the rules of SDPA ----

SHAPES: list[tuple[dict[str, list[int]], list[str]]] = [
    ({"q": [B, HQ, SQ]}, ["q 'q' has rank 3", "expected 4"]),
    ({"k": [B, HK, SKV, D, 1]}, ["k 'k' has rank 5", "expected 4"]),
    ({"v": [B, HK]}, ["v 'v' has rank 2", "expected 4"]),
    ({"k": [B + 1, HK, SKV, D]}, ["k 'k' has batch 3", "expected 2"]),
    ({"v": [B + 1, HK, SKV, DV]}, ["v 'v' has batch 3", "expected 2"]),
    ({"k": [B, HK, SKV, D * 2]}, ["k 'k' has head_dim 16", "expected 8"]),
    ({"v": [B, HK, SKV + 1, DV]}, ["v 'v' has sequence length 6", "expected 5"]),
    ({"k": [B, 3, SKV, D]}, ["k 'k' has 3 heads", "4 of q 'q'"]),
    ({"v": [B, 8, SKV, DV]}, ["v 'v' has 8 heads", "4 of q 'q'"]),
    ({"k": [B, 0, SKV, D]}, ["k 'k' has dims [2, 0, 5, 8]", "axis 1 to be at least 1"]),
    ({"q": [B, HQ, SQ, 0]}, ["q 'q' has dims [2, 4, 3, 0]", "axis 3 to be at least 1"]),
]


@pytest.mark.parametrize(("changes", "words"), SHAPES, ids=[s[1][0] for s in SHAPES])
def test_shapes_that_do_not_fit_are_named(changes, words):
    p = Parts(**changes)
    p.sdpa()
    text = p.refusal()
    assert text.startswith("[sdpa]")
    for word in words:
        assert word in text, text


def test_head_counts_of_k_and_v_may_differ():
    p = Parts(k=[B, 1, SKV, D], v=[B, 4, SKV, DV])
    o, _ = p.sdpa()
    p.graph.validate()
    assert o.get_dim() == [B, HQ, SQ, DV]


def lengths(p: Parts, dim: list[int] | None = None, **more: Any) -> TensorAttributes:
    more = {"data_type": DataType.INT32, **more}
    return p.tensor("len", [B, 1, 1, 1] if dim is None else dim, **more)


OPTIONS: list[tuple[Callable[[Parts], dict[str, Any]], list[str]]] = [
    (lambda p: {"seq_len_q": lengths(p)}, ["seq_len_q is set and seq_len_kv is not"]),
    (lambda p: {"seq_len_kv": lengths(p)}, ["seq_len_kv is set and seq_len_q is not"]),
    (
        lambda p: {"seq_len_q": lengths(p, [B + 1]), "seq_len_kv": lengths(p)},
        ["seq_len_q 'len' has dims [3]", "expected [2, 1, 1, 1]"],
    ),
    (
        lambda p: {"seq_len_q": lengths(p), "seq_len_kv": lengths(p, data_type=DataType.FLOAT)},
        ["seq_len_kv 'len' has data type FLOAT", "expected INT32 or INT64"],
    ),
    (
        lambda p: {"bias": p.tensor("mask", [B, HQ, SQ, SKV + 1])},
        ["bias 'mask' has dims [2, 4, 3, 6]", "broadcast to [2, 4, 3, 5]"],
    ),
    (
        lambda p: {"attn_scale": p.tensor("scale", [1])},
        ["attn_scale 'scale' is a tensor in device memory", "expected a pass-by-value scalar"],
    ),
    (
        lambda p: {"attn_scale": p.graph.tensor(TensorAttributes(True).set_name("scale"))},
        ["attn_scale 'scale' has data type BOOLEAN", "expected DOUBLE"],
    ),
    (
        lambda p: {"attn_scale": p.graph.tensor(TensorAttributes(np.uint8(1)).set_name("scale"))},
        ["attn_scale 'scale' has data type UINT8"],
    ),
]


@pytest.mark.parametrize(("make", "words"), OPTIONS, ids=[o[1][0] for o in OPTIONS])
def test_options_that_do_not_fit_are_named(make, words):
    p = Parts()
    p.sdpa(**make(p))
    text = p.refusal()
    assert text.startswith("[sdpa]")
    for word in words:
        assert word in text, text


def test_mistakes_that_the_call_itself_refuses():
    p = Parts()
    with pytest.raises(rd.InvalidValueError, match="causal_mask with right_bound 2"):
        p.sdpa(causal_mask=True, right_bound=2)
    with pytest.raises(rd.InvalidValueError, match=r"\[sdpa\] attn_scale"):
        p.sdpa(attn_scale="big")
    with pytest.raises(rd.InvalidValueError, match=r"\[sdpa\] attn_scale"):
        p.sdpa(attn_scale=True)
    stranger = TensorAttributes().set_name("stranger").set_dim([B, HK, SKV, D])
    with pytest.raises(rd.InvalidValueError, match=r"\[sdpa\] k is tensor 'stranger'.*not in this"):
        p.graph.sdpa(p.q, stranger, p.v)
    with pytest.raises(rd.InvalidValueError, match=r"\[sdpa\] v is null"):
        p.graph.sdpa(p.q, p.k, None)
    with pytest.raises(rd.InvalidValueError, match=r"\[mine\] attn_scale is tensor with no uid"):
        p.graph.sdpa(p.q, p.k, p.v, attn_scale=TensorAttributes(0.5), name="mine")


def test_a_wrong_output_is_named():
    p = Parts()
    o, _ = p.sdpa()
    o.set_name("o").set_dim([B, HQ, SQ, D])
    assert "o 'o' has dims [2, 4, 3, 8], expected [2, 4, 3, 6]" in p.refusal()
    p = Parts()
    _, stats = p.sdpa(generate_stats=True)
    assert stats is not None
    stats.set_data_type(DataType.HALF)
    assert "has data type HALF, expected FLOAT or DOUBLE" in p.refusal()
    p = Parts()
    o, _ = p.sdpa()
    o.set_stride([0, SQ * DV, DV, 1])
    assert "stride 0 over axis 0 of 2" in p.refusal()


def test_two_tensors_cannot_share_a_uid():
    p = Parts()
    p.q.set_uid(5)
    p.k.set_uid(5)
    p.sdpa()
    assert "uid 5 of tensor 'k' (uid 5) is taken by another tensor" in p.refusal()


def test_uids_that_are_not_set_avoid_those_that_are():
    p = Parts()
    p.k.set_uid(1)
    o, _ = p.sdpa()
    p.graph.validate()
    uids = [t.get_uid() for t in (p.q, p.k, p.v, o)]
    assert uids[1] == 1 and len(set(uids)) == 4
    p.graph.validate()
    assert uids == [t.get_uid() for t in (p.q, p.k, p.v, o)]


# ---- inference and lowering ----


def test_outputs_are_inferred():
    p = Parts()
    o, stats = p.sdpa(generate_stats=True)
    assert stats is not None
    p.graph.validate()
    assert o.get_dim() == [B, HQ, SQ, DV]
    assert o.get_stride() == [HQ * SQ * DV, SQ * DV, DV, 1]
    assert stats.get_dim() == [B, HQ, SQ, 1]
    assert stats.get_stride() == [HQ * SQ, SQ, 1, 1]
    assert stats.get_data_type() == DataType.FLOAT
    assert p.sdpa()[1] is None


def test_ragged_outputs_get_strides_that_ragged_memory_allows():
    p = Parts()
    aux = offsets(p, [B + 1])
    p.q.set_ragged_offset(aux).set_stride([HQ * SQ * D, D, HQ * D, 1])
    o, stats = p.sdpa(generate_stats=True)
    assert stats is not None
    o.set_ragged_offset(aux)
    stats.set_ragged_offset(aux)
    p.graph.validate()
    assert o.get_stride() == [SQ * HQ * DV, DV, HQ * DV, 1]
    assert stats.get_stride() == [SQ * HQ, 1, HQ, 1]


def test_what_was_stated_is_not_inferred_over():
    p = Parts()
    o, _ = p.sdpa()
    stride = [SQ * HQ * DV, DV, HQ * DV, 1]
    o.set_stride(stride).set_data_type(DataType.DOUBLE)
    p.graph.validate()
    assert o.get_stride() == stride and o.get_data_type() == DataType.DOUBLE
    assert o.get_dim() == [B, HQ, SQ, DV]


def test_no_scale_is_lowered_as_one_over_the_root_of_d():
    p = Parts()
    p.sdpa()
    wire = p.wire()
    assert wire["attn_scale_value"] == pytest.approx(1 / np.sqrt(D), rel=1e-7)
    assert wire.get("scale_tensor_uid") is None


@pytest.mark.parametrize("scale", [0.25, 0.0, -3.0, 1, np.float32(2.5), np.float64(0.5)])
def test_a_number_is_lowered_as_the_value(scale):
    p = Parts()
    p.sdpa(attn_scale=scale)
    wire = p.wire()
    assert wire["attn_scale_value"] == float(scale) and wire.get("scale_tensor_uid") is None


def test_a_double_scale_keeps_its_digits():
    p = Parts(DataType.DOUBLE)
    p.sdpa()
    wire = p.wire()
    constant = wire["tensors"][wire["scale_tensor_uid"]]
    assert constant["value"] == 1 / np.sqrt(D) and constant["value_type"] == "Float64Value"
    assert wire.get("attn_scale_value") is None


@pytest.mark.parametrize("make", [lambda: TensorAttributes(0.5), runtime])
def test_a_scale_tensor_is_lowered_as_the_tensor(make):
    p = Parts()
    scale = p.graph.tensor(make())
    p.sdpa(attn_scale=scale)
    wire = p.wire()
    assert wire["scale_tensor_uid"] == scale.get_uid() and wire.get("attn_scale_value") is None


@pytest.mark.parametrize(
    ("options", "left", "right", "alignment"),
    [
        ({}, None, None, "top_left"),
        ({"causal_mask": True}, None, 0, "top_left"),
        ({"causal_mask": True, "right_bound": 0}, None, 0, "top_left"),
        (
            {"causal_mask": True, "diagonal_alignment": rd.DiagonalAlignment.BOTTOM_RIGHT},
            None,
            0,
            "bottom_right",
        ),
        ({"left_bound": 3, "right_bound": 0}, 3, 0, "top_left"),
        ({"right_bound": 2}, None, 2, "top_left"),
    ],
)
def test_masks_on_the_wire_are_bounds_and_never_flags(options, left, right, alignment):
    p = Parts()
    p.sdpa(**options)
    wire = p.wire()
    assert (wire.get("left_bound"), wire.get("right_bound")) == (left, right)
    assert not wire.get("causal_mask") and not wire.get("causal_mask_bottom_right")
    assert str(wire.get("diagonal_alignment", "top_left")).lower() == alignment


def test_lengths_set_padding_mask():
    p = Parts()
    p.sdpa(seq_len_q=lengths(p), seq_len_kv=lengths(p))
    assert p.wire()["padding_mask"] is True
    p = Parts()
    p.sdpa()
    assert not p.wire().get("padding_mask")


def test_stats_are_on_the_wire_only_if_asked():
    p = Parts()
    _, stats = p.sdpa(generate_stats=True)
    assert stats is not None
    wire = p.wire()
    assert wire["stats_tensor_uid"] == stats.get_uid() and wire["generate_stats"] is True
    p = Parts()
    p.sdpa()
    assert p.wire().get("stats_tensor_uid") is None


# ---- life of a graph ----


@pytest.mark.parametrize("finish", ["build", "serialize", "to_json"])
def test_a_finished_graph_takes_no_more(finish):
    p = Parts()
    p.sdpa()
    getattr(p.graph, finish)()
    with pytest.raises(rd.InvalidValueError, match=r"'parts': tensor after it was built"):
        p.graph.tensor(dim=[1])
    with pytest.raises(rd.InvalidValueError, match=r"'parts': sdpa after it was built"):
        p.sdpa()
    p.graph.validate()
    assert p.graph.build(engine="reference").workspace_size >= 0


@pytest.mark.parametrize("look", ["validate", "explain", "min_reader_version"])
def test_looking_does_not_finish_a_graph(look):
    p = Parts()
    p.sdpa()
    result = getattr(p.graph, look)
    if callable(result):
        result()
    p.graph.tensor(name="more", dim=[1])
    assert len(rd.Graph.deserialize(p.graph.serialize()).tensors) == 5


@pytest.mark.parametrize("look", ["validate", "explain"])
def test_what_was_inferred_follows_later_changes(look):
    p = Parts(DataType.HALF)
    o, _ = p.graph.sdpa(p.q, p.k, p.v)
    getattr(p.graph, look)()
    for t, dim in ((p.q, [B, HQ, SQ, 4 * D]), (p.k, [B, HK, SKV, 4 * D]), (p.v, [B, HK, SKV, D])):
        t.set_dim(dim).set_stride([dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1])
    o.set_output(True)
    p.graph.validate()
    assert o.get_dim() == [B, HQ, SQ, D] and o.get_data_type() == DataType.HALF
    assert p.wire()["attn_scale_value"] == pytest.approx(1 / np.sqrt(4 * D), rel=1e-7)


def test_an_output_that_was_not_asked_for_is_named():
    p = Parts()
    p.graph.sdpa(p.q, p.k, p.v)
    with pytest.raises(rd.NotSupportedError, match=r"'sdpa::o'.* is virtual and no node reads it"):
        p.graph.build(engine="reference")


def test_an_empty_graph_and_an_early_execute():
    g = rd.Graph(name="nothing")
    with pytest.raises(rd.InvalidValueError, match="'nothing' has no operations"):
        g.build()
    with pytest.raises(rd.InvalidValueError, match="'nothing': execute before build"):
        g.execute({})


def test_graph_execute_runs_the_plan_built_last():
    load("fake_1_0_0")
    sdpa = small(scale=0.75)
    sdpa.graph.build(engine="reference")
    sdpa.graph.build(engine="FAKE_1_0_0_ENGINE")
    pack = sdpa.pack()
    sdpa.graph.execute(pack)
    assert (pack[sdpa.tensors["o"]] == 0.75).all()
