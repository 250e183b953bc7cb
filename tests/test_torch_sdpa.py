"""``raggeddnn.torch.scaled_dot_product_attention`` against PyTorch's: dense tensors with masks,
broadcasting and GQA; padded ones with lengths; nested ones.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import raggeddnn as rd
import raggeddnn.torch as rt
import torch
import torch.nn.functional as F  # noqa: N812
from raggeddnn.testing.tolerance import error_bound, first_violation
from raggeddnn.torch import _kernels


def draw(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed + len(shape) + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def results(attend, leaves, do, dtype, **options):
    """out and the gradients of all leaves, in ``dtype``."""
    copies = [x.detach().to(dtype).requires_grad_() for x in leaves]
    q, k, v, *mask = copies
    out = attend(q, k, v, **({"attn_mask": mask[0]} if mask else {}), **options)
    return [out.detach(), *torch.autograd.grad(out, copies, do.to(dtype))]


def assert_as_torch(leaves, **options):
    """Within the derived tolerance: torch in float64 is the oracle, torch in float32 the plain
    computation.
    """
    exact_out = F.scaled_dot_product_attention(
        *(x.detach() for x in leaves[:3]),
        **({"attn_mask": leaves[3].detach()} if len(leaves) > 3 else {}),
        **options,
    )
    do = draw(*exact_out.shape, seed=9)
    exact = results(F.scaled_dot_product_attention, leaves, do, torch.float64, **options)
    plain = results(F.scaled_dot_product_attention, leaves, do, torch.float32, **options)
    got = results(rt.scaled_dot_product_attention, leaves, do, torch.float32, **options)
    names = ("O", "dQ", "dK", "dV", "dMask")
    for name, x, wide, narrow in zip(names, got, exact, plain, strict=False):
        bound = error_bound(
            wide.numpy(), [narrow.numpy()], np.dtype("float32"), gradient=name != "O"
        )
        axes = tuple(f"axis{n}" for n in range(x.dim()))
        text = first_violation(name, axes, x.numpy(), wide.numpy(), bound)
        assert text is None, text
    return got


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 4, 9, 16), (2, 4, 9, 16), (2, 4, 9, 16)),
        ((2, 4, 9, 16), (2, 4, 13, 16), (2, 4, 13, 8)),
        ((9, 16), (13, 16), (13, 8)),
        ((3, 9, 16), (3, 13, 16), (3, 13, 8)),
        ((2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (2, 3, 4, 7, 8)),
        ((2, 4, 9, 16), (1, 4, 13, 16), (4, 13, 8)),
        ((2, 4, 9, 16), (2, 1, 13, 16), (13, 8)),
        ((2, 4, 1, 16), (2, 4, 13, 16), (2, 4, 13, 16)),
    ],
    ids=lambda shapes: "x".join(map(str, shapes[0])),
)
def test_dense(shapes, is_causal):
    leaves = [draw(*shape, seed=n) for n, shape in enumerate(shapes)]
    assert_as_torch(leaves, is_causal=is_causal)
    assert_as_torch(leaves, scale=-0.3)


@pytest.mark.parametrize("heads", [(4, 2), (4, 1), (6, 3)])
def test_gqa(heads):
    leaves = [
        draw(2, heads[0], 9, 16),
        draw(2, heads[1], 13, 16),
        draw(2, heads[1], 13, 16, seed=1),
    ]
    assert_as_torch(leaves, enable_gqa=True)
    shared = [leaves[0], leaves[1][:1], leaves[2]]
    got = rt.scaled_dot_product_attention(*shared, enable_gqa=True)
    shared[1] = shared[1].expand(2, -1, -1, -1)
    assert torch.equal(got, rt.scaled_dot_product_attention(*shared, enable_gqa=True))
    if heads[1] > 1:
        with pytest.raises(rd.InvalidValueError, match="do not broadcast"):
            rt.scaled_dot_product_attention(*leaves)


MASKS = [(2, 4, 9, 13), (1, 4, 9, 13), (2, 1, 1, 13), (4, 9, 1), (9, 13), (1, 1)]


@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_float_masks_have_gradients(shape):
    leaves = [draw(2, 4, 9, 16), draw(2, 4, 13, 16), draw(2, 4, 13, 16, seed=1), draw(*shape)]
    assert_as_torch(leaves)


def test_masks_of_other_ranks():
    for shape, mask in [
        ((9, 16), (9, 13)),
        ((3, 9, 16), (3, 9, 13)),
        ((3, 9, 16), (3, 1, 13)),
        ((2, 3, 4, 9, 16), (3, 1, 9, 13)),
        ((2, 3, 4, 9, 16), (2, 1, 4, 1, 13)),
    ]:
        key = (*shape[:-2], 13, 16)
        assert_as_torch([draw(*shape), draw(*key), draw(*key, seed=1), draw(*mask)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_boolean_masks(dtype):
    q, k, v = (draw(2, 4, 9, 16, seed=n).to(dtype) for n in range(3))
    mask = draw(2, 1, 9, 9) > 0
    mask[..., 0] = True
    mask[0, 0, 3] = False
    out = rt.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert out.dtype == dtype and not out[0, :, 3].any()
    bias = torch.where(mask, 0.0, -math.inf).to(dtype)
    assert torch.equal(out, rt.scaled_dot_product_attention(q, k, v, attn_mask=bias))
    live = mask.clone()
    live[0, 0, 3] = True
    expected = F.scaled_dot_product_attention(*(x.double() for x in (q, k, v)), attn_mask=live)
    got = rt.scaled_dot_product_attention(*(x.double() for x in (q, k, v)), attn_mask=live)
    assert torch.allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(13,), ()], ids=str)
def test_masks_of_fewer_than_two_axes(shape):
    q, k = draw(2, 4, 9, 16), draw(2, 4, 13, 16)
    mask = draw(*shape)
    out = rt.scaled_dot_product_attention(q, k, k, attn_mask=mask)
    same = rt.scaled_dot_product_attention(q, k, k, attn_mask=mask.expand(9, 13))
    assert torch.equal(out, same)


def test_a_row_that_a_mask_hides_has_no_gradient():
    leaves = [draw(1, 2, 5, 8, seed=n).requires_grad_() for n in range(3)]
    mask = torch.zeros(5, 5).masked_fill(torch.arange(5)[:, None] == 2, -math.inf)
    mask.requires_grad_()
    out = rt.scaled_dot_product_attention(*leaves, attn_mask=mask)
    dq, dk, dv, dmask = torch.autograd.grad(out.sum(), [*leaves, mask])
    assert not out[:, :, 2].any() and not dq[:, :, 2].any() and not dmask[2].any()
    assert all(x.isfinite().all() and x.any() for x in (dq, dv, dmask)) and dk.isfinite().all()


def test_memory_of_any_kind_gives_the_same_bits():
    base = [draw(2, 4, 9, 16, seed=n) for n in range(3)]
    mask, do = draw(2, 4, 9, 9), draw(2, 4, 9, 16, seed=5)

    def run(q, k, v, m, g):
        leaves = [x.detach().requires_grad_() for x in (q, k, v, m)]
        out = rt.scaled_dot_product_attention(*leaves[:3], attn_mask=leaves[3])
        return [out, *torch.autograd.grad(out, leaves, g)]

    expected = run(*base, mask, do)
    for change in (
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        lambda x: x.transpose(0, 2).contiguous().transpose(0, 2),
        lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
        lambda x: x.repeat_interleave(2, 3)[..., ::2],
        lambda x: x.repeat_interleave(2, 1)[:, ::2],
        lambda x: torch.cat([x.new_zeros(3), x.reshape(-1)])[3:].view(x.shape),
        lambda x: torch._neg_view(-x),
    ):
        got = run(*(change(x) for x in base), change(mask), change(do))
        assert all(torch.equal(x, y) for x, y in zip(got, expected, strict=True))
    # The result lies as [B,S,H,D], which is how models go on.
    assert expected[0].transpose(1, 2).is_contiguous()
    ones = torch.ones(()).expand(2, 4, 9, 16)
    same = [run(*base, mask, x) for x in (ones, ones.contiguous())]
    assert all(torch.equal(x, y) for x, y in zip(*same, strict=True))


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("given", ["both", "q", "kv"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_lengths(poison, given, is_causal):
    lens_q = torch.tensor([9, 0, 4] if given != "kv" else [9, 9, 9], dtype=torch.int64)
    lens_kv = torch.tensor([5, 11, 0] if given != "q" else [11, 11, 11], dtype=torch.int32)
    clean = [draw(3, 2, 9, 8), draw(3, 2, 11, 8), draw(3, 2, 11, 8, seed=1)]
    dirty = [x.clone() for x in clean]
    for b in range(3):
        dirty[0][b, :, lens_q[b] :] = poison
        for x in dirty[1:]:
            x[b, :, lens_kv[b] :] = poison
    leaves = [x.requires_grad_() for x in dirty]
    lengths = {"seq_len_q": lens_q, "seq_len_kv": lens_kv}
    if given != "both":
        del lengths[{"q": "seq_len_kv", "kv": "seq_len_q"}[given]]
    out = rt.scaled_dot_product_attention(*leaves, is_causal=is_causal, **lengths)
    gradients = torch.autograd.grad(out.sum(), leaves)
    for b in range(3):
        n, m = int(lens_q[b]), int(lens_kv[b])
        for x, valid in zip([out, *gradients], (n, n, m, m), strict=True):
            assert not x[b, :, valid:].any()
        if n == 0 or m == 0:
            assert not out[b].any()
            continue
        part = [
            x[b : b + 1, :, :rows].detach().double().requires_grad_()
            for x, rows in zip(clean, (n, m, m), strict=True)
        ]
        expected = F.scaled_dot_product_attention(*part, is_causal=is_causal)
        assert torch.allclose(out[b : b + 1, :, :n].double(), expected, rtol=0, atol=1e-6)
        for x, y, rows in zip(
            gradients, torch.autograd.grad(expected.sum(), part), (n, m, m), strict=True
        ):
            assert torch.allclose(x[b : b + 1, :, :rows].double(), y, rtol=0, atol=1e-5)


def test_bad_lengths():
    q = draw(2, 2, 5, 8)
    for lengths, message in [
        (torch.tensor([5, 6]), "seq_len_q.*: index 1 is 6, expected 0 to 5"),
        (torch.tensor([-1, 5]), "seq_len_q.*: index 0 is -1, expected 0 to 5"),
        (torch.tensor([5, 5, 5]), r"seq_len_q has data type int64 and shape \(3,\)"),
        (torch.tensor([5.0, 5.0]), "seq_len_q has data type float32"),
    ]:
        with pytest.raises(rd.InvalidValueError, match=message):
            rt.scaled_dot_product_attention(q, q, q, seq_len_q=lengths)
    with pytest.raises(rd.InvalidValueError, match=r"query has 3 axes, expected \[B,H,S,D\]"):
        rt.scaled_dot_product_attention(q[0], q[0], q[0], seq_len_q=torch.tensor([5, 5]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attn_mask": torch.zeros(5, 5), "is_causal": True}, "attn_mask is given and is_causal"),
        ({"attn_mask": torch.zeros(5, 6)}, r"attn_mask has shape \(1, 1, 5, 6\)"),
        (
            {"attn_mask": torch.zeros(5, 5, dtype=torch.int32)},
            "attn_mask has data type torch.int32",
        ),
        ({"attn_mask": torch.zeros(1, 2, 2, 5, 5)}, "attn_mask has 5 axes, expected at most 4"),
        ({"key": draw(2, 2, 5, 4)}, "key has head_dim 4, query has 8"),
        ({"key": draw(2, 2, 6, 8)}, "value has 5 rows, key has 6"),
        ({"key": draw(3, 2, 5, 8)}, "do not broadcast"),
        ({"value": draw(2, 2, 5, 8).double()}, "value has data type float64, query has float32"),
        ({"query": draw(8)}, "fewer than two axes"),
        ({"dropout_p": -0.1}, "dropout_p is -0.1"),
        ({"dropout_p": None}, "dropout_p is None, expected a number"),
        ({"dropout_p": 1 - 1e-12}, "dropout_p is 0.999999999999, expected at least 0 and less"),
        ({"scale": 1e300}, r"scale is 1e\+300, expected a number that is finite as a float32"),
        ({"scale": torch.tensor(0.5, requires_grad=True)}, "scale is a tensor that requires grad"),
        (
            {"query": draw(2, 2, 5, 0), "key": draw(2, 2, 5, 0)},
            "query has shape .*, expected heads",
        ),
        ({"query": torch.tensor(1.0)}, r"query has shape \(\), expected heads and a head_dim"),
    ],
)
def test_bad_arguments(changes, message):
    arguments = {"query": draw(2, 2, 5, 8), "key": draw(2, 2, 5, 8), "value": draw(2, 2, 5, 8)}
    with pytest.raises(rd.InvalidValueError, match=message):
        rt.scaled_dot_product_attention(**{**arguments, **changes})


def test_empty_tensors():
    for shape, key in [
        ((0, 2, 5, 8), (0, 2, 7, 8)),
        ((2, 2, 0, 8), (2, 2, 7, 8)),
        ((2, 2, 5, 8), (2, 2, 0, 8)),
    ]:
        q, k = draw(*shape).requires_grad_(), draw(*key).requires_grad_()
        out = rt.scaled_dot_product_attention(q, k, k)
        assert out.shape == shape and not out.any()
        assert all(not x.any() for x in torch.autograd.grad(out.sum(), (q, k)))


def test_dropout_is_reproduced_and_averages_out():
    q, k, v = (draw(1, 2, 16, 8, seed=n) for n in range(3))
    torch.manual_seed(5)
    first = rt.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(5)
    assert torch.equal(first, rt.scaled_dot_product_attention(q, k, v, dropout_p=0.5))
    whole = rt.scaled_dot_product_attention(q, k, v)
    assert not torch.equal(first, whole)
    mean = sum(rt.scaled_dot_product_attention(q, k, v, dropout_p=0.5) for _ in range(400)) / 400
    assert (mean - whole).abs().max() < 0.35


def nested(lengths, heads=2, dim=8, seed=0, offsets=None, leaf=None):
    """A jagged [B, H, j, D] and its (total, H, D) leaf."""
    total = sum(lengths)
    leaf = draw(total, heads, dim, seed=seed).requires_grad_() if leaf is None else leaf
    if offsets is None:
        offsets = torch.tensor([0, *np.cumsum(lengths).tolist()])
    return torch.nested.nested_tensor_from_jagged(leaf, offsets).transpose(1, 2), leaf, offsets


@pytest.mark.parametrize("is_causal", [False, True])
def test_nested(is_causal):
    lens_q, lens_k = [5, 1, 7], [4, 6, 7]
    q, leaf_q, offsets = nested(lens_q)
    k, leaf_k, offsets_k = nested(lens_k, seed=1)
    v, leaf_v, _ = nested(lens_k, dim=4, seed=2, offsets=offsets_k)
    out = rt.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    assert out.is_nested and out.layout == torch.jagged and out.shape[0] == 3
    assert out.shape[2] == q.shape[2] and out.shape[3] == 4
    (out * out).values().sum().backward()
    leaves = [x.detach().requires_grad_() for x in (leaf_q, leaf_k, leaf_v)]
    parts = [x.split(n) for x, n in zip(leaves, (lens_q, lens_k, lens_k), strict=True)]
    expected = [
        F.scaled_dot_product_attention(*(x.transpose(0, 1) for x in part), is_causal=is_causal)
        for part in zip(*parts, strict=True)
    ]
    for x, y in zip(out.unbind(), expected, strict=True):
        assert torch.allclose(x, y, rtol=0, atol=1e-6)
    sum((x * x).sum() for x in expected).backward()
    for x, y in zip((leaf_q, leaf_k, leaf_v), leaves, strict=True):
        assert torch.allclose(x.grad, y.grad, rtol=0, atol=1e-5)
    # One set of offsets, as self-attention has: torch's own takes it too.
    same, _, _ = nested(lens_q, seed=3, offsets=offsets)
    both = [attend(q, same, same) for attend in (rt.scaled_dot_product_attention, torch_own)]
    for x, y in zip(*(b.unbind() for b in both), strict=True):
        assert torch.allclose(x, y, rtol=0, atol=1e-6)
    assert both[0].shape == both[1].shape


def torch_own(q, k, v):
    parts = zip(q.unbind(), k.unbind(), v.unbind(), strict=True)
    outs = [F.scaled_dot_product_attention(*part).transpose(0, 1) for part in parts]
    return torch.nested.nested_tensor_from_jagged(torch.cat(outs), q.offsets()).transpose(1, 2)


def test_nested_with_lengths_and_gaps():
    padded = draw(3, 6, 2, 8).requires_grad_()
    starts, lengths = torch.tensor([0, 1, 2]), torch.tensor([2, 5, 3])
    x = torch.nested.narrow(padded, 1, starts, lengths, layout=torch.jagged).transpose(1, 2)
    assert x.lengths() is not None
    out = rt.scaled_dot_product_attention(x, x, x, is_causal=True)
    assert out.is_nested and torch.equal(out.lengths(), x.lengths())
    out.values().sum().backward()
    copy = padded.detach().requires_grad_()
    for b, part in enumerate(out.unbind()):
        rows = copy[b, starts[b] : starts[b] + lengths[b]].transpose(0, 1)
        expected = F.scaled_dot_product_attention(rows, rows, rows, is_causal=True)
        assert torch.allclose(part, expected, rtol=0, atol=1e-6)
        expected.sum().backward()
    assert torch.allclose(padded.grad, copy.grad, rtol=0, atol=1e-5)
    assert not padded.grad[0, 2:].any() and not padded.grad[1, 0].any()


def test_nested_gqa_and_refusals():
    q, _, offsets = nested([5, 3], heads=4)
    k, _, _ = nested([5, 3], heads=2, offsets=offsets)
    out = rt.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    assert out.shape[1] == 4
    other, _, _ = nested([4, 4], heads=4)
    for arguments, options, message in [
        ((q, k, k), {}, "key has 2 heads, query 4"),
        ((q, q, other), {}, "key and value have different offsets"),
        ((q, q, q), {"attn_mask": torch.zeros(5, 5)}, "not supported with nested tensors"),
        ((q, q, draw(2, 4, 5, 8)), {}, "value is no jagged nested tensor"),
        ((q.transpose(1, 2), q, q), {}, r"query is a nested tensor of 4 axes, ragged in axis 1"),
        ((q, nested([5])[0], nested([5])[0]), {}, "key has batch 1, query 2"),
    ]:
        with pytest.raises(rd.InvalidValueError, match=message):
            rt.scaled_dot_product_attention(*arguments, **options)


def test_new_shapes_of_a_bounded_cache(monkeypatch):
    monkeypatch.setattr(_kernels, "_calls", _kernels.PlanCache(2))
    for rows in range(1, 6):
        x = draw(1, 1, rows, 4)
        rt.scaled_dot_product_attention(x, x, x)
        rt.scaled_dot_product_attention(x, x, x)
    assert _kernels._calls.builds == 5 and len(_kernels._calls) == 2
