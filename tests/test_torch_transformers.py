"""``attn_implementation="raggeddnn"`` in Hugging Face models of random weights: packed and padded
training against "eager", generation, windows, and what is refused.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import raggeddnn as rd
import raggeddnn.torch as rt
import torch
import torch.nn.functional as F  # noqa: N812
from raggeddnn.torch import _transformers
from torch_calls import cumulative
from torch_models import LENGTHS, SIZES, assert_close, llamas, padding, pair, tokens
from transformers import (
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    Gemma2Config,
    Gemma2ForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    SplinterConfig,
    SplinterModel,
)
from transformers.masking_utils import create_causal_mask


@pytest.fixture(autouse=True)
def _registered():
    rt.register_transformers_attention()


def train(models, batch, loss_of):
    """Three steps of both in turn: losses and gradients agree in each."""
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    for _ in range(3):
        losses = [loss_of(model(**batch)) for model in models]
        assert_close(losses[1], losses[0])
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
        parameters = zip(*(model.named_parameters() for model in models), strict=True)
        for (name, x), (_, y) in parameters:
            if x.grad is None:
                assert y.grad is None, name
                continue
            assert_close(y.grad, x.grad)
        for optimizer in optimizers:
            optimizer.step()
    assert losses[0].isfinite()


def watch_pads(model, layers, mask):
    """Collects what attention gives at padding as the next layer reads it."""
    found = []

    def look(module, inputs):
        rows = inputs[0].reshape(*mask.shape, -1)
        found.append(rows[mask == 0].detach())

    for layer in layers(model):
        layer.register_forward_pre_hook(look)
    return found


@pytest.mark.parametrize("side", ["right", "left", "mixed"])
def test_llama_trains_on_padded_batches(side):
    models, mask = llamas(), padding(side)
    ids = tokens(3, 9)
    labels = torch.where(mask.bool(), ids, -100)
    # What precedes the first token of a sequence predicts nothing.
    labels[torch.arange(3), mask.argmax(1)] = -100
    pads = watch_pads(models[1], lambda m: [x.self_attn.o_proj for x in m.model.layers], mask)
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    train(models, batch, lambda output: output.loss)
    assert len(pads) == 6 and all(x.shape[0] == 6 and not x.any() for x in pads)


@pytest.mark.parametrize("told_by", ["position_ids", "cu_seq_lens"])
def test_llama_trains_on_packed_batches(told_by):
    models = llamas()
    ids, positions = tokens(1, sum(LENGTHS)), torch.cat([torch.arange(n) for n in LENGTHS])[None]
    labels = torch.where(positions == 0, -100, ids)
    batch = {"input_ids": ids, "labels": labels, "position_ids": positions, "use_cache": False}
    if told_by == "cu_seq_lens":
        cu = cumulative(LENGTHS)
        # Eager attention knows nothing of them, and goes by the positions.
        batch |= {"cu_seq_lens_q": cu, "cu_seq_lens_k": cu, "max_length_q": 9, "max_length_k": 9}
    train(models, batch, lambda output: output.loss)
    # The same sequences padded have the same logits.
    mask, padded = padding("right"), torch.zeros(3, 9, dtype=torch.long)
    padded[mask.bool()] = ids[0]
    with torch.no_grad():
        rows = models[1](input_ids=padded, attention_mask=mask).logits[mask.bool()]
        del batch["labels"]
        assert_close(models[1](**batch).logits[0], rows)


@pytest.mark.parametrize("side", ["right", "left", "mixed"])
def test_bert_trains_on_padded_batches(side):
    models = pair(BertModel, BertConfig, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    mask = padding(side)
    pads = watch_pads(
        models[1], lambda m: [x.attention.output.dense for x in m.encoder.layer], mask
    )
    target = torch.randn(3, 9, 32, generator=torch.Generator().manual_seed(0))

    def loss_of(output):
        return ((output.last_hidden_state - target)[mask.bool()] ** 2).mean()

    train(models, {"input_ids": tokens(3, 9), "attention_mask": mask}, loss_of)
    assert len(pads) == 6 and all(not x.any() for x in pads)
    plain = [model(input_ids=tokens(3, 9)).last_hidden_state for model in models]
    assert_close(plain[1], plain[0])


@pytest.mark.parametrize("side", ["right", "left"])
def test_sliding_windows(side):
    models = pair(MistralForCausalLM, MistralConfig, num_key_value_heads=2, sliding_window=3)
    mask = padding(side)
    logits = [m(input_ids=tokens(3, 9), attention_mask=mask).logits for m in models]
    assert_close(logits[1][mask.bool()], logits[0][mask.bool()])
    positions = torch.cat([torch.arange(n) for n in LENGTHS])[None]
    packed = {"input_ids": tokens(1, 21), "position_ids": positions, "use_cache": False}
    logits = [m(**packed).logits for m in models]
    assert_close(logits[1], logits[0])


@pytest.mark.parametrize("rows", [4, 9])
@pytest.mark.parametrize("side", ["right", "left"])
def test_an_encoder_and_a_decoder_that_looks_at_it(rows, side):
    made = []
    for name in ("eager", "raggeddnn"):
        torch.manual_seed(1)
        config = BartConfig(
            vocab_size=61,
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            max_position_embeddings=32,
            attn_implementation=name,
        )
        made.append(BartModel(config).eval())
    mask, ids = padding(side), tokens(3, rows)
    batch = {"input_ids": tokens(3, 9), "attention_mask": mask, "decoder_input_ids": ids}
    pads = watch_pads(made[1], lambda m: [x.self_attn.out_proj for x in m.encoder.layers], mask)
    outputs = [m(**batch) for m in made]
    assert_close(outputs[1].last_hidden_state, outputs[0].last_hidden_state)
    assert len(pads) == 1 and not pads[0].any()


def test_a_bert_decoder_looks_at_as_many_tokens_as_it_has():
    models = pair(BertModel, BertConfig, is_decoder=True, add_cross_attention=True)
    states = torch.randn(3, 9, 32, generator=torch.Generator().manual_seed(0))
    batch = {
        "input_ids": tokens(3, 9),
        "encoder_hidden_states": states,
        "encoder_attention_mask": padding("right"),
    }
    outputs = [m.eval()(**batch).last_hidden_state for m in models]
    assert_close(outputs[1], outputs[0])


def test_what_is_known_of_the_module_tells_the_rows():
    q = torch.randn(3, 2, 9, 8, generator=torch.Generator().manual_seed(0))
    mask = padding("right")
    seen = mask[:, None, None].bool()
    expected = F.scaled_dot_product_attention(q, q, q, attn_mask=seen).transpose(1, 2)

    def run(**attributes):
        module = SimpleNamespace(**attributes)
        return _transformers.attention_forward(module, q, q, q, mask)[0]

    for attributes in ({}, {"is_decoder": True}, {"is_decoder": False, "is_cross_attention": True}):
        assert_close(run(is_causal=False, **attributes), expected)
    # It is a cross-attention even where the class calls all of itself causal.
    assert_close(run(is_causal=True, is_cross_attention=True), expected)
    own = run(is_causal=False, is_decoder=False)
    assert_close(own[mask.bool()], expected[mask.bool()])
    assert not own[mask == 0].any()


def test_causality_that_nothing_tells_is_refused():
    model = pair(SplinterModel, SplinterConfig)[1]
    message = "SplinterSelfAttention has no attribute is_causal, expected True or False"
    with pytest.raises(rd.NotSupportedError, match=message):
        model(input_ids=tokens(2, 9))
    # An explicit argument tells it, and a prepared mask needs none.
    x = torch.randn(1, 2, 5, 8)
    seen = torch.ones(1, 1, 5, 5, dtype=torch.bool)
    expected = F.scaled_dot_product_attention(x, x, x).transpose(1, 2)
    for mask, told in ((None, False), (seen, None)):
        out, _ = _transformers.attention_forward(SimpleNamespace(), x, x, x, mask, is_causal=told)
        assert_close(out, expected)


def test_packed_positions_in_several_batches():
    models, ids = llamas(), tokens(2, 12)
    rows = (torch.arange(5), torch.arange(7), torch.arange(3), torch.arange(5), torch.arange(4))
    positions = torch.stack((torch.cat(rows[:2]), torch.cat(rows[2:])))
    for at in (positions, positions[:1], positions[0] * 0 + torch.arange(12)[None]):
        logits = [m(ids, position_ids=at, use_cache=False).logits for m in models]
        assert_close(logits[1], logits[0])
    x, module = torch.randn(3, 2, 12, 8), SimpleNamespace(is_causal=True)
    with pytest.raises(rd.InvalidValueError, match="position_ids has 2 rows, expected 1 or 3"):
        _transformers.attention_forward(module, x, x, x, None, position_ids=positions)
    module = SimpleNamespace(is_causal=False, is_decoder=True)
    with pytest.raises(rd.NotSupportedError, match="position_ids tell packed sequences"):
        _transformers.attention_forward(module, x, x, x, None, position_ids=positions[:1])


def test_masks_of_other_sizes_are_refused():
    x = torch.randn(2, 2, 12, 8)
    for causal, columns, expected in (
        (True, 10, "12 to 12"),
        (True, 13, "12 to 12"),
        (False, 13, "12"),
    ):
        module = SimpleNamespace(is_causal=causal)
        message = f"attention_mask has {columns} columns, expected {expected} for 12 rows"
        with pytest.raises(rd.InvalidValueError, match=message):
            _transformers.attention_forward(module, x, x, x, torch.ones(2, columns))
    with pytest.raises(rd.InvalidValueError, match="attention_mask has 1 batches, expected 2"):
        _transformers.attention_forward(module, x, x, x, torch.ones(1, 12))
    model = llamas()[1]
    with pytest.raises(rd.InvalidValueError, match="attention_mask has 7 columns, expected 9"):
        model(tokens(3, 9), attention_mask=torch.ones(3, 7))


def test_cumulative_lengths_are_given_all_or_not_at_all():
    model, cu = llamas()[1], cumulative((4, 5))
    every = {"cu_seq_lens_q": cu, "cu_seq_lens_k": cu, "max_length_q": 5, "max_length_k": 5}
    for left_out in every:
        given = {name: x for name, x in every.items() if name != left_out}
        message = f"got {', '.join(given)}, expected all of {', '.join(every)} or none"
        with pytest.raises(rd.InvalidValueError, match=message):
            model(tokens(1, 9), use_cache=False, **given)
    mask = torch.ones(1, 9)
    mask[0, 0] = 0
    for given in (mask, torch.zeros(1, 1, 9, 9)):
        with pytest.raises(rd.InvalidValueError, match="attention_mask and cu_seq_lens_q"):
            model(tokens(1, 9), attention_mask=given, use_cache=False, **every)


def test_dropout_is_reproduced_by_the_seed():
    model = llamas(attention_dropout=0.5)[1].train()
    runs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        runs.append(model(input_ids=tokens(2, 9)).logits)
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])
    assert torch.equal(*(model.eval()(input_ids=tokens(2, 9)).logits for _ in range(2)))


def test_a_prepared_mask_is_all_that_masks():
    models = llamas()
    seen = torch.rand(3, 1, 9, 9, generator=torch.Generator().manual_seed(0)) < 0.6
    seen |= torch.eye(9, dtype=torch.bool)
    for mask in (seen, torch.where(seen, 0.0, torch.finfo(torch.float32).min)):
        additive = torch.where(seen, 0.0, torch.finfo(torch.float32).min)
        eager = models[0](input_ids=tokens(3, 9), attention_mask=additive).logits
        assert_close(models[1](input_ids=tokens(3, 9), attention_mask=mask).logits, eager)


def test_masks_with_holes_are_refused():
    model, mask = llamas()[1], padding("right")
    mask[1, 2] = 0
    with pytest.raises(rd.InvalidValueError, match="on both sides of padding, expected one run"):
        model(input_ids=tokens(3, 9), attention_mask=mask)


def test_a_batch_without_any_token():
    models, mask = llamas(), padding("right")
    mask[2] = 0
    eager, ours = (m(input_ids=tokens(3, 9), attention_mask=mask).logits for m in models)
    assert_close(ours[mask.bool()], eager[mask.bool()])
    assert ours.isfinite().all()


def test_what_cannot_be_read_is_refused_by_name():
    model = llamas()[1]
    with pytest.raises(rd.NotSupportedError, match="output_attentions"):
        model(input_ids=tokens(3, 9), output_attentions=True)
    gemma = Gemma2ForCausalLM(
        Gemma2Config(**SIZES, num_key_value_heads=2, head_dim=8, attn_implementation="raggeddnn")
    )
    with pytest.raises(rd.NotSupportedError, match="softcap"):
        gemma(input_ids=tokens(3, 9))
    x = torch.randn(1, 2, 5, 8)
    module = SimpleNamespace(is_causal=True)
    for name in ("softcap", "s_aux", "position_bias", "head_mask", "block_table", "k_cache"):
        with pytest.raises(rd.NotSupportedError, match=rf"\[transformers\] {name} is given"):
            _transformers.attention_forward(module, x, x, x, None, **{name: torch.ones(2)})
    config = SimpleNamespace(attention_chunk_size=4)
    arguments = {"batch_size": 1, "q_length": 9, "kv_length": 9, "config": config}
    with pytest.raises(rd.NotSupportedError, match="chunked attention of 4 tokens"):
        _transformers._mask(
            **arguments, mask_function=lambda b, h, q, k: (k <= q) & (q // 4 == k // 4)
        )
    with pytest.raises(rd.NotSupportedError, match="a mask function of its own"):
        _transformers._mask(**arguments, use_vmap=True)
    model_config = llamas()[1].config
    blocks = torch.tensor([[-1, 0, 0, -1, -1]])
    for positions in (None, torch.tensor([[0, 1, 2, 0, 1]])):
        with pytest.raises(rd.NotSupportedError, match="block_sequence_ids is given"):
            create_causal_mask(
                model_config,
                torch.zeros(1, 5, 8),
                None,
                None,
                position_ids=positions,
                block_sequence_ids=blocks,
            )
    whole = _transformers._mask(**arguments, mask_function=lambda b, h, q, k: k <= q)
    assert whole is None


def test_the_function_itself():
    module = SimpleNamespace(is_causal=False)
    q, k = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 7, 8)
    out, weights = _transformers.attention_forward(module, q, k, k, None, scaling=0.2)
    expected = F.scaled_dot_product_attention(q, k, k, scale=0.2, enable_gqa=True)
    assert weights is None
    assert_close(out, expected.transpose(1, 2))
    # Causal with more keys than rows: the last row sees all of them.
    mask = torch.ones(3, 7, dtype=torch.bool).tril(4)
    out, _ = _transformers.attention_forward(module, q, k, k, None, is_causal=True)
    expected = F.scaled_dot_product_attention(q, k, k, attn_mask=mask, enable_gqa=True)
    assert_close(out, expected.transpose(1, 2))
    # A window of an encoder reaches to both sides.
    at = torch.arange(7)
    x = torch.randn(1, 2, 7, 8)
    band = (at[:, None] - at).abs() <= 2
    out, _ = _transformers.attention_forward(module, x, x, x, None, sliding_window=3)
    expected = F.scaled_dot_product_attention(x, x, x, attn_mask=band)
    assert_close(out, expected.transpose(1, 2))


def test_a_model_is_compiled_with_cumulative_lengths():
    model = llamas()[1]
    torch._dynamo.reset()
    compiled = torch.compile(
        copy.deepcopy(model), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for lens in (LENGTHS, (4, 8, 2)):
        cu, longest = cumulative(lens), max(lens)
        batch = {
            "input_ids": tokens(1, sum(lens)),
            "position_ids": torch.cat([torch.arange(n) for n in lens])[None],
            "use_cache": False,
            "cu_seq_lens_q": cu,
            "cu_seq_lens_k": cu,
            "max_length_q": longest,
            "max_length_k": longest,
        }
        assert_close(compiled(**batch).logits, model(**batch).logits)
