"""Progress bar, tables and CSV of a benchmark. rich is optional."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from .device import optional_module
from .runner import Measurement, Progress
from .work import Workload

HEADINGS = ("contender", "time", "quartiles", "GFLOP/s", "speed-up", "padding", "memory", "host")
BAR_WIDTH = 30
LEGEND = (
    "Medians of interleaved runs. GFLOP/s: visible pairs of a query and a key only. Speed-up:",
    "against padded, of the same engine or of PyTorch. Memory: inputs, outputs, mask, known",
    "workspace. Host: one call on one token.",
)


def format_time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def format_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def format_rate(rate: float | None) -> str:
    """Operations per second in GFLOP/s."""
    return "-" if rate is None else f"{rate / 1e9:.3g}"


def cells(result: Measurement) -> list[str]:
    """A measurement under :data:`HEADINGS`."""
    quartiles = result.quartiles
    return [
        result.label,
        format_time(result.median),
        "-" if quartiles is None else " to ".join(format_time(t) for t in quartiles),
        format_rate(result.rate),
        "-" if result.speedup is None else f"{result.speedup:.2f}x",
        f"{100 * result.padding:.0f} %",
        format_bytes(result.memory) if result.memory else "-",
        format_time(result.host),
    ]


def by_workload(results: Sequence[Measurement]) -> dict[Workload, list[Measurement]]:
    found: dict[Workload, list[Measurement]] = {}
    for result in results:
        found.setdefault(result.work, []).append(result)
    return found


def reasons(results: Sequence[Measurement]) -> list[str]:
    """One line per remark, naming all whose remark it is."""
    names: dict[str, list[str]] = {}
    for result in results:
        if result.note and result.label not in names.setdefault(result.note, []):
            names[result.note].append(result.label)
    return [f"{'; '.join(labels)}: {note}" for note, labels in names.items()]


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded with spaces under their headings; the last one is not padded."""
    table = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    lines = []
    for row in table:
        texts = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(texts).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def print_tables(results: Sequence[Measurement], out: TextIO) -> None:
    """A table per workload, and why contenders are missing from it."""
    for work, group in by_workload(results).items():
        print(f"{work.title}\n{work.batch_words}", file=out)
        print_table(HEADINGS, [cells(result) for result in group if result.times], out)
        for line in reasons(group):
            print(line, file=out)
        print(file=out)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO) -> None:
    """Drawn by rich on a terminal, else plain text."""
    rich_table = optional_module("rich.table") if out.isatty() else None
    if rich_table is None:
        print(text_table(headings, rows), file=out)
        return
    table = rich_table.Table()
    for column, heading in enumerate(headings):
        table.add_column(heading, justify="left" if column == 0 else "right")
    for row in rows:
        table.add_row(*row)
    optional_module("rich.console").Console(file=out).print(table)


@contextmanager
def progress_bar(out: TextIO) -> Iterator[Progress]:
    """A callback ``(done, total, what)`` that draws a bar on ``out`` if that is a terminal."""
    if not out.isatty():
        yield lambda done, total, what: None
        return
    rich_progress = optional_module("rich.progress")
    if rich_progress is None:
        yield lambda done, total, what: draw_bar(out, done, total, what)
        print(file=out)
        return
    console = optional_module("rich.console").Console(file=out)
    with rich_progress.Progress(console=console, transient=True) as bar:
        task = bar.add_task("measuring")
        yield lambda done, total, what: bar.update(
            task, completed=done, total=total, description=what
        )


def draw_bar(out: TextIO, done: int, total: int, what: str) -> None:
    """A bar of plain characters in place of the line that ``out`` is on."""
    filled = BAR_WIDTH * done // max(total, 1)
    bar = "#" * filled + "." * (BAR_WIDTH - filled)
    print(f"\r[{bar}] {done}/{total} {what:<50.50}", end="", file=out, flush=True)


def erase_bar(out: TextIO) -> None:
    """Make that line empty again."""
    print("\r\033[K", end="", file=out, flush=True)


def _workload_columns(work: Workload) -> dict[str, Any]:
    return {
        "preset": work.preset.name,
        "heads": "/".join(str(n) for n in work.preset.heads),
        "head_dim": work.preset.head_dim,
        "lengths": work.distribution,
        "sequences": len(work.lens),
        "longest": work.s_max,
        "tokens": work.tokens,
        "typical_length": work.typical_length,
        "batch_padding_share": work.padding_share,
        "dtype": work.dtype,
        "causal": work.causal,
        "pass": work.pass_name,
        "seed": work.seed,
        "useful_flops": work.useful_flops,
    }


def _result_columns(result: Measurement) -> dict[str, Any]:
    low, high = result.quartiles or (None, None)
    return {
        "engine": result.engine,
        "layout": result.layout,
        "padding_share": result.padding,
        "median_s": result.median,
        "quartile1_s": low,
        "quartile3_s": high,
        "repeats": len(result.times),
        "useful_flops_per_s": result.rate,
        "speedup": result.speedup,
        "of_fastest": result.of_fastest,
        "memory_bytes": result.memory,
        "host_s": result.host,
        "checked_sequences": result.checked,
        "note": result.note,
    }


def write_csv(path: str, results: Sequence[Measurement], facts: dict[str, str]) -> None:
    """One line per measurement, each beginning with ``facts`` about the run. Times in seconds,
    shares 0 to 1.
    """
    rows = [{**facts, **_workload_columns(r.work), **_result_columns(r)} for r in results]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
