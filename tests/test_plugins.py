"""Fake providers over the plugin ABI: loading, version floors, selection, delivery, failures."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from pathlib import Path

import fb_builder as fb
import numpy as np
import pytest
import raggeddnn as rd
from cpp_build import built_plugin
from plugins.fakes import (
    BY_VERSION,
    REFERENCE,
    UNTOUCHED,
    constant,
    load,
    load_all_versions,
    python,
    runtime,
    small,
    verdicts,
    with_default,
)

ENGINE = {version: engine for version, (_, engine) in BY_VERSION.items()}


def rows_of(name: str) -> list[rd.EngineInfo]:
    return [row for row in rd.engines() if row.name == name]


def load_error(name: str) -> str:
    path = built_plugin(name)
    with pytest.raises(rd.PluginError) as caught:
        rd.add_plugin_path(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


# ---- version floors ----

FLOORS = [
    ("number", {"scale": 0.5}, "1.0.0"),
    ("constant", {"scale": constant}, "1.0.0"),
    ("runtime", {"scale": runtime}, "1.2.0"),
    ("default", {"scale": with_default}, "1.2.0"),
    ("aligned", {"alignment": 4}, "1.3.0"),
    ("ragged", {"ragged": True}, "1.3.0"),
    ("multiplier", {"ragged": True, "multiplier": 16}, "1.4.0"),
    ("runtime-ragged", {"scale": runtime, "ragged": True}, "1.3.0"),
    ("everything", {"scale": runtime, "ragged": True, "multiplier": 2, "alignment": 4}, "1.4.0"),
]


def floor_graph(options: dict) -> rd.Graph:
    return small(**{k: v() if callable(v) else v for k, v in options.items()}).graph


@pytest.mark.parametrize(("options", "floor"), [f[1:] for f in FLOORS], ids=[f[0] for f in FLOORS])
def test_a_graph_is_offered_from_its_floor_on(options, floor):
    load_all_versions()
    graph = floor_graph(options)
    assert graph.min_required_engine_api_version == tuple(map(int, floor.split(".")))
    said = verdicts(graph)
    for version, engine in ENGINE.items():
        assert said[engine].api_version == version
        assert said[engine].applicable == (version >= floor), (version, said[engine])
        if version < floor:
            text = f"plugin API {version} is older than {floor}, which the graph needs"
            assert said[engine].reason == text


def test_a_provider_below_the_floor_is_not_even_asked():
    path = load("fake_1_0_0")
    times_asked = ctypes.CDLL(str(path)).fake_times_asked
    before = times_asked()
    verdicts(small(scale=runtime()).graph)
    assert times_asked() == before
    verdicts(small(scale=constant()).graph)
    assert times_asked() == before + 1


def test_not_supported_lists_every_engine_with_its_reason():
    load_all_versions()
    sdpa = small("fake list", ragged=True, multiplier=16)
    with pytest.raises(rd.NotSupportedError) as caught:
        sdpa.graph.build(engine="FAKE_1_3_0_ENGINE")
    text = str(caught.value)
    assert "'FAKE_1_3_0_ENGINE' cannot run it" in text
    assert "FAKE_1_3_0_ENGINE (fake_1_3_0 9.8.7, API 1.3.0): plugin API 1.3.0 is older" in text
    # The reference engine does no dropout, the fakes take no graph of this name.
    other = small("not for the others", dropout_probability=0.5)
    with pytest.raises(rd.NotSupportedError) as caught:
        other.graph.build()
    text = str(caught.value)
    assert "'not for the others': no engine can run it" in text
    lines = [line for line in text.splitlines() if line.startswith("  ")]
    available = [row for row in rd.engines() if row.available]
    assert len(lines) == len(available)
    for row in available:
        (line,) = [line for line in lines if line.startswith(f"  {row.name} (")]
        reason = line.partition("): ")[2]
        assert reason and reason != "applicable", line
    assert "dropout_probability is set" in text
    assert "name does not begin with 'fake'" in text


def test_overrides_need_the_optional_symbol():
    load_all_versions()
    load("fake_1_1_0_no_overrides")
    slots = fb.sdpa_graph_slots(scale=0.5, graph_slots={0: ("string", "fake"), 7: ("bool", True)})
    graph = rd.Graph.deserialize(fb.build(slots))
    assert graph.min_required_engine_api_version == (1, 1, 0)
    said = verdicts(graph)
    assert said["FAKE_1_0_0_ENGINE"].reason.startswith("plugin API 1.0.0 is older than 1.1.0")
    lacking = said["FAKE_1_1_0_NO_OVERRIDES_ENGINE"]
    assert not lacking.applicable
    assert "lacks hipdnnEnginePluginExecuteOpGraphWithOverrides" in lacking.reason
    assert said["FAKE_1_1_0_ENGINE"].applicable
    # Without overrides the symbol does not matter.
    assert verdicts(small().graph)["FAKE_1_1_0_NO_OVERRIDES_ENGINE"].applicable


# ---- delivery ----


@pytest.mark.parametrize("version", ENGINE)
@pytest.mark.parametrize("scale", [0.25, constant(0.25)], ids=["number", "constant"])
def test_a_baked_scale_reaches_every_provider(version, scale):
    load_all_versions()
    sdpa = small(scale=scale if isinstance(scale, float) else constant(0.25))
    plan = sdpa.graph.build(engine=ENGINE[version])
    assert plan.engine_name == ENGINE[version]
    assert (sdpa.run(plan) == 0.25).all()


@pytest.mark.parametrize("version", ["1.2.0", "1.3.0", "1.4.0"])
def test_a_runtime_scale_is_what_the_caller_supplied(version):
    load_all_versions()
    sdpa = small(scale=runtime())
    plan = sdpa.graph.build(engine=ENGINE[version])
    for value in (0.125, -3.0, np.float32(7.5), np.array([2.5], np.float32)):
        assert (sdpa.run(plan, scale=value) == float(np.asarray(value).item())).all()


@pytest.mark.parametrize("garbage", [None, 3.0, "text", object(), 0, np.zeros(0)], ids=str)
@pytest.mark.parametrize("state", [constant, with_default])
def test_a_baked_value_wins_whatever_the_pack_says(state, garbage):
    load("fake_1_2_0")
    sdpa = small(scale=state(0.25))
    plan = sdpa.graph.build(engine="FAKE_1_2_0_ENGINE")
    pack = sdpa.pack()
    pack[sdpa.tensors["scale"]] = garbage
    plan.execute(pack)
    assert (pack[sdpa.tensors["o"]] == 0.25).all()


def test_a_missing_runtime_scale_is_the_provider_s_invalid_value():
    load("fake_1_2_0")
    sdpa = small(scale=runtime().set_uid(42))
    plan = sdpa.graph.build(engine="FAKE_1_2_0_ENGINE")
    pack = sdpa.pack()
    with pytest.raises(rd.InvalidValueError, match=r"FAKE_1_2_0_ENGINE: no buffer for scale .*42"):
        plan.execute(pack)
    assert (pack[sdpa.tensors["o"]] == UNTOUCHED).all()


def test_scalars_in_different_states_do_not_mix():
    load("fake_1_2_0")
    sdpa = small(scale=constant(0.25), seed=runtime(rd.DataType.INT64).set_name("seed"))
    plan = sdpa.graph.build(engine="FAKE_1_2_0_ENGINE")
    o = sdpa.run(plan, seed=12345).ravel()
    assert (o[:-1] == 0.25).all() and o[-1] == 12345
    sdpa = small(scale=runtime(), seed=with_default(8).set_name("seed"))
    plan = sdpa.graph.build(engine="FAKE_1_2_0_ENGINE")
    o = sdpa.run(plan, scale=-1.0, seed=99).ravel()
    assert (o[:-1] == -1.0).all() and o[-1] == 8


def test_offsets_and_multiplier_reach_the_provider():
    load("fake_1_4_0")
    sdpa = small(ragged=True, multiplier=16)
    plan = sdpa.graph.build(engine="RAGGEDDNN_FAKE_ENGINE")
    o = sdpa.run(plan, offsets=np.array([0, 1, 3], np.int32)).ravel()
    assert (o[: 3 * 16] == 0.5).all() and (o[3 * 16 :] == UNTOUCHED).all()


def test_any_provider_of_runtime_scalars_honours_an_override_of_the_default():
    load("fake_1_2_0")
    sdpa = small(scale=with_default(0.25))
    sdpa.graph.set_runtime_default_override(True)
    assert sdpa.graph.min_reader_version == 2
    plan = sdpa.graph.build(engine="FAKE_1_2_0_ENGINE")
    for given, got in ((None, 0.25), (3.0, 3.0), (np.float32(-1), -1.0), (None, 0.25)):
        assert (sdpa.run(plan, scale=given) == got).all()


# ---- selection ----

CPU = "RAGGEDDNN_CPU_ENGINE"


def test_selection_by_full_and_by_short_name():
    load_all_versions()
    for asked, engine in (
        ("fake", "RAGGEDDNN_FAKE_ENGINE"),
        ("RAGGEDDNN_FAKE_ENGINE", "RAGGEDDNN_FAKE_ENGINE"),
        ("FAKE_1_0_0_ENGINE", "FAKE_1_0_0_ENGINE"),
        ("reference", REFERENCE),
    ):
        assert small().graph.build(engine=asked).engine_name == engine


def test_an_unknown_engine_is_refused_with_the_loaded_ones():
    with pytest.raises(rd.NotSupportedError) as caught:
        small().graph.build(engine="no_such")
    text = str(caught.value)
    assert "no engine is named 'no_such'" in text and f"\n  {REFERENCE} (" in text


PRIORITIES = """
from plugins.fakes import load, small
for name in ("fake_1_4_0", "fake_low_priority", "fake_high_priority"):
    load(name)
    print(small().graph.build().engine_name)
