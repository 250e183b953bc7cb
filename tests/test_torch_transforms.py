"""What PyTorch does with ops: gradcheck, opcheck, checkpoint, saved-tensor hooks, autocast, vmap,
double backward, FLOP counts, meta tensors.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import raggeddnn.torch as rt
import torch
from raggeddnn.torch import _flops, _ops, _plain
from torch.autograd import forward_ad
from torch.library import opcheck
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode
from torch_calls import CU_K, CU_Q, draw, packed

SEEDS = torch.tensor([7, 11])

# (seqused_q, seqused_k, philox, scale, left, right, is_top_left, dropout)
VARLEN = {
    "plain": (None, None, None, 0.5, -1, -1, False, 0.0),
    "causal": (None, None, None, 0.5, -1, 0, False, 0.0),
    "top-left": (None, None, None, 0.5, -1, 0, True, 0.0),
    "window": (None, None, None, -0.7, 1, 1, False, 0.0),
    "lengths": (torch.tensor([2, 0, 1]), torch.tensor([1, 1, 3]), None, 0.5, -1, 0, False, 0.0),
    "keys-used": (None, torch.tensor([1, 0, 3]), None, 0.5, -1, -1, False, 0.0),
    "dropout": (None, None, SEEDS, 0.5, -1, -1, False, 0.4),
}


def varlen_arguments(name: str) -> tuple[Any, ...]:
    """All after q, k and v."""
    used_q, used_k, philox, *options = VARLEN[name]
    tables = (CU_Q, CU_K, used_q, used_k, philox, 4, 4)
    return (*tables, *options, False, "flash_attn_varlen_func")


def finite(out, lse):
    """The log-sum-exp of dead rows is -inf, of which there are no differences."""
    return out, torch.where(torch.isneginf(lse), 0.0, lse)


@pytest.mark.parametrize("name", VARLEN)
def test_gradcheck_of_packed_attention(name):
    arguments = varlen_arguments(name)
    assert torch.autograd.gradcheck(
        lambda q, k, v: finite(*_ops.varlen_fwd(q, k, v, *arguments)), packed()
    )


# (seq_len_q, seq_len_kv, philox, scale, left, right, is_top_left, dropout)
DENSE = {
    "plain": (None, None, None, 0.5, -1, -1, True, 0.0),
    "causal": (None, None, None, 0.5, -1, 0, True, 0.0),
    "window": (None, None, None, -0.7, 1, 1, False, 0.0),
    "lengths": (torch.tensor([2, 0]), torch.tensor([4, 3]), None, 0.5, -1, 0, False, 0.0),
    "dropout": (None, None, SEEDS, 0.5, -1, -1, True, 0.4),
}
BIASES = [None, (2, 2, 3, 4), (1, 2, 1, 4), (2, 1, 3, 1)]


def dense_arguments(name: str) -> tuple[Any, ...]:
    return (*DENSE[name], False, "scaled_dot_product_attention")


def dense(dtype=torch.float64):
    return (
        draw(2, 2, 3, 4, dtype=dtype),
        draw(2, 1, 4, 4, dtype=dtype),
        draw(2, 1, 4, 3, dtype=dtype),
    )


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("bias", BIASES, ids=str)
def test_gradcheck_of_dense_attention(name, bias):
    leaves = dense() if bias is None else (*dense(), draw(*bias))

    def attend(q, k, v, bias=None):
        return finite(*_ops.dense_fwd(q, k, v, bias, *dense_arguments(name)))

    assert torch.autograd.gradcheck(attend, leaves)


def test_gradcheck_of_the_public_functions():
    q, k, v = packed()

    def flash(q, k, v):
        return rt.flash_attn_varlen_func(q, k, v, CU_Q, CU_K, 4, 4, causal=True)

    def torchs(q, k, v):
        return rt.varlen_attn(q, k, v, CU_Q, CU_K, 4, 4, window_size=(2, 0), enable_gqa=True)

    def of_nested(q, k):
        offsets = torch.tensor([0, 3, 5]), torch.tensor([0, 4, 7])
        nested = [
            torch.nested.nested_tensor_from_jagged(x, o).transpose(1, 2)
            for x, o in zip((q, k), offsets, strict=True)
        ]
        out = rt.scaled_dot_product_attention(nested[0], nested[1], nested[1], enable_gqa=True)
        return out.transpose(1, 2).values()

    def padded(q, k, v, mask):
        lengths = torch.tensor([2, 3]), torch.tensor([4, 1])
        return rt.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, enable_gqa=True, seq_len_q=lengths[0], seq_len_kv=lengths[1]
        )

    for function, leaves in (
        (flash, (q, k, v)),
        (torchs, (q, k, v)),
        (of_nested, (draw(5, 2, 4), draw(7, 1, 4))),
        (padded, (*dense(), draw(3, 4))),
    ):
        assert torch.autograd.gradcheck(function, leaves)


# PyTorch hides this warning about its own tensors, unless warnings are errors.
of_opcheck = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


@of_opcheck
@pytest.mark.parametrize("name", VARLEN)
def test_opcheck_of_packed_ops(name):
    leaves, arguments = packed(torch.float32), varlen_arguments(name)
    opcheck(_ops.varlen_fwd, (*leaves, *arguments))
    plain = [x.detach() for x in leaves]
    out, lse = _ops.varlen_fwd(*plain, *arguments)
    for gradients in ((torch.ones_like(out), None), (None, torch.ones(2, 6))):
        opcheck(_ops.varlen_bwd, (*gradients, *plain, out, lse, *arguments))


@of_opcheck
@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("bias", [None, (1, 2, 1, 4)], ids=str)
def test_opcheck_of_dense_ops(name, bias):
    leaves, arguments = dense(torch.float32), dense_arguments(name)
    mask = None if bias is None else draw(*bias, dtype=torch.float32)
    opcheck(_ops.dense_fwd, (*leaves, mask, *arguments))
    plain = [x.detach() for x in leaves]
    mask = None if mask is None else mask.detach()
    out, lse = _ops.dense_fwd(*plain, mask, *arguments)
    tables, options = arguments[:3], arguments[3:]
    for with_dbias in (False, True)[: 1 + (bias is not None)]:
        inputs = (*plain, mask, out, lse, *tables, with_dbias, *options)
        opcheck(_ops.dense_bwd, (torch.ones_like(out), torch.ones_like(lse), *inputs))


# Memory


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_checkpoint(use_reentrant, dropout):
    def attend(q, k, v):
        return rt.flash_attn_varlen_func(q, k, v, CU_Q, CU_K, 4, 4, dropout_p=dropout)

    leaves = packed()
    torch.manual_seed(0)
    expected = attend(*leaves)
    torch.manual_seed(0)
    got = checkpoint(attend, *leaves, use_reentrant=use_reentrant)
    assert torch.equal(got, expected)
    got.sum().backward()
    for x, y in zip(leaves, torch.autograd.grad(expected.sum(), leaves), strict=True):
        assert torch.equal(x.grad, y)


def test_saved_tensor_hooks():
    leaves, shapes = packed(torch.float32), []

    def pack(x):
        shapes.append(tuple(x.shape))
        return x.numpy(force=True).copy()

    expected = rt.flash_attn_varlen_func(*leaves, CU_Q, CU_K, 4, 4)
    gradients = torch.autograd.grad(expected.sum(), leaves)
    for hooks in (
        torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy),
        torch.autograd.graph.save_on_cpu(),
    ):
        with hooks:
            out = rt.flash_attn_varlen_func(*leaves, CU_Q, CU_K, 4, 4)
        for x, y in zip(torch.autograd.grad(out.sum(), leaves), gradients, strict=True):
            assert torch.equal(x, y)
    # q, k, v, out, the log-sum-exp and both offsets.
    assert sorted(shapes) == [(2, 6), (4,), (4,), (6, 2, 3), (6, 2, 4), (8, 1, 3), (8, 1, 4)]


def test_an_input_changed_since_is_noticed():
    q, k, v = packed(torch.float32)
    changed = k.detach().clone().requires_grad_()
    out = rt.flash_attn_varlen_func(q, changed * 1, v, CU_Q, CU_K, 4, 4)
    out.sum().backward()
    cu = CU_K.clone()
    out = rt.flash_attn_varlen_func(q, k, v, CU_Q, cu, 4, 4)
    cu += 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


# Modes and transforms


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    q, k, v = packed(torch.float32)
    mask = draw(3, 4, dtype=torch.float32)
    with torch.autocast("cpu", dtype=dtype):
        out = rt.flash_attn_varlen_func(q, k, v, CU_Q, CU_K, 4, 4)
        plain = rt.flash_attn_varlen_func(q.detach(), k.detach(), v.detach(), CU_Q, CU_K, 4, 4)
        masked = rt.scaled_dot_product_attention(*dense(torch.float32), mask, enable_gqa=True)
        doubles = rt.flash_attn_varlen_func(*packed(), CU_Q, CU_K, 4, 4)
    assert out.dtype == plain.dtype == masked.dtype == dtype and doubles.dtype == torch.float64
    assert torch.equal(out, plain)
    halves = [x.to(dtype) for x in (q, k, v)]
    assert torch.equal(out, rt.flash_attn_varlen_func(*halves, CU_Q, CU_K, 4, 4))
    gradients = torch.autograd.grad(out.float().sum() + masked.float().sum(), (q, k, v, mask))
    assert all(x.dtype == torch.float32 and x.isfinite().all() for x in gradients)


def test_vmap_is_refused():
    q, k, v = (x.detach() for x in packed(torch.float32))
    many = torch.stack([q, q])
    with pytest.raises(RuntimeError, match="vmap is not supported"):
        torch.vmap(lambda x: rt.flash_attn_varlen_func(x, k, v, CU_Q, CU_K, 4, 4))(many)
    q, k, v = (x.detach() for x in dense(torch.float32))
    with pytest.raises(RuntimeError, match="vmap is not supported"):
        torch.vmap(lambda x: rt.scaled_dot_product_attention(x, k, v, enable_gqa=True))(
            torch.stack([q, q])
        )


# PyTorch's own modules warn as they are imported.
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
# Loading forward mode, PyTorch 2.14 calls what it has deprecated.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_function_transforms_and_forward_mode_are_refused():
    """Which PyTorch would pass by without a word, or refuse without a reason."""
    q, k, v = (x.detach() for x in packed(torch.float32))
    x = draw(1, 2, 5, 8, dtype=torch.float32).detach()

    def flash(q):
        return rt.flash_attn_varlen_func(q, k, v, CU_Q, CU_K, 4, 4).sum()

    def masked(mask):
        return rt.scaled_dot_product_attention(x, x, x, attn_mask=mask).sum()

    for function, leaf in ((flash, q), (masked, torch.zeros(5, 5))):
        for transform in (
            lambda f, leaf=leaf: torch.func.grad(f)(leaf),
            lambda f, leaf=leaf: torch.func.vjp(f, leaf),
            lambda f, leaf=leaf: torch.func.jvp(f, (leaf,), (leaf,)),
            lambda f, leaf=leaf: torch.func.jacrev(f)(leaf),
        ):
            with pytest.raises(RuntimeError, match=r"torch\.func\.grad.* are not supported"):
                transform(function)
        with forward_ad.dual_level():
            function(leaf)  # no tangent, no refusal
            with pytest.raises(RuntimeError, match="forward-mode gradients are not supported"):
                function(forward_ad.make_dual(leaf, leaf))


def test_double_backward_is_refused():
    leaves = packed()
    out = rt.flash_attn_varlen_func(*leaves, CU_Q, CU_K, 4, 4)
    (dq,) = torch.autograd.grad((out * out).sum(), leaves[0], create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        dq.sum().backward()
    q, k, v = dense()
    out = rt.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    (dq,) = torch.autograd.grad((out * out).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        dq.sum().backward()


def test_no_mode_is_passed_by():
    """A kernel is called directly, but not behind the back of a mode, in neither direction."""
    leaves = packed(torch.float32)
    q, k, v = (x.detach() for x in leaves)

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        seen: list[str] = []  # noqa: RUF012

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.seen.append(str(function))
            return function(*args, **(kwargs or {}))

    assert _plain.is_plain(q, k, v)
    with Watch() as watch:
        rt.flash_attn_varlen_func(q, k, v, CU_Q, CU_K, 4, 4)
        rt.scaled_dot_product_attention(q[None], q[None], q[None])
    names = [name for name in watch.seen if name.startswith("raggeddnn")]
    assert names == ["raggeddnn.varlen_fwd.default", "raggeddnn.dense_fwd.default"]
    watch.seen.clear()
    assert _plain.is_unwatched(*leaves) and not _plain.is_plain(*leaves)
    out = rt.flash_attn_varlen_func(*leaves, CU_Q, CU_K, 4, 4)
    dense = rt.scaled_dot_product_attention(*(leaves[0][None],) * 3)
    with Watch() as watch:
        (out.sum() + dense.sum()).backward()
    names = [name for name in watch.seen if name.startswith("raggeddnn")]
    assert sorted(names) == ["raggeddnn.dense_bwd.default", "raggeddnn.varlen_bwd.default"]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        rt.flash_attn_varlen_func(q, k, v, CU_Q, CU_K, 4, 4)
    assert "raggeddnn::varlen_fwd" in {event.name for event in profile.events()}


def test_flops_are_those_of_visible_pairs():
    q, k, v = packed(torch.float32)
    with FlopCounterMode(display=False) as counter:
        rt.flash_attn_varlen_func(q, k, v, CU_Q, CU_K, 4, 4, causal=True).sum().backward()
    # Sequences of 3 x 2, 0 x 1 and 2 x 4 tokens, bottom-right: 0 + 1 + 2, 0, and 3 + 4 pairs.
    pairs, heads = 3 + 7, 2
    counts = counter.get_flop_counts()["Global"]
    ops = torch.ops.raggeddnn
    assert counts[ops.varlen_fwd] == 2 * heads * pairs * (4 + 3)
    assert counts[ops.varlen_bwd] == 2 * heads * pairs * (3 * 4 + 2 * 3)
    x = draw(2, 3, 5, 4, dtype=torch.float32)
    with FlopCounterMode(display=False) as counter:
        rt.scaled_dot_product_attention(x.detach(), x.detach(), x.detach())
    assert counter.get_total_flops() == 2 * 2 * 2 * 3 * 5 * 5 * 4
    with FlopCounterMode(display=False) as counter:
        out = rt.scaled_dot_product_attention(
            x, x, x, is_causal=True, seq_len_q=torch.tensor([5, 2]), seq_len_kv=torch.tensor([3, 2])
        )
        out.sum().backward()
    pairs = (1 + 2 + 3 + 3 + 3) + (1 + 2)
    assert counter.get_total_flops() == 2 * 3 * pairs * (2 * 4 + 5 * 4)


def test_visible_pairs_by_counting():
    for rows, keys in ((3, 5), (5, 3), (4, 4), (0, 3), (3, 0)):
        for left in (-1, 0, 2, 9):
            for right in (-1, 0, 2, 9):
                for is_top_left in (False, True):
                    shift = 0 if is_top_left else keys - rows
                    count = sum(
                        (right < 0 or key <= row + shift + right)
                        and (left < 0 or key >= row + shift - left)
                        for row in range(rows)
                        for key in range(keys)
                    )
                    assert _flops.visible_pairs(rows, keys, (left, right), is_top_left) == count


def test_flops_of_unknown_lengths_are_an_upper_bound():
    q = torch.empty(6, 2, 4, device="meta")
    cu = CU_Q.to("meta")
    with FlopCounterMode(display=False) as counter:
        out = rt.flash_attn_varlen_func(q, q, q, cu, cu, 4, 4, causal=True)
    assert out.device.type == "meta" and out.shape == (6, 2, 4)
    assert counter.get_total_flops() == 2 * 2 * (6 * 4) * 8


def test_fake_and_subclass_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Named(torch.Tensor):
        pass

    q, k, v = (x.detach() for x in packed(torch.float32))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(x) for x in (q, k, v, CU_Q, CU_K)]
        out, lse, _ = rt.flash_attn_varlen_func(*fakes, 4, 4, return_attn_probs=True)
        assert out.shape == (6, 2, 3) and lse.shape == (2, 6)
    expected = rt.flash_attn_varlen_func(q, k, v, CU_Q, CU_K, 4, 4)
    named = q.as_subclass(Named)
    assert torch.equal(rt.flash_attn_varlen_func(named, k, v, CU_Q, CU_K, 4, 4), expected)
    parameter = torch.nn.Parameter(q)
    assert torch.equal(rt.flash_attn_varlen_func(parameter, k, v, CU_Q, CU_K, 4, 4), expected)
    with torch.inference_mode():
        assert torch.equal(rt.flash_attn_varlen_func(q, k, v, CU_Q, CU_K, 4, 4), expected)


# Import


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )


def test_the_package_never_imports_torch():
    result = run_python(
        "import sys, raggeddnn, raggeddnn.varlen, raggeddnn.cli, raggeddnn.testing\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    assert result.returncode == 0, result.stderr


def test_without_torch_the_import_says_what_to_install():
    result = run_python("import sys\nsys.modules['torch'] = None\nimport raggeddnn.torch")
    assert result.returncode != 0
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError") and "pip install raggeddnn[torch]" in last


def test_importing_torch_does_not_import_transformers():
    result = run_python("import sys, raggeddnn.torch\nassert 'transformers' not in sys.modules")
    assert result.returncode == 0, result.stderr
