"""``raggeddnn bench``: its options, and what it prints and writes."""

from __future__ import annotations

import argparse
import itertools
import platform
import shlex
import sys
from collections.abc import Iterable, Sequence

from .._usage import UsageError, check_distinct, check_target, count, seconds, seed, tokens
from .device import CPU, CUDA, clock_for, optional_module
from .facts import machine_facts, machine_notes
from .lengths import DISTRIBUTIONS, draw_lengths
from .ours import check_engine
from .page import write_page
from .plot import check_plot, write_plot
from .presets import DEFAULT_PRESET, DOCUMENTS, PRESETS, preset_named
from .report import LEGEND, print_tables, progress_bar, write_csv
from .runner import TIME_BUDGET, BenchOptions, Measurement, run_bench
from .work import FORWARD, PASS_FACTORS, Workload

DTYPES = ("float32", "float16", "bfloat16", "float64")


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected at least one")
    return words


def _sizes(text: str) -> list[int]:
    return [tokens(word) for word in _words(text)]


def _add_list(
    group: argparse._ArgumentGroup, flag: str, default: str, known: Iterable[str]
) -> None:
    """An option that takes names, several with commas or by being repeated."""
    words = f"default {default}; one of {', '.join(known)}"
    group.add_argument(flag, action="extend", type=_words, metavar="NAME[,NAME]", help=words)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    _add_workloads(parser.add_argument_group("what to measure (all combinations of the lists)"))
    who = parser.add_argument_group("contenders")
    who.add_argument(
        "--engine",
        metavar="NAME",
        help="one engine of ours instead of all (not with --device cuda)",
    )
    who.add_argument(
        "--peers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="PyTorch and flash-attn, where installed",
    )
    who.add_argument(
        "--device", choices=(CPU, CUDA), default=CPU, help="cuda: what PyTorch calls so, AMD's too"
    )
    how = parser.add_argument_group("how")
    how.add_argument("--refcheck", action="store_true", help="check every sequence, not a few")
    how.add_argument("--cold", action="store_true", help="evict caches before each timed call")
    how.add_argument(
        "--time",
        type=seconds,
        default=TIME_BUDGET,
        metavar="S",
        help="seconds of measuring to aim at (default %(default)g)",
    )
    how.add_argument("--repeats", type=count, metavar="N", help="instead of as time allows")
    out = parser.add_argument_group("files")
    out.add_argument("--csv", metavar="FILE", help="also write the measurements here")
    out.add_argument("--plot", metavar="FILE", help="also draw the charts (needs matplotlib)")
    out.add_argument("--html", metavar="FILE", help="also write a page with charts and tables")


def _add_workloads(what: argparse._ArgumentGroup) -> None:
    _add_list(what, "--preset", DEFAULT_PRESET, (preset.name for preset in PRESETS))
    what.add_argument("--list-presets", action="store_true", help="name the presets and stop")
    _add_list(what, "--lengths", "the preset's", DISTRIBUTIONS)
    _add_list(what, "--pass", FORWARD, PASS_FACTORS)
    _add_list(what, "--dtype", DTYPES[0], DTYPES)
    what.add_argument(
        "--longest", action="extend", type=_sizes, metavar="N[,N]", help="longest sequence"
    )
    what.add_argument("--sequences", type=count, metavar="N", help="how many")
    what.add_argument(
        "--tokens", type=tokens, metavar="N", help="at most so many: scales the batch down"
    )
    what.add_argument(
        "--causal", action=argparse.BooleanOptionalAction, help="instead of the preset's choice"
    )
    what.add_argument(
        "--seed", type=seed, default=0, help="of the lengths, the values and the order of the turns"
    )


