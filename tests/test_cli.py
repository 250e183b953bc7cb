"""The command line: info and inspect; bench has tests of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path

import cpp_build
import fb_builder as fb
import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn import diagram
from raggeddnn.cli import gpu_engines_in_builds, main
from raggeddnn.testing import Case, make_problem
from raggeddnn.testing.graphs import sdpa_graph


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


def configured(tmp_path, *options):
    """What the build records of the GPU engine."""
    cpp_build.configure(cpp_build.ROOT, tmp_path, "-DRAGGEDDNN_BUILD_PYTHON=OFF", *options)
    (recorded,) = gpu_engines_in_builds(tmp_path / "engines")
    return recorded


def test_info_says_whether_the_gpu_engine_is_in_this_build(capsys):
    _, out, _ = run(capsys, "info")
    line = next(line for line in out.splitlines() if line.startswith("GPU engine: "))
    is_there = any(Path(e.path).name == "libraggeddnn_hip.so" for e in rd.engines())
    assert line.startswith("GPU engine: built for sm_" if is_there else "GPU engine: left out of")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["-DRAGGEDDNN_GPU_TARGETS=none"], "RAGGEDDNN_GPU_TARGETS is none"),
        (
            ["-DCMAKE_CUDA_COMPILER=NOTFOUND"],
            "no GPU compiler (nvcc, or clang with HIP's runtime) was found",
        ),
        (
            ["-DCMAKE_CUDA_COMPILER=nvcc", "-DNVIDIA_SMI=/bin/false"],
            "no GPU was found, and RAGGEDDNN_GPU_TARGETS names no architecture",
        ),
    ],
)
def test_the_build_records_why_it_has_no_gpu_engine(tmp_path, options, reason):
    assert configured(tmp_path, *options) == f"left out of this build: {reason} (raggeddnn)"


def rocm_build(tmp_path, files):
    """What a build with a ROCm of these (empty) files records, and that ROCm's folder."""
    rocm = tmp_path / "rocm"
    for name in files:
        (rocm / name).parent.mkdir(parents=True, exist_ok=True)
        (rocm / name).write_text("#define HIP_VERSION_MAJOR 7\n")
    compiler = ["-DCMAKE_HIP_COMPILER=/bin/true", "-DRAGGEDDNN_GPU_TARGETS=gfx942"]
    return configured(tmp_path / "build", f"-DROCM_PATH={rocm}", *compiler), rocm


ROCM_HEADERS = ["include/hip/hip_runtime_api.h", "include/hip/hip_version.h"]


def test_rocm_is_used_before_the_hip_of_the_system(tmp_path):
    recorded, rocm = rocm_build(tmp_path, [*ROCM_HEADERS, "lib/libamdhip64.so"])
    assert recorded == "built for gfx942 (raggeddnn)"
    commands = (tmp_path / "build/build.ninja").read_text()
    assert f"-isystem {rocm}/include" in commands and f"{rocm}/lib/libamdhip64.so" in commands


def test_headers_and_library_of_hip_are_of_one_installation(tmp_path):
    recorded, _ = rocm_build(tmp_path, ROCM_HEADERS)
    assert recorded.startswith("left out of this build: no GPU compiler")


def write_record(folder, name, distribution, targets, reason):
    record = {"distribution": distribution, "targets": targets, "reason": reason}
    (folder / f"{name}.json").write_text(json.dumps(record))


def test_builds_record_the_architectures_of_their_gpu_engines(tmp_path):
    assert gpu_engines_in_builds(tmp_path)[0].startswith("not recorded (")
    write_record(tmp_path, "raggeddnn_hip", "raggeddnn", ["sm_80", "sm_90a"], "")
    assert gpu_engines_in_builds(tmp_path) == ["built for sm_80, sm_90a (raggeddnn)"]
    write_record(tmp_path, "raggeddnn_hip", "raggeddnn", [], "why")
    write_record(tmp_path, "raggeddnn_hip_rocm7", "raggeddnn-rocm7", ["gfx942"], "")
    assert gpu_engines_in_builds(tmp_path) == [
        "left out of this build: why (raggeddnn)",
        "built for gfx942 (raggeddnn-rocm7)",
    ]


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "raggeddnn", "info"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "engine" in done.stdout, done.stderr


def test_version_and_help(capsys):
    for args, texts in [
        (["--version"], [f"raggeddnn {rd.__version__}"]),
        (["bench", "--help"], ["time the ragged", "default encoder", "llama-3-70b, tiny"]),
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
