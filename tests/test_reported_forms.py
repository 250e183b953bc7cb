"""Reports about serialized graphs, foreign arrays and the graph API from end to end: one or a few
tests per report.
"""

from __future__ import annotations

import gc
from dataclasses import replace

import fb_builder as fb
import numpy as np
import pytest
import raggeddnn as rd
import torch
from dlpack_by_hand import BFLOAT_CODE, FP8_E4M3_CODE, READ_ONLY, ROCM, Producer, bfloat16_bits
from fuzz.samples import content
from plugins.fakes import REFERENCE, verdicts
from raggeddnn._core import describe_blob
from raggeddnn.tensor import Tensor
from raggeddnn.testing import make_backward, make_problem
from raggeddnn.testing.checks import assert_same_bits, run_and_check
from raggeddnn.testing.gradients import check_sequence_gradients
from raggeddnn.testing.graphs import sdpa_graph
from raggeddnn.testing.graphs_backward import run_and_check_backward, sdpa_backward_graph
from raggeddnn.testing.reported import reported

# ---- T33: serialization ----


def named_and_anonymous(backward):
    """Ragged attention: two tensors without a name, two with the same one."""
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    aux = g.tensor(name="", dim=[3, 1, 1, 1], data_type=rd.DataType.INT64)
    ragged = {"ragged_offset": aux, "ragged_offset_multiplier": 8}
    q, k, v, o, do = (
        g.tensor(name=name, dim=[2, 2, 4, 8], **ragged) for name in ("", "x", "x", "o", "do")
    )
    options = {"attn_scale": 0.5, "left_bound": 0, "right_bound": None, "causal_mask": False}
    if not backward:
        g.sdpa(q, k, v, **options)[0].set_output(True).set_ragged_offset(
            aux
        ).set_ragged_offset_multiplier(8)
        return g
    stats = g.tensor(name="stats", dim=[2, 2, 4, 1], data_type=rd.DataType.FLOAT)
    for gradient in g.sdpa_backward(q, k, v, o, do, stats, **options):
        gradient.set_output(True)
    return g


@pytest.mark.parametrize("backward", [False, True])
def test_t33_a_graph_survives_every_form(backward):
    g = named_and_anonymous(backward)
    data = g.serialize()
    received = rd.Graph.deserialize(data)
    text = received.to_json()
    again = rd.Graph.from_json(text).serialize()
    assert content(again) == content(data)
    assert rd.Graph.deserialize(again).to_json() == text
    tensors = rd.Graph.deserialize(again).tensors
    assert len({t.get_uid() for t in tensors}) == len(tensors)
    assert [t.get_name() for t in tensors[:4]] == ["", "", "x", "x"]
    ragged = [t.get_ragged_offset() for t in tensors[1:4]]
    assert {t.get_uid() for t in ragged} == {tensors[0].get_uid()}
    assert tensors[1].get_ragged_offset_multiplier() == 8


# Optional fields of attention by slot, with type and default (None: unset).
OPTIONAL = {
    28: ("bool", None),
    33: ("float32", None),
    34: ("float32", None),
    35: ("int64", None),
    36: ("int64", None),
    37: ("int32", None),
}
TENSOR_OPTIONAL = {9: ("int64", None), 10: ("int64", 16), 11: ("int64", 1)}


def round_trip(data):
    text = rd.Graph.deserialize(data).to_json()
    return content(rd.Graph.from_json(text).serialize())


@pytest.mark.parametrize("slot", OPTIONAL)
def test_t33_an_optional_field_of_a_node_is_unset_or_zero_and_stays_so(slot):
    kind, _ = OPTIONAL[slot]
    zero = False if kind == "bool" else 0
    unset, stored = (
        fb.build_sdpa_graph(scale=0.5, node_slots=slots) for slots in ({}, {slot: (kind, zero)})
    )
    assert round_trip(unset) == content(unset)
    assert round_trip(stored) == content(stored)
    assert content(unset) != content(stored)


