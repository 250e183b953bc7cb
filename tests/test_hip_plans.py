"""Saved plans of the GPU engine, on emulated waves: they run in another process, and are refused by
another architecture, by a build with other tiles, and when they are damaged.
"""

from __future__ import annotations

import json
import struct

import fb_builder as fb
import numpy as np
import pytest
import raggeddnn as rd
from plugins.fakes import load, python, root_field
from raggeddnn._core import describe_blob
from raggeddnn.testing import Case, make_problem
from raggeddnn.testing.checks import assert_same_bits
from raggeddnn.testing.graphs import sdpa_graph

CASE = Case("saved", (5, 3), (4, 9), dtype="float16", scale_state="runtime", scale=0.5)
SCALE_UID = 77
VERSION, TARGET, KERNEL_ID, RUNTIME_UIDS = 0, 4, 8, 9  # slots of EnginePayload


def engine_of(architecture: str) -> str:
    load(f"emulated_{architecture}")
    return f"EMULATED_{architecture.upper()}_ENGINE"


def id_of(name: str) -> int:
    (found,) = [engine.id for engine in rd.engines() if engine.name == name]
    return int(found)


class Saved:
    """A plan with a runtime scale on the tiles of NVIDIA, and its bytes."""

    def __init__(self) -> None:
        self.problem = make_problem(CASE)
        self.sdpa = sdpa_graph(self.problem)
        self.sdpa.tensors["scale"].set_uid(SCALE_UID)
        self.plan = self.sdpa.build(engine_of("nvidia"))
        self.bare = self.plan.serialize_bare()
        self.document = json.loads(describe_blob(self.bare))["plan"]
        self.payload = bytes(self.document["plugin_payload"])

    def with_payload(self, payload: bytes, engine: str = "nvidia") -> bytes:
        """A bare plan of an engine around another payload."""
        uids = self.document["tensor_uids"]
        return fb.build_plan(engine_id=id_of(engine_of(engine)), uids=uids, payload=payload)

    def patched(self, slot: int, value: bytes) -> bytes:
        """With other bytes where a number of the payload lies."""
        at = root_field(self.payload, slot)
        assert at is not None
        return self.with_payload(self.payload[:at] + value + self.payload[at + len(value) :])

    def vector(self, slot: int) -> tuple[int, bytes]:
        """Where a string or vector of the payload lies, and its bytes (strings) or first ones."""
        at = root_field(self.payload, slot)
        assert at is not None
        at += struct.unpack_from("<I", self.payload, at)[0]
        count = struct.unpack_from("<I", self.payload, at)[0]
        return at + 4, self.payload[at + 4 : at + 4 + count]


@pytest.fixture(scope="module")
def saved():
    return Saved()


def test_the_payload_states_what_it_was_built_for(saved):
    assert struct.unpack_from("<I", saved.payload, root_field(saved.payload, VERSION)) == (2,)
    assert saved.vector(TARGET)[1] == b"cpu/emulated nvidia"
    assert saved.vector(KERNEL_ID)[1] == b"forward, tiles 128x64, width 64"
    at, _ = saved.vector(RUNTIME_UIDS)
    assert struct.unpack_from("<iq", saved.payload, at - 4) == (1, SCALE_UID)


CHILD = """
import numpy as np, raggeddnn as rd
rd.add_plugin_path({plugin!r})
with open({folder!r} + "/plan", "rb") as file:
    plan = rd.ExecutionPlan.deserialize(file.read())
pack = {{int(uid): array for uid, array in np.load({folder!r} + "/pack.npz").items()}}
plan.execute(pack)
np.savez({folder!r} + "/made.npz", **{{str(uid): array for uid, array in pack.items()}})
print(plan.engine_name, plan.explain_kernel())
"""


