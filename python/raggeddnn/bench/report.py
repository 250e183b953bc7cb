"""Progress bar, table, CSV and chart of a benchmark. rich and matplotlib are optional."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from .runner import Measurement, Progress

HEADINGS = ("engine", "layout", "tokens", "padding", "time", "spread", "speed-up", "memory")
BAR_WIDTH = 30


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


def _cells(result: Measurement) -> list[str]:
    speedup = "-" if result.speedup is None else f"{result.speedup:.2f}x"
    return [
        result.engine,
        result.layout,
        str(result.tokens),
        f"{100 * result.padding:.0f} %",
        format_time(result.median),
        "-" if result.spread is None else f"+-{100 * result.spread:.0f} %",
        speedup,
        format_bytes(result.memory) if result.memory else "-",
    ]


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded with spaces under their headings; the last one is not padded."""
    table = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    lines = []
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def print_table(results: Sequence[Measurement], out: TextIO) -> None:
    """The measurements as a table: drawn by rich on a terminal, else plain text."""
    rows = [_cells(result) for result in results]
    rich_table = _rich("table") if out.isatty() else None
    if rich_table is None:
        print(text_table(HEADINGS, rows), file=out)
    else:
        table = rich_table.Table()
        for column, heading in enumerate(HEADINGS):
            table.add_column(heading, justify="left" if column < 2 else "right")
        for row in rows:
            table.add_row(*row)
        _rich("console").Console(file=out).print(table)
    for result in results:
        if result.note:
            print(f"{result.engine}, {result.layout}: {result.note}", file=out)


def _rich(module: str) -> Any:
    """A module of rich, or None where rich is not installed."""
    import importlib

    try:
        return importlib.import_module(f"rich.{module}")
    except ImportError:
        return None


@contextmanager
def progress_bar(out: TextIO) -> Iterator[Progress]:
    """A callback ``(done, total, what)`` that draws a bar on ``out`` if that is a terminal."""
    if not out.isatty():
        yield lambda done, total, what: None
        return
    rich_progress = _rich("progress")
    if rich_progress is None:
        yield lambda done, total, what: draw_bar(out, done, total, what)
        print(file=out)
        return
    console = _rich("console").Console(file=out)
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


def write_csv(path: str, results: Sequence[Measurement], facts: dict[str, str]) -> None:
    """One line per measurement, each beginning with ``facts`` about the run. Times in seconds."""
    columns = ("engine", "layout", "tokens", "padding_share", "median_s", "spread", "repeats",
               "speedup", "memory_bytes", "checked_sequences", "note")  # fmt: skip
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*facts, *columns])
        for result in results:
            writer.writerow(
                [
                    *facts.values(),
                    result.engine,
                    result.layout,
                    result.tokens,
                    result.padding,
                    result.median,
                    result.spread,
                    len(result.times),
                    result.speedup,
                    result.memory,
                    result.checked,
                    result.note,
                ]
            )


def load_pyplot() -> Any:
    """matplotlib's pyplot, without a display; raises RuntimeError where it is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        raise RuntimeError(
            "--plot needs matplotlib, which is not installed (pip install 'raggeddnn[bench]')"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def write_plot(path: str, results: Sequence[Measurement], title: str) -> None:
    """A chart of the median times, one bar per layout and engine, in matplotlib's file types."""
    pyplot = load_pyplot()
    timed = [result for result in results if result.median is not None]
    labels = [f"{result.engine}\n{result.layout}" for result in timed]
    figure, axes = pyplot.subplots(figsize=(8, 0.6 + 0.5 * len(timed)), layout="constrained")
    bars = axes.barh(labels, [1e3 * (result.median or 0) for result in timed])
    axes.bar_label(bars, [f"{result.speedup:.2f}x" if result.speedup else "" for result in timed])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds per execute (speed-up against padded at the bars)")
    axes.set_title(title)
    figure.savefig(path)
    pyplot.close(figure)


def default_streams() -> tuple[TextIO, TextIO]:
    """Where tables and progress go: standard output and standard error."""
    return sys.stdout, sys.stderr
