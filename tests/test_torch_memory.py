"""Tensors that own no memory, or not what they show: wrappers, fakes, meta tensors, freed storage,
negated views; in every place of a call.
"""

from __future__ import annotations

import pytest
import raggeddnn as rd
import raggeddnn.torch as rt
import torch
from raggeddnn.torch import _ops
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

CU = torch.tensor([0, 5, 8], dtype=torch.int32)
PACKED = {"q": (8, 2, 4), "k": (8, 2, 4), "v": (8, 2, 4)}
DENSE = {"query": (2, 2, 8, 4), "key": (2, 2, 8, 4), "value": (2, 2, 8, 4)}


def packed() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    tensors = {name: torch.randn(shape) for name, shape in PACKED.items()}
    return {**tensors, "cu_seqlens_q": CU.clone(), "cu_seqlens_k": CU.clone()}


def dense() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    tensors = {name: torch.randn(shape) for name, shape in DENSE.items()}
    return {**tensors, "attn_mask": torch.randn(8, 8)}


def padded() -> dict[str, torch.Tensor]:
    tensors = {name: x for name, x in dense().items() if name != "attn_mask"}
    lengths = torch.tensor([3, 8], dtype=torch.int32)
    return {**tensors, "seq_len_q": lengths.clone(), "seq_len_kv": lengths.clone()}


def call(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    if "q" in tensors:
        out: torch.Tensor = rt.flash_attn_varlen_func(**tensors, max_seqlen_q=5, max_seqlen_k=5)
        return out
    return rt.scaled_dot_product_attention(**tensors)


# What a graph calls the arguments that are its own tensors.
NAMES = {"query": "'q'", "key": "'k'", "value": "'v'", "attn_mask": "'bias'"}
PLACES = [(make, name) for make in (packed, dense, padded) for name in make()]
every_place = pytest.mark.parametrize(
    ("make", "name"), PLACES, ids=[f"{make.__name__}-{name}" for make, name in PLACES]
)


@every_place
def test_a_tensor_that_wraps_two_gives_both_results(make, name):
    tensors = make()
    expected = call(tensors)
    tensors[name] = TwoTensor(tensors[name], tensors[name])
    got = call(tensors)
    assert isinstance(got, TwoTensor)
    assert torch.equal(got.a, expected)
    assert torch.equal(got.b, expected)


@every_place
def test_a_fake_tensor_gives_a_fake_result(make, name):
    tensors = make()
    shape = call(tensors).shape
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    tensors[name] = mode.from_tensor(tensors[name])
    got = call(tensors)
    assert isinstance(got, FakeTensor)
    assert got.shape == shape


@every_place
def test_a_tensor_whose_storage_was_freed_is_refused(make, name):
    tensors = make()
    tensors[name] = tensors[name].clone()
    tensors[name].untyped_storage().resize_(0)
    with pytest.raises((rd.InvalidValueError, RuntimeError), match=r"without memory|storage") as e:
        call(tensors)
    if isinstance(e.value, rd.InvalidValueError):
        assert NAMES.get(name, name) in str(e.value)


@pytest.mark.parametrize("needs_gradients", [False, True])
@every_place
def test_tensors_of_two_devices_are_refused(make, name, needs_gradients):
    tensors = make()
    first = next(iter(tensors))
    tensors[first].requires_grad_(needs_gradients)
    tensors[name] = tensors[name].to("meta")
    with pytest.raises((rd.InvalidValueError, RuntimeError), match=r"device|without memory| on "):
        call(tensors)


@every_place
def test_a_view_with_its_sign_to_come_is_read_negated(make, name):
    tensors = make()
    expected = call(tensors)
    tensors[name] = torch._neg_view(-tensors[name])
    assert tensors[name].is_neg()
    assert torch.equal(call(tensors), expected)


OPTIONS = (0.5, -1, -1, False, 0.0, False, "flash_attn_varlen_func")


def backward(**changes: torch.Tensor) -> tuple[torch.Tensor, ...]:
    tables = packed()
    q, k, v, cu_q, cu_k = tables.values()
    out, lse = _ops.varlen_fwd(q, k, v, cu_q, cu_k, None, None, None, 5, 5, *OPTIONS)
    given = {"dout": torch.ones_like(out), "dlse": torch.ones_like(lse), "out": out, "lse": lse}
    given |= changes
    gradients = (given["dout"], given["dlse"], q, k, v, given["out"], given["lse"])
    found: tuple[torch.Tensor, ...] = _ops.varlen_bwd(
        *gradients, cu_q, cu_k, None, None, None, 5, 5, *OPTIONS
    )
    return found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dout": torch.ones(8, 2, 5)}, r"do has shape \(8, 2, 5\).*expected \(8, 2, 4\)"),
        ({"dout": torch.ones(8, 2, 4).half()}, "do has .* data type float16 .* float32"),
        ({"out": torch.ones(8, 1, 4)}, r"o has shape \(8, 1, 4\)"),
        ({"lse": torch.ones(8)}, r"lse has shape \(8,\).*expected \(2, 8\)"),
        ({"dlse": torch.ones(3, 8)}, r"dlse has shape \(3, 8\).*expected \(2, 8\)"),
        ({"lse": torch.ones(2, 8).double()}, "lse has .* float64 .* float32"),
        ({"lse": torch.ones(2, 9)}, "9 rows, q has 8"),
        ({"dout": torch.ones(8, 2, 4, device="meta")}, "expected one device"),
        ({"lse": torch.ones(2, 8, device="meta")}, "expected one device"),
    ],
    ids=str,
)
def test_what_a_backward_op_is_given_must_be_of_its_forward_call(changes, message):
    assert all(torch.isfinite(x).all() for x in backward())
    with pytest.raises((rd.InvalidValueError, RuntimeError), match=message):
        backward(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": torch.ones(8, 4)}, "q has 2 axes, expected 3"),
        ({"k": torch.ones(1, 8, 2, 4)}, "k has 4 axes, expected 3"),
        ({"k": None}, "k is None, expected a tensor"),
        ({"v": torch.ones(8)}, "v has 1 axes, expected 3"),
    ],
    ids=str,
)
def test_data_of_other_axes_is_named(changes, message):
    with pytest.raises(rd.InvalidValueError, match=message):
        call(packed() | changes)


def test_seeds_of_another_shape_are_refused():
    q, k, v, cu_q, cu_k = packed().values()
    options = (0.5, -1, -1, False, 0.5, False, "flash_attn_varlen_func")
    for seeds in (torch.ones(1).long(), torch.ones(2, 1).long(), torch.ones(3).long()):
        with pytest.raises(rd.InvalidValueError, match=r"philox has shape .*expected \(2,\)"):
            _ops.varlen_fwd(q, k, v, cu_q, cu_k, None, None, seeds, 5, 5, *options)