def _chosen(option: str, given: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """The words of a list, each known; without any of them, nothing."""
    names = list(known)
    for word in given or ():
        if word not in names:
            raise UsageError(f"{option} {word}: expected one of {', '.join(names)}")
    return list(dict.fromkeys(given or ()))


def workloads(args: argparse.Namespace) -> tuple[Workload, ...]:
    """All combinations that the options name."""
    try:
        presets = [preset_named(name) for name in dict.fromkeys(args.preset or [DEFAULT_PRESET])]
    except ValueError as error:
        raise UsageError(str(error)) from error
    kinds = _chosen("--lengths", args.lengths, DISTRIBUTIONS)
    passes = _chosen("--pass", getattr(args, "pass"), PASS_FACTORS) or [FORWARD]
    dtypes = _chosen("--dtype", args.dtype, DTYPES) or [DTYPES[0]]
    found = []
    for preset, dtype, pass_name in itertools.product(presets, dtypes, passes):
        for kind in kinds or [preset.lengths]:
            for longest in dict.fromkeys(args.longest or [preset.longest]):
                sequences = args.sequences or preset.sequences
                lens = draw_lengths(kind, sequences, longest, args.seed, args.tokens)
                causal = preset.causal if args.causal is None else args.causal
                found.append(Workload(preset, kind, lens, dtype, pass_name, causal, args.seed))
    return tuple(found)


def _options(args: argparse.Namespace) -> BenchOptions:
    """Everything that can be wrong is found here, before anything is measured."""
    chosen = workloads(args)
    files = {f"--{option}": getattr(args, option) for option in ("csv", "plot", "html")}
    for option, file in files.items():
        check_target(option, file)
    try:
        clock_for(args.device)
        if args.engine is not None:
            if args.device != CPU:
                raise ValueError(
                    f"--engine {args.engine}: on {args.device} memory the library chooses it"
                )
            check_engine(args.engine)
        if args.plot:
            files["--plot"] = check_plot(args.plot)
    except (ValueError, RuntimeError) as error:
        raise UsageError(str(error)) from error
    check_distinct({option: file for option, file in files.items() if file is not None})
    needs_ml_dtypes = any(work.dtype == "bfloat16" for work in chosen)
    if needs_ml_dtypes and optional_module("ml_dtypes") is None:
        raise UsageError("--dtype bfloat16 needs the package ml_dtypes")
    return BenchOptions(
        chosen,
        args.engine,
        args.device,
        args.peers,
        args.repeats,
        args.time,
        args.cold,
        args.refcheck,
        args.seed,
    )


def _remarks(options: BenchOptions, results: Sequence[Measurement]) -> list[str]:
    """Sentences about a run: what was checked, how often it ran, on what."""
    timed = [result for result in results if result.times]
    if not timed:
        return ["Nothing ran."]
    checked = sorted({(result.checked, len(result.work.lens)) for result in timed})
    runs = sorted({len(result.times) for result in timed})
    span = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    found = [
        f"Checked {', '.join(f'{some} of {all_of}' for some, all_of in checked)} sequences per row "
        "against the float64 oracle.",
        f"{span} runs each, {'cold' if options.cold else 'warm'} caches.",
    ]
    if any(work.distribution == DOCUMENTS for work in options.workloads):
        python = platform.python_version()
        found.append(f"Documents are Python {python}'s docstrings, a word a token.")
    if any(result.engine == "torch" for result in timed):
        torch = optional_module("torch")
        found.append(
            f"PyTorch {torch.__version__} runs on {torch.get_num_threads()} thread(s). Padding, "
            "masks and offsets are prepared before its time counts."
        )
    return found


def run(args: argparse.Namespace) -> int:
    """The exit status: 0, or 2 when nothing ran."""
    if args.list_presets:
        for known in PRESETS:
            print(f"{known.name:<14} {known.about}")
        return 0
    before = machine_notes()
    options = _options(args)
    facts = machine_facts(args.device, shlex.join(["raggeddnn", *args.words]))
    facts["caches"] = "cold" if args.cold else "warm"
    with progress_bar(sys.stderr) as progress:
        results = run_bench(options, progress)
    print_tables(results, sys.stdout)
    notes = [*_remarks(options, results), *before]
    print("\n".join([*LEGEND, *notes]))
    try:
        if args.csv:
            write_csv(args.csv, results, facts)
        if args.plot:
            write_plot(
                args.plot, results, f"{facts['date']}, {facts['processor']}: {facts['command']}"
            )
        if args.html:
            write_page(args.html, results, facts, notes)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from error
    return 0 if any(result.times for result in results) else 2
