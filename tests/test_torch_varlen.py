"""``flash_attn_varlen_func`` and ``varlen_attn``: against PyTorch's own attention per sequence,
memory of any kind, plans, dropout, and what they refuse.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import raggeddnn as rd
import raggeddnn.torch as rt
import torch
import torch.nn.functional as F  # noqa: N812
from raggeddnn.testing.philox import dropout_factors
from raggeddnn.testing.tolerance import error_bound, first_violation
from raggeddnn.torch import _kernels
from torch_calls import cumulative

LENGTHS_Q, LENGTHS_K = (6, 0, 11, 3), (6, 4, 11, 9)


def tensors(seed=0, dtype=torch.float32, heads=(4, 2), dims=(16, 16), lens=(LENGTHS_Q, LENGTHS_K)):
    generator = torch.Generator().manual_seed(seed)

    def draw(rows, count, dim):
        x = torch.randn(rows, count, dim, generator=generator, dtype=torch.float64)
        return x.to(dtype).requires_grad_()

    rows_q, rows_k = (sum(n) for n in lens)
    return (
        draw(rows_q, heads[0], dims[0]),
        draw(rows_k, heads[1], dims[0]),
        draw(rows_k, heads[1], dims[1]),
    )


def torch_mask(rows, keys, causal, window):
    """Bottom-right, True where visible."""
    at = torch.arange(rows)[:, None] + keys - rows
    key = torch.arange(keys)[None]
    left, right = window
    right = 0 if causal else right
    mask = torch.ones(rows, keys, dtype=torch.bool)
    if right >= 0:
        mask &= key <= at + right
    if left >= 0:
        mask &= key >= at - left
    return mask


def torch_per_sequence(inputs, offsets, do, dtype, causal=False, window=(-1, -1)):
    """out, dq, dk, dv of F.scaled_dot_product_attention in ``dtype``, sequence by sequence."""
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    cu_q, cu_k = (table.tolist() for table in offsets)
    parts = []
    for b in range(len(cu_q) - 1):
        q, k, v = (
            x[cu[b] : cu[b + 1]].transpose(0, 1)
            for x, cu in zip(leaves, (cu_q, cu_k, cu_k), strict=True)
        )
        mask = torch_mask(q.shape[1], k.shape[1], causal, window)
        if 0 in mask.shape:
            parts.append(v.new_zeros(q.shape[1], q.shape[0], v.shape[2]))
            continue
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        parts.append(o.transpose(0, 1))
    out = torch.cat(parts)
    return [out.detach(), *torch.autograd.grad(out, leaves, do.to(dtype))]


def assert_as_torch(got, inputs, offsets, do, **options):
    """Within the derived tolerance: float64 is the oracle, torch in the same type the plain
    computation.
    """
    exact = torch_per_sequence(inputs, offsets, do, torch.float64, **options)
    plain = torch_per_sequence(inputs, offsets, do, inputs[0].dtype, **options)
    dtype = np.dtype("float32")
    for name, x, wide, narrow in zip(("O", "dQ", "dK", "dV"), got, exact, plain, strict=True):
        bound = error_bound(wide.numpy(), [narrow.float().numpy()], dtype, gradient=name != "O")
        text = first_violation(
            name, ("row", "head", "col"), x.detach().numpy(), wide.numpy(), bound
        )
        assert text is None, text


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [(-1, -1), (3, 0), (4, 2), (0, 0), (-1, 2), (100, 100)])
def test_as_torch_per_sequence(causal, window):
    # Every row sees a key, as torch's own backward needs.
    lens = ((6, 0, 9, 3), (6, 4, 11, 9))
    q, k, v = tensors(lens=lens, dims=(16, 24))
    offsets = [cumulative(n) for n in lens]
    out, lse, none = rt.flash_attn_varlen_func(
        q, k, v, *offsets, 9, 11, causal=causal, window_size=window, return_attn_probs=True
    )
    assert none is None and lse.shape == (4, 18) and lse.dtype == torch.float32
    do = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    got = [out, *torch.autograd.grad(out, (q, k, v), do)]
    assert_as_torch(got, (q, k, v), offsets, do, causal=causal, window=window)
    same = rt.varlen_attn(
        q,
        k,
        v,
        *offsets,
        9,
        11,
        window_size=(window[0], 0 if causal else window[1]),
        enable_gqa=True,
    )
    assert torch.equal(same, out)


def test_varlen_attn_gives_the_log_sum_exp_and_takes_used_keys():
    q, k, v = tensors(heads=(2, 2))
    offsets = (cumulative(LENGTHS_Q), cumulative(LENGTHS_K))
    used = torch.tensor([4, 0, 11, 5], dtype=torch.int32)
    out, lse = rt.varlen_attn(
        q, k, v, *offsets, 11, 11, return_aux=SimpleNamespace(lse=True), seqused_k=used, scale=0.3
    )
    assert torch.equal(out, rt.varlen_attn(q, k, v, *offsets, 11, 11, seqused_k=used, scale=0.3))
    dk, dv = torch.autograd.grad(out.sum() + lse[:, :6].sum(), (k, v))
    for b, (start, n) in enumerate(zip(offsets[1].tolist(), used.tolist(), strict=False)):
        end = start + LENGTHS_K[b]
        assert not dk[start + n : end].any() and not dv[start + n : end].any()
        rows = slice(offsets[0][b], offsets[0][b + 1])
        scores = torch.einsum("qhd,khd->hqk", q[rows], k[start : start + n]) * 0.3
        assert torch.allclose(lse[:, rows], scores.logsumexp(-1), rtol=0, atol=1e-5)
    with pytest.raises(rd.InvalidValueError, match=r"\[varlen_attn\] key has 2 heads, query has 4"):
        rt.varlen_attn(*tensors(), *offsets, 11, 11)


def test_slices_of_packed_qkv_and_other_memory_give_the_same_bits():
    qkv = torch.randn(20, 3, 2, 16, generator=torch.Generator().manual_seed(0))
    cu = cumulative((8, 12))
    copies = [x.contiguous().requires_grad_() for x in qkv.unbind(1)]
    expected = rt.flash_attn_varlen_func(*copies, cu, cu, 12, 12)
    do = torch.randn(20, 2, 16, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad(expected, copies, do)
    leaf = qkv.clone().requires_grad_()
    sliced = rt.flash_attn_varlen_func(*leaf.unbind(1), cu, cu, 12, 12)
    assert torch.equal(sliced, expected)
    (whole,) = torch.autograd.grad(sliced, leaf, do)
    assert all(torch.equal(a, b) for a, b in zip(whole.unbind(1), gradients, strict=True))
    changes = (
        lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
        lambda x: x.repeat_interleave(2, 2)[:, :, ::2],
        lambda x: x.repeat_interleave(2, 1)[:, ::2],
        lambda x: torch.cat([x.new_zeros(1), x.reshape(-1)])[1:].view(x.shape),
        lambda x: torch._neg_view(-x),
    )
    for change in changes:
        changed = [change(x.detach()).requires_grad_() for x in copies]
        got = rt.flash_attn_varlen_func(*changed, cu, cu, 12, 12)
        assert torch.equal(got, expected)
        for x, y in zip(torch.autograd.grad(got, changed, do), gradients, strict=True):
            assert torch.equal(x, y)
        with torch.no_grad():
            assert torch.equal(rt.flash_attn_varlen_func(*changed, cu, cu, 12, 12), expected)


def test_t19_gradients_of_any_strides_and_broadcast_inputs():
    q, k, v = tensors()
    offsets = (cumulative(LENGTHS_Q), cumulative(LENGTHS_K))
    out, lse, _ = rt.flash_attn_varlen_func(q, k, v, *offsets, 11, 11, return_attn_probs=True)
    wide = torch.randn(20, 4, 40, generator=torch.Generator().manual_seed(2))
    dead = torch.isneginf(lse)
    assert not dead.any()
    do_dlse = [
        (wide[:, :, 5:21], torch.ones(4, 20)),
        (torch.ones(()).expand(20, 4, 16), torch.ones(()).expand(4, 20)),
        (wide[:, :, :16].transpose(0, 1).contiguous().transpose(0, 1), wide[:, :, 0].t()),
        (wide[:, :, ::2][:, :, :16], wide[:, :, 7].t()),
        (wide[:, :, :16].flip(0), wide[:, :, 9].t().flip(1)),
    ]
    for do, dlse in do_dlse:
        got = torch.autograd.grad([out, lse], (q, k, v), [do, dlse], retain_graph=True)
        expected = torch.autograd.grad(
            [out, lse], (q, k, v), [do.contiguous(), dlse.contiguous()], retain_graph=True
        )
        assert all(torch.equal(x, y) for x, y in zip(got, expected, strict=True))
    # Sums reach the op as expanded ones, or as none at all.
    summed = torch.autograd.grad(out.sum() + lse.sum(), (q, k, v), retain_graph=True)
    ones = torch.autograd.grad(
        [out, lse], (q, k, v), [torch.ones(20, 4, 16), torch.ones(4, 20)], retain_graph=True
    )
    assert all(torch.equal(x, y) for x, y in zip(summed, ones, strict=True))
    (of_lse,) = torch.autograd.grad(lse.sum(), v, retain_graph=True)
    assert not of_lse.any()
    broadcast = [x[:, :1].detach() for x in (q, k, v)]
    expanded = [x.expand(-1, 4, -1) for x in broadcast]
    got = rt.flash_attn_varlen_func(*expanded, *offsets, 11, 11)
    expected = rt.flash_attn_varlen_func(*(x.contiguous() for x in expanded), *offsets, 11, 11)
    assert torch.equal(got, expected)


def test_t20_another_memory_scale_type_or_window_of_the_same_shapes():
    offsets = (cumulative(LENGTHS_Q), cumulative(LENGTHS_K))
    q, k, v = (x.detach() for x in tensors())
    wide = torch.randn(30, 4, 16, generator=torch.Generator().manual_seed(5))
    calls = [
        ((q, k, v), {}),
        ((q, wide[:, ::2], v), {}),
        ((q, k, v), {"softmax_scale": 0.7}),
        ((q, k, v), {"window_size": (2, 1)}),
        ((q, k, v), {"causal": True}),
        ((q.double(), k.double(), v.double()), {}),
        ((q, wide[:, ::2], v), {"causal": True}),
    ]
    for _ in range(2):
        for inputs, options in calls:
            got = rt.flash_attn_varlen_func(*inputs, *offsets, 11, 11, **options)
            rt.clear_plan_cache()
            fresh = rt.flash_attn_varlen_func(
                *(x.contiguous() for x in inputs), *offsets, 11, 11, **options
            )
            assert torch.equal(got, fresh)


def test_t21_one_plan_for_all_lengths_within_a_capacity():
    rt.clear_plan_cache()
    builds = _kernels._calls.builds
    for turn, lens in enumerate([(10, 22, 0, 0), (1, 1, 1, 29), (32, 0, 0, 0), (0, 0, 31, 1)]):
        inputs = tensors(turn, lens=(lens, lens))
        cu = cumulative(lens)
        out = rt.flash_attn_varlen_func(*inputs, cu, cu, 32, 32)
        do = torch.randn(out.shape, generator=torch.Generator().manual_seed(turn))
        got = [out, *torch.autograd.grad(out, inputs, do)]
        assert_as_torch(got, inputs, (cu, cu), do)
    assert _kernels._calls.builds == builds + 2


GOOD = {
    "cu_seqlens_q": cumulative((7, 13)),
    "cu_seqlens_k": cumulative((7, 13)),
    "max_seqlen_q": 13,
    "max_seqlen_k": 13,
}


def test_t25_good_offsets():
    q, k, v = tensors(lens=((20,), (20,)), dims=(72, 72))
    cu = torch.tensor([0, 7, 20, 20, 20, 20], dtype=torch.int32)
    out = rt.flash_attn_varlen_func(q, k, v, cu, cu, 13, 13)
    do = torch.ones_like(out)
    got = [out, *torch.autograd.grad(out, (q, k, v), do)]
    assert_as_torch(got, (q, k, v), (cu, cu), do)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("side", ["q", "k"])
@pytest.mark.parametrize(
    ("values", "limit", "message"),
    [
        ((1, 7, 20), 13, r"cu_seqlens_{0}\[0\] is 1, expected 0"),
        ((0, 12, 8, 16), 13, r"cu_seqlens_{0}\[2\] is 8, expected at least 12"),
        ((0, 7, 21), 14, r"cu_seqlens_{0}\[2\] is 21, expected at most 20, the rows of {0}"),
        ((0, 7, 20), 12, r"max_seqlen_{0} is 12, expected at least 13, the length of sequence 1"),
        ((0, 20, 40, 60), 20, r"cu_seqlens_{0}\[2\] is 40, expected at most 20"),
        ((0, -3, 20), 20, r"cu_seqlens_{0}\[1\] is -3, expected at least 0"),
        ((0, 7, 20), -1, r"max_seqlen_{0} is -1, expected 0 or more"),
    ],
)
def test_t25_bad_offsets(side, values, limit, message, dtype):
    q, k, v = tensors(lens=((20,), (20,)))
    cu = torch.tensor(values, dtype=dtype)
    good = torch.tensor([0, *(min(max(x, 0), 20) for x in sorted(values)[1:])], dtype=dtype)
    other = {"q": "k", "k": "q"}[side]
    arguments = {
        f"cu_seqlens_{side}": cu,
        f"cu_seqlens_{other}": good,
        f"max_seqlen_{side}": limit,
        f"max_seqlen_{other}": 20,
    }
    text = r"\[flash_attn_varlen_func\] " + message.format(side)
    for inputs in ((q, k, v), (q.detach(), k.detach(), v.detach())):
        with pytest.raises(rd.InvalidValueError, match=text) as caught:
            rt.flash_attn_varlen_func(*inputs, **arguments)
        assert isinstance(caught.value, ValueError)


def bad(**changes):
    q, k, v = (x.detach() for x in tensors(lens=((20,), (20,))))
    return {"q": q, "k": k, "v": v, **GOOD, **changes}


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": zeros(20, 3, 16)}, "k has 2 heads, expected a divisor of q's 3"),
        ({"k": zeros(20, 2, 8)}, "k has head_dim 8, q has 16"),
        ({"v": zeros(19, 2, 16)}, "v has 19 rows, k has 20"),
        ({"v": zeros(20, 2, 16, dtype=torch.float64)}, "v has data type float64, q has float32"),
        ({"q": zeros(20, 4, 16, dtype=torch.int32)}, "q has data type int32"),
        ({"q": zeros(20, 64)}, "q has 2 axes"),
        ({"cu_seqlens_q": cumulative((7, 13)).short()}, "cu_seqlens_q has data type torch.int16"),
        ({"cu_seqlens_k": cumulative((7, 13))[None]}, r"cu_seqlens_k has shape \(1, 3\)"),
        ({"cu_seqlens_k": cumulative((20,)), "max_seqlen_k": 20}, r"cu_seqlens_k has shape \(2,\)"),
        ({"window_size": 3}, "window_size is 3, expected two integers"),
        ({"window_size": (1.5, 0)}, r"window_size is \(1.5, 0\), expected two integers"),
        ({"cu_seqlens_q": [0, 7, 20]}, "cu_seqlens_q is of type list, expected a tensor"),
        ({"cu_seqlens_q": cumulative((7, 13)).to("meta")}, "cu_seqlens_q is on meta, q is on cpu"),
        ({"k": zeros(20, 2, 16).to("meta")}, "k is on meta, q is on cpu"),
        ({"softmax_scale": float("inf")}, "scale is inf, expected a finite number"),
        ({"dropout_p": 1.0}, "dropout_p is 1.0, expected at least 0 and less than 1"),
    ],
)
def test_bad_arguments(changes, message):
    with pytest.raises(rd.InvalidValueError, match=message):
        rt.flash_attn_varlen_func(**bad(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"softcap": 30.0}, "softcap is 30.0"),
        ({"alibi_slopes": zeros(4)}, "alibi_slopes is given"),
        ({"block_table": zeros(2, 1, dtype=torch.int32)}, "block_table is given"),
    ],
)
def test_what_is_not_supported_is_named(changes, message):
    with pytest.raises(rd.NotSupportedError, match=r"\[flash_attn_varlen_func\] " + message):
        rt.flash_attn_varlen_func(**bad(**changes))
    if "block_table" in changes:
        arguments = bad()
        order = ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k")
        with pytest.raises(rd.NotSupportedError, match=r"\[varlen_attn\] block_table is given"):
            rt.varlen_attn(*(arguments[name] for name in order), enable_gqa=True, **changes)


def test_offsets_of_either_width_and_strides_are_used_in_place():
    q, k, v = tensors()
    cu_q, cu_k = cumulative(LENGTHS_Q), cumulative(LENGTHS_K)
    expected = rt.flash_attn_varlen_func(q, k, v, cu_q, cu_k, 11, 11)
    strided = torch.stack([cu_q, cu_q], 1)[:, 0]
    assert not strided.is_contiguous()
    for offsets in ((cu_q.long(), cu_k.long()), (cu_q.long(), cu_k), (strided, cu_k)):
        assert torch.equal(rt.flash_attn_varlen_func(q, k, v, *offsets, 11, 11), expected)


@pytest.mark.parametrize(
    ("lens_q", "lens_k", "extra"),
    [((), (), 0), ((), (), 3), ((0, 0), (0, 0), 0), ((0, 0), (3, 2), 2), ((3, 2), (0, 0), 2)],
)
def test_nothing_to_attend(lens_q, lens_k, extra):
    q = torch.ones(sum(lens_q) + extra, 2, 8, requires_grad=True)
    k = torch.ones(sum(lens_k), 2, 8, requires_grad=True)
    out, lse, _ = rt.flash_attn_varlen_func(
        q, k, k, cumulative(lens_q), cumulative(lens_k), 3, 3, return_attn_probs=True
    )
    assert not out.any() and torch.isneginf(lse).all()
    dq, dk = torch.autograd.grad(out.sum(), (q, k))
    assert dq.shape == q.shape and not dq.any() and dk.shape == k.shape and not dk.any()


def dropped(seed, p=0.3, grad=True):
    torch.manual_seed(seed)
    q, k, v = tensors(dtype=torch.float64)
    if not grad:
        q, k, v = q.detach(), k.detach(), v.detach()
    offsets = (cumulative(LENGTHS_Q), cumulative(LENGTHS_K))
    return (q, k, v), rt.flash_attn_varlen_func(q, k, v, *offsets, 11, 11, dropout_p=p)


def test_dropout_is_reproduced_by_the_seed_and_is_the_same_in_the_backward_pass():
    (q, k, v), out = dropped(3)
    assert torch.equal(out, dropped(3)[1]) and not torch.equal(out, dropped(4)[1])
    assert torch.equal(out, dropped(3, grad=False)[1])
    state = torch.get_rng_state()
    first, second = (
        dropped(3)[1],
        rt.flash_attn_varlen_func(
            q, k, v, cumulative(LENGTHS_Q), cumulative(LENGTHS_K), 11, 11, dropout_p=0.3
        ),
    )
    assert not torch.equal(first, second), "each call draws its own"
    assert not torch.equal(state, torch.get_rng_state())
    torch.manual_seed(3)
    seed, offset = torch.randint(0, 2**62, (2,)).tolist()
    do = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(1))
    got = torch.autograd.grad(out, (q, k, v), do)
    expected, leaves = [], [x.detach().requires_grad_() for x in (q, k, v)]
    at_q, at_k = 0, 0
    for b, (n, m) in enumerate(zip(LENGTHS_Q, LENGTHS_K, strict=True)):
        sq = leaves[0][at_q : at_q + n].transpose(0, 1)
        sk, sv = (x[at_k : at_k + m].transpose(0, 1).repeat_interleave(2, 0) for x in leaves[1:])
        weights = torch.softmax(sq @ sk.transpose(1, 2) / 4, -1)
        kept = torch.from_numpy(dropout_factors(0.3, seed, offset, b, (4, n, m)))
        expected.append(((weights * kept) @ sv).transpose(0, 1))
        at_q, at_k = at_q + n, at_k + m
    whole = torch.cat(expected)
    assert torch.allclose(out, whole, rtol=1e-12, atol=1e-12)
    for x, y in zip(got, torch.autograd.grad(whole, leaves, do), strict=True):
        assert torch.allclose(x, y, rtol=1e-11, atol=1e-11)


def test_the_plan_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(_kernels, "_calls", _kernels.PlanCache(3))
    for dim in (4, 8, 12, 16, 20):
        q, k, v = (x.detach() for x in tensors(dims=(dim, dim)))
        rt.flash_attn_varlen_func(q, k, v, cumulative(LENGTHS_Q), cumulative(LENGTHS_K), 11, 11)
        assert len(_kernels._calls) <= 3
    assert _kernels._calls.builds == 5 and len(_kernels._calls) == 3
    rt.clear_plan_cache()
    assert len(_kernels._calls) == 0


def one_call(seed):
    q, k, v = tensors(seed)
    out = rt.flash_attn_varlen_func(
        q, k, v, cumulative(LENGTHS_Q), cumulative(LENGTHS_K), 11, 11, causal=True
    )
    return [out.detach(), *torch.autograd.grad(out.sum(), (q, k, v))]


def test_calls_from_several_threads_agree():
    expected = [one_call(seed) for seed in range(6)]
    rt.clear_plan_cache()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(one_call, list(range(6)) * 4))
    for index, result in enumerate(results):
        assert all(torch.equal(x, y) for x, y in zip(result, expected[index % 6], strict=True))


def test_the_engine_may_be_chosen():
    rt.set_engine("reference")
    try:
        one_call(0)
        rt.set_engine("no such engine")
        with pytest.raises(rd.Error, match="no such engine"):
            one_call(0)
    finally:
        rt.set_engine(None)
    with pytest.raises(rd.InvalidValueError, match="name is 3, expected a name or None"):
        rt.set_engine(3)


def test_the_deterministic_flag_reaches_the_engine():
    q, k, v = tensors()
    offsets = (cumulative(LENGTHS_Q), cumulative(LENGTHS_K))
    outs = [rt.flash_attn_varlen_func(q, k, v, *offsets, 11, 11, deterministic=d) for d in (0, 1)]
    builds = _kernels._calls.builds
    first, second = (torch.autograd.grad(out.sum(), (q, k, v)) for out in outs)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))
    assert _kernels._calls.builds > builds, "a plan of its own"


def test_tensors_are_read_alike_with_and_without_dlpack_functions():
    x = torch.randn(5, 3, 8)[1:, ::2]

    class Duck:
        shape, dtype, is_cpu = x.shape, x.dtype, True

        def data_ptr(self):
            return x.data_ptr()

        def stride(self):
            return x.stride()

    for free in (0, 1):
        assert _kernels.TensorFacts((x,), free).key == _kernels.TensorFacts((Duck(),), free).key
    assert _kernels.TensorFacts((x,), 0).key != _kernels.TensorFacts((x.contiguous(),), 0).key
    assert _kernels.TensorFacts((x,), 1).key == _kernels.TensorFacts((x[:3],), 1).key
