"""What is written for a GPU, on the fake one of ``plugins/fake_gpu_runtime.c``: whose memory nobody
may touch but what runs on its streams, as late as can be. Its engine is the GPU engine on emulated
waves.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cpp_build import built_plugin

ENGINE = "EMULATED_NVIDIA_ENGINE"
LIBRARIES = {"cuda": "libcudart.so", "hip": "libamdhip64.so"}
HERE = Path(__file__).resolve().parent
HALF = "sdpa/window-br-slack-float16"
OTHER = "sdpa/scale-runtime-bfloat16"
# What kernels without matrix instructions run, and tensors of no elements, which have no memory.
PLAIN = ("bias-b111-causal", "dropout-bias-padded", "no-queries", "no-sequences-have-keys")


@pytest.fixture(params=LIBRARIES)
def environ(request, tmp_path):
    """The environment of a process with the fake runtime, under each name."""
    (tmp_path / LIBRARIES[request.param]).symlink_to(built_plugin("fake_gpu_runtime"))
    return {
        "LD_LIBRARY_PATH": str(tmp_path),
        "EMULATED_DEVICE": request.param,
        "RAGGEDDNN_PLUGIN_PATH": str(built_plugin("emulated_nvidia")),
        "RAGGEDDNN_TEST_GPU_ENGINE": ENGINE,
    }


def run(environ, *words):
    """Exit status and both outputs of this Python with some words."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environ},
    )
    return done.returncode, done.stdout, done.stderr


def verify(environ, *cases, engine=ENGINE):
    words = [word for case in cases for word in ("--case", case)]
    return run(environ, "-m", "raggeddnn", "verify", "--engine", engine, *words)


def test_without_torch(environ):
    words = ["-m", "pytest", "-q", "-m", "gpu", HERE / "test_gpu_without_torch.py"]
    status, out, err = run(environ, *words, "-p", "no:cacheprovider")
    assert status == 0, out + err
    assert int(re.search(r"(\d+) passed", out)[1]) >= 25, out
    assert int(re.search(r"(\d+) skipped", out)[1]) == 4, out


def test_the_backward_pass(environ):
    words = ["-m", "pytest", "-q", "-m", "gpu", HERE / "test_gpu_backward.py", "-k", "dropout"]
    status, out, err = run(environ, *words, "-p", "no:cacheprovider")
    assert status == 0 and "6 passed" in out, out + err


def test_memory_that_begins_anywhere(environ):
    words = ["-m", "pytest", "-q", "-m", "gpu", HERE / "test_gpu_reported.py", "-k", "t27"]
    status, out, err = run(environ, *words, "-p", "no:cacheprovider")
    assert status == 0 and "35 passed" in out, out + err


def test_verify_judges_an_engine_on_a_gpu(environ):
    passed = [HALF, OTHER, *(f"{op}/{case}" for op in ("sdpa", "sdpa_backward") for case in PLAIN)]
    status, out, err = verify(environ, *passed, "sdpa/double")
    assert status == 0, out + err
    for case in passed:
        assert f"passed     {case}\n" in out
    assert "refused    sdpa/double: [sdpa] q 'q' has data type DOUBLE, expected FLOAT" in out


def test_without_a_device_the_engine_is_not_available(environ):
    status, out, err = verify({**environ, "FAKE_GPU_NONE": "1"}, HALF)
    assert status == 2 and out == ""
    kind = environ["EMULATED_DEVICE"]
    assert f"{ENGINE} is not available: works on {kind} memory: " in err
    assert f"{kind.upper()} (no device)" in err