"""


def test_selection_by_priority():
    chosen = python(
        PRIORITIES, PYTHONPATH=os.pathsep.join([str(Path(__file__).parent), *sys.path])
    ).split()
    # The first fake states no device, so it is not preferred on the CPU; the second one ranks low.
    assert chosen == [CPU, CPU, "FAKE_HIGH_PRIORITY_ENGINE"]
    load("fake_high_priority")
    sdpa = small()
    assert (sdpa.run(sdpa.graph.build()) == 0.5).all()
    # It declines what is not named for it.
    assert small("other").graph.build().engine_name == CPU


def test_the_preferred_engine_of_the_graph_comes_first():
    load_all_versions()
    load("fake_high_priority")
    for engine in ("FAKE_1_0_0_ENGINE", "FAKE_1_3_0_ENGINE", REFERENCE):
        (row,) = rows_of(engine)
        slots = {0: ("string", "fake"), 6: ("int64", row.id)}
        graph = rd.Graph.deserialize(fb.build_sdpa_graph(scale=0.5, graph_slots=slots))
        assert graph.build().engine_name == engine
        # A name given at build overrules it.
        assert graph.build(engine="fake").engine_name == "RAGGEDDNN_FAKE_ENGINE"
    # Preferred but too old: a preference is not a demand.
    (row,) = rows_of("FAKE_1_0_0_ENGINE")
    slots = {0: ("string", "fake"), 6: ("int64", row.id)}
    graph = rd.Graph.deserialize(fb.build_sdpa_graph(runtime_scale=True, graph_slots=slots))
    assert graph.build().engine_name == "FAKE_HIGH_PRIORITY_ENGINE"


def test_an_engine_of_another_device_is_not_offered():
    load("fake_on_hip")
    load("fake_1_4_0")
    said = verdicts(small().graph)
    assert said["FAKE_ON_HIP_ENGINE"].reason == "runs on hip, the handle's device is cpu"
    said = verdicts(small().graph, rd.Handle(device="hip"))
    assert said["FAKE_ON_HIP_ENGINE"].applicable
    assert said[REFERENCE].reason == "runs on cpu, the handle's device is hip"
    assert said["RAGGEDDNN_FAKE_ENGINE"].applicable  # states no device
    plan = small().graph.build(rd.Handle(device="hip"))
    assert (plan.engine_name, plan.device) == ("FAKE_ON_HIP_ENGINE", "hip")
    with pytest.raises(rd.InvalidValueError, match="device is 'tpu', expected 'cpu', 'hip' or"):
        rd.Handle(device="tpu")


# ---- failures of loaded plugins ----


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        ("bad_applicable_count", "reports 4000000000 applicable engines, expected at most 1"),
        ("fails_applicable_with_text", "the kernel database is locked"),
        ("fails_applicable_silently", "GetApplicableEngineIds returned status 3 and no text"),
        ("throws_applicable", "thrown across the ABI"),
    ],
)
def test_a_plugin_that_fails_when_asked_declines(plugin, text):
    load(plugin)
    said = verdicts(small().graph)
    verdict = said[f"{plugin.upper()}_ENGINE"]
    assert not verdict.applicable
    assert text in verdict.reason
    assert said[REFERENCE].applicable
    with pytest.raises(rd.NotSupportedError) as caught:
        small().graph.build(engine=verdict.engine)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        ("fails_execute_with_text", "the device fell off the bus"),
        ("fails_execute_silently", "fails_execute_silently: hipdnnEnginePluginExecuteOpGraph"),
    ],
)
def test_a_plugin_that_fails_at_execute_raises(plugin, text):
    load(plugin)
    sdpa = small()
    plan = sdpa.graph.build(engine=f"{plugin.upper()}_ENGINE")
    pack = sdpa.pack()
    with pytest.raises(rd.PluginError) as caught:
        plan.execute(pack)
    assert text in str(caught.value) and caught.value.status == "PLUGIN_ERROR"
    assert (pack[sdpa.tensors["o"]] == UNTOUCHED).all()


def test_the_veneer_carries_each_engine_s_reason():
    load("veneer_explains")
    for _ in range(2):
        said = verdicts(small().graph)
        reason = said["VENEER_EXPLAINS_ENGINE"].reason
        assert reason == "the graph has 1 node, expected 1000"
        assert said["VENEER_EXPLAINS_TOO_ENGINE"].reason == "it is Tuesday"
        assert said["VENEER_EXPLAINS_ENGINE"].plugin == "veneer_explains 1.2.3"
        assert said["VENEER_EXPLAINS_ENGINE"].api_version == "1.4.0"


def test_the_veneer_turns_exceptions_into_statuses():
    load("veneer_throws")
    verdict = verdicts(small("fake throws").graph)["VENEER_THROWS_ENGINE"]
    assert not verdict.applicable and "why_not threw" in verdict.reason
    sdpa = small("fake throws later")
    plan = sdpa.graph.build(engine="VENEER_THROWS_ENGINE")
    with pytest.raises(rd.PluginError, match="execute threw"):
        sdpa.run(plan)


def test_a_reason_is_given_every_time_it_is_asked_for():
    # Plugins of the plain ABI keep their last error until the next one.
    load("fake_1_4_0")
    reasons = [verdicts(small("other").graph)["RAGGEDDNN_FAKE_ENGINE"].reason for _ in range(3)]
    assert reasons == ["the graph's name does not begin with 'fake'"] * 3


# ---- loading ----


def test_a_row_says_what_a_plugin_is():
    load("fake_high_priority")
    (row,) = rows_of("FAKE_HIGH_PRIORITY_ENGINE")
    assert row.available and row.reason == ""
    assert (row.plugin, row.version, row.api_version) == ("fake_high_priority", "9.8.7", "1.4.0")
    assert row.device == "cpu"
    load("fake_1_0_0")
    (row,) = rows_of("FAKE_1_0_0_ENGINE")
    assert (row.api_version, row.device) == ("1.0.0", "")


def test_an_engine_s_id_is_the_hash_of_its_name():
    load("fake_1_0_0")
    for row in rd.engines():
        if not row.available:
            continue
        value = 0xCBF29CE484222325
        for byte in row.name.encode():
            value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        assert row.id == (value - (1 << 64) if value >> 63 else value)


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        ("bad_major", "reports API version 2.0.0, expected major version 1"),
        ("bad_version", "reports API version '1.2-beta', expected MAJOR.MINOR.PATCH"),
        ("bad_engine_count", "reports 4000000000 engines, expected at most 4096"),
        ("bad_missing_symbol", "lacks the function hipdnnEnginePluginSetStream"),
        ("bad_type", "has type 2, expected 1 (engine)"),
    ],
)
def test_a_file_that_is_no_plugin_of_ours_is_listed_with_the_reason(plugin, text):
    assert text in load_error(plugin)
    (row,) = [row for row in rd.engines() if row.plugin == str(built_plugin(plugin))]
    assert not row.available and row.id is None and text in row.reason
    assert rows_of(f"{plugin.upper()}_ENGINE") == []


def test_a_file_that_is_no_library_carries_the_loader_s_reason(tmp_path):
    file = tmp_path / "libtext.so"
    file.write_text("not an ELF file, although its name says so")
    with pytest.raises(rd.PluginError) as caught:
        rd.add_plugin_path(file)
    assert str(file) in str(caught.value)
    (row,) = [row for row in rd.engines() if row.plugin == str(file)]
    assert not row.available and row.name == "libtext"
    assert "invalid ELF header" in row.reason or "too short" in row.reason
    # A file put right is taken on the next try, and its row goes.
    shutil.copy(built_plugin("fake_1_0_0"), file)
    rd.add_plugin_path(file)
    assert [row for row in rd.engines() if row.plugin == str(file)] == []


@pytest.mark.parametrize(
    "plugin, why",
    [("bad_name", "expected the FNV-1a hash of its name"), ("duplicate_of_1_2_0", "id is taken")],
)
def test_an_engine_without_an_id_of_its_own_is_dropped(plugin, why):
    load("fake_1_2_0")
    load(plugin)
    assert rows_of("BAD_NAME_ENGINE") == []
    assert any(why in row.reason for row in rd.engines() if not row.available)
    (row,) = [row for row in rows_of("FAKE_1_2_0_ENGINE") if row.available]
    assert (row.plugin, row.api_version) == ("fake_1_2_0", "1.2.0")
    assert "BAD_NAME_ENGINE" not in verdicts(small().graph)
    # The newer duplicate must not lend the older plugin its version.
    said = verdicts(small(ragged=True).graph)
    assert said["FAKE_1_2_0_ENGINE"].reason.startswith("plugin API 1.2.0 is older than 1.3.0")


def test_a_path_that_does_not_exist(tmp_path):
    with pytest.raises(rd.InvalidValueError, match=r"nowhere.* does not exist"):
        rd.add_plugin_path(tmp_path / "nowhere")


LIST = "import json, raggeddnn as rd; {}\nprint(json.dumps([[r.name, r.available, r.reason] "
LIST += "for r in rd.engines()]))"


def listed(statement: str = "", **environ: str) -> dict[str, tuple[bool, str]]:
    rows = json.loads(python(LIST.format(statement), **environ))
    return {name: (available, reason) for name, available, reason in rows}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two plugins, a broken one, and a file that is not named as a library."""
    for name in ("fake_1_0_0", "fake_1_2_0", "bad_major"):
        shutil.copy(built_plugin(name), tmp_path / f"{name}.so")
    (tmp_path / "README.txt").write_text("no plugin")
    return tmp_path


