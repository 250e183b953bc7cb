"""``raggeddnn verify``: which engines, one line for each case, a summary, and an exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from .._arrays import GPU_DEVICES
from .._document import printable
from ..bench.report import draw_bar, erase_bar
from ..testing.checks import is_named, is_reference
from .session import FAULTS, KINDS, Outcome, Session
from .subject import VerifyCase
from .suite import chosen_cases

HOST_DEVICES = ("", "cpu", "host")  # "": unstated, as a provider of hipDNN's leaves it


@dataclass(frozen=True)
class VerifyOptions:
    """``engine`` None: every one of ``plugin``, a file or folder; without that, every available one
    but the reference. ``timeout`` in seconds, for each case.
    """

    engine: str | None = None
    plugin: Path | None = None
    globs: Sequence[str] | None = None
    timeout: float = 60.0
    verbose: bool = False


def list_cases(globs: Sequence[str] | None, out: TextIO) -> None:
    """Print the names of the cases, each with what it checks."""
    cases = chosen_cases(globs)
    width = max(len(case.name) for case in cases)
    for case in cases:
        print(f"{case.name:<{width}}  {case.about}", file=out)


def _is_from(plugin: Path, engine: dict[str, Any]) -> bool:
    own = Path(engine["path"])
    return plugin.resolve() in (own.resolve(), own.parent.resolve())


def _refuse_twins(engines: Sequence[dict[str, Any]]) -> None:
    """Of two engines with one name only the first is loaded; the other would pass unseen."""
    paths: dict[str, str] = {}
    for engine in engines:
        name, path = engine["name"], engine["path"]
        if name in paths:
            raise ValueError(f"{name} is in {paths[name]} and {path}, expected it in one")
        paths[name] = path


def _is_known(device: str) -> bool:
    return device.lower() in HOST_DEVICES or device in GPU_DEVICES


def choose_engines(
    options: VerifyOptions, engines: Sequence[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The engines to verify, and notes on those left out.

    Raises ValueError, with what there is, when none is left.
    """
    found = list(engines)
    if options.plugin is not None:
        found = [engine for engine in found if _is_from(options.plugin, engine)]
        _refuse_twins(found)
    if options.engine is not None:
        known = ", ".join(engine["name"] for engine in found) or "none"
        found = [engine for engine in found if is_named(engine["name"], options.engine)]
        if not found:
            raise ValueError(f"no engine is named {options.engine!r}; there are {known}")
    elif options.plugin is None:
        found = [engine for engine in found if not is_reference(engine["name"])]
    notes, chosen = [], []
    for engine in found:
        if not engine["available"]:
            notes.append(f"{engine['name']} is not available: {engine['reason']}")
        elif not _is_known(engine["device"]):
            notes.append(
                f"{engine['name']} works on {engine['device']} memory, expected that of the host "
                f"or of a GPU ({' or '.join(GPU_DEVICES)})"
            )
        else:
            chosen.append(engine)
    if not chosen:
        where = (
            "here but the reference engine" if options.plugin is None else f"in {options.plugin}"
        )
        raise ValueError("; ".join(notes) or f"there is no engine {where}")
    return chosen, notes


def _line(outcome: Outcome) -> str:
    detail = printable("; ".join(outcome.detail.splitlines()))
    return f"{outcome.kind:<9}  {outcome.case}{': ' if detail else ''}{detail}"


class _Reporter:
    """Lines on standard output, and a bar on standard error where that is a terminal."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err
        self._has_bar = err.isatty()

    def progress(self, done: int, total: int, what: str) -> None:
        if self._has_bar:
            draw_bar(self._err, done, total, what)

    def line(self, text: str) -> None:
        self.clear()
        print(text, file=self._out, flush=True)

    def clear(self) -> None:
        if self._has_bar:
            erase_bar(self._err)


def _verify_engine(
    session: Session,
    engine: dict[str, Any],
    cases: Sequence[VerifyCase],
    options: VerifyOptions,
    reporter: _Reporter,
) -> Counter[str]:
    name, file = printable(engine["name"]), Path(engine["path"]).name
    reporter.line(printable(f"{name} ({engine['plugin']} {engine['version']}, {file})"))
    counts: Counter[str] = Counter()
    for done, case in enumerate(cases):
        reporter.progress(done, len(cases), case.name)
        outcome = session.run(engine["name"], case.name, options.timeout)
        counts[outcome.kind] += 1
        reporter.line(_line(outcome))
        if options.verbose and outcome.log:
            for text in outcome.log.splitlines():
                reporter.line(f"    {printable(text)}")
    said = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS)
    reporter.line(f"{name}: {len(cases)} cases: {said}\n")
    return counts


def run_verify(options: VerifyOptions, out: TextIO, err: TextIO) -> int:
    """Verify and print. Returns 0 when some case ran and none is wrong, crashed or timed out, else
    1. Raises ValueError for an engine, a plugin or a case that cannot be had.
    """
    cases = chosen_cases(options.globs)
    reporter = _Reporter(out, err)
    total: Counter[str] = Counter()
    try:
        with Session(options.plugin) as session:
            engines, notes = choose_engines(options, session.engines)
            for note in notes:
                reporter.line(f"left out: {printable(note)}")
            for engine in engines:
                total += _verify_engine(session, engine, cases, options, reporter)
    finally:
        reporter.clear()
    if total["refused"] == total.total():
        reporter.line("nothing ran: every case was refused")
        return 1
    return 1 if any(total[kind] for kind in FAULTS) else 0
