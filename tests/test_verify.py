"""``raggeddnn verify``: planted faults are found, the right provider passes, and whatever a
provider does to its process, the other cases still run.
"""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cpp_build import built_plugin
from plugins.fakes import load
from raggeddnn.cli import main
from raggeddnn.testing import (
    CASES,
    Case,
    IntegrationGraphVerificationHarness,
    case_named,
    make_problem,
)
from raggeddnn.testing.tolerance import Expected
from raggeddnn.verify import Session, all_cases, chosen_cases, judge
from raggeddnn.verify.attention import forward_subject
from raggeddnn.verify.command import VerifyOptions, choose_engines, run_verify
from raggeddnn.verify.judge import limits_of
from raggeddnn.verify.session import KINDS
from raggeddnn.verify.suite import IN_HALF_TYPES, NOT_BACKWARD

ENGINE = "ATTENTION_ENGINE"
REFERENCE = "RAGGEDDNN_REFERENCE_ENGINE"
LINE = re.compile(rf"({'|'.join(KINDS)}) +([\w/.-]+)(?:: (.*))?")


def engine_of(fault: str) -> str:
    """The engine of the attention provider, right or with a fault."""
    return f"ATTENTION_{fault.upper()}_ENGINE" if fault else ENGINE


def provider(fault: str = "") -> Path:
    """The plugin that this engine is in."""
    return built_plugin("attention_faults" if fault else "attention")


def run(capsys, *args):
    """Exit status, {case: (kind, detail)}, standard output and standard error of a verification."""
    status = main(["verify", *map(str, args)])
    out, err = capsys.readouterr()
    lines = [LINE.fullmatch(line) for line in out.splitlines()]
    return status, {m[2]: (m[1], m[3] or "") for m in lines if m}, out, err


def verify(capsys, fault, *cases, options=()):
    globs = [word for case in cases for word in ("--case", case)]
    words = ["--plugin", provider(fault), "--engine", engine_of(fault)]
    return run(capsys, *words, *globs, *options)


