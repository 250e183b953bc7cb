"""The charts as an image, by matplotlib, which is optional."""

from __future__ import annotations

import io
import itertools
import math
import os
import textwrap
from collections.abc import Sequence
from typing import Any

from .charts import Chart, Group, groups, log_ticks, tick_text
from .device import optional_module
from .report import by_workload, format_time
from .runner import Measurement
from .work import Workload

MARKERS = "osD^vP"
COLUMNS = 2


def load_pyplot() -> Any:
    """matplotlib's pyplot, without a display; raises RuntimeError where it is not installed."""
    matplotlib = optional_module("matplotlib")
    if matplotlib is None:
        raise RuntimeError(
            "--plot needs matplotlib, which is not installed (pip install 'raggeddnn[bench]')"
        )
    matplotlib.use("Agg")
    return optional_module("matplotlib.pyplot")


def check_plot(path: str) -> str:
    """The file that :func:`write_plot` makes of this name: .png is added to one without a type.

    Raises ValueError for a type that matplotlib cannot write here, found by writing a small image.
    """
    pyplot = load_pyplot()
    kind = os.path.splitext(path)[1][1:]
    figure = pyplot.figure(figsize=(1, 1))
    figure.text(0, 0, "a")  # pgf needs TeX for text alone
    try:
        figure.savefig(io.BytesIO(), format=kind or "png")
    except (ValueError, RuntimeError, ImportError, OSError) as error:
        raise ValueError(f"--plot {path}: {' '.join(str(error).split())}") from error
    finally:
        pyplot.close(figure)
    return path if kind else f"{path.rstrip('.')}.png"


def write_plot(path: str, results: Sequence[Measurement], caption: str) -> None:
    """Three kinds of charts for each preset, data type and pass: speed-up against padding, rate
    against length, and the times. The file's name says which of matplotlib's types it is.
    """
    pyplot = load_pyplot()
    shown = [group for group in groups(results) if group.timed]
    heights = [_height(group) for group in shown]
    figure = pyplot.figure(figsize=(15, sum(heights) + 0.4), layout="constrained")
    figure.suptitle(caption, fontsize=9, color="#555555")
    parts = figure.subfigures(max(len(shown), 1), 1, squeeze=False, height_ratios=heights or [1])
    for part, group in zip(parts[:, 0], shown, strict=False):
        _draw_group(part, group)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _bar_rows(group: Group) -> int:
    """Rows of bar charts: none where the only one stands beside the line charts."""
    count = len(by_workload(group.timed))
    return 0 if count == 1 else math.ceil(count / COLUMNS)


def _bar_height(group: Group) -> float:
    return 0.7 + 0.24 * len(group.labels)


def _height(group: Group) -> float:
    """Inches."""
    return 5.4 + _bar_rows(group) * _bar_height(group)


def _draw_group(part: Any, group: Group) -> None:
    words = "\n".join(textwrap.wrap(group.headline(), 150))
    part.suptitle(f"{group.title}\n{words}", fontsize=10)
    works, rows = by_workload(group.timed), _bar_rows(group)
    if rows == 0:
        bars, *axes = part.subplots(1, 3, width_ratios=(1.2, 1, 1))
        ((work, results),) = works.items()
        _draw_bars(bars, work, results, group)
    else:
        above, below = part.subfigures(2, 1, height_ratios=(5, rows * _bar_height(group)))
        axes = above.subplots(1, 2)
        places = below.subplots(rows, COLUMNS, squeeze=False, sharey=True).flat
        for work, place in itertools.zip_longest(works, places):
            if work is None:
                place.set_visible(False)
            else:
                _draw_bars(place, work, works[work], group)
    for chart, place in zip(group.charts(), axes, strict=True):
        _draw_lines(place, chart)
    axes[-1].legend(fontsize=7.5, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def _draw_bars(axes: Any, work: Workload, results: Sequence[Measurement], group: Group) -> None:
    labels = [label for label in group.labels if any(r.label == label for r in group.timed)]
    longest = max(result.median or 0 for result in results)
    for result in results:
        at = labels.index(result.label)
        share = (result.median or 0) / longest
        axes.barh(at, share, color=group.colour(result.label), height=0.75)
        text = format_time(result.median)
        text += f"  ({result.speedup:.2f}x)" if result.speedup else ""
        axes.text(share + 0.01, at, text, fontsize=8, va="center")
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlim(0, 1.4)
    axes.set_xticks([])
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_title(work.batch_words, fontsize=8, color="#555555")


def _draw_lines(axes: Any, chart: Chart) -> None:
    for series in chart.series:
        marker = MARKERS[series.place % len(MARKERS)]
        x, y = zip(*((point.x, point.y) for point in series.points), strict=True)
        style = {"marker": marker, "ms": 5, "color": series.colour, "zorder": 9 - series.place / 10}
        axes.plot(x, y, ls="", alpha=0.85, label=series.label, **style)
        axes.plot(
            [p.x for p in series.line], [p.y for p in series.line], lw=1.4, color=series.colour
        )
    axes.set_title(chart.title, fontsize=10)
    axes.set_xlabel(chart.x_label, fontsize=8)
    axes.set_ylabel(chart.y_label, fontsize=8)
    axes.grid(alpha=0.25)
    if chart.is_relative:
        axes.axhline(1, ls="--", lw=1, color="#9aa5b1")
    axes.tick_params(labelsize=8)
    if not chart.series:
        return
    low, high = chart.y_range()
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    ticks = log_ticks(low, high)
    axes.set_yticks(ticks, [tick_text(tick) for tick in ticks], fontsize=8)
    axes.minorticks_off()
    if chart.log_x:
        left, right = chart.x_range()
        axes.set_xscale("log")
        axes.set_xlim(left, right)
        ticks = log_ticks(left, right)
        axes.set_xticks(ticks, [tick_text(tick) for tick in ticks], fontsize=8)
        axes.minorticks_off()
    else:
        axes.set_xlim(-4, 104)
