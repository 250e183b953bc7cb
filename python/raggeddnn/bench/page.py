"""The results as one HTML page that loads nothing: charts, a table, and what was measured where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from .charts import COLOURS, Group, groups
from .page_svg import WIDTH, bar_chart, line_chart
from .report import LEGEND, by_workload, cells, reasons
from .runner import Measurement

HEADINGS = (
    "contender", "time", "quartiles", "useful GFLOP/s", "speed-up", "padding", "memory", "host",
)  # fmt: skip

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2733; --soft: #5a6878;
  --grid: #e3e7ec; --axis: #9aa5b1; --card: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --paper: #12161c; --ink: #e6edf3; --soft: #a3b0bf;
  --grid: #29313b; --axis: #667281; --card: #1b2129; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px; max-width: 1200px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { margin: 0; font-size: 24px; } h2 { margin: 36px 0 4px; font-size: 18px; }
h3 { margin: 0 0 4px; font-size: 14px; }
.soft, figcaption { color: var(--soft); font-size: 13px; }
.headline { margin: 0 0 12px; font-size: 16px; }
code, pre { font: 13px ui-monospace, Menlo, "DejaVu Sans Mono", monospace; white-space: pre-wrap; }
figure { margin: 0 0 16px; padding: 12px 14px; background: var(--card); border-radius: 8px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr));
  gap: 16px; margin-bottom: 16px; } .pair figure { margin: 0; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--ink); font-size: 12px; } svg text.soft { fill: var(--soft); }
.bars { overflow-x: auto; } .bars svg { min-width: 520px; } .bars text { font-size: 13px; }
.bars text.value { fill: var(--soft); }
.grid { stroke: var(--grid); } .grid.one { stroke: var(--axis); stroke-dasharray: 4 3; }
.axis { stroke: var(--axis); fill: none; } .line { fill: none; stroke-width: 2; }
.mark { cursor: pointer; } .dot { stroke: var(--card); stroke-width: 1.5; }
.mark:focus { outline: 2px solid var(--ink); outline-offset: 1px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 12px; padding: 0;
  list-style: none; font-size: 13px; } .legend li { cursor: default; }
.legend svg { display: inline-block; width: 12px; height: 12px; margin-right: 6px;
  vertical-align: -1px; }
.dimmed { opacity: 0.15; }
table { width: 100%; margin: 4px 0 12px; border-collapse: collapse; font-size: 13px;
  font-variant-numeric: tabular-nums; }
th, td { padding: 4px 8px; border-bottom: 1px solid var(--grid); text-align: right; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 500; }
.wide { overflow-x: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; font-size: 13px; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
#tip { position: fixed; z-index: 1; max-width: 460px; padding: 8px 10px; border-radius: 6px;
  background: var(--ink); color: var(--paper); font-size: 13px; white-space: pre-line;
  pointer-events: none; }
"""

_SCRIPT = """
"use strict";
const tip = document.getElementById("tip");
const marks = document.querySelectorAll("[data-tip]");
function place(x, y) {
  tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(8, Math.min(y + 14, innerHeight - tip.offsetHeight - 8)) + "px";
}
function focusOn(section, series) {
  for (const item of section.querySelectorAll("[data-series]"))
    item.classList.toggle("dimmed", series !== null && item.dataset.series !== series);
}
for (const mark of marks) {
  const show = (x, y) => { tip.textContent = mark.dataset.tip; tip.hidden = false; place(x, y); };
  const hide = () => { tip.hidden = true; };
  mark.addEventListener("pointerenter", event => show(event.clientX, event.clientY));
  mark.addEventListener("pointermove", event => place(event.clientX, event.clientY));
  mark.addEventListener("pointerleave", hide);
  mark.addEventListener("focus", () => {
    const box = mark.getBoundingClientRect();
    show(box.right, box.bottom);
  });
  mark.addEventListener("blur", hide);
}
for (const item of document.querySelectorAll("[data-series]")) {
  const section = item.closest("section");
  item.addEventListener("pointerenter", () => focusOn(section, item.dataset.series));
  item.addEventListener("pointerleave", () => focusOn(section, null));
}
document.getElementById("hint").textContent =
  marks.length + " marks: point at a bar, a dot or a name in a legend.";
"""


