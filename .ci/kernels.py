"""Compiles the GPU kernels for several targets and compares what they need with a table.

    python .ci/kernels.py --nvcc PATH --clang PATH [--write]

Registers, scratch (spills) and shared memory of each kernel stand in
cpp/engines/hip/instances/resources.csv. A number that is not the table's fails, unless --write,
which writes the table. NVIDIA targets need no GPU and no driver; AMD ones no ROCm.
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HIP = Path(__file__).resolve().parent.parent / "cpp/engines/hip"
TABLE = HIP / "instances/resources.csv"
FIELDS = ("target", "kernel", "registers", "scratch_bytes", "shared_bytes")
# Target, architecture tag, widths. RDNA kernels still spill: compiled by hand, not gated.
NVIDIA = [("sm_90", "Nvidia", (64, 128, 256)), ("sm_80", "Nvidia", (128,))]
AMD = [("gfx942", "Cdna", (64, 128)), ("gfx90a", "Cdna", (128,))]

SOURCE = """
#include "attention/forward.hpp"
#include "instances/shapes.hpp"
namespace raggeddnn::hip {{
using Pass = Forward<{arch}, Bfloat16, ForwardShape<{arch}, {width}>>;
extern "C" __global__ {bounds} void forward_bf16_d{width}(
        const RAGGEDDNN_GRID_CONSTANT ForwardParams params) {{
    {shared}
    Pass::run(params, shared);
}}
}}
"""
NVIDIA_PARTS = {
    "bounds": "__launch_bounds__(Pass::THREADS)",
    "shared": "extern __shared__ __align__(16) unsigned char memory[];\n"
    "    Pass::Shared& shared = *reinterpret_cast<Pass::Shared*>(memory);",
}
AMD_PARTS = {
    "bounds": "__attribute__((amdgpu_flat_work_group_size(Pass::THREADS, Pass::THREADS)))",
    "shared": "__shared__ Pass::Shared shared;",
}
Row = dict[str, str]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def found(pattern: str, text: str) -> str:
    numbers = re.findall(pattern, text)
    if len(numbers) != 1:
        sys.exit(f"expected one match of {pattern} in:\n{text}")
    return str(numbers[0])


def nvidia(nvcc: str, target: str, source: Path) -> Row:
    # Shared memory is asked for at launch; the type's size is what matters.
    text = run(
        [nvcc, "-std=c++20", "-O3", f"-arch={target}", "-Xptxas", "-v", f"-I{HIP}", "-cubin",
         "-o", str(source.with_suffix(f".{target}")), str(source)]
    )  # fmt: skip
    kernel = text[text.index("Compiling entry function") :]
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", kernel)
    return {
        "registers": found(r"Used (\d+) registers", kernel),
        "scratch_bytes": str(int(spills[1]) + int(spills[2])) if spills else "0",
        "shared_bytes": "",
    }


def amd(clang: str, target: str, source: Path) -> Row:
    text = run(
        [clang, "-x", "hip", "-std=c++20", f"--offload-arch={target}", "--cuda-device-only",
         "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-O3", f"-I{HIP}",
         "-Rpass-analysis=kernel-resource-usage", "-c", str(source),
         "-o", str(source.with_suffix(f".{target}"))]
    )  # fmt: skip
    vector = int(found(r" VGPRs: (\d+)", text)) + int(found(r"AGPRs: (\d+)", text))
    spilled = int(found(r"VGPRs Spill: (\d+)", text))
    scratch = int(found(r"ScratchSize \[bytes/lane\]: (\d+)", text))
    return {
        "registers": str(vector),
        "scratch_bytes": str(scratch + 4 * spilled),
        "shared_bytes": found(r"LDS Size \[bytes/block\]: (\d+)", text),
    }


def measure(args: argparse.Namespace, folder: Path) -> list[Row]:
    def one(vendor: str, target: str, arch: str, width: int) -> Row:
        parts = NVIDIA_PARTS if vendor == "nvidia" else AMD_PARTS
        suffix = "cu" if vendor == "nvidia" else "hip"
        source = folder / f"{arch}_{width}_{target}.{suffix}"
        source.write_text(SOURCE.format(arch=arch, width=width, **parts))
        tool = nvidia if vendor == "nvidia" else amd
        row = tool(args.nvcc if vendor == "nvidia" else args.clang, target, source)
        return {"target": target, "kernel": f"forward_bf16_d{width}", **row}

    jobs = [("nvidia", t, a, w) for t, a, widths in NVIDIA for w in widths]
    jobs += [("amd", t, a, w) for t, a, widths in AMD for w in widths]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda job: one(*job), jobs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--clang", required=True)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(args, Path(folder))
    if args.write:
        with TABLE.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    with TABLE.open(encoding="utf-8") as text:
        known = {(row["target"], row["kernel"]): row for row in csv.DictReader(text)}
    wrong = []
    for row in rows:
        print(", ".join(f"{key} {row[key]}" for key in FIELDS if row[key]))
        expected = known.get((row["target"], row["kernel"]))
        if expected != row:
            wrong.append(f"{row['target']} {row['kernel']}: got {row}, expected {expected}")
    if wrong:
        sys.exit("\n".join(["kernels differ from resources.csv:", *wrong]))


if __name__ == "__main__":
    main()