@pytest.mark.parametrize("form", ["serialize", "serialize_bare"])
def test_a_plan_runs_in_another_process(saved, tmp_path, form):
    outputs = saved.sdpa.new_outputs(saved.problem, 7.0)
    pack = saved.sdpa.pack(saved.problem, outputs)
    pack[saved.sdpa.tensors["scale"]] = np.array([CASE.scale], np.float32)
    (tmp_path / "plan").write_bytes(getattr(saved.plan, form)())
    np.savez(tmp_path / "pack.npz", **{str(t.get_uid()): array for t, array in pack.items()})
    plugin = str(load("emulated_nvidia"))
    said = python(CHILD.format(folder=str(tmp_path), plugin=plugin))
    assert said.strip() == f"EMULATED_NVIDIA_ENGINE {saved.plan.explain_kernel()}"
    saved.plan.execute(pack)
    made = np.load(tmp_path / "made.npz")
    for name, array in outputs.items():
        assert_same_bits(made[str(saved.sdpa.tensors[name].get_uid())], array, name)


@pytest.mark.parametrize("architecture", ["cdna", "rdna3", "rdna4"])
def test_another_architecture_refuses_it(saved, architecture):
    # As where one engine is built for several: the same name, another device.
    own, other = (id_of(engine_of(name)) for name in ("nvidia", architecture))
    payload = saved.payload.replace(struct.pack("<q", own), struct.pack("<q", other))
    words = f"the plan's target is cpu/emulated nvidia, expected cpu/emulated {architecture}"
    with pytest.raises(rd.NotSupportedError, match=words):
        rd.ExecutionPlan.deserialize(saved.with_payload(payload, architecture))


def test_it_needs_its_engine(saved, tmp_path):
    (tmp_path / "plan").write_bytes(saved.bare)
    code = (
        "import raggeddnn as rd\n"
        f"rd.add_plugin_path({str(load('emulated_cdna'))!r})\n"
        "try:\n"
        f"    rd.ExecutionPlan.deserialize(open({str(tmp_path / 'plan')!r}, 'rb').read())\n"
        "except rd.NotSupportedError as refusal:\n"
        "    print(refusal)\n"
    )
    assert "expected one of the loaded engines" in python(code)


def test_another_payload_version_is_refused(saved):
    for version in (0, 1, 3):
        with pytest.raises(rd.NotSupportedError, match=f"its version is {version}, expected 2"):
            rd.ExecutionPlan.deserialize(saved.patched(VERSION, struct.pack("<I", version)))


def test_other_tiles_are_refused(saved):
    payload = saved.payload.replace(b"128x64", b"128x32")
    with pytest.raises(
        rd.NotSupportedError, match=r"kernels are 'forward, tiles 128x32.* expected .*128x64"
    ):
        rd.ExecutionPlan.deserialize(saved.with_payload(payload))


def test_other_runtime_scalars_are_refused(saved):
    at, _ = saved.vector(RUNTIME_UIDS)
    payload = saved.payload[:at] + struct.pack("<q", 78) + saved.payload[at + 8 :]
    with pytest.raises(rd.InvalidValueError, match="damaged: its graph has other runtime scalars"):
        rd.ExecutionPlan.deserialize(saved.with_payload(payload))


def test_damage_is_refused_or_changes_nothing(saved):
    refusals = 0
    whole = saved.with_payload(saved.payload)
    same = rd.ExecutionPlan.deserialize(whole).serialize_bare()
    for at in range(len(saved.payload)):
        damaged = bytearray(saved.payload)
        damaged[at] ^= 0x41
        try:
            plan = rd.ExecutionPlan.deserialize(saved.with_payload(bytes(damaged)))
        except rd.Error as refusal:
            assert str(refusal)
            refusals += 1
        else:
            assert plan.serialize_bare() == same, f"byte {at}"
    assert refusals > 0.8 * len(saved.payload)
    for size in range(0, len(saved.payload), 16):
        with pytest.raises(rd.Error):
            rd.ExecutionPlan.deserialize(saved.with_payload(saved.payload[:size]))
