"""``raggeddnn.varlen.sdpa``: results, layouts, outputs, plan reuse, and what it refuses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import raggeddnn as rd
import raggeddnn.varlen
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raggeddnn import _plans
from raggeddnn.testing import (
    CASES,
    Case,
    SdpaOptions,
    assert_sdpa_close,
    assert_sequence_close,
    make_problem,
)
from raggeddnn.testing.checks import assert_same_bits

ENGINE = "reference"


def is_callable_here(case):
    """Cases that the one-call API can state: ragged, no bias or dropout, masks bottom-right."""
    masked = case.causal or case.left_bound is not None or case.right_bound is not None
    aligned = case.alignment == "bottom_right" or not masked
    return case.is_ragged and case.bias is None and case.dropout == 0 and aligned


def arguments(problem):
    """Positional and keyword arguments of the call for a problem."""
    case, integer = problem.case, np.dtype(problem.case.index_dtype)
    offsets = [np.array(s.offsets, integer) for s in (problem.side_q, problem.side_kv)]
    options = {"scale": case.scale, "causal": case.causal}
    bounds = (case.left_bound, case.right_bound)
    options["window_size"] = tuple(-1 if bound is None else bound for bound in bounds)
    if case.gives_lengths:
        options["seqused_q"] = np.array(problem.side_q.lens, integer)
        options["seqused_k"] = np.array(problem.side_kv.lens, integer)
    return (problem.q, problem.k, problem.v, *offsets), options


def small(seed=0, **changes):
    return make_problem(
        Case("small", (5, 0, 12), (7, 3, 12), heads=(4, 2, 2), seed=seed, **changes)
    )


@pytest.mark.parametrize("case", list(filter(is_callable_here, CASES)), ids=lambda case: case.name)
def test_case(varlen, case):
    problem = make_problem(case)
    args, options = arguments(problem)
    o, lse = varlen(*args, return_lse=True, **options)
    assert o.dtype == problem.q.dtype and lse.dtype == np.float32
    assert_sdpa_close(o, lse, problem)
    unwritten = ~problem.side_q.written
    assert not o[unwritten].any() and np.isneginf(lse[:, unwritten]).all()
    assert_same_bits(varlen(*args, **options), o, "without LSE")


@pytest.mark.parametrize("side", ["q", "k"])
def test_lengths_on_one_side_only(varlen, side):
    case = Case(
        "one-side",
        (5, 9),
        (7, 4),
        layout="slack",
        poison="nan",
        causal=True,
        alignment="bottom_right",
    )
    problem = make_problem(case)
    args, options = arguments(problem)
    dropped, kept = ("seqused_k", "side_kv") if side == "q" else ("seqused_q", "side_q")
    del options[dropped]
    # The other side's blocks are whole now: give their slack rows numbers.
    for name in ("k", "v") if side == "q" else ("q",):
        rows = getattr(problem, name)
        rows[np.isnan(rows)] = 0.5
    whole = getattr(problem, kept)
    setattr(
        problem,
        kept,
        type(whole)(
            whole.blocks, *[getattr(whole, n) for n in ("blocks", "starts", "rows", "s_max")]
        ),
    )
    o, lse = varlen(*args, return_lse=True, **options)
    assert_sdpa_close(o, lse, problem)


def test_slices_of_packed_qkv_equal_contiguous_arrays(varlen):
    qkv = np.random.default_rng(0).standard_normal((20, 3, 2, 16)).astype(np.float32)
    cu = np.array([0, 8, 20], np.int32)
    sliced = varlen(qkv[:, 0], qkv[:, 1], qkv[:, 2], cu, cu, return_lse=True)
    copies = [np.ascontiguousarray(qkv[:, n]) for n in range(3)]
    whole = varlen(*copies, cu, cu, return_lse=True)
    assert_same_bits(sliced[0], whole[0], "O")
    assert_same_bits(sliced[1], whole[1], "LSE")


def unaligned(x, by):
    raw = np.zeros(x.nbytes + by, np.uint8)
    view = raw[by:].view(x.dtype).reshape(x.shape)
    view[:] = x
    return view


def offset_elements(x, by):
    flat = np.zeros(x.size + by, x.dtype)
    flat[by:] = x.reshape(-1)
    return flat[by:].reshape(x.shape)


def read_only(x):
    copy = x.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize(
    "change",
    [
        lambda x: np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2),
        lambda x: np.repeat(x, 2, axis=2)[:, :, ::2],
        lambda x: np.ascontiguousarray(x[::-1])[::-1],
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        np.asfortranarray,
        lambda x: x.astype(x.dtype.newbyteorder()),
        lambda x: unaligned(x, 1),
        lambda x: offset_elements(x, 1),
        lambda x: offset_elements(x, 2),
        lambda x: offset_elements(x, 3),
        read_only,
    ],
    ids=[
        "head-major",
        "every-2nd-element",
        "reversed",
        "every-2nd-row",
        "every-2nd-head",
        "fortran",
        "byte-swapped",
        "unaligned",
        "plus-1",
        "plus-2",
        "plus-3",
        "read-only",
    ],
)
def test_memory_of_any_kind_gives_the_same_bits(varlen, change):
    problem = small()
    args, options = arguments(problem)
    expected = varlen(*args, **options)
    changed = [change(x) for x in args[:3]]
    assert all(np.array_equal(a, b) for a, b in zip(args[:3], changed, strict=True))
    assert_same_bits(varlen(*changed, *args[3:], **options), expected, "O")


def test_offsets_of_either_width_and_any_memory(varlen):
    args, options = arguments(small())
    expected = varlen(*args, **options)
    cu_q, cu_k = args[3:]
    for offsets in [
        (cu_q.astype(np.int64), cu_k.astype(np.int64)),
        (cu_q.astype(np.int64), cu_k),
        (np.repeat(cu_q, 2)[::2], offset_elements(cu_k, 1)),
        (cu_q.tolist(), cu_k.tolist()),
    ]:
        assert_same_bits(varlen(*args[:3], *offsets, **options), expected, "O")


def test_out_is_filled_and_returned(varlen):
    problem = small(layout="slack", poison="nan")
    args, options = arguments(problem)
    expected, lse = varlen(*args, return_lse=True, **options)
    wide = np.full((problem.side_q.rows, 2, *expected.shape[1:]), np.nan, np.float32)
    head_major = np.full((4, problem.side_q.rows, 16), np.nan, np.float32).transpose(1, 0, 2)
    for out in (np.full_like(expected, np.nan), wide[:, 1], head_major):
        got, got_lse = varlen(*args, return_lse=True, out=out, **options)
        assert got is out
        assert_same_bits(out, expected, "O")
        assert_same_bits(got_lse, lse, "LSE")
    assert np.isnan(wide[:, 0]).all()


@pytest.mark.parametrize(
    ("lens_q", "lens_k", "extra"),
    [((), (), 0), ((), (), 3), ((0, 0), (0, 0), 0), ((0, 0), (3, 2), 2), ((3, 2), (0, 0), 2)],
)
def test_nothing_to_attend(varlen, lens_q, lens_k, extra):
    q = np.ones((sum(lens_q) + extra, 2, 8), np.float32)
    kv = np.ones((sum(lens_k), 2, 8), np.float32)
    cu_q, cu_k = (np.cumsum([0, *lens]).astype(np.int32) for lens in (lens_q, lens_k))
    out = np.full_like(q, np.nan)
    o, lse = varlen(q, kv, kv, cu_q, cu_k, return_lse=True, out=out)
    assert o is out and not o.any()
    assert lse.shape == (2, len(q)) and np.isneginf(lse).all()


def test_causal_closes_the_right_side_of_a_window(varlen):
    args, _ = arguments(small())
    closed = varlen(*args, causal=True, window_size=(3, 5))
    assert_same_bits(closed, varlen(*args, window_size=(3, 0)), "O")


def test_scales_and_lengths_share_one_plan():
    rd.varlen.clear_plan_cache()
    builds = _plans.plans.builds
    rng = np.random.default_rng(3)
    for turn, scale in enumerate([None, 1.0, -0.5, 0.0, 7.0]):
        lens = rng.integers(9, 16, size=4)
        lens[turn % 4] = 16
        problem = make_problem(
            Case(
                "shared",
                tuple(lens),
                tuple(lens[::-1]),
                scale=scale,
                scale_state="absent" if scale is None else "runtime",
            )
        )
        args, options = arguments(problem)
        o, lse = rd.varlen.sdpa(*args, return_lse=True, engine=ENGINE, **options)
        assert_sdpa_close(o, lse, problem)
    assert _plans.plans.builds == builds + 1


def test_the_plan_cache_is_bounded_and_drops_the_oldest():
    cache = _plans.PlanCache(2)
    built = []

    def build(key):
        built.append(key)
        return key

    for key in ("a", "b", "a", "c", "a", "b"):
        assert cache.get(key, build) == key
    assert built == ["a", "b", "c", "b"] and len(cache) == 2
    cache.clear()
    assert len(cache) == 0


def test_calls_from_several_threads_agree(varlen):
    problems = [small(seed) for seed in range(8)]
    calls = [arguments(problem) for problem in problems]
    expected = [varlen(*args, **options) for args, options in calls]
    rd.varlen.clear_plan_cache()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda call: varlen(*call[0], **call[1]), calls * 4))
    for index, result in enumerate(results):
        assert_same_bits(result, expected[index % 8], f"call {index}")


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    lens=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=5),
    group=st.sampled_from([(1, 1), (2, 1), (4, 2), (6, 3)]),
    window=st.tuples(st.integers(-1, 6), st.integers(-1, 6)),
    causal=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_lengths_heads_and_windows(lens, group, window, causal, seed):
    lens_q, lens_kv = zip(*lens, strict=True)
    problem = make_problem(
        Case("any", lens_q, lens_kv, heads=(group[0], group[1], group[1]), d=8, seed=seed)
    )
    args, options = arguments(problem)
    options.update(causal=causal, window_size=window)
    o, lse = rd.varlen.sdpa(*args, return_lse=True, engine=ENGINE, **options)
    meaning = SdpaOptions(
        left_bound=window[0],
        right_bound=0 if causal else window[1],
        diagonal_alignment="bottom_right",
    )
    for batch, (q, k, v, _) in problem.sequences():
        at = problem.rows_of(batch)[0]
        assert_sequence_close(o[at].transpose(1, 0, 2), lse[:, at], (q, k, v), meaning)


def test_torch_tensors_give_torch_tensors():
    problem = small()
    args, options = arguments(problem)
    tensors = [torch.from_numpy(x) for x in args]
    expected, expected_lse = rd.varlen.sdpa(*args, return_lse=True, engine=ENGINE, **options)
    o, lse = rd.varlen.sdpa(*tensors, return_lse=True, engine=ENGINE, **options)
    assert isinstance(o, torch.Tensor) and isinstance(lse, torch.Tensor)
    assert_same_bits(o.numpy(), expected, "O")
    assert_same_bits(lse.numpy(), expected_lse, "LSE")
    half = [x.to(torch.bfloat16) for x in tensors[:3]]
    out = torch.full_like(half[0], float("nan"))
    assert rd.varlen.sdpa(*half, *tensors[3:], out=out, engine=ENGINE) is out
    assert out.isfinite().all()


def test_lazily_negated_torch_views_are_resolved():
    args, _ = arguments(small())
    tensors = [torch.from_numpy(x) for x in args]
    expected = rd.varlen.sdpa(*(-x for x in args[:3]), *args[3:], engine=ENGINE)
    negated = [torch._neg_view(x) for x in tensors[:3]]
    got = rd.varlen.sdpa(*negated, *tensors[3:], engine=ENGINE)
    assert_same_bits(got.numpy(), expected, "O")
    imaginary = [torch.complex(torch.zeros_like(x), x).conj().imag for x in tensors[:3]]
    assert all(x.is_neg() for x in imaginary)
    got = rd.varlen.sdpa(*imaginary, *tensors[3:], engine=ENGINE)
    assert_same_bits(got.numpy(), expected, "O")


def test_torch_outs_that_cannot_be_written_are_refused():
    tensors = [torch.from_numpy(x) for x in arguments(small())[0]]
    good = torch.zeros(17, 4, 16)
    for out, message in [
        (torch._neg_view(good), "out is a lazily negated"),
        (torch.zeros(17, 4, 16, requires_grad=True), "out requires grad"),
        (torch.zeros(17, 1, 16).expand(17, 4, 16), "whose elements overlap"),
        (good.as_strided((17, 4, 16), (1, 8, 1)), "whose elements overlap"),
    ]:
        with pytest.raises(rd.InvalidValueError, match=message):
            rd.varlen.sdpa(*tensors, out=out, engine=ENGINE)
    assert not good.any()


def test_a_written_torch_out_counts_as_changed():
    if not hasattr(torch.autograd.graph, "increment_version"):
        pytest.skip("this torch cannot be told")
    tensors = [torch.from_numpy(x) for x in arguments(small())[0]]
    weight = torch.ones(17, 4, 16, requires_grad=True)
    out = torch.zeros(17, 4, 16)
    product = (weight * out).sum()
    rd.varlen.sdpa(*tensors, out=out, engine=ENGINE)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_an_out_that_overlaps_an_input_is_refused():
    args, _ = arguments(small())
    buffer = np.zeros(17 * 4 * 16 + 8, np.float32)
    q = buffer[:-8].reshape(17, 4, 16)
    q[:] = args[0]
    for out in (q, buffer[8:].reshape(17, 4, 16), q[::-1]):
        with pytest.raises(rd.InvalidValueError, match="out overlaps q,"):
            rd.varlen.sdpa(q, *args[1:], out=out, engine=ENGINE)
    assert np.array_equal(q, args[0])
    offsets = buffer[100:104].view(np.int32)
    offsets[:] = args[3]
    with pytest.raises(rd.InvalidValueError, match="out overlaps cu_seqlens_q,"):
        rd.varlen.sdpa(args[0], *args[1:3], offsets, args[4], out=q, engine=ENGINE)


def test_an_out_between_the_inputs_of_one_buffer_is_taken():
    offsets = ints(0, 8, 20)
    for dtype in (torch.float32, torch.bfloat16):
        packed = torch.randn(20, 3, 4, 33).to(dtype)
        packed = torch.cat([packed, torch.zeros(20, 1, 4, 33, dtype=dtype)], dim=1)
        q, k, v, out = packed.unbind(1)
        expected = rd.varlen.sdpa(q, k, v, offsets, offsets, engine=ENGINE)
        assert rd.varlen.sdpa(q, k, v, offsets, offsets, out=out, engine=ENGINE) is out
        assert torch.equal(out, expected)
        with pytest.raises(rd.InvalidValueError, match="out overlaps v,"):
            rd.varlen.sdpa(q, k, v, offsets, offsets, out=v, engine=ENGINE)


def test_an_out_whose_elements_overlap_is_refused():
    args, _ = arguments(small())
    rows = np.lib.stride_tricks.as_strided(zeros(17 * 4 * 16), (17, 4, 16), (4, 32, 4))
    with pytest.raises(rd.InvalidValueError, match=r"out has .* whose elements overlap"):
        rd.varlen.sdpa(*args, out=rows, engine=ENGINE)


def test_scales_of_any_real_type():
    args, _ = arguments(small())
    expected = rd.varlen.sdpa(*args, scale=2.0, causal=np.True_, engine=ENGINE)
    for scale in (2, np.float32(2), np.int64(2), np.float16(2)):
        got = rd.varlen.sdpa(*args, scale=scale, causal=True, engine=ENGINE)
        assert_same_bits(got, expected, "O")
    doubles = [x.astype(np.float64) for x in args[:3]]
    assert np.isfinite(rd.varlen.sdpa(*doubles, *args[3:], scale=1e39, engine=ENGINE)).all()


def changed(**changes):
    """The arguments of a good call with some replaced, by name."""
    args, _ = arguments(small())
    named = dict(zip(("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k"), args, strict=True))
    return {**named, **changes}


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def ints(*values, dtype=np.int32):
    return np.array(values, dtype)


BAD = [
    ({"q": zeros(17, 64)}, r"q has shape \(17, 64\)"),
    ({"q": zeros(17, 0, 16)}, r"q has shape \(17, 0, 16\)"),
    ({"q": zeros(17, 4, 16, dtype=np.int32)}, "q has data type int32"),
    ({"q": [[[1.0]]]}, "q: expected an array, got list"),
    ({"q": zeros(17, 3, 16)}, "k has 2 heads, expected a divisor of q's 3"),
    ({"v": zeros(22, 3, 16)}, "v has 3 heads, expected a divisor of q's 4"),
    ({"k": zeros(22, 2, 8)}, "k has head_dim 8, q has 16"),
    ({"v": zeros(21, 2, 16)}, "v has 21 rows, k has 22"),
    ({"v": zeros(22, 2, 16, dtype=np.float64)}, "v has data type float64, q has float32"),
    ({"cu_seqlens_q": ints(0, 5, 5, 17, dtype=np.int16)}, "cu_seqlens_q has data type int16"),
    ({"cu_seqlens_k": ints(0, 7, 10, 22).astype(np.float32)}, "cu_seqlens_k has data type float32"),
    ({"cu_seqlens_q": ints(0, 5, 5, 17)[None]}, r"cu_seqlens_q has shape \(1, 4\)"),
    ({"cu_seqlens_q": ints()}, r"cu_seqlens_q has shape \(0,\)"),
    ({"cu_seqlens_k": ints(0, 7, 22)}, r"cu_seqlens_k has shape \(3,\), expected \(4,\)"),
    ({"seqused_q": ints(5, 0)}, r"seqused_q has shape \(2,\), expected \(3,\)"),
    ({"seqused_k": ints(7, 4, 12)}, r"seqused_k\[1\] is 4, expected 0 to 3"),
    ({"max_seqlen_q": -1}, "max_seqlen_q is -1"),
    ({"max_seqlen_k": 11}, "max_seqlen_k is 11, expected at least 12.*index 2 and index 3"),
    ({"scale": float("nan")}, "scale is nan"),
    ({"max_seqlen_q": 11, "seqused_q": ints(5, 0, 12)}, r"seqused_q at index 2\)"),
    ({"max_seqlen_q": 5.5}, "max_seqlen_q is 5.5, expected an integer"),
    ({"max_seqlen_q": 1 << 63}, "max_seqlen_q is 9223372036854775808, expected an integer of 64"),
    ({"scale": float("inf")}, "scale is inf"),
    ({"scale": True}, "scale is True, expected a real number"),
    ({"scale": "0.5"}, "scale is '0.5', expected a real number"),
    ({"scale": np.ones(1)}, "scale is array"),
    ({"scale": 1j}, "scale is 1j"),
    ({"scale": 10**400}, "scale is beyond float64"),
    ({"scale": -1e39}, r"scale is -1e\+39, expected a magnitude of at most 3.4e38"),
    ({"causal": 1}, "causal is 1, expected a bool"),
    ({"causal": "no"}, "causal is 'no', expected a bool"),
    ({"return_lse": None}, "return_lse is None, expected a bool"),
    ({"window_size": (1.7, 0)}, r"window_size\[0\] is 1.7, expected an integer"),
    ({"window_size": (1, "a")}, r"window_size\[1\] is 'a', expected an integer"),
    ({"window_size": (1 << 63, 0)}, r"window_size\[0\] is .*, expected an integer of 64 bits"),
    ({"engine": 3}, "engine is 3, expected a name or None"),
    ({"cu_seqlens_q": None}, r"cu_seqlens_q is None, expected \(batch \+ 1,\)"),
    ({"q": np.ma.masked_array(zeros(17, 4, 16))}, "q is a masked array"),
    ({"cu_seqlens_k": np.ma.masked_array(ints(0, 7, 10, 22))}, "cu_seqlens_k is a masked array"),
    ({"window_size": 3}, "window_size is 3"),
    ({"window_size": (1, 2, 3)}, r"window_size is \(1, 2, 3\)"),
    ({"out": zeros(16, 4, 16)}, r"out has shape \(16, 4, 16\)"),
    ({"out": zeros(17, 4, 16, dtype=np.float64)}, "out has .* data type float64"),
    ({"out": read_only(zeros(17, 4, 16))}, "out is read-only"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=lambda x: x if isinstance(x, str) else "")
def test_wrong_arguments_are_named_before_any_write(changes, message):
    out = np.full((17, 4, 16), np.nan, np.float32)
    with pytest.raises(rd.InvalidValueError, match=r"^\[varlen\.sdpa\] .*" + message):
        rd.varlen.sdpa(**{**changed(out=out), **changes})
    assert np.isnan(out).all()


def test_an_unknown_engine_is_refused():
    args, options = arguments(small())
    with pytest.raises(rd.Error):
        rd.varlen.sdpa(*args, engine="no_such_engine", **options)