def children() -> set[int]:
    """The processes that this one started and that have not been waited for."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for path in lists for pid in path.read_text().split()}


HARMLESS = "sdpa/dense-bhsd"
# An element with its output, index, what was got, expected and allowed; or one past the range.
ELEMENT = (
    r"output '{output}': \d+ of \d+ elements differ.*; the worst at \[\d+, \d+, \d+, \d+\] "
    r"got {got}, expected {expected} within \S+, off by"
)
NUMBER = r"-?[\d.e-]+"
WRONG_O = ELEMENT.format(output="o", got=NUMBER, expected=NUMBER)
WRONG_STATS = ELEMENT.format(output="stats", got=NUMBER, expected=NUMBER)
NAN_O = ELEMENT.format(output="o", got="nan", expected=NUMBER)
PAST = r"output 'o': 1 elements that belong to no row were written, the first at {at} .*got 1,"
AGAIN = "in another call of the plan: "
# A fault, a case in which it shows and how, and one in which it does not.
FAULTS = {
    "top_left": ("sdpa/mixed-directions", WRONG_O, HARMLESS),
    "reads_slack": (
        "sdpa/gqa-14-2",
        ELEMENT.format(output="o", got="-?nan", expected=NUMBER),
        HARMLESS,
    ),
    "nan_rows": (
        "sdpa/dead-rows",
        ELEMENT.format(output="o", got="nan", expected="0"),
        HARMLESS,
    ),
    "wrong_head": ("sdpa/gqa", WRONG_STATS, HARMLESS),
    "ignores_scale": ("sdpa/scale-runtime", WRONG_O, HARMLESS),
    "few_keys": ("sdpa/long-keys", WRONG_O, "sdpa/tile-128"),
    "tight_indices": ("sdpa/spaced-lengths", "index 1 is -1, expected", "sdpa/edges-slack"),
    "tight_width": ("sdpa/layout-heads-innermost", WRONG_O, "sdpa/gqa"),
    "queries_by_results": ("sdpa/layout-q-padded-o-packed", NAN_O, "sdpa/mqa-wide-values"),
    "packs_stats": (
        "sdpa/stats-dense",
        ELEMENT.format(output="stats", got="nan", expected=NUMBER),
        "sdpa/gqa",
    ),
    "writes_past": ("sdpa/window", PAST.format(at=46 * 2 * 16), HARMLESS),
    "writes_past_once": ("sdpa/window", PAST.format(at=46 * 2 * 16), HARMLESS),
    "writes_past_dense": (HARMLESS, PAST.format(at=2 * 19 * 2 * 16), "sdpa/window"),
    "writes_before": ("sdpa/gqa", PAST.format(at=-1), HARMLESS),
    "clears_slack": ("sdpa/edges-slack", r"tensor 'k' .* is an input, and was written", "sdpa/gqa"),
    "overruns_workspace": (
        "sdpa/dead-rows",
        "the workspace: 1 bytes outside its 100 were written, the first at 100 of it",
        HARMLESS,
    ),
    "keeps_addresses": ("sdpa/gqa", AGAIN + NAN_O, "sdpa/no-queries"),
    "keeps_offsets": ("sdpa/gqa", AGAIN + WRONG_O, HARMLESS),
    "keeps_scale": ("sdpa/scale-runtime", AGAIN + WRONG_O, "sdpa/scale-default"),
    "other_bits": (
        "sdpa/d-odd",
        r"\[o of two runs\] 1 of \d+ elements differ, first at \(0,\)",
        "sdpa/no-sequences-have-keys",
    ),
    "sums_by_position": (
        "sdpa/any-position",
        AGAIN + r"\[o of the same sequences in another order\] \d+ of \d+ elements differ",
        HARMLESS,
    ),
    "shares_scratch": ("sdpa/gqa", "executed by 3 threads at once: " + WRONG_O, "sdpa/no-queries"),
    "refuses_late": ("sdpa/dead-rows", "accepted, then failed: .*not today", HARMLESS),
    "fails_to_answer": ("sdpa/dead-rows", "the engine failed: no idea", HARMLESS),
    "leaves_rounding": ("sdpa/dead-rows", "the floating-point environment .* changed", HARMLESS),
}


@pytest.fixture(scope="class")
def faulty():
    """A session with all faults, whose process the tests of a class share."""
    with Session(provider("faults")) as session:
        yield session


class TestFaults:
    @pytest.mark.parametrize("fault", FAULTS)
    def test_a_fault_is_found_where_it_shows_and_only_there(self, faulty, fault):
        case, text, harmless = FAULTS[fault]
        outcome = faulty.run(engine_of(fault), case, 60)
        assert outcome.kind == "wrong" and re.search(text, outcome.detail), outcome
        outcome = faulty.run(engine_of(fault), harmless, 60)
        assert (outcome.kind, outcome.detail) == ("passed", "")


def test_a_fault_decides_the_exit_status(capsys):
    case, text, _ = FAULTS["wrong_head"]
    status, found, out, err = verify(capsys, "wrong_head", case)
    assert status == 1 and err == "" and re.search(text, found[case][1]), out
    assert "1 cases: 0 passed, 0 refused, 1 wrong, 0 crashed, 0 timed out" in out


def test_where_the_faults_show_the_right_provider_passes(capsys):
    cases = {name for case, _, harmless in FAULTS.values() for name in (case, harmless)}
    status, found, out, _ = verify(capsys, "", *cases)
    assert status == 0 and set(found) == cases and set(found.values()) == {("passed", "")}, out


def test_a_right_provider_passes_all_that_it_accepts(capsys):
    status, found, out, err = verify(capsys, "", "sdpa/*")
    assert status == 0 and err == ""
    assert set(found) == {case.name for case in chosen_cases(["sdpa/*"])}
    counts = Counter(kind for kind, _ in found.values())
    assert counts["passed"] >= 110 and set(counts) == {"passed", "refused"}
    for kind, detail in found.values():
        assert kind == "passed" or re.search("bias|dropout|data type", detail)
    assert f"{ENGINE}: {len(found)} cases: {counts['passed']} passed" in out


def test_the_reference_engine_passes_everything(capsys):
    status, found, out, _ = run(capsys, "--engine", "reference")
    assert status == 0 and len(found) > 700
    assert {kind for kind, _ in found.values()} == {"passed"}
    assert f"{REFERENCE}: {len(found)} cases: {len(found)} passed, 0 refused" in out


def test_after_a_crash_the_other_cases_still_run(capsys):
    cases = ("sdpa/gqa", "sdpa/dead-rows", "sdpa/mixed-directions", "sdpa/window")
    status, found, out, _ = verify(capsys, "crashes", *cases)
    assert status == 1
    assert [found[name][0] for name in cases] == ["passed", "crashed", "crashed", "passed"]
    assert found["sdpa/dead-rows"][1] == "SIGABRT (Aborted)"
    assert "4 cases: 2 passed, 0 refused, 0 wrong, 2 crashed, 0 timed out" in out
    assert "Fatal Python error" not in out and not children()


def test_verbose_shows_what_the_process_printed(capsys):
    cases = ("sdpa/gqa", "sdpa/dead-rows")
    status, _, out, _ = verify(capsys, "crashes", *cases, options=["--verbose"])
    assert status == 1
    before, after = out.split("crashed    sdpa/dead-rows")
    assert '    {"attention provider": "execute"}' in before
    assert "    Fatal Python error: Aborted" in after and "judge.py" in after


def test_a_case_that_hangs_times_out(capsys):
    cases = ("sdpa/gqa", "sdpa/dead-rows", "sdpa/window")
    status, found, _, _ = verify(capsys, "hangs", *cases, options=["--timeout", "4"])
    assert status == 1
    assert [found[name] for name in cases] == [
        ("passed", ""),
        ("timed out", "no result after 4 s"),
        ("passed", ""),
    ]
    assert not children()


def test_an_interrupt_leaves_no_process_behind():
    words = ["--plugin", str(provider("hangs")), "--engine", engine_of("hangs")]
    words += ["--case", "sdpa/gqa", "--case", "sdpa/dead-rows"]
    # Where interrupts are ignored, as by what a shell runs in the background, a child would, too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        [sys.executable, "-m", "raggeddnn", "verify", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        signal.signal(signal.SIGINT, before)
        assert any(line.startswith("passed") for line in parent.stdout)  # the next one hangs
        tasks = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        (child,) = tasks.read_text().split()
        parent.send_signal(signal.SIGINT)
        assert parent.wait(20) != 0
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()


def test_a_provider_that_refuses_everything_has_not_passed(capsys):
    status, found, out, _ = verify(capsys, "", "matmul/*")
    assert status == 1 and "nothing ran: every case was refused" in out
    assert set(found.values()) == {("refused", "node is MatmulAttributes, expected SdpaAttributes")}


def test_list_names_cases_with_what_they_check(capsys):
    status, _, out, _ = run(capsys, "--list")
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert status == 0 and [name for name, _ in lines] == [case.name for case in all_cases()]
    status, _, out, _ = run(capsys, "--list", "--case", "sdpa/dead*", "--case", "rmsnorm/*-float32")
    assert status == 0
    assert out.splitlines() == [
        "sdpa/dead-rows          packed, float32, 2 sequences, 9-40 queries, 7-9 keys, heads 2:2, "
        "size 64, causal, bottom-right",
        "rmsnorm/dense-float32   float32, dense, over the last axis",
        "rmsnorm/ragged-float32  float32, ragged, over the last axis",
    ]


def test_names_are_unique_and_no_case_is_forgotten():
    names = [case.name for case in all_cases()]
    assert len(set(names)) == len(names)
    for case in CASES:
        assert case.dstats or f"sdpa/{case.name}" in names
        assert case.name in NOT_BACKWARD or f"sdpa_backward/{case.name}" in names
    assert {*IN_HALF_TYPES, *NOT_BACKWARD} <= {case.name for case in CASES}
    for operation in ("matmul", "pointwise", "reduction", "rmsnorm", "layernorm", "batchnorm"):
        for dtype in ("float64", "float32", "float16", "bfloat16"):
            assert any(n.startswith(f"{operation}/") and n.endswith(dtype) for n in names)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--case", "sdpa/nothing"], "no case matches 'sdpa/nothing'; --list names them"),
        (
            ["--engine", "nope"],
            f"no engine is named 'nope'; there are RAGGEDDNN_CPU_ENGINE, {REFERENCE}",
        ),
        (["--plugin", "/nowhere/at/all"], "'/nowhere/at/all' does not exist"),
        (["--plugin", __file__], "invalid ELF header"),
    ],
)
def test_mistakes_are_usage_errors(capsys, words, text):
    status, found, _, err = run(capsys, *words)
    assert (status, found) == (2, {}) and text in err and err.count("\n") == 1
    assert not children()


def test_an_engine_of_another_plugin_is_not_meant(capsys):
    status, found, _, err = run(capsys, "--plugin", provider(), "--engine", "reference")
    assert (status, found) == (2, {})
    assert f"no engine is named 'reference'; there are {ENGINE}" in err


def test_a_plugin_that_does_not_load_is_named_with_the_reason(capsys):
    status, _, _, err = run(capsys, "--plugin", built_plugin("bad_missing_symbol"))
    assert status == 2 and "bad_missing_symbol" in err and "hipdnn" in err
    with pytest.raises(SystemExit) as done:
        main(["verify", "--timeout", "0"])
    assert done.value.code == 2 and "more than 0 seconds" in capsys.readouterr().err


def test_a_plugin_that_takes_the_process_down_while_it_loads(capsys):
    plugin = built_plugin("attention_dies_loading")
    status, _, _, err = run(capsys, "--plugin", plugin, "--case", "sdpa/gqa")
    assert status == 2 and err.count("\n") == 1
    assert "libattention_dies_loading.so: the process crashed: SIGABRT (Aborted)" in err


def test_a_folder_of_plugins(capsys, tmp_path):
    (tmp_path / "libright.so").symlink_to(provider())
    (tmp_path / "libempty.so").write_bytes(b"")
    status, found, out, _ = run(capsys, "--plugin", tmp_path, "--case", "sdpa/gqa")
    assert status == 0 and found == {"sdpa/gqa": ("passed", "")}
    assert "left out: libempty is not available: " in out and "too short" in out
    (tmp_path / "libright.so").unlink()
    status, _, _, err = run(capsys, "--plugin", tmp_path, "--case", "sdpa/gqa")
    assert status == 2 and "libempty is not available" in err


def test_two_plugins_with_one_engine_s_name_are_a_mistake(capsys, tmp_path):
    plugins = [tmp_path / "libone.so", tmp_path / "libtwo.so"]
    for plugin in plugins:
        shutil.copy(provider(), plugin)
    status, found, _, err = run(capsys, "--plugin", tmp_path, "--case", "sdpa/gqa")
    assert (status, found) == (2, {})
    assert f"{ENGINE} is in {plugins[0]} and {plugins[1]}, expected it in one" in err
    status, found, _, _ = run(capsys, "--plugin", plugins[1], "--case", "sdpa/gqa")
    assert status == 0 and found == {"sdpa/gqa": ("passed", "")}


def test_what_a_provider_writes_to_the_pipe_is_no_result(capsys):
    cases = ("sdpa/gqa", "sdpa/dead-rows", "sdpa/mixed-directions", "sdpa/window")
    status, found, _, err = verify(capsys, "forges_results", *cases)
    assert status == 1 and err == ""
    forged = ("crashed", "something else wrote to the pipe for its results")
    assert [found[name] for name in cases] == [("passed", ""), forged, forged, ("passed", "")]


def test_a_changed_environment_does_not_reach_the_next_case(capsys):
    status, found, _, _ = verify(capsys, "leaves_rounding", "sdpa/dead-rows", "sdpa/t12-scale*")
    kinds = {kind for name, (kind, _) in found.items() if "t12" in name and "dead" not in name}
    assert status == 1 and found["sdpa/dead-rows"][0] == "wrong" and kinds == {"wrong"}
    with Session(provider("leaves_rounding")) as session:
        assert session.run(engine_of("leaves_rounding"), "sdpa/dead-rows", 60).kind == "wrong"
        assert session.run(REFERENCE, "sdpa/tile-128", 60).kind == "passed"


def test_a_plugin_that_fails_when_asked_has_not_refused():
    load("fails_applicable_with_text")
    subject = forward_subject(make_problem(Case("fake", (3,), (4,))))  # the name that it looks for
    finding = judge(subject, "FAILS_APPLICABLE_WITH_TEXT_ENGINE")
    assert finding.kind == "wrong" and finding.detail.startswith("the plugin failed: ")


def test_what_a_provider_says_does_not_reach_the_terminal_as_it_is(capsys):
    cases = ("sdpa/gqa", "sdpa/dead-rows")
    status, found, out, _ = verify(capsys, "paints_reasons", *cases, options=["--verbose"])
    assert status == 0 and "\x1b" not in out and "\r" not in out
    kind, detail = found["sdpa/dead-rows"]
    assert kind == "refused" and detail.startswith(r"\x1b[2J; passed     sdpa/forged")


def engine_row(name, **changes):
    row = {"name": name, "path": f"/a/{name}.so", "device": "cpu", "available": True, "reason": ""}
    return {**row, **changes}


def test_which_engines_are_verified():
    rows = [
        engine_row(REFERENCE),
        engine_row("RAGGEDDNN_FAST_ENGINE"),
        engine_row("OTHER", path="/b/other.so", device=""),
        engine_row("FAR", path="/b/far.so", device="tpu"),
        engine_row("GPU", path="/d/gpu.so", device="cuda"),
        engine_row("GONE", available=False, reason="no such library"),
    ]

    def names(**options):
        chosen, notes = choose_engines(VerifyOptions(**options), rows)
        return [engine["name"] for engine in chosen], notes

    far = "FAR works on tpu memory, expected that of the host or of a GPU (cuda or hip)"
    gone = "GONE is not available: no such library"
    assert names() == (["RAGGEDDNN_FAST_ENGINE", "OTHER", "GPU"], [far, gone])
    assert names(engine="fast") == (["RAGGEDDNN_FAST_ENGINE"], [])
    assert names(plugin=Path("/b")) == (["OTHER"], [far])
    assert names(plugin=Path("/b/other.so")) == (["OTHER"], [])
    for options, text in [
        ({"engine": "FAR"}, far),
        ({"engine": "GONE"}, gone),
        ({"plugin": Path("/c")}, "there is no engine in /c"),
    ]:
        with pytest.raises(ValueError, match=re.escape(text)):
            names(**options)
    with pytest.raises(ValueError, match="no engine here but the reference engine"):
        choose_engines(VerifyOptions(), rows[:1])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_a_bar_that_makes_way_for_lines():
    out, err = io.StringIO(), Terminal()
    options = VerifyOptions("reference", None, ["matmul/plain-*"])
    assert run_verify(options, out, err) == 0
    assert "\r[" in err.getvalue() and "3/4 matmul/plain-bfloat16" in err.getvalue()
    assert err.getvalue().endswith("\r\x1b[K")
    assert len(out.getvalue().splitlines()) == 7 and "\r" not in out.getvalue()


def test_a_reference_beyond_its_bounds_is_no_judge():
    subject = forward_subject(make_problem(case_named("gqa")))
    expected = subject.calls[0].expected
    tensor, right = next(iter(expected.items()))
    expected[tensor] = Expected(right.values + 1, right.bounds)
    finding = judge(subject, REFERENCE)
    assert finding.kind == "wrong" and "the reference engine's o at element" in finding.detail


def test_a_limit_is_the_bound_and_the_error_of_the_reference():
    """So an engine that is as far from the oracle as its bound allows, the other way, passes."""
    subject = forward_subject(make_problem(case_named("dead-rows")))
    harness = IntegrationGraphVerificationHarness(
        subject.graph, subject.calls[0].inputs, engine=REFERENCE, guard_elements=8
    )
    harness.verify_graph()
    o = next(iter(subject.calls[0].expected))
    memory = harness.reference_tensor(o).numpy()
    values = memory.astype(np.float64) - 2.0**-10
    limits = limits_of(harness, o, Expected(values, np.full(values.size, 2.0**-9))).limits
    assert limits.shape == memory.shape
    assert (limits == 3 * 2.0**-10).all()


@pytest.mark.parametrize("name", [c.name for c in chosen_cases(["sdpa/layout-*", "sdpa/any-*"])])
def test_every_engine_takes_each_tensor_in_its_own_layout(engine, name):
    (case,) = chosen_cases([name])
    finding = judge(case.subject(), engine)
    assert finding.kind == "passed" or (finding.kind == "refused" and engine != REFERENCE), finding


def test_sessions_run_side_by_side():
    found = {}

    def work(fault):
        with Session(provider(fault)) as session:
            found[fault] = session.run(engine_of(fault), "sdpa/dead-rows", 60).kind

    threads = [threading.Thread(target=work, args=(fault,)) for fault in ("", "crashes")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"": "passed", "crashes": "crashed"}


def test_a_provider_may_print_what_it_likes(capsys):
    with Session(provider()) as session:
        outcome = session.run(ENGINE, "sdpa/gqa", 60)
    assert outcome.kind == "passed"
    assert outcome.log.count('{"attention provider": "execute"}\n') == 2 * 2 + 3
    assert capsys.readouterr() == ("", "")
