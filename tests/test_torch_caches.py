"""Static and sliding caches of Hugging Face models: free slots are no keys."""

from __future__ import annotations

import copy

import pytest
import raggeddnn as rd
import raggeddnn.torch as rt
import torch
from torch_models import assert_close, llamas, padding, pair, tokens
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    MistralConfig,
    MistralForCausalLM,
    StaticCache,
)


@pytest.fixture(autouse=True)
def _registered():
    rt.register_transformers_attention()


@pytest.mark.parametrize("cache", [None, "static"])
def test_generation_with_left_padding_and_a_cache(cache):
    models, mask = llamas(), padding("left")
    for model in models:
        model.generation_config.pad_token_id = 0
    options = {"max_new_tokens": 6, "do_sample": False, "cache_implementation": cache}
    ids = [m.generate(tokens(3, 9), attention_mask=mask, **options) for m in models]
    assert torch.equal(*ids) and ids[0].shape == (3, 15)


@pytest.mark.parametrize("length", [7, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_a_static_cache_filled_in_steps(length, masked):
    for models in (llamas(), llamas_with_windows()):
        found = []
        for model in models:
            ids, cache = tokens(2, length + 5), StaticCache(config=model.config, max_cache_len=32)
            logits = []
            for begin, end in ((0, length), (length, length + 1), (length + 1, length + 5)):
                mask = torch.ones(2, end) if masked else None
                batch = {"attention_mask": mask, "cache": cache}
                logits.append(model(ids[:, begin:end], **batch).logits)
            found.append(torch.cat(logits, dim=1))
        assert_close(found[1], found[0])
        assert_close(found[1], models[1](ids, use_cache=False).logits)


def llamas_with_windows():
    """A model with layers of both kinds, whose windows a static cache holds in turn."""
    options = {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 6}
    kinds = ["sliding_attention", "full_attention"]
    return pair(Gemma3ForCausalLM, Gemma3TextConfig, layer_types=kinds, **options)


@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize("made", ["llama", "mistral", "gemma"])
def test_generation_with_a_static_cache(made, side):
    models = {
        "llama": llamas,
        "mistral": lambda: pair(
            MistralForCausalLM, MistralConfig, num_key_value_heads=2, sliding_window=11
        ),
        "gemma": llamas_with_windows,
    }[made]()
    mask = torch.ones(3, 9) if side is None else padding(side)
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    found = []
    for model, cache in ((models[0], None), (models[1], "static")):
        output = model.generate(
            tokens(3, 9),
            attention_mask=mask,
            cache_implementation=cache,
            return_dict_in_generate=True,
            output_logits=True,
            **options,
        )
        found.append(torch.stack(output.logits))
    assert_close(found[1], found[0])


def test_a_static_cache_and_a_mask_as_long_as_it():
    models, ids = llamas(), tokens(2, 9)
    found = []
    for model in models:
        cache = StaticCache(config=model.config, max_cache_len=16)
        mask = torch.ones(2, 16)
        mask[1, :3] = 0
        logits = []
        for begin, end in ((0, 5), (5, 6), (6, 9)):
            batch = {"attention_mask": mask, "cache": cache}
            logits.append(model(ids[:, begin:end], **batch).logits)
        found.append(torch.cat(logits, dim=1)[mask[:, :9].bool()])
    assert_close(found[1], found[0])
    cache = StaticCache(config=models[1].config, max_cache_len=16)
    with pytest.raises(rd.InvalidValueError, match="attention_mask has 4 columns, expected 5"):
        models[1](ids[:, :5], attention_mask=torch.ones(2, 4), cache=cache)
    models[1](ids[:, :5], cache=cache)
    with pytest.raises(rd.InvalidValueError, match="attention_mask has 5 columns, expected those"):
        models[1](ids[:, 5:], attention_mask=torch.ones(2, 5), cache=cache)
    with pytest.raises(rd.InvalidValueError, match="17 columns, expected at most 16"):
        models[1](ids[:, 5:], attention_mask=torch.ones(2, 17), cache=cache)


def test_a_step_with_a_static_cache_is_compiled_whole():
    """Nothing in it makes the host read a tensor."""
    model, ids = llamas(num_hidden_layers=1)[1], tokens(2, 9)
    torch._dynamo.reset()
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True, backend="aot_eager")
    for masked in (False, True):
        cache = StaticCache(config=model.config, max_cache_len=16)
        mask = torch.ones(2, 16)
        mask[1, :2] = 0
        mask = mask if masked else None
        with torch.no_grad():
            logits = [model(ids[:, :5], attention_mask=mask, cache=cache).logits]
            for at in range(5, 9):
                batch = {"attention_mask": mask, "cache": cache}
                logits.append(compiled(ids[:, at : at + 1], **batch).logits)
            whole = model(ids, attention_mask=mask[:, :9] if masked else None, use_cache=False)
        assert_close(torch.cat(logits, dim=1)[:, 2:], whole.logits[:, 2:])
