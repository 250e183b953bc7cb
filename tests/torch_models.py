"""Small Hugging Face models of random weights, the same with eager attention and with ours."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
LENGTHS = (9, 5, 7)


def pair(model, config, **options):
    """The same random model with eager attention and with ours."""
    made = []
    for name in ("eager", "raggeddnn"):
        torch.manual_seed(1)
        made.append(model(config(**{**SIZES, **options}, attn_implementation=name)))
    return made


def llamas(**options):
    return pair(LlamaForCausalLM, LlamaConfig, num_key_value_heads=2, **options)


def tokens(*shape):
    return torch.randint(0, 61, shape, generator=torch.Generator().manual_seed(3))


def padding(side):
    """(B, S) of 0 and 1: sequences of LENGTHS, padded on one side or in turns."""
    mask = torch.zeros(3, 9, dtype=torch.long)
    for b, n in enumerate(LENGTHS):
        is_left = side == "left" or (side == "mixed" and b % 2)
        mask[b, 9 - n if is_left else 0 : 9 if is_left else n] = 1
    return mask


def assert_close(x, y, scale=1e-5):
    assert torch.allclose(x, y, rtol=1e-4, atol=scale)