def test_a_folder_loads_each_library_in_it(folder):
    rows = listed(f"rd.add_plugin_path({str(folder)!r})")
    assert rows["FAKE_1_0_0_ENGINE"] == (True, "") and rows["FAKE_1_2_0_ENGINE"] == (True, "")
    available, reason = rows["bad_major"]
    assert not available and "expected major version 1" in reason
    assert set(rows) >= {REFERENCE} and "README" not in rows


def test_a_relative_path_is_taken_from_the_working_folder(folder):
    code = f"import os; os.chdir({str(folder)!r}); rd.add_plugin_path('./fake_1_0_0.so')"
    rows = listed(code)
    assert rows["FAKE_1_0_0_ENGINE"] == (True, "") and "FAKE_1_2_0_ENGINE" not in rows


def test_the_variable_names_folders_and_files(folder, tmp_path):
    text = tmp_path / "libtext.so"
    text.write_text("no library")
    file = built_plugin("fake_1_4_0")
    paths = [str(folder), "", str(file), str(text), str(tmp_path / "gone.so")]
    rows = listed(RAGGEDDNN_PLUGIN_PATH=":".join(paths))
    for engine in ("FAKE_1_0_0_ENGINE", "FAKE_1_2_0_ENGINE", "RAGGEDDNN_FAKE_ENGINE", REFERENCE):
        assert rows[engine] == (True, "")
    for stem in ("libtext", "gone"):
        available, reason = rows[stem]
        assert not available and stem in reason


def test_hipdnn_s_variable_is_read_too(folder):
    rows = listed(HIPDNN_PLUGIN_DIR=str(folder))
    assert rows["FAKE_1_0_0_ENGINE"] == (True, "") and not rows["bad_major"][0]


def test_relative_entries_of_the_variable_are_ignored(folder):
    code = "import os; os.chdir(os.environ['FOLDER'])"
    rows = listed(code, FOLDER=str(folder), RAGGEDDNN_PLUGIN_PATH="fake_1_0_0.so:.:..")
    assert rows == listed()