@pytest.mark.parametrize("slot", TENSOR_OPTIONAL)
@pytest.mark.parametrize("value", ["unset", "default", "zero"])
def test_t33_an_optional_field_of_a_tensor_is_unset_default_or_zero_and_stays_so(slot, value):
    kind, default = TENSOR_OPTIONAL[slot]
    # Of an unused tensor, whose values need not make sense together.
    number = {"unset": None, "default": default, "zero": 0}[value]
    slots = fb.sdpa_graph_slots(scale=0.5)
    extra = fb.tensor(0, "offsets", [3, 1, 1, 1], data_type=fb.INT32)
    spare = fb.tensor(99, "spare", [2, 1, 1, 1])
    if number is not None:
        spare[slot] = (kind, number)
    slots[4] = ("[table]", [*slots[4][1], extra, spare])
    data = fb.build(slots)
    assert round_trip(data) == content(data)


def test_t33_a_new_field_is_kept_if_optional_and_refused_if_it_changes_the_meaning():
    new = {47: ("int64", 5)}
    data = fb.build_sdpa_graph(scale=0.5, node_slots=new)
    received = rd.Graph.deserialize(data)
    received.build(engine="reference")
    assert received.serialize() == data
    assert "SdpaAttributes slot 47" in describe_blob(data)
    data = fb.build_sdpa_graph(scale=0.5, node_slots=new, min_reader_version=3)
    with pytest.raises(rd.NotSupportedError, match="min_reader_version is 3, expected at most 2"):
        rd.Graph.deserialize(data)


