"""The backward oracle against finite differences of the forward one, and NumPy's Philox."""

from __future__ import annotations

import numpy as np
import pytest
from raggeddnn.testing import SdpaOptions, sdpa_oracle
from raggeddnn.testing.gradients import finite_differences, sum_to_shape
from raggeddnn.testing.oracle_backward import plain_sdpa_backward, sdpa_backward_oracle
from raggeddnn.testing.philox import dropout_factors, philox4x32_10

BOTTOM_RIGHT = {"diagonal_alignment": "bottom_right"}
PROBLEMS = {
    "plain": ((2, 2, 2), SdpaOptions(), {}),
    "scale": ((2, 2, 2), SdpaOptions(scale=-1.5), {}),
    "gqa": ((4, 2, 1), SdpaOptions(), {}),
    "causal": ((2, 1, 2), SdpaOptions(causal=True), {}),
    "causal-br": ((2, 2, 2), SdpaOptions(causal=True, **BOTTOM_RIGHT), {}),
    "window": ((2, 2, 2), SdpaOptions(left_bound=1, right_bound=0), {}),
    "window-br": ((2, 2, 2), SdpaOptions(left_bound=0, right_bound=1, **BOTTOM_RIGHT), {}),
    "bias": ((2, 1, 1), SdpaOptions(), {"bias": (2, 5, 4)}),
    "bias-1qk": ((2, 1, 1), SdpaOptions(causal=True), {"bias": (1, 5, 4)}),
    "bias-h11": ((2, 1, 1), SdpaOptions(), {"bias": (2, 1, 1)}),
    "dstats": ((2, 2, 2), SdpaOptions(), {"dstats": True}),
    "dropout": ((2, 2, 2), SdpaOptions(), {"dropout": 0.4}),
    "everything": (
        (4, 2, 1),
        SdpaOptions(scale=0.7, causal=True, left_bound=2, **BOTTOM_RIGHT),
        {"bias": (4, 1, 4), "dstats": True, "dropout": 0.3},
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradients_are_slopes(name):
    (q_heads, k_heads, v_heads), options, extra = PROBLEMS[name]
    rng = np.random.default_rng(7)
    rows, cols, d, d_v = 5, 4, 3, 2
    q = rng.standard_normal((q_heads, rows, d))
    k = rng.standard_normal((k_heads, cols, d))
    v = rng.standard_normal((v_heads, cols, d_v))
    bias = rng.standard_normal(extra["bias"]) if "bias" in extra else np.zeros((1, 1, 1))
    do = rng.standard_normal((q_heads, rows, d_v))
    dstats = rng.standard_normal((q_heads, rows)) if extra.get("dstats") else None
    dropout = None
    if "dropout" in extra:
        dropout = dropout_factors(extra["dropout"], 5, 2, 0, (q_heads, rows, cols))

    def loss(q, k, v, bias):
        o, lse = sdpa_oracle(q, k, v, options, bias=bias, dropout=dropout)
        total = (o * do).sum()
        if dstats is None:
            return total
        return total + (np.where(np.isneginf(lse), 0, lse) * dstats).sum()

    found = sdpa_backward_oracle((q, k, v), do, options, bias=bias, dstats=dstats, dropout=dropout)
    got = (found.dq, found.dk, found.dv, sum_to_shape(found.ds, bias.shape))
    slopes = finite_differences(loss, (q, k, v, bias))
    for label, one, other in zip(("dq", "dk", "dv", "dbias"), got, slopes, strict=True):
        np.testing.assert_allclose(one.astype(float), other, rtol=1e-7, atol=1e-8, err_msg=label)


def test_the_plain_computation_is_near_the_oracle():
    rng = np.random.default_rng(3)
    q, k, v, do = (rng.standard_normal((2, n, 8)) for n in (9, 7, 7, 9))
    inputs = tuple(x.astype(np.float32) for x in (q, k, v))
    results = tuple(x.astype(np.float32) for x in sdpa_oracle(*inputs))
    plain = plain_sdpa_backward(inputs, do.astype(np.float32), results, SdpaOptions())
    oracle = sdpa_backward_oracle(inputs, do.astype(np.float32))
    for name in ("dq", "dk", "dv", "ds"):
        np.testing.assert_allclose(plain[name], getattr(oracle, name), rtol=1e-4, atol=1e-5)


def test_rows_without_keys_have_no_gradient_whatever_their_do():
    rng = np.random.default_rng(3)
    q, k, v, do = (rng.standard_normal((1, n, 4)) for n in (6, 2, 2, 6))
    do[:, :4] = np.nan
    options = SdpaOptions(causal=True, **BOTTOM_RIGHT)
    found = sdpa_backward_oracle((q, k, v), do, options)
    alone = sdpa_backward_oracle((q[:, 4:], k, v), do[:, 4:], options)
    assert not found.dq[:, :4].any()
    for name in ("dk", "dv"):
        np.testing.assert_allclose(getattr(found, name), getattr(alone, name), rtol=1e-12)


# The known answers that come with Random123, the authors' library.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_philox_gives_the_known_answers(counter, key, words):
    drawn = philox4x32_10(tuple(np.array(word) for word in counter), key)
    assert " ".join(f"{int(word):08x}" for word in drawn) == words


def test_dropout_keeps_about_as_many_as_it_should():
    factors = dropout_factors(0.25, 11, 0, 0, (4, 64, 64))
    kept = (factors != 0).mean()
    assert abs(kept - 0.75) < 4 * np.sqrt(0.25 * 0.75 / factors.size)
    assert set(np.unique(factors)) == {0.0, 1 / 0.75}
    other = dropout_factors(0.25, 11, 1, 0, (4, 64, 64))
    assert 0.5 < (factors == other).mean() < 0.75
