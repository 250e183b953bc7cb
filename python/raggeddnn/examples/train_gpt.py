"""Train a small GPT on packed documents: ``python -m raggeddnn.examples.train_gpt``.

The documents are the functions of Python's standard library, byte for byte, cut at the context.
The same model learns three times from the same batches: padded, packed with our attention, and
padded on one thread. The last run shows what rounding alone makes of the losses. Exit status: 0, or
1 when the packed run's losses in the first steps are not the padded run's; 2 for a mistake in the
arguments.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._corpus import functions
from .._usage import UsageError, count, exit_status, rate, seed, tokens, while_read
from ..bench.facts import machine_notes
from ..bench.report import format_time, print_table, progress_bar
from ._require import require

if TYPE_CHECKING:
    from ._gpt import Run

PROGRAM = "python -m raggeddnn.examples.train_gpt"
PADDED, PACKED, CONTROL = "padded", "packed", "padded, 1 thread"
FIRST_STEPS, FIRST_LIMIT = 20, 1e-5
FLOAT_EPSILON = 2.0**-23
HEADINGS = ("run", "padding", "time per step", "of padded's", "first loss", "last loss", "gap")
LEGEND = (
    "Time: the mean of all steps but the first, forward, backward and optimiser. Loss: nats per",
    "byte. Gap: the largest relative difference of a step's loss from the padded run's.",
)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Train a small GPT on the functions of Python's standard library, a byte a "
        "token, padded and packed, and compare losses and times.",
    )
    model = made.add_argument_group("model")
    for flag, default, words in (
        ("--layers", 4, "how many"),
        ("--heads", 4, "in each layer"),
        ("--head-dim", 64, "elements of a head; the model is heads times as wide"),
    ):
        model.add_argument(
            flag, type=count, default=default, metavar="N", help=f"{words} (default %(default)s)"
        )
    model.add_argument(
        "--context",
        type=tokens,
        default=512,
        metavar="N",
        help="bytes at which documents are cut (default %(default)s)",
    )
    training = made.add_argument_group("training")
    training.add_argument(
        "--steps", type=count, default=200, metavar="N", help="2 or more (default %(default)s)"
    )
    training.add_argument(
        "--documents",
        type=count,
        default=8,
        metavar="N",
        help="in each step's batch (default %(default)s)",
    )
    training.add_argument(
        "--rate",
        type=rate,
        default=1e-3,
        metavar="X",
        help="AdamW's learning rate per step, reached after 100 steps (default %(default)g)",
    )
    training.add_argument(
        "--threads",
        type=count,
        default=2,
        metavar="N",
        help="of PyTorch, 2 or more, but for the run on one thread (default %(default)s)",
    )
    training.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="of weights and batches (default 0)"
    )
    return made


def draw_batches(steps: int, documents: int, context: int, seed: int) -> list[list[bytes]]:
    """The documents of each step, 2 to context + 1 bytes long: all but the last byte are read, all
    but the first are to be told. The same arguments and Python version give the same.
    """
    known = [text[: context + 1] for text in functions() if len(text) > 1]
    if documents > len(known):
        raise UsageError(f"--documents {documents}: expected at most {len(known)}, all there are")
    generator = random.Random(seed)
    return [generator.sample(known, documents) for _ in range(steps)]


def gap(losses: Sequence[float], expected: Sequence[float]) -> float:
    """The largest relative difference; NaN where one is NaN.

    >>> gap([2.0, 3.0], [2.0, 4.0])
    0.25
    """
    gaps = [abs(x - y) / abs(y) for x, y in zip(losses, expected, strict=True)]
    return math.nan if any(map(math.isnan, gaps)) else max(gaps)


def check_losses(padded: Run, packed: Run) -> None:
    """Raise AssertionError where the packed run's losses in the first 20 steps are not the padded
    run's to 1e-5.
    """
    first = gap(packed.losses[:FIRST_STEPS], padded.losses[:FIRST_STEPS])
    if not first <= FIRST_LIMIT:
        raise AssertionError(
            f"the losses of the first {FIRST_STEPS} steps differ by {first:.2g} of the padded "
            f"run's, expected at most {FIRST_LIMIT:g}"
        )


def judge_drift(padded: Run, packed: Run, control: Run) -> tuple[bool, str]:
    """Whether the packed run's losses stay as near to the padded run's as rounding lets them, and a
    sentence that says so: in all steps to twice what one thread makes of them, and four roundings
    of a float.

    Training makes small differences grow, by factors that luck decides: two runs that round
    differently at random miss this now and then, so that it alone is no error.
    """
    whole = gap(packed.losses, padded.losses)
    limit = 2 * gap(control.losses, padded.losses) + 4 * FLOAT_EPSILON
    is_within = whole <= limit
    return is_within, (
        f"Gap of the packed run in all steps: {whole:.1e}, {'' if is_within else 'not '}within "
        f"{limit:.1e}, twice that of one thread and four roundings."
    )


def _row(run: Run, padded: Run, used: int) -> list[str]:
    return [
        run.name,
        f"{100 * (1 - used / run.rows):.0f} %",
        format_time(run.pace),
        f"{100 * run.pace / padded.pace:.0f} %",
        f"{run.losses[0]:.3f}",
        f"{run.losses[-1]:.3f}",
        "-" if run is padded else f"{gap(run.losses, padded.losses):.1e}",
    ]


def run(args: argparse.Namespace) -> int:
    """Train, print the table, check the losses."""
    require("torch")
    notes = machine_notes()
    for option in ("steps", "threads"):
        if getattr(args, option) < 2:
            raise UsageError(f"--{option} {getattr(args, option)}: expected 2 or more")
    from . import _gpt, _layouts

    batches = draw_batches(args.steps, args.documents, args.context, args.seed)
    sizes = _gpt.Sizes(args.layers, args.heads, args.head_dim, args.context)
    runs = [
        _gpt.start(name, layout, threads, sizes, args.rate, args.seed)
        for name, layout, threads in (
            (PADDED, _layouts.Padded, args.threads),
            (PACKED, _layouts.Packed, args.threads),
            (CONTROL, _layouts.Padded, 1),
        )
    ]
    with progress_bar(sys.stderr) as show:
        _gpt.train(runs, batches, show)
    parameters = sum(weight.numel() for weight in runs[0].model.parameters())
    used = sum(len(text) - 1 for batch in batches for text in batch)
    print(
        f"{parameters} parameters, {args.steps} steps of {args.documents} documents, {used} bytes "
        f"learnt from; PyTorch on {args.threads} threads"
    )
    print_table(HEADINGS, [_row(x, runs[0], used) for x in runs], sys.stdout)
    padded, packed, control = runs
    print("\n".join([*LEGEND, judge_drift(padded, packed, control)[1], *notes]))
    check_losses(padded, packed)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command on ``argv`` (None: the process's arguments); returns the exit status."""
    return while_read(lambda: exit_status(PROGRAM, lambda: run(parser().parse_args(argv))))


if __name__ == "__main__":
    sys.exit(main())
