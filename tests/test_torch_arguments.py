"""What the torch functions say of arguments of a kind that they do not take, by their names."""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
import raggeddnn.torch as rt
import torch
from torch_calls import cumulative


def zeros(*shape):
    return torch.zeros(shape)


def arguments_with(**changes):
    offsets = cumulative((7, 13))
    return {
        "q": zeros(20, 4, 16),
        "k": zeros(20, 2, 16),
        "v": zeros(20, 2, 16),
        "cu_seqlens_q": offsets,
        "cu_seqlens_k": offsets,
        "max_seqlen_q": 13,
        "max_seqlen_k": 13,
        **changes,
    }


ORDER = ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k")
TORCH_ORDER = ("query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k")
TORCH_NAMES = dict(zip((*ORDER, "softmax_scale"), (*TORCH_ORDER, "scale"), strict=True))


def refused_by_both(changes, name, message, with_gradient):
    """flash_attn_varlen_func and, under its own names, varlen_attn refuse a call."""
    arguments = arguments_with(**changes)
    for x in (arguments[key] for key in "qkv"):
        if isinstance(x, torch.Tensor):
            x.requires_grad_(with_gradient)
    with pytest.raises(rd.InvalidValueError) as caught:
        rt.flash_attn_varlen_func(**arguments)
    assert str(caught.value).startswith(f"[flash_attn_varlen_func] {name} {message}")
    if "dropout_p" in changes:
        return
    renamed = {TORCH_NAMES.get(key, key): x for key, x in arguments.items()}
    with pytest.raises(rd.InvalidValueError) as caught:
        rt.varlen_attn(**renamed, enable_gqa=True)
    assert str(caught.value).startswith(f"[varlen_attn] {TORCH_NAMES.get(name, name)} {message}")


@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("limit", [None, 20.0, "20", 2**59, 2**62, 2**64])
def test_longest_lengths_of_another_kind_are_named(limit, with_gradient):
    for name in ("max_seqlen_q", "max_seqlen_k"):
        message = f"is {limit!r}, expected an integer below {2**40}"
        refused_by_both({name: limit}, name, message, with_gradient)


@pytest.mark.parametrize("with_gradient", [False, True])
def test_windows_are_of_64_bits(with_gradient):
    for window in ((2**65, 0), (0, 2**63), (-(2**65), 0)):
        message = f"is {window}, expected two integers of 64 bits"
        refused_by_both({"window_size": window}, "window_size", message, with_gradient)
    rt.flash_attn_varlen_func(**arguments_with(window_size=(2**63 - 1, 2**63 - 1)))


@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("given", [None, [0, 7, 20], np.array([0, 7, 20], dtype=np.int32)])
def test_what_is_no_tensor_is_named(given, with_gradient):
    kind = "is None" if given is None else f"is of type {type(given).__name__}"
    for name in ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k"):
        if given is not None or name in "qkv":
            message = f"{kind}, expected a tensor"
            refused_by_both({name: given}, name, message, with_gradient)
    if given is not None:
        q, k, v, *rest = (arguments_with()[key] for key in ORDER)
        q.requires_grad_(with_gradient)
        message = rf"\[varlen_attn\] seqused_k {kind}, expected a tensor"
        with pytest.raises(rd.InvalidValueError, match=message):
            rt.varlen_attn(q, k, v, *rest, enable_gqa=True, seqused_k=given)


@pytest.mark.parametrize("scale", [None, 0.5])
def test_heads_of_no_width_are_refused(scale):
    changes = {"q": zeros(20, 4, 0), "k": zeros(20, 2, 0), "softmax_scale": scale}
    message = "has shape (20, 4, 0), expected heads and a head_dim"
    refused_by_both(changes, "q", message, False)


def test_too_few_axes_are_refused():
    for name in ("q", "k", "v"):
        refused_by_both({name: zeros(20)}, name, "has 1 axes", False)
    refused_by_both({"q": zeros()}, "q", "has shape (), expected heads and a head_dim", False)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (1e300, "is 1e+300, expected a number that is finite as a float32"),
        (-(2.0**128), "is -3.402823669209385e+38, expected a number that is finite as a float32"),
        (10**400, "is 1000"),
        ("wide", "is 'wide', expected a finite number"),
        ([0.5], "is [0.5], expected a finite number"),
        (torch.ones(2), "is tensor([1., 1.]), expected a finite number"),
        (float("nan"), "is nan, expected a finite number"),
        (torch.tensor(0.5, requires_grad=True), "is a tensor that requires grad, expected a num"),
    ],
)
def test_scales_that_are_no_finite_number(scale, message):
    refused_by_both({"softmax_scale": scale}, "softmax_scale", message, False)


def test_scales_that_are_finite_where_they_are_used():
    largest = float(np.finfo(np.float32).max)
    for scale in (largest, -largest, torch.tensor(0.5), np.float32(0.5)):
        rt.flash_attn_varlen_func(**arguments_with(softmax_scale=scale))
    wide = {name: arguments_with()[name].double() for name in "qkv"}
    assert rt.flash_attn_varlen_func(**arguments_with(**wide, softmax_scale=1e300)).isfinite().all()


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        (None, "is None, expected a number"),
        ("0.1", "is '0.1', expected a number"),
        (torch.ones(2), "is tensor([1., 1.]), expected a number"),
        (np.ones(2), "is array([1., 1.]), expected a number"),
        (1 - 1e-12, "is 0.999999999999, expected at least 0 and less than 1 as a float32"),
        (1 - 2.0**-25, "is 0.99999997"),
        (float("nan"), "is nan, expected at least 0"),
        (torch.tensor(0.1, requires_grad=True), "is a tensor that requires grad, expected a num"),
    ],
)
def test_dropout_probabilities_that_are_none(probability, message):
    refused_by_both({"dropout_p": probability}, "dropout_p", message, False)


def test_the_largest_dropout_probability():
    rt.flash_attn_varlen_func(**arguments_with(dropout_p=1 - 2.0**-25 - 2.0**-40))


@pytest.mark.parametrize("given", [True, False, 3])
def test_what_asks_for_the_log_sum_exp_has_lse(given):
    arguments = arguments_with()
    with pytest.raises(rd.InvalidValueError, match=rf"\[varlen_attn\] return_aux is {given}, exp"):
        rt.varlen_attn(*(arguments[key] for key in ORDER), enable_gqa=True, return_aux=given)


@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("given", [None, [5, 5], np.array([5, 5])])
def test_what_is_no_tensor_is_named_of_dense_calls(given, with_gradient):
    arguments = {name: zeros(2, 2, 5, 8) for name in ("query", "key", "value")}
    arguments["query"].requires_grad_(with_gradient)
    kind = "None" if given is None else f"of type {type(given).__name__}"
    for name in (*arguments, "attn_mask", "seq_len_q", "seq_len_kv"):
        if given is None and name not in arguments:
            continue
        message = rf"\[scaled_dot_product_attention\] {name} is {kind}, expected a tensor"
        with pytest.raises(rd.InvalidValueError, match=message):
            rt.scaled_dot_product_attention(**{**arguments, name: given})