def _colours() -> str:
    rules = (
        f".s{place} {{ fill: {colour}; }} .line.s{place} {{ fill: none; stroke: {colour}; }}"
        for place, colour in enumerate(COLOURS)
    )
    return "\n".join(rules)


def _legend(group: Group) -> str:
    shown = {result.label for result in group.timed}
    items = []
    for place, label in enumerate(group.labels):
        if label in shown:
            shape = '<circle cx="6" cy="6" r="6"' if place < 10 else '<rect width="12" height="12"'
            swatch = f'<svg viewBox="0 0 12 12">{shape} class="s{place % 10}"/></svg>'
            items.append(f'<li data-series="{place}">{swatch}{escape(label)}</li>')
    return f'<ul class="legend">{"".join(items)}</ul>'


def _row(tag: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in texts)}</tr>"


def _tables(group: Group) -> str:
    parts = []
    for work, results in by_workload(group.results).items():
        rows = "".join(_row("td", cells(result)) for result in results if result.times)
        parts.append(
            f'<h3>{escape(work.batch_words)}</h3><div class="wide"><table><thead>'
            f"{_row('th', HEADINGS)}</thead><tbody>{rows}</tbody></table></div>"
        )
    missing = "".join(f"<li>{escape(line)}</li>" for line in reasons(group.results))
    return "".join(parts) + (f'<ul class="soft missing">{missing}</ul>' if missing else "")


def _section(group: Group) -> str:
    works = by_workload(group.results)
    total = WIDTH if len(works) > 1 else 2 * WIDTH
    bars = "".join(bar_chart(work, results, group, total) for work, results in works.items())
    bars = f"<h3>Time of a call, and speed-up over padded</h3>{_grid(bars, len(works) > 1)}"
    lines = "".join(
        f"<figure><h3>{escape(chart.title)}</h3>{line_chart(chart)}</figure>"
        for chart in group.charts()
    )
    lines = _grid(lines, True)
    # The charts of a single batch have one dot per contender: its bars say more.
    figures = lines + bars if len(works) > 1 else bars + lines
    return (
        f'<section><h2>{escape(group.title)}</h2><p class="headline">{escape(group.headline())}</p>'
        f"{_legend(group)}{figures}{_tables(group)}</section>"
    )


def _grid(figures: str, in_pairs: bool) -> str:
    return f'<div class="pair">{figures}</div>' if in_pairs else figures


def page(results: Sequence[Measurement], facts: dict[str, str], notes: Sequence[str]) -> str:
    """The whole page. ``facts`` are those of the CSV file, ``notes`` sentences about the run."""
    sections = "".join(_section(group) for group in groups(results))
    table = "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(value)}</dd>"
        for name, value in facts.items()
    )
    remarks = "".join(f"<p>{escape(line)}</p>" for line in (" ".join(LEGEND), *notes))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>raggeddnn bench</title><style>{_STYLE}{_colours()}</style></head><body>"
        f'<h1>Ragged attention, measured</h1><p class="soft">{escape(facts["date"])}, '
        f"{escape(facts['processor'])}, {escape(facts['cores'])} cores, "
        f"{escape(facts['device'])}. <code>{escape(facts['command'])}</code><br>"
        f'<span id="hint"></span></p>{sections}'
        f'<h2>How it was measured</h2><div class="soft">{remarks}</div>'
        f"<h2>Machine</h2><dl>{table}</dl>"
        f'<div id="tip" hidden></div><script>{_SCRIPT}</script></body></html>\n'
    )


def write_page(
    path: str, results: Sequence[Measurement], facts: dict[str, str], notes: Sequence[str]
) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(page(results, facts, notes))
