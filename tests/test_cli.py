"""The command line: info, bench, inspect."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import zlib

import fb_builder as fb
import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn import diagram
from raggeddnn.bench import PRESETS, Measurement, preset_named
from raggeddnn.bench.layouts import make_layouts
from raggeddnn.bench.presets import docstring_lengths
from raggeddnn.bench.report import (
    format_bytes,
    format_time,
    print_table,
    progress_bar,
    text_table,
)
from raggeddnn.bench.runner import host_engines
from raggeddnn.cli import main
from raggeddnn.testing import Case, assert_sdpa_close, make_problem
from raggeddnn.testing.graphs import sdpa_graph

LAYOUTS = ["ragged", "padded", "padded with lengths"]


def run(capsys, *args):
    """Exit status, standard output and standard error of a command."""
    status = main(list(args))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_info_lists_every_engine_and_why_not(capsys):
    status, out, _ = run(capsys, "info")
    assert status == 0 and rd.__version__ in out and np.__version__ in out
    for engine in rd.engines():
        line = next(line for line in out.splitlines() if line.startswith(engine.name))
        assert ("yes" if engine.available else "no") in line.split()
        if not engine.available:
            assert engine.reason and engine.reason in line


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "raggeddnn", "info"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "engine" in done.stdout, done.stderr


def test_bench_compares_three_layouts_on_every_engine(capsys, tmp_path):
    file = tmp_path / "bench.csv"
    status, out, _ = run(
        capsys, "bench", "--preset", "tiny", "--refcheck", "--repeats", "3", "--csv", str(file)
    )
    assert status == 0 and "speed-up" in out and "4 of 4 sequences" in out
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert [row["layout"] for row in rows] == LAYOUTS * len(host_engines())
    for row in rows:
        assert row["engine"] in out
        if not row["note"]:
            assert float(row["median_s"]) > 0 and int(row["repeats"]) == 3
            assert float(row["speedup"]) > 0 and int(row["checked_sequences"]) == 4
    by_layout = {row["layout"]: row for row in rows if not row["note"]}
    assert float(by_layout["ragged"]["padding_share"]) == 0
    assert float(by_layout["padded"]["padding_share"]) > 0
    assert float(by_layout["padded"]["speedup"]) == 1
    assert int(by_layout["ragged"]["memory_bytes"]) < int(by_layout["padded"]["memory_bytes"])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("causal", ["--causal", "--no-causal"])
def test_bench_takes_data_types_and_masks(capsys, dtype, causal):
    status, out, _ = run(
        capsys,
        "bench",
        "--preset",
        "tiny",
        "--engine",
        "reference",
        "--dtype",
        dtype,
        causal,
        "--repeats",
        "1",
        "--refcheck",
        "--seed",
        "5",
    )
    assert status == 0 and dtype in out and ("causal" in out) == (causal == "--causal")


def test_bench_reports_a_wrong_result(capsys, monkeypatch):
    def wrong(rows, *_, **__):
        raise AssertionError("O at head 0")

    monkeypatch.setattr("raggeddnn.bench.runner.assert_sdpa_close", wrong)
    status, _, err = run(capsys, "bench", "--preset", "tiny", "--repeats", "1")
    assert status == 1 and "wrong result: O at head 0" in err


def test_bench_lists_presets_and_names_unknown_ones(capsys):
    status, out, _ = run(capsys, "bench", "--list-presets")
    assert status == 0 and all(preset.name in out for preset in PRESETS)
    status, _, err = run(capsys, "bench", "--preset", "nothing")
    assert status == 2 and "nothing" in err and "docstrings" in err
    with pytest.raises(SystemExit):
        main(["bench", "--repeats", "0"])


@pytest.mark.parametrize("option", ["--csv", "--plot"])
def test_bench_refuses_a_missing_folder_before_measuring(capsys, monkeypatch, tmp_path, option):
    monkeypatch.setattr("raggeddnn.bench.run_bench", lambda *_: pytest.fail("measured"))
    file = tmp_path / "missing" / "a.png"
    status, _, err = run(capsys, "bench", "--preset", "tiny", option, str(file))
    assert status == 2 and err.count("\n") == 1
    assert f"{option} {file}: there is no folder {file.parent}" in err


def test_bench_refuses_an_unknown_engine_before_measuring(capsys, monkeypatch):
    monkeypatch.setattr("raggeddnn.bench.run_bench", lambda *_: pytest.fail("measured"))
    status, out, err = run(capsys, "bench", "--preset", "tiny", "--engine", "nope")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "no engine is named 'nope'; there are" in err and host_engines()[0] in err


def test_version_and_help(capsys):
    for args, texts in [
        (["--version"], [f"raggeddnn {rd.__version__}"]),
        (["bench", "--help"], ["time the ragged", "default docstrings", "equal, tiny"]),
        (["inspect", "--help"], ["print a serialized graph"]),
    ]:
        with pytest.raises(SystemExit) as done:
            main(args)
        assert done.value.code == 0
        flat = " ".join(capsys.readouterr().out.split())
        assert all(text in flat for text in texts)


@pytest.mark.parametrize("command", [["info"], ["bench", "--list-presets"], ["--help"]])
def test_a_reader_that_goes_away_is_no_error(command):
    with subprocess.Popen(
        [sys.executable, "-m", "raggeddnn", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        # argparse itself may pass over the error when it prints help.
        assert process.wait() in ((0, 141) if command == ["--help"] else (141,))


def test_bench_without_matplotlib_says_so_before_measuring(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("raggeddnn.bench.run_bench", lambda *_: pytest.fail("measured"))
    status, _, err = run(capsys, "bench", "--preset", "tiny", "--plot", str(tmp_path / "a.png"))
    assert status == 2 and "matplotlib" in err


def test_bench_draws_a_chart(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    file = tmp_path / "chart.png"
    status, _, _ = run(capsys, "bench", "--preset", "tiny", "--repeats", "1", "--plot", str(file))
    assert status == 0 and file.read_bytes().startswith(b"\x89PNG")


def test_lengths_are_reproducible_and_real():
    lengths = docstring_lengths()
    assert len(lengths) > 1000 and min(lengths) >= 1
    preset = preset_named("docstrings")
    first = preset.lengths(0)
    assert first == preset.lengths(0) != preset.lengths(1)
    assert len(first) == 64 and max(first) <= preset.longest and set(first) <= set(lengths)


@pytest.mark.parametrize("causal", [False, True])
def test_layouts_hold_the_same_numbers(causal):
    ragged, padded, with_lengths = make_layouts(preset_named("tiny"), "float32", causal, 0)
    for layout in (padded, with_lengths):
        o, _, _ = layout.problem.expected()
        assert_sdpa_close(layout.packed_rows(o).astype(np.float32), None, ragged.problem)
        assert layout.tokens == ragged.tokens and layout.padding_share > 0


def test_tables_and_units():
    assert text_table(("a", "bb"), [["x", "1"], ["long", "2"]]).splitlines() == [
        "a     bb",
        "----  --",
        "x     1",
        "long  2",
    ]
    assert [format_time(t) for t in (None, 2.5, 0.0125, 3e-6)] == ["-", "2.5 s", "12.5 ms", "3 us"]
    assert [format_bytes(n) for n in (12, 1536, 3 << 20, 5 << 30)] == [
        "12 B",
        "1.5 KiB",
        "3 MiB",
        "5.0 GiB",
    ]
    result = Measurement("e", "ragged", 1, 0.0, times=[1.0, 2.0, 3.0, 4.0, 5.0])
    assert result.median == 3 and result.spread == pytest.approx(1 / 3)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("with_rich", [True, False], ids=["rich", "plain"])
def test_a_terminal_gets_a_bar_and_a_table(monkeypatch, with_rich):
    if with_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setattr("raggeddnn.bench.report._rich", lambda module: None)
    terminal = Terminal()
    with progress_bar(terminal) as progress:
        for done in range(4):
            progress(done, 3, "engine, layout")
    assert ("[##########" in terminal.getvalue()) != with_rich
    monkeypatch.setenv("COLUMNS", "120")
    result = Measurement("an_engine", "ragged", 46, 0.25, times=[0.5], speedup=2.0, note="a note")
    print_table([result], terminal)
    for text in ("an_engine", "46", "25 %", "500 ms", "2.00x", "a note"):
        assert text in terminal.getvalue()


def test_off_a_terminal_nothing_is_drawn():
    out = io.StringIO()
    with progress_bar(out) as progress:
        progress(1, 3, "engine, layout")
    assert out.getvalue() == ""


def serialized(tmp_path, kind):
    problem = make_problem(
        Case("inspected", (3, 2), (4, 1), causal=True, scale_state="runtime", scale=0.5)
    )
    sdpa = sdpa_graph(problem)
    plan = sdpa.build("reference")
    file = tmp_path / "blob"
    file.write_bytes(sdpa.graph.serialize() if kind == "graph" else plan.serialize())
    return file


@pytest.mark.parametrize("kind", ["graph", "plan"])
def test_inspect_prints_tensors_and_nodes(capsys, tmp_path, kind):
    file = serialized(tmp_path, kind)
    status, out, _ = run(capsys, "inspect", str(file))
    assert status == 0
    for text in ("graph", "node 0: Sdpa", "─ q ", "─ o ", "right_bound=0", "by value, runtime"):
        assert text in out
    q_line = next(line for line in out.splitlines() if " q " in line and "ragged by" in line)
    assert "[2, 2, 3, 16]" in q_line and "offset_q x 32" in q_line
    status, out, _ = run(capsys, "inspect", "--json", str(file))
    document = json.loads(out)
    assert status == 0 and {tensor["name"] for tensor in document["graph"]["tensors"]} >= {"q", "o"}


@pytest.mark.parametrize("kind", ["graph", "plan"])
def test_inspect_draws(capsys, tmp_path, kind):
    file = serialized(tmp_path, kind)
    data = file.read_bytes()
    _, plain, _ = run(capsys, "inspect", str(file))
    _, _, *drawing = diagram.to_text(data).splitlines()  # after the graph's name and types
    assert "\n".join(drawing) in plain
    for form, draw in (("mermaid", diagram.to_mermaid), ("svg", diagram.to_svg)):
        status, out, _ = run(capsys, "inspect", f"--{form}", str(file))
        assert status == 0 and out == draw(data) + "\n"


@pytest.mark.parametrize("form", ["--mermaid", "--svg"])
def test_inspect_draws_no_plan_without_a_graph(capsys, tmp_path, form):
    file = tmp_path / "plan"
    file.write_bytes(fb.build_plan())
    assert run(capsys, "inspect", str(file))[0] == 0
    status, out, err = run(capsys, "inspect", form, str(file))
    assert status == 2 and out == "" and "a plan without a graph" in err and form in err


@pytest.mark.parametrize("forms", [("--json", "--svg"), ("--svg", "--mermaid")])
def test_inspect_prints_one_form(capsys, tmp_path, forms):
    with pytest.raises(SystemExit, match="2"):
        main(["inspect", *forms, str(serialized(tmp_path, "graph"))])
    assert "not allowed with" in capsys.readouterr().err


def test_inspect_refuses_what_it_cannot_read(capsys, tmp_path):
    status, _, err = run(capsys, "inspect", str(tmp_path / "missing"))
    assert status == 2 and "missing" in err
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"\x00\x01garbage" * 9)
    status, _, err = run(capsys, "inspect", str(garbage))
    assert status == 2 and "garbage" in err


def test_inspect_shows_a_payload_as_size_and_checksum(capsys, tmp_path):
    file = serialized(tmp_path, "plan")
    status, out, _ = run(capsys, "inspect", str(file))
    line = next(line for line in out.splitlines() if "plugin_payload" in line)
    document = json.loads(run(capsys, "inspect", "--json", str(file))[1])
    payload = bytes(document["plan"]["plugin_payload"])
    assert status == 0 and f"{len(payload)} bytes" in line and f"{zlib.crc32(payload):08x}" in line


def test_inspect_points_json_text_to_from_json(capsys, tmp_path):
    file = tmp_path / "graph.json"
    file.write_text('{"name": "a graph", "nodes": [], "tensors": []}', encoding="utf-8")
    status, _, err = run(capsys, "inspect", str(file))
    assert status == 2 and "reads serialized bytes" in err and "Graph.from_json reads JSON" in err
