"""torch.compile and torch.export: one graph, compiled once, for any lengths."""

from __future__ import annotations

import pytest
import raggeddnn.torch as rt
import torch
import torch._dynamo
from torch_calls import CU_K, CU_Q, cumulative, draw, packed

# Compilation. aot_eager traces as any backend does, and needs no compiler.


def length_sets():
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        yield torch.randint(2, 12, (4,), generator=generator).tolist()


def block(q, k, v, cu, longest):
    """As a model has it: the lengths are tensors and numbers, what surrounds it is compiled too."""
    out = rt.flash_attn_varlen_func(q.sin(), k, v, cu, cu, longest, longest, causal=True)
    return (out * 2).cos()


@pytest.mark.parametrize("limit", ["exact", "capacity", "in the graph"])
def test_compile_serves_ten_length_sets(limit):
    torch._dynamo.reset()

    def step(q, k, v, cu, longest):
        if limit == "in the graph":
            longest = (cu[1:] - cu[:-1]).max().item()
        return block(q, k, v, cu, longest)

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
    config = torch._dynamo.config
    with config.patch(error_on_recompile=True, capture_scalar_outputs=limit == "in the graph"):
        for lens in length_sets():
            cu, total = cumulative(lens), sum(lens)
            longest = 16 if limit == "capacity" else max(lens)
            leaves = [draw(total, h, 8, dtype=torch.float32) for h in (4, 2, 2)]
            got = compiled(*leaves, cu, longest)
            expected = block(*leaves, cu, longest)
            assert torch.equal(got, expected)
            pairs = [torch.autograd.grad(x.sum(), leaves) for x in (got, expected)]
            assert all(torch.equal(x, y) for x, y in zip(*pairs, strict=True))


def test_compile_of_dense_attention_with_a_mask_and_lengths():
    torch._dynamo.reset()

    def attend(q, mask, lengths):
        return rt.scaled_dot_product_attention(
            q, q, q, attn_mask=mask, seq_len_q=lengths, seq_len_kv=lengths
        ).transpose(1, 2)

    compiled = torch.compile(attend, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for rows in (5, 8, 11, 13):
            leaves = [
                draw(3, 2, rows, 8, dtype=torch.float32),
                draw(rows, rows, dtype=torch.float32),
            ]
            lengths = torch.tensor([rows, 2, 0])
            pairs = [f(*leaves, lengths) for f in (compiled, attend)]
            assert torch.equal(*pairs)
            gradients = [torch.autograd.grad(x.sum(), leaves) for x in pairs]
            assert all(torch.equal(x, y) for x, y in zip(*gradients, strict=True))


def test_export_with_a_symbolic_total():
    class Attend(torch.nn.Module):
        def forward(self, q, cu):
            return rt.flash_attn_varlen_func(q, q, q, cu, cu, 16, 16, causal=True)

    total = torch.export.Dim("total", min=2, max=64)
    q, cu = draw(7, 2, 8).detach(), cumulative((3, 4))
    program = torch.export.export(Attend(), (q, cu), dynamic_shapes={"q": {0: total}, "cu": None})
    longer = draw(12, 2, 8).detach(), cumulative((3, 9))
    assert torch.equal(program.module()(*longer), Attend()(*longer))


def test_compile_with_dropout_draws_anew_and_is_reproduced():
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda q: rt.flash_attn_varlen_func(q, q, q, CU_Q, CU_Q, 4, 4, dropout_p=0.5),
        fullgraph=True,
        backend="aot_eager",
    )
    q = draw(5, 2, 8, dtype=torch.float32)
    torch.manual_seed(0)
    first, second = compiled(q), compiled(q)
    torch.manual_seed(0)
    assert torch.equal(first, compiled(q)) and not torch.equal(first, second)
    first.sum().backward()
    assert q.grad.isfinite().all()


# PyTorch hides this warning about its own tensors, unless warnings are errors.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("longest", [{}, {"min_seqlen": 3, "max_seqlen": 5}], ids=str)
def test_compile_of_nested_tensors_with_gradients(longest):
    torch._dynamo.reset()

    def attend(x):
        x = x.transpose(1, 2)
        return rt.scaled_dot_product_attention(x, x, x, is_causal=True)

    offsets = torch.tensor([0, 5, 8])
    results = []
    for function in (torch.compile(attend, fullgraph=True, backend="aot_eager"), attend):
        leaf = draw(8, 2, 4, dtype=torch.float32).requires_grad_()
        out = function(torch.nested.nested_tensor_from_jagged(leaf, offsets, **longest))
        out.values().sin().sum().backward()
        results.append((out.values(), leaf.grad))
    for x, y in zip(*results, strict=True):
        assert torch.equal(x, y)


# PyTorch's own modules warn as they are imported.
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_compile_to_native_code():
    torch._dynamo.reset()
    compiled = torch.compile(block, fullgraph=True, dynamic=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for lens in ((3, 5, 2), (7, 1, 4)):
            leaves = [draw(sum(lens), 2, 8, dtype=torch.float32) for _ in range(3)]
            results = [f(*leaves, cumulative(lens), max(lens)) for f in (compiled, block)]
            assert torch.allclose(*results, rtol=0, atol=1e-5)
            gradients = [torch.autograd.grad(x.sum(), leaves) for x in results]
            for x, y in zip(*gradients, strict=True):
                assert torch.allclose(x, y, rtol=0, atol=1e-4)


def test_autocast_within_compile():
    torch._dynamo.reset()
    leaves = packed(torch.float32)

    def attend(q, k, v):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return rt.flash_attn_varlen_func(q, k, v, CU_Q, CU_K, 4, 4)

    got = torch.compile(attend, fullgraph=True, backend="aot_eager")(*leaves)
    assert got.dtype == torch.bfloat16 and torch.equal(got, attend(*leaves))
