"""The charts of the page as inline SVG. Every mark carries its numbers as data attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from .charts import Chart, Group, Point, Series, log_ticks, tick_text
from .report import cells, format_time
from .runner import Measurement
from .work import Workload

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 12, 50
BAR_HEIGHT, BAR_LEFT, BAR_RIGHT = 24, 210, 130

Scale = Callable[[float], float]


def _text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def hover_words(result: Measurement) -> str:
    """All that is known about one measurement, as the tooltip shows it."""
    label, time, quartiles, rate, speedup, _, memory, host = cells(result)
    share = "-" if result.of_fastest is None else f"{100 * result.of_fastest:.0f} %"
    return (
        f"{label}\n{time} (quartiles {quartiles}, {len(result.times)} runs)\n"
        f"{speedup} against padded; {share} of the fastest\n"
        f"{rate} useful GFLOP/s\n"
        f"memory {memory}, one call on one token {host}\n{result.work.batch_words}"
    )


def _mark(shape: str, result: Measurement, place: int, numbers: str, kind: str = "mark") -> str:
    words = escape(hover_words(result), quote=True)
    return (
        f'<{shape} class="{kind} s{place % 10}" data-series="{place}" {numbers} tabindex="0" '
        f'role="img" aria-label="{words}" data-tip="{words}"/>'
    )


def _dot(series: Series, point: Point, x: Scale, y: Scale) -> str:
    """A circle, or a square for the second ten contenders."""
    at_x, at_y = x(point.x), y(point.y)
    numbers = f'data-x="{point.x:.9g}" data-y="{point.y:.9g}"'
    if series.place < 10:
        shape = f'circle cx="{at_x:.1f}" cy="{at_y:.1f}" r="5"'
    else:
        shape = f'rect x="{at_x - 4.5:.1f}" y="{at_y - 4.5:.1f}" width="9" height="9"'
    return _mark(shape, point.result, series.place, numbers, "mark dot")


def _log_scale(low: float, high: float, start: float, end: float) -> Scale:
    span = math.log(high) - math.log(low)
    return lambda value: start + (end - start) * (math.log(value) - math.log(low)) / span


def line_chart(chart: Chart) -> str:
    """A chart as an SVG element, or a sentence where there is nothing to draw."""
    if not chart.points:
        return '<p class="soft">Nothing to draw: no contender has this number.</p>'
    low, high = chart.y_range()
    y = _log_scale(low, high, HEIGHT - BOTTOM, TOP)
    if chart.log_x:
        left, right = chart.x_range()
        x = _log_scale(left, right, LEFT, WIDTH - RIGHT)
        x_ticks = log_ticks(left, right)
    else:
        x_ticks = [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]

        def x(value: float) -> float:
            return LEFT + 8 + (WIDTH - RIGHT - LEFT - 16) * value / 100

    parts = [*_axes(chart, x, x_ticks, y, log_ticks(low, high))]
    for series in (series for series in chart.series if len(series.line) > 1):
        path = " ".join(f"{x(point.x):.1f},{y(point.y):.1f}" for point in series.line)
        parts.append(
            f'<polyline class="line s{series.place % 10}" data-series="{series.place}" '
            f'points="{path}"/>'
        )
    for series in reversed(chart.series):  # the first contender is ours, and lies on top
        parts += [_dot(series, point, x, y) for point in series.points]
    return (
        f'<svg class="chart" data-chart="{chart.key}" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
        f'aria-label="{escape(chart.title)}">{"".join(parts)}</svg>'
    )


def _axes(
    chart: Chart, x: Scale, x_ticks: Sequence[float], y: Scale, y_ticks: Sequence[float]
) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in y_ticks:
        kind = "grid one" if chart.is_relative and tick == 1 else "grid"
        at = y(tick)
        parts.append(f'<path class="{kind}" d="M{LEFT} {at:.1f}H{right}"/>')
        parts.append(_text(LEFT - 7, at + 4, tick_text(tick), "end"))
    for tick in x_ticks:
        at = x(tick)
        parts.append(f'<path class="grid" d="M{at:.1f} {TOP}V{bottom}"/>')
        parts.append(_text(at, bottom + 17, tick_text(tick), "middle"))
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
    parts.append(_text((LEFT + right) / 2, HEIGHT - 10, chart.x_label, "middle", ' class="soft"'))
    middle = (TOP + bottom) / 2
    turn = f' class="soft" transform="rotate(-90 14 {middle:.1f})"'
    parts.append(_text(14, middle, chart.y_label, "middle", turn))
    return parts


def bar_chart(work: Workload, results: Sequence[Measurement], group: Group, total: int) -> str:
    """One bar per contender, as long as its call, with time and speed-up beside it, in ``total``
    units of width.
    """
    timed = [result for result in results if result.median]
    longest = max((result.median or 0 for result in timed), default=1.0)
    parts = []
    for row, result in enumerate(timed):
        place = group.labels.index(result.label)
        top = row * BAR_HEIGHT
        share = (result.median or 0) / longest
        width = max((total - BAR_LEFT - BAR_RIGHT) * share, 1.5)
        shape = (
            f'rect x="{BAR_LEFT}" y="{top + 3}" width="{width:.1f}" height="{BAR_HEIGHT - 6}" '
            'rx="2"'
        )
        parts.append(_text(BAR_LEFT - 8, top + 16, result.label, "end"))
        parts.append(_mark(shape, result, place, f'data-seconds="{result.median:.9g}"'))
        words = format_time(result.median)
        words += f" \u00b7 {result.speedup:.2f}x" if result.speedup else ""
        parts.append(_text(BAR_LEFT + width + 8, top + 16, words, "start", ' class="value"'))
    height = max(len(timed), 1) * BAR_HEIGHT
    return (
        f'<figure class="bars"><figcaption>{escape(work.batch_words)}</figcaption>'
        f'<svg class="chart" data-chart="bars" viewBox="0 0 {total} {height}" role="group" '
        f'aria-label="Time of a call">{"".join(parts)}</svg></figure>'
    )
