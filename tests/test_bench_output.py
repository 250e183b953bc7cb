"""What ``raggeddnn bench`` prints and writes: options, tables, CSV, charts and the page."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from raggeddnn.bench import PRESETS, Measurement, Workload, preset_named
from raggeddnn.bench.charts import groups, log_range, log_ticks
from raggeddnn.bench.facts import machine_facts
from raggeddnn.bench.ours import host_engines
from raggeddnn.bench.page import page
from raggeddnn.bench.plot import check_plot
from raggeddnn.bench.report import (
    LEGEND,
    format_bytes,
    format_time,
    print_tables,
    progress_bar,
    reasons,
    text_table,
)
from raggeddnn.bench.runner import short_name
from raggeddnn.cli import main

LAYOUTS = ["ragged", "padded", "padded with lengths", "loop over sequences"]
TINY = ("bench", "--preset", "tiny", "--no-peers", "--repeats", "1")


def run(capsys, *args):
    """Exit status, standard output and standard error of a command."""
    status = main(list(args))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def rows_of(file):
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A CSV file and a page of the same run: two passes of three batches."""
    folder = tmp_path_factory.mktemp("bench")
    status = main(
        ["bench", "--preset", "tiny", "--pass", "forward,backward", "--lengths", "fixed,one-long",
         "--longest", "8,24", "--repeats", "3", "--csv", str(folder / "a.csv"),
         "--html", str(folder / "a.html")]
    )  # fmt: skip
    assert status == 0
    return rows_of(folder / "a.csv"), (folder / "a.html").read_text(encoding="utf-8")


def test_bench_compares_our_layouts_on_every_engine(capsys, tmp_path):
    file = tmp_path / "bench.csv"
    args = ("--preset", "tiny", "--refcheck", "--no-peers", "--repeats", "3", "--csv", str(file))
    status, out, _ = run(capsys, "bench", *args)
    assert status == 0 and "speed-up" in out and "Checked 4 of 4 sequences" in out
    assert "3 runs each, warm caches" in out and "docstrings, a word a token" in out
    rows = rows_of(file)
    assert [row["layout"] for row in rows] == LAYOUTS * len(host_engines())
    for row in rows:
        if not row["note"]:
            assert float(row["median_s"]) > 0 and int(row["repeats"]) == 3
            low, high = float(row["quartile1_s"]), float(row["quartile3_s"])
            assert low <= float(row["median_s"]) <= high
            assert float(row["speedup"]) > 0 and int(row["checked_sequences"]) == 4
    by_layout = {row["layout"]: row for row in rows if not row["note"]}
    assert float(by_layout["ragged"]["padding_share"]) == 0
    assert float(by_layout["padded"]["padding_share"]) > 0
    assert float(by_layout["padded"]["speedup"]) == 1


def test_the_csv_states_machine_workload_and_result(measured):
    rows, _ = measured
    first = rows[0]
    for name in ("date", "command", "processor", "cores", "system", "python", "numpy", "torch",
                 "torch_threads", "load", "last_level_cache_bytes", "device"):  # fmt: skip
        assert first[name]
    assert first["command"].startswith("raggeddnn bench --preset tiny --pass forward,backward")
    assert first["caches"] == "warm" and first["heads"] == "2/1/1" and first["dtype"] == "float32"
    works = {(r["pass"], r["lengths"], r["longest"]) for r in rows}
    assert len(works) == 2 * 2 * 2
    for row in rows:
        if row["median_s"]:
            rate = float(row["useful_flops"]) / float(row["median_s"])
            assert float(row["useful_flops_per_s"]) == pytest.approx(rate)
        else:
            assert row["note"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("causal", ["--causal", "--no-causal"])
def test_bench_takes_data_types_and_masks(capsys, dtype, causal):
    status, out, _ = run(
        capsys, *TINY, "--engine", "reference", "--dtype", dtype, causal, "--seed", "5", "--cold"
    )
    assert status == 0 and dtype in out and ("causal" in out) == (causal == "--causal")
    assert "cold caches" in out


def test_lists_repeat_and_multiply(capsys, tmp_path):
    file = tmp_path / "a.csv"
    status, _, _ = run(
        capsys, *TINY, "--pass", "forward", "--pass", "backward,forward+backward", "--dtype",
        "float32, float64", "--longest", "8,16", "--lengths", "fixed", "--tokens", "20",
        "--csv", str(file),
    )  # fmt: skip
    assert status == 0
    found = {(r["pass"], r["dtype"], r["longest"], r["tokens"]) for r in rows_of(file)}
    assert len(found) == 3 * 2 * 2 and {entry[3] for entry in found} == {"20"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--preset", "nothing"], "no preset is named 'nothing'; there are encoder"),
        (["--lengths", "normal"], "--lengths normal: expected one of documents, log-uniform"),
        (["--pass", "sideways"], "--pass sideways: expected one of forward, backward"),
        (["--dtype", "float32,int8"], "--dtype int8: expected one of float32"),
        (["--engine", "nope"], "no engine is named 'nope'; there are"),
        (["--csv", "/no/such/folder/a.csv"], "--csv /no/such/folder/a.csv: there is no folder"),
        (["--plot", "/no/such/folder/a.png"], "there is no folder /no/such/folder"),
        (["--html", "/no/such/folder/a.html"], "there is no folder /no/such/folder"),
        (["--html", "/tmp"], "--html /tmp: is a folder, expected a file"),
        (["--html", ""], "--html '': expected the name of a file"),
        (["--csv", "x", "--html", "x"], "--html x: is the file of --csv x, expected another"),
        (["--csv", "x", "--html", "../tests/./x"], "--html ../tests/./x: is the file of --csv x"),
    ],
)
def test_mistakes_are_found_before_measuring(capsys, monkeypatch, args, words):
    monkeypatch.setattr("raggeddnn.bench.command.run_bench", lambda *_: pytest.fail("measured"))
    monkeypatch.chdir(Path(__file__).parent)
    status, out, err = run(capsys, "bench", *args)
    assert (status, out, err.count("\n")) == (2, "", 1) and words in err


