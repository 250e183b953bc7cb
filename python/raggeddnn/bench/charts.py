"""What the charts show, for both the PNG file and the page: series, axes, ticks, colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .layouts import RAGGED
from .presets import FIXED
from .report import format_rate, format_time
from .runner import Measurement, short_name

# Readable on white and on near-black.
COLOURS = (
    "#2f7fd6", "#e07b1a", "#2a9d57", "#c94f7c", "#8a63d2",
    "#b08d1e", "#1ba0a8", "#d1495b", "#7f8790", "#6f8f2f",
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    result: Measurement


@dataclass(frozen=True)
class Series:
    """One contender; ``place`` is its place among all, and chooses the colour. ``line`` has the
    points that a line joins.
    """

    label: str
    place: int
    points: tuple[Point, ...]
    line: tuple[Point, ...]

    @property
    def colour(self) -> str:
        return COLOURS[self.place % len(COLOURS)]


@dataclass(frozen=True)
class Chart:
    """Dots and lines of one chart; y is logarithmic, x where ``log_x``."""

    key: str
    title: str
    x_label: str
    y_label: str
    log_x: bool
    series: tuple[Series, ...]

    @property
    def points(self) -> list[Point]:
        return [point for series in self.series for point in series.points]

    @property
    def is_relative(self) -> bool:
        """Is y a ratio, so that 1 is always shown?"""
        return self.key == "speedup"

    def y_range(self) -> tuple[float, float]:
        return log_range([point.y for point in self.points] + [1.0] * self.is_relative)

    def x_range(self) -> tuple[float, float]:
        """Of a logarithmic x."""
        return log_range([point.x for point in self.points])


@dataclass(frozen=True)
class Group:
    """Measurements of one preset, data type, mask and pass: what may share a chart."""

    title: str
    results: tuple[Measurement, ...]

    @property
    def labels(self) -> list[str]:
        """Contenders in the order of the run."""
        return list(dict.fromkeys(result.label for result in self.results))

    @property
    def timed(self) -> list[Measurement]:
        return [result for result in self.results if result.times]

    def colour(self, label: str) -> str:
        return COLOURS[self.labels.index(label) % len(COLOURS)]

    def chart(
        self,
        words: tuple[str, str, str, str],
        log_x: bool,
        x: Callable[[Measurement], float],
        y: Callable[[Measurement], float | None],
    ) -> Chart:
        """``words`` are the key, the title and the labels of both axes. Along a logarithmic x, a
        line joins points of one distribution, since others differ in padding as well.
        """
        kinds = list(dict.fromkeys(r.work.distribution for r in self.timed))
        joined = FIXED if FIXED in kinds else kinds[0] if kinds else ""
        series = []
        for place, label in enumerate(self.labels):
            values = [(x(r), y(r), r) for r in self.timed if r.label == label]
            points = sorted(
                (Point(at, value, r) for at, value, r in values if value),
                key=lambda point: point.x,
            )
            line = [p for p in points if log_x and p.result.work.distribution == joined]
            if points:
                series.append(Series(label, place, tuple(points), tuple(line)))
        key, title, x_label, y_label = words
        return Chart(key, title, x_label, y_label, log_x, tuple(series))

    def charts(self) -> tuple[Chart, Chart]:
        """Speed-up against padding, and rate against length."""
        return (
            self.chart(
                ("speedup", "Speed-up over padded", "rows of a padded batch that are padding, %",
                 "times as fast as padded, same engine"),
                False, lambda r: 100 * r.work.padding_share,
                lambda r: None if r.is_base else r.speedup,
            ),
            self.chart(
                ("rate", "Useful rate", "length of the sequence that a token lies in (mean)",
                 "useful GFLOP/s"),
                True, lambda r: r.work.typical_length,
                lambda r: None if r.rate is None else r.rate / 1e9,
            ),
        )  # fmt: skip

    def headline(self) -> str:
        """What was found about ragged and padded, and who was fastest, in a few sentences."""
        sentences = []
        for engine in dict.fromkeys(r.engine for r in self.timed):
            ragged = [
                r for r in self.timed if (r.engine, r.layout) == (engine, RAGGED) and r.speedup
            ]
            if ragged:
                sentences.append(f"{short_name(engine)}: {_gain(ragged)}")
        wins = [r.label for r in self.timed if r.of_fastest == 1]
        for label in sorted(set(wins), key=lambda name: -wins.count(name)):
            rates = [r.rate for r in self.timed if r.label == label and r.of_fastest == 1]
            place = "" if len(wins) == 1 else f" in {len(rates)} of {len(wins)} batches"
            sentences.append(
                f"Fastest{place}: {label}, {_span([format_rate(rate) for rate in rates])} useful "
                "GFLOP/s."
            )
        return " ".join(sentences) or "Nothing ran."


def _span(texts: Sequence[str]) -> str:
    """The smallest and the largest of some numbers written as text."""
    low, high = min(texts, key=float), max(texts, key=float)
    return low if low == high else f"{low} to {high}"


def _gain(ragged: Sequence[Measurement]) -> str:
    """What ragged wins over padded, over the batches."""
    speedups = _span([f"{r.speedup:.2f}" for r in ragged])
    padding = _span([f"{100 * r.work.padding_share:.0f}" for r in ragged])
    times = f", {format_time(ragged[0].median)}," if len(ragged) == 1 else ""
    return f"ragged{times} is {speedups} times as fast as padded at {padding} % padding."


def groups(results: Sequence[Measurement]) -> list[Group]:
    found: dict[str, list[Measurement]] = {}
    for result in results:
        found.setdefault(result.work.title, []).append(result)
    return [Group(title, tuple(members)) for title, members in found.items()]


def log_range(values: Sequence[float]) -> tuple[float, float]:
    """A range that holds the values with some room, at least a factor of 2.5 wide."""
    low, high = min(values), max(values)
    room = max(1.15, math.sqrt(2.5 / (high / low)) if high / low < 2.5 else 1.15)
    return low / room, high * room


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers inside a range, at most eight: the more powers of ten, the fewer in each."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 5), (1,)):
        ticks = [digit * 10.0**power for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 8:
            return ticks
    return ticks[:: math.ceil(len(ticks) / 8)]


def tick_text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