def test_an_engine_says_itself_that_it_is_not_available(environ):
    code = (
        "import raggeddnn as rd\n"
        f"(engine,) = [e for e in rd.engines() if e.name == {ENGINE!r}]\n"
        "print(engine.available, engine.reason)"
    )
    status, out, err = run(environ, "-c", code)
    assert status == 0 and out == "True \n", err
    without = {**environ, "LD_LIBRARY_PATH": ""}
    status, out, err = run(without, "-c", code)
    reason = f"{LIBRARIES[environ['EMULATED_DEVICE']]} is not the fake runtime"
    assert status == 0 and out == f"False {reason}\n", err
    status, out, err = run(without, "-m", "raggeddnn", "info")
    assert status == 0 and re.search(rf"{ENGINE} .*\bno\b.*{reason}", out), out + err


@pytest.mark.parametrize("environ", ["cuda"], indirect=True)
def test_the_other_runtime_s_memory_will_not_do(environ):
    """Of an engine that does not say itself that it cannot run."""
    environ = {**environ, "RAGGEDDNN_PLUGIN_PATH": str(built_plugin("fake_on_hip"))}
    status, out, err = verify(environ, HALF, engine="FAKE_ON_HIP_ENGINE")
    assert status == 2 and out == ""
    assert "works on hip memory, and the GPU here is cuda's" in err


def test_after_a_fault_on_the_gpu_the_next_case_has_a_new_process(environ, tmp_path):
    fault = tmp_path / "fault"
    fault.touch()
    status, out, err = verify({**environ, "FAKE_GPU_FAULT_FILE": str(fault)}, HALF, OTHER)
    assert status == 1 and not fault.exists(), out + err
    assert re.search(rf"wrong      {HALF}: accepted, then failed: .*fake illegal access", out), out
    assert f"passed     {OTHER}" in out


def test_a_failing_runtime_is_the_engine_s_failure(environ):
    name = f"{environ['EMULATED_DEVICE']}Memcpy"
    status, out, _ = verify({**environ, "FAKE_GPU_FAILS": name}, HALF)
    assert status == 1
    assert re.search(rf"wrong      {HALF}: accepted, then failed: .*failed to copy \d+ bytes", out)


def test_an_execute_without_workspace_or_runtime_says_so(environ):
    code = f"""
import raggeddnn as rd
from raggeddnn.testing import Case, make_problem
from raggeddnn.testing.graphs import sdpa_graph
problem = make_problem(Case("small", (3,), (4,), dtype="float16"))
sdpa = sdpa_graph(problem)
plan = sdpa.graph.build(rd.Handle(device={environ["EMULATED_DEVICE"]!r}), engine={ENGINE!r})
pack = sdpa.pack(problem, sdpa.new_outputs(problem, 0.0))
pack = {{t: 0x1000 * i for i, t in enumerate(pack, 1)}}
try:
    plan.execute(pack)
except rd.InvalidValueError as error:
    print(error)
"""
    status, out, err = run({**environ, "FAKE_GPU_NONE": "1"}, "-c", code)
    kind = environ["EMULATED_DEVICE"]
    assert status == 0, err
    assert re.match(rf"execute: workspace is null, expected \d+ bytes of {kind} memory \(", out)


def test_the_runtime_is_found_where_pip_puts_it(tmp_path):
    library = tmp_path / "nvidia" / "cuda_runtime" / "lib" / "libcudart.so.12"
    library.parent.mkdir(parents=True)
    library.write_bytes(built_plugin("fake_gpu_runtime").read_bytes())
    library.with_name("libcudart.so.11").write_bytes(b"no library")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from raggeddnn import _gpu; "
        "_gpu.load_runtime(); print(open('/proc/self/maps').read())"
    )
    status, out, err = run({}, "-c", code)
    assert status == 0 and str(library) in out, err


def test_memory_of_the_gpu_cannot_be_read_on_the_host(environ):
    """So what the tests above pass, is not passed by reading it all the same."""
    code = (
        "import ctypes, sys; from raggeddnn.tensor import Tensor; from raggeddnn import _core; "
        f"x = Tensor([4], device={environ['EMULATED_DEVICE']!r}); "
        "ctypes.string_at(_core.read_array(x, 'x', 0).address, 4)"
    )
    status, _, _ = run(environ, "-c", code)
    assert status == -11