def test_t33_damaged_bytes_are_a_typed_error():
    data = fb.build_sdpa_graph(scale=0.5)
    unknown = fb.sdpa_graph_slots(scale=0.5)
    unknown[5] = ("[table]", [fb.node(250, {}, "later")])
    enum = fb.sdpa_graph_slots(scale=0.5, tensor_slots={"q": {2: ("uint8", 250)}})
    for damaged, words in [
        (fb.build(unknown), "250"),
        (fb.build(enum), "of tensor 'q' is -6, expected a DataType"),  # 250 as a signed byte
        (data[: len(data) // 2], "graph"),
    ]:
        with pytest.raises((rd.InvalidValueError, rd.NotSupportedError), match=words):
            rd.Graph.deserialize(damaged)
    for bit in range(0, 8 * len(data), 41):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            rd.Graph.deserialize(bytes(flipped)).explain()
        except (rd.InvalidValueError, rd.NotSupportedError):
            continue


# ---- T34: DLPack ----


def attention(data_type=rd.DataType.FLOAT, rows=3):
    """One head, width 8, dense; returns the plan and its tensors by name."""
    g = rd.Graph(io_data_type=data_type)
    tensors = {name: g.tensor(name=name, dim=[1, 1, rows, 8], alignment=2) for name in "qkv"}
    o, _ = g.sdpa(*tensors.values(), attn_scale=0.5)
    tensors["o"] = o.set_name("o").set_output(True).set_alignment(2)
    return g.build(engine="reference"), tensors


def numbers(rows=3):
    """Exact in every type: multiples of 1/4 below 2."""
    rng = np.random.default_rng(3)
    return {name: rng.integers(-7, 8, (1, 1, rows, 8)).astype(np.float32) / 4 for name in "qkv"}


def result(wrap, rows=3):
    plan, tensors = attention(rows=rows)
    o = np.full((1, 1, rows, 8), np.nan, np.float32)
    values = numbers(rows)
    plan.execute({**{tensors[name]: wrap(values[name]) for name in values}, tensors["o"]: wrap(o)})
    return o


SHAPES = {
    "null-strides": lambda a: Producer(a, a.shape),
    "strides": lambda a: Producer(a, a.shape, [24, 24, 8, 1]),
    "odd-stride-of-a-size-1-axis": lambda a: Producer(a, a.shape, [77, -5, 8, 1]),
}


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("form", SHAPES)
def test_t34_strides(form, versioned):
    def wrap(array):
        producer = SHAPES[form](array)
        return replace(producer, versioned=versioned, asked=[])

    assert_same_bits(result(wrap), result(lambda a: a), form)


@pytest.mark.parametrize("versioned", [True, False])
def test_t34_a_tensor_without_elements_has_no_memory(versioned):
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    aux = g.tensor(name="off", dim=[2, 1, 1, 1], data_type=rd.DataType.INT32)
    q, k, v = (g.tensor(name=n, dim=[1, 1, 4, 8], ragged_offset=aux) for n in "qkv")
    o = g.sdpa(q, k, v, attn_scale=1.0)[0].set_output(True).set_ragged_offset(aux)
    plan = g.build(engine="reference")
    empty = Producer(None, [0, 1, 8], versioned=versioned)
    offsets = np.zeros(2, np.int32)
    plan.execute({aux: offsets, q: empty, k: empty, v: empty, o: empty})
    with pytest.raises(rd.InvalidValueError, match="'q'"):  # yet not where elements are due
        plan.execute({aux: offsets + np.int32([0, 8]), q: empty, k: empty, v: empty, o: empty})


@pytest.mark.parametrize("byte_offset", [2, 6, 64])
def test_t34_a_byte_offset_is_honoured(byte_offset):
    plan, tensors = attention(rd.DataType.HALF)
    values = {name: a.astype(np.float16) for name, a in numbers().items()}
    plain, o = (np.full((1, 1, 3, 8), np.nan, np.float16) for _ in range(2))
    plan.execute({**{tensors[n]: a for n, a in values.items()}, tensors["o"]: plain})
    moved = {}
    for name, array in {**values, "o": o}.items():
        memory = np.zeros(array.nbytes + byte_offset, np.uint8)
        memory[byte_offset:] = np.frombuffer(array.tobytes(), np.uint8)
        moved[name] = Producer(memory, array.shape, byte_offset=byte_offset, bits=16)
    plan.execute({tensors[n]: a for n, a in moved.items()})
    got = moved["o"].memory[byte_offset:].view(np.uint8)
    assert got.tobytes() == plain.tobytes()


def test_t34_read_only_memory_is_for_inputs():
    def read_only(array):
        return Producer(array, array.shape, flags=READ_ONLY)

    plan, tensors = attention()
    values, o = numbers(), np.full((1, 1, 3, 8), np.nan, np.float32)
    inputs = {tensors[n]: read_only(a) for n, a in values.items()}
    plan.execute({**inputs, tensors["o"]: o})
    assert_same_bits(o, result(lambda a: a), "read-only inputs")
    with pytest.raises(rd.InvalidValueError, match=r"'o'.*read-only"):
        plan.execute({**inputs, tensors["o"]: read_only(o)})


def test_t34_bfloat16_and_fp8():
    plan, tensors = attention(rd.DataType.BFLOAT16)
    bits = {name: bfloat16_bits(a) for name, a in numbers().items()}
    o = np.zeros((1, 1, 3, 8), np.uint16)
    wrapped = {n: Producer(a, a.shape, code=BFLOAT_CODE, bits=16) for n, a in bits.items()}
    pack = {tensors[n]: a for n, a in wrapped.items()}
    plan.execute({**pack, tensors["o"]: Producer(o, o.shape, code=BFLOAT_CODE, bits=16)})
    wide = (o.astype(np.uint32) << 16).view(np.float32)
    expected = result(lambda a: a)
    assert np.abs(wide - expected).max() <= 2.0**-8 * np.abs(expected).max()  # half an ulp of it
    byte = np.zeros((1, 1, 3, 8), np.uint8)
    fp8 = Producer(byte, byte.shape, code=FP8_E4M3_CODE, bits=8)
    with pytest.raises(rd.InvalidValueError, match=r"'q'.*FP8_E4M3.*expected BFLOAT16"):
        plan.execute({**pack, tensors["q"]: fp8, tensors["o"]: o})


@pytest.mark.parametrize("versioned", [True, False])
def test_t34_a_capsule_may_be_given_twice_and_a_used_one_is_refused(versioned):
    plan, tensors = attention()
    o = np.full((1, 1, 3, 8), np.nan, np.float32)
    pack = {tensors[n]: Producer(a, a.shape, versioned=versioned) for n, a in numbers().items()}
    pack[tensors["o"]] = o
    plan.execute(pack)
    first = o.copy()
    plan.execute(pack)  # it was borrowed, not consumed
    assert_same_bits(o, first, "the second time")
    name = b"used_dltensor_versioned" if versioned else b"used_dltensor"
    array = numbers()["q"]
    pack[tensors["q"]] = Producer(array, array.shape, versioned=versioned, name=name)
    with pytest.raises(rd.InvalidValueError, match=r"'q'.*no DLPack capsule"):
        plan.execute(pack)


def test_t34_no_stream_is_asked_of_the_cpu_and_none_is_taken():
    plan, tensors = attention()
    producers = {name: Producer(a, a.shape) for name, a in numbers().items()}
    o = np.zeros((1, 1, 3, 8), np.float32)
    plan.execute({**{tensors[n]: p for n, p in producers.items()}, tensors["o"]: o})
    for producer in producers.values():
        assert [options.get("stream") for options in producer.asked] == [None]
    exporter = Tensor([2, 2])
    for stream in (0, -1, 1, 2, 12345):
        with pytest.raises(BufferError, match="expected None for host memory"):
            exporter.__dlpack__(stream=stream)


def test_t34_memory_of_another_device_is_refused_by_name():
    plan, tensors = attention()
    values = numbers()
    pack = {tensors[n]: a for n, a in values.items()}
    pack[tensors["o"]] = np.zeros((1, 1, 3, 8), np.float32)
    pack[tensors["k"]] = Producer(values["k"], values["k"].shape, device=ROCM)
    with pytest.raises(rd.InvalidValueError, match=r"'k'.*memory on device .*, expected cpu"):
        plan.execute(pack)


def test_t34_a_tensor_freed_straight_after_the_call():
    expected = result(lambda a: a)
    plan, tensors = attention()
    o = torch.full((1, 1, 3, 8), float("nan"))

    def run():
        plan.execute(
            {
                **{tensors[n]: torch.from_numpy(a.copy()) for n, a in numbers().items()},
                tensors["o"]: o,
            }
        )

    run()
    gc.collect()
    junk = [torch.full((1, 1, 3, 8), 1e9) for _ in range(64)]
    assert_same_bits(o.numpy(), expected, "torch")
    assert len(junk) == 64


# ---- T35: the graph API from end to end ----

T07 = replace(reported("t07"), name="t35")


@pytest.mark.parametrize("rank", [1, 4])
def test_t35_ragged_offsets_of_either_rank(build, rank):
    problem = make_problem(T07)
    sdpa = sdpa_graph(problem)
    for aux in {id(a): a for a, _ in sdpa.offsets.values()}.values():
        aux.set_dim([4, 1, 1, 1][:rank]).set_stride([1] * rank)
    run_and_check(sdpa, build(sdpa), problem)


@pytest.mark.parametrize("rank", [1, 4])
def test_t35_ragged_offsets_of_either_rank_backward(engine, rank):
    back = make_backward(T07)
    graph = sdpa_backward_graph(back)
    for aux in {id(a): a for a, _ in graph.offsets.values()}.values():
        aux.set_dim([4, 1, 1, 1][:rank]).set_stride([1] * rank)
    try:
        plan = graph.graph.build(engine=engine)
    except rd.NotSupportedError as refusal:
        pytest.skip(f"{engine} refuses: {refusal}")
    rows = run_and_check_backward(graph, plan, back)
    check_sequence_gradients(back, rows, engine)


def test_t35_without_the_offsets_it_is_another_computation(build):
    problem = make_problem(replace(T07, poison=None))
    whole = sdpa_graph(problem)
    o = whole.o_rows(whole.run(build(whole), problem, 0.0), problem)
    bare = sdpa_graph(problem)
    for name in ("q", "k", "v", "o", "stats"):
        bare.tensors[name].set_ragged_offset(None).set_ragged_offset_multiplier(1)
    pack = bare.pack(problem, bare.new_outputs(problem, 0.0))
    auxes = {aux for aux, _ in bare.offsets.values()}
    pack = {tensor: array for tensor, array in pack.items() if tensor not in auxes}
    # Dense dims address more memory than the packed rows have, which is refused; with enough of
    # it the rows lie elsewhere.
    plan = bare.build()
    with pytest.raises(rd.InvalidValueError, match="expected at least"):
        plan.execute(pack)
    names = {tensor: name for name, tensor in bare.tensors.items()}
    for tensor in list(pack):
        if names.get(tensor) in ("q", "k", "v", "o", "stats"):
            pack[tensor] = np.resize(pack[tensor], 4 * pack[tensor].size)
    plan.execute(pack)
    valid = problem.side_q.written
    got = pack[bare.tensors["o"]][: o.size].reshape(o.shape)
    assert (got[valid] != o[valid]).any()


# Slots of attention's attributes that the reference engine does not read, by pass, but hints
# (implementation, umd_flops, umd_bytes). Those of tensors name one that is there.
UNREAD = {
    fb.SDPA_NODE: [
        *[(slot, "int64", 1) for slot in (10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21)],
        *[(slot, "int64", 9) for slot in (23, 24, 25, 26, 27)],
        (29, "bool", True),
        (37, "int32", 4),
        (39, "int8", fb.FLOAT),
    ],
    fb.SDPA_BACKWARD_NODE: [
        *[(slot, "int64", 1) for slot in (15, 16, 17)],
        (19, "bool", True),
    ],
}


def graph_of(tag, slots):
    graph = fb.sdpa_graph_slots(scale=0.5)
    dims = [2, 2, 4, 8]
    strides = fb.bshd_strides(dims)
    more = [fb.tensor(uid, f"t{uid}", dims, strides) for uid in (9, 10, 11, 12)]
    more.append(fb.tensor(8, "stats", [2, 2, 4, 1]))
    graph[4] = ("[table]", [*graph[4][1], *more])
    if tag == fb.SDPA_NODE:
        attributes = {0: 1, 1: 2, 2: 3, 3: 4, 5: 7}
    else:
        attributes = {0: 1, 1: 2, 2: 3, 3: 4, 4: 9, 5: 8, 6: 10, 7: 11, 8: 12, 9: 7}
    table = {slot: ("int64", uid) for slot, uid in attributes.items()}
    graph[5] = ("[table]", [fb.node(tag, {**table, **slots}, "sdpa")])
    return rd.Graph.deserialize(fb.build(graph))


@pytest.mark.parametrize("tag", UNREAD)
def test_t35_the_graph_without_an_unread_attribute_is_applicable(tag):
    assert verdicts(graph_of(tag, {}))[REFERENCE].applicable


@pytest.mark.parametrize(
    ("tag", "slot", "kind", "value"),
    [(tag, *row) for tag, rows in UNREAD.items() for row in rows],
)
def test_t35_an_attribute_that_no_engine_reads_is_a_reason(engine, tag, slot, kind, value):
    graph = graph_of(tag, {slot: (kind, value)})
    verdict = verdicts(graph)[engine]
    assert not verdict.applicable and verdict.reason
    with pytest.raises(rd.NotSupportedError) as caught:
        graph.build(engine=engine)
    assert verdict.reason in str(caught.value)
    assert graph_of(tag, {}).build(engine=engine).engine_name == engine  # it was that attribute
