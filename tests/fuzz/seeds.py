"""Starting points for the fuzzers: small valid inputs of every kind, and the words of JSON."""

from __future__ import annotations

import re
from pathlib import Path

import fb_builder as fb
import raggeddnn as rd
from fuzz.samples import OPS, op_graph, scalars_graph

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


def graphs() -> list[bytes]:
    """Every operation full and empty, scalars, and what only SDPA graphs use."""
    id_slot: fb.Slots = {9: ("struct", fb.Struct(bytes(range(16)), 1)), 6: ("int64", 5)}
    return [
        *(op_graph(op, fill) for op in OPS for fill in ("full", "unset")),
        scalars_graph(),
        fb.build_sdpa_graph(),
        fb.build_sdpa_graph(ragged=True, multiplier=16, alignment=4, stats=True, causal=True),
        fb.build_sdpa_graph(scale=0.5, runtime_scale=True, stamp=(1, 4, 0), min_reader_version=1),
        fb.build_sdpa_graph(graph_slots={**id_slot, 20: ("int64", 1)}),
        fb.build(fb.graph([], [])),
    ]


def plans() -> list[bytes]:
    """Plans, and the two other roots that the target reads."""
    setting: fb.Slots = {0: ("string", "knob"), 1: ("uint8", 1), 2: ("table", {0: ("int64", 5)})}
    config = fb.build({0: ("int64", 1), 1: ("[table]", [setting]), 2: ("string", "metric")})
    knob: fb.Slots = {
        0: ("string", "knob"),
        1: ("string", "what it does"),
        2: ("uint8", 3),
        3: ("table", {0: ("string", "default")}),
        4: ("uint8", 3),
        5: ("table", {0: ("int32", 7), 1: ("[string]", ["default", "other"])}),
        6: ("bool", True),
    }
    page: fb.Slots = {slot: ("string", "text") for slot in (*range(5), 8, 9)}
    candidate: fb.Slots = {0: ("string", "id"), 1: ("[table]", [setting]), 2: ("string", "x")}
    page |= {5: ("uint64", 3), 6: ("uint64", 2), 7: ("[table]", [candidate])}
    details = fb.build(
        {
            0: ("int64", 1),
            1: ("[table]", [knob]),
            2: ("[int32]", [1, 2]),
            3: ("string", "engine"),
            4: ("table", page),
        }
    )
    alignments: fb.Slots = {5: ("bool", True), 6: ("[int64]", [16, 16, 16, 4])}
    return [fb.build_plan(payload=b"payload", more=alignments), fb.build_plan(), config, details]


def inputs(target: str) -> list[bytes]:
    if target == "graph":
        return graphs()
    if target == "plan":
        return plans()
    if target == "container":
        whole = [fb.build_container(graph, plans()[0]) for graph in graphs()[::5]]
        return [*whole, fb.build_container(graphs()[0]), graphs()[0], plans()[0]]
    if target == "c_api":  # calls, not a format: any bytes are some
        return [bytes((7 * i + 13 * n) % 256 for i in range(400)) for n in range(16)]
    texts = [rd.Graph.deserialize(data).to_json() for data in graphs()]
    plan = (
        '{"version": 1, "engine_id": 7, "workspace_size": 0, "tensor_uids": [1, 2], '
        '"plugin_payload": [97, 0], "is_override_shape_enabled": false, "tensor_alignments": []}'
    )
    return [*(text.encode() for text in texts), plan.encode()]


def words() -> list[str]:
    """Field and enum names as JSON strings, and what else JSON consists of."""
    names: set[str] = set()
    for path in sorted(SCHEMAS.glob("*.fbs")):
        code = re.sub(r"//.*", "", path.read_text())
        names |= set(re.findall(r"[A-Za-z_]\w+", code))
    groups = {"type", "inputs", "outputs", "attributes", "parameters", "value_type"}
    spelt = names | {name.lower() for name in names} | groups | {"NaN", "Infinity", "-Infinity"}
    quoted = [f'\\"{name}\\"' for name in sorted(spelt)]
    return [*quoted, "null", "true", "false", "-1", "1e39", "9223372036854775807", "[]", "{}"]


def write(target: str, folder: Path) -> None:
    """Write the seeds of a target, one file each, and for JSON a dictionary beside the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(inputs(target)):
        (folder / f"seed-{number:03}").write_bytes(data)
    if target == "json":
        lines = [f'"{word}"\n' for word in words()]
        folder.with_suffix(".dict").write_text("".join(lines))