@pytest.mark.parametrize(
    "args",
    [["--repeats", "0"], ["--time", "0"], ["--time", "nan"], ["--tokens", "-1"],
     ["--longest", "8,0"], ["--longest", "x"], ["--sequences", "0"], ["--device", "tpu"],
     ["--seed", "-1"], ["--seed", str(10**30)], ["--longest", ","], ["--dtype", ","],
     ["--preset", ""], ["--lengths", " "], ["--pass", ", ,"], ["--sequences", str(10**11)],
     ["--repeats", str(10**11)], ["--longest", str(10**400)], ["--tokens", str(10**400)]],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(capsys, monkeypatch, args):
    monkeypatch.setattr("raggeddnn.bench.command.draw_lengths", lambda *_: pytest.fail("drawn"))
    with pytest.raises(SystemExit, match="2"):
        main(["bench", *args])
    assert args[0] in capsys.readouterr().err


def test_missing_packages_are_named_before_measuring(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("raggeddnn.bench.command.run_bench", lambda *_: pytest.fail("measured"))
    for module, args in (
        ("matplotlib", ["--plot", str(tmp_path / "a.png")]),
        ("ml_dtypes", ["--dtype", "bfloat16"]),
        ("torch", ["--device", "cuda"]),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            status, _, err = run(capsys, *TINY, *args)
            assert status == 2 and (module in err or module.replace("t", "T", 1) in err)


def test_no_engine_is_chosen_on_a_gpu(capsys, monkeypatch):
    monkeypatch.setattr("raggeddnn.bench.command.clock_for", lambda _: None)
    status, _, err = run(capsys, *TINY, "--device", "cuda", "--engine", "reference")
    assert status == 2 and "--engine reference: on cuda memory the library chooses it" in err


def test_bench_lists_presets(capsys):
    status, out, _ = run(capsys, "bench", "--list-presets")
    assert status == 0 and all(preset.name in out for preset in PRESETS)


def test_bench_reports_a_wrong_result(capsys, monkeypatch):
    def wrong(*_, **__):
        raise AssertionError("O at head 0")

    monkeypatch.setattr("raggeddnn.bench.checking.assert_sdpa_close", wrong)
    status, _, err = run(capsys, *TINY)
    assert status == 1 and "wrong result: O at head 0" in err


def test_a_chosen_blas_kernel_is_unset_and_told(capsys, monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    _, out, _ = run(capsys, *TINY)
    assert "OPENBLAS_CORETYPE was Haswell; it is unset" in out
    assert "OPENBLAS_CORETYPE" not in os.environ


def test_a_busy_machine_is_told(capsys, monkeypatch):
    for load, told in ((0.0, False), (99.0, True)):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert ("The machine was busy before the run" in run(capsys, *TINY)[1]) == told


def test_peers_that_do_not_run_are_told_with_their_reason(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    status, out, _ = run(capsys, "bench", "--preset", "tiny", "--repeats", "1")
    (line,) = (line for line in out.splitlines() if "PyTorch is not installed" in line)
    assert status == 0 and "torch: SDPA padded; torch: SDPA loop over split" in line


def test_bench_draws_charts(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    for more in ([], ["--longest", "8,16,24", "--pass", "forward,backward"]):
        file = tmp_path / f"{len(more)}.png"
        status, _, _ = run(capsys, *TINY, *more, "--plot", str(file))
        assert status == 0 and file.read_bytes().startswith(b"\x89PNG")


def test_plots_of_types_that_cannot_be_written_are_refused(capsys, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("raggeddnn.bench.command.run_bench", lambda *_: pytest.fail("measured"))
    file = tmp_path / "x.foo"
    status, out, err = run(capsys, *TINY, "--plot", str(file))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"--plot {file}: Format 'foo' is not supported" in err
    # matplotlib adds its own type to a name without any.
    for name in ("x", "x."):
        args = ("--plot", str(tmp_path / name), "--csv", str(tmp_path / "x.png"))
        status, _, err = run(capsys, *TINY, *args)
        assert status == 2 and "x.png: is the file of --csv" in err
        assert check_plot(str(tmp_path / name)) == str(tmp_path / "x.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_file_of_two_names_is_written_once(capsys, monkeypatch, tmp_path, link):
    monkeypatch.setattr("raggeddnn.bench.command.run_bench", lambda *_: pytest.fail("measured"))
    (tmp_path / "a").write_text("kept")
    link(tmp_path / "a", tmp_path / "b")
    args = ("--csv", str(tmp_path / "a"), "--html", str(tmp_path / "b"))
    status, _, err = run(capsys, *TINY, *args)
    assert status == 2 and f"b: is the file of --csv {tmp_path / 'a'}" in err
    assert (tmp_path / "a").read_text() == "kept"


def test_tables_and_units():
    assert text_table(("a", "bb"), [["x", "1"], ["long", "2"]]).splitlines() == [
        "a     bb",
        "----  --",
        "x     1",
        "long  2",
    ]
    assert [format_time(t) for t in (None, 2.5, 0.0125, 3e-6)] == ["-", "2.5 s", "12.5 ms", "3 us"]
    sizes = [format_bytes(n) for n in (12, 1536, 3 << 20, 5 << 30)]
    assert sizes == ["12 B", "1.5 KiB", "3 MiB", "5.0 GiB"]
    result = Measurement(
        work(), "RAGGEDDNN_X_ENGINE", "ragged", 0.0, times=[1.0, 2.0, 3.0, 4.0, 5.0]
    )
    assert result.median == 3 and result.quartiles == (2, 4) and result.label == "x: ragged"


def test_axes_hold_their_values():
    for values in ([5.0], [1.0, 1.2], [0.02, 900.0], [3e-9, 4e9]):
        low, high = log_range(values)
        ticks = log_ticks(low, high)
        assert low < min(values) <= max(values) < high and 2 <= len(ticks) <= 8
        assert all(low <= tick <= high for tick in ticks)


def work(lens=(24, 12, 10)):
    return Workload(preset_named("tiny"), "documents", lens)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("with_rich", [True, False], ids=["rich", "plain"])
def test_a_terminal_gets_a_bar_and_a_table(monkeypatch, with_rich):
    if with_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setattr("raggeddnn.bench.report.optional_module", lambda name: None)
    terminal = Terminal()
    with progress_bar(terminal) as progress:
        for done in range(4):
            progress(done, 3, "engine, layout")
    assert ("[##########" in terminal.getvalue()) != with_rich
    monkeypatch.setenv("COLUMNS", "140")
    result = Measurement(
        work(), "an_engine", "ragged", 0.25, times=[0.5], speedup=2.0, note="a note", memory=2048
    )
    print_tables([result], terminal)
    for text in ("an_engine: ragged", "46 tokens", "25 %", "500 ms", "2.00x", "a note", "2 KiB"):
        assert text in terminal.getvalue()


def test_off_a_terminal_nothing_is_drawn():
    out = io.StringIO()
    with progress_bar(out) as progress:
        progress(1, 3, "engine, layout")
    assert out.getvalue() == ""


class Page(HTMLParser):
    """Marks, legends, cells and everything that a browser would load or run."""

    def __init__(self, text):
        super().__init__()
        self.void = {"meta", "br", "link", "img", "input"}
        self.marks, self.lines, self.open, self.cells, self.loads = [], [], [], [], []
        self.items = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.loads += [value for name, value in attrs if name in ("src", "href", "srcset", "data")]
        self.loads += [tag] if tag in ("link", "iframe", "object", "embed", "img", "base") else []
        if tag == "svg":
            self.chart = values.get("data-chart")
        if "data-tip" in values:
            self.marks.append({**values, "chart": self.chart})
        if tag == "polyline":
            self.lines.append(values)
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells.append(data)
        if self.open and self.open[-1] == "li":
            self.items.append(data)


def test_the_page_loads_nothing(measured):
    _, text = measured
    found = Page(text)
    assert found.open == [] and found.loads == []
    assert "http:" not in text and "https:" not in text and "url(" not in text
    assert "@import" not in text and "fetch(" not in text and "prefers-color-scheme" in text


def test_the_page_shows_the_numbers_of_the_csv(measured):
    rows, text = measured
    found = Page(text)
    timed = [row for row in rows if row["median_s"]]

    def shown(chart, name):
        return sorted(float(mark[name]) for mark in found.marks if mark["chart"] == chart)

    assert shown("bars", "data-seconds") == pytest.approx(
        sorted(float(row["median_s"]) for row in timed), rel=1e-8
    )
    assert shown("rate", "data-y") == pytest.approx(
        sorted(float(row["useful_flops_per_s"]) / 1e9 for row in timed), rel=1e-8
    )
    assert shown("rate", "data-x") == pytest.approx(
        sorted(float(row["typical_length"]) for row in timed), rel=1e-8
    )
    compared = [row for row in timed if row["layout"] not in ("padded", "SDPA padded")]
    assert shown("speedup", "data-y") == pytest.approx(
        sorted(float(row["speedup"]) for row in compared), rel=1e-8
    )
    assert shown("speedup", "data-x") == pytest.approx(
        sorted(100 * float(row["batch_padding_share"]) for row in compared), rel=1e-6
    )


def test_the_page_names_every_contender(measured):
    rows, text = measured
    found = Page(text)
    names = {f"{short_name(row['engine'])}: {row['layout']}" for row in rows}
    ran = {mark["data-tip"].splitlines()[0] for mark in found.marks}
    in_tables = set(found.cells) & names
    assert ran == in_tables and ran < names
    # A line over the fixed lengths for each that ran, in two passes; the others have their reason.
    assert len(found.lines) == 2 * len(ran)
    assert all(any(name in item for item in found.items) for name in names)
    assert rows[0]["command"] in text and rows[0]["processor"] in text


def test_names_are_escaped():
    hostile = Measurement(work(), "<b>&\"'", "</script>", 0.0, times=[1.0], note="<i>")
    facts = machine_facts("cpu", "raggeddnn bench '<script>'")
    text = page([hostile], facts, ["<u>"])
    assert Page(text).open == [] and "<b>" not in text and "<i>" not in text and "<u>" not in text
    assert text.count("</script>") == 1


def test_a_page_of_contenders_that_did_not_run():
    result = Measurement(work(), "e", "ragged", 0.0, note="not here")
    text = page([result], machine_facts("cpu", "raggeddnn bench"), [])
    assert "Nothing ran." in text and "Nothing to draw" in text and "not here" in text
    assert groups([result])[0].timed == [] and reasons([result]) == ["e: ragged: not here"]
    assert all(line in " ".join(LEGEND) for line in LEGEND)


WATCH = """<script>window.faults = []; addEventListener("error", e => faults.push(e.message));
</script>"""
HOVER = """<script>
const first = document.querySelector('svg[data-chart="bars"] [data-tip]');
first.dispatchEvent(new PointerEvent("pointerenter", {clientX: 5, clientY: 5}));
const root = document.documentElement.dataset;
root.told = String(tip.textContent === first.dataset.tip && !tip.hidden);
const section = first.closest("section");
const dim = [...section.querySelectorAll(".dimmed")].map(item => item.dataset.series);
root.dimmed = String(dim.length > 0 && !dim.includes(first.dataset.series));
first.dispatchEvent(new PointerEvent("pointerleave"));
root.gone = String(tip.hidden && document.querySelector(".dimmed") === null);
root.wide = String(document.documentElement.scrollWidth <= innerWidth);
root.faults = JSON.stringify(faults);
</script></body>"""


def test_the_page_works_in_a_browser(measured, tmp_path):
    if os.environ.get("RAGGEDDNN_NO_BROWSER") == "1":
        pytest.skip("RAGGEDDNN_NO_BROWSER=1: the page is not opened in a browser")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    browser = next(filter(None, map(shutil.which, names)), None)
    assert browser, f"no browser of {names} is on the PATH; RAGGEDDNN_NO_BROWSER=1 skips this test"
    _, text = measured
    file = tmp_path / "page.html"
    watched = text.replace("<head>", f"<head>{WATCH}").replace("</body>", HOVER)
    file.write_text(watched, encoding="utf-8")
    # A preloaded sanitizer is for Python's process only.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,900", file.as_uri()],
        capture_output=True, text=True, check=False, timeout=60, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    root = done.stdout[: done.stdout.index("<head>")]
    for name in ("told", "dimmed", "gone", "wide"):
        assert f'data-{name}="true"' in root, root
    assert 'data-faults="[]"' in root
    count = len(Page(text).marks)
    assert f'<span id="hint">{count} marks: point at' in done.stdout
