"""Compiles the GPU kernels for several targets and compares what they need with a table.

    python .ci/kernels.py --nvcc PATH --clang PATH --zig PATH [--all] [--write]

Registers, scratch (spills), shared memory and waves of each pass stand in
cpp/engines/hip/instances/resources.csv. A number that is not the table's fails, unless --write,
which writes the table; scratch, and more shared memory than a block has, always
fail. --all: every instance for every target, by hand; those that the table has are compared, none
is written. NVIDIA targets need no GPU and no driver, AMD ones no ROCm but HIP's headers; gfx950 is
younger than Debian's clang and is compiled by the clang within Zig.
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HIP = Path(__file__).resolve().parent.parent / "cpp/engines/hip"
TABLE = HIP / "instances/resources.csv"
FIELDS = ("target", "kernel", "registers", "scratch_bytes", "shared_bytes", "waves_per_simd")
Row = dict[str, str]


@dataclass(frozen=True)
class Target:
    name: str
    arch: str  # of tile/arch.hpp
    compiler: str
    widths: tuple[int, ...]  # that the gate compiles, of bfloat16
    shared_bytes: int  # that a block may have


TARGETS = [
    Target("sm_90a", "Hopper", "nvcc", (64, 128, 256), 227 << 10),
    Target("sm_80", "Nvidia", "nvcc", (128,), 163 << 10),
    Target("gfx942", "Cdna", "clang", (64, 96, 128, 256), 64 << 10),
    Target("gfx90a", "Cdna", "clang", (128,), 64 << 10),
    # Of its 160 KB no more than what the same tiles take on the others.
    Target("gfx950", "Cdna", "zig", (128,), 64 << 10),
    Target("gfx1100", "Rdna3", "clang", (64, 128), 64 << 10),
    Target("gfx1201", "Rdna4", "clang", (128,), 64 << 10),
]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [x for x in (done.stdout + done.stderr).splitlines() if "remark:" not in x]
        sys.exit("\n".join([" ".join(command), *said]))
    return done.stdout + done.stderr


def found(pattern: str, text: str) -> str:
    numbers = re.findall(pattern, text)
    if len(numbers) != 1:
        sys.exit(f"expected one match of {pattern} in:\n{text}")
    return str(numbers[0])


def kernel_name(mangled: str, arch: str) -> str | None:
    """forward_bf16_d128 of run_pass<Forward<arch, Bfloat16, Shape<arch, 128>>>; else None."""
    parts = re.match(
        rf"_ZN9raggeddnn3hip8run_passINS0_\d+([A-Z]\w+?)INS0_\d+{arch}ENS0_\d+(Bfloat16|Float16)E"
        r".*?Li(\d+)E",
        mangled,
    )
    if not parts:
        return None
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", parts[1]).lower()
    if re.search(r"9GradientsE1E", mangled):  # OF_VALUES: a pass of its own
        name = name.replace("keys", "values")
    return f"{name}_{'bf16' if parts[2] == 'Bfloat16' else 'f16'}_d{parts[3]}"


def nvidia(nvcc: str, target: Target, source: Path, out: Path) -> list[Row]:
    number = target.name.removeprefix("sm_")
    # ptxas alone does not say what shared memory a launch asks for: the type's size does.
    text = run(
        [nvcc, "-x", "cu", "-std=c++20", "-O3", "-Xptxas", "-v",
         f"-gencode=arch=compute_{number},code={target.name}",
         '-DRAGGEDDNN_GPU_TARGETS=""', "-DRAGGEDDNN_BUILDS_HOPPER=true", "-cubin",
         "-o", str(out), str(source)]
    )  # fmt: skip
    rows = []
    for section in text.split("Compiling entry function ")[1:]:
        if name := kernel_name(section[1:], target.arch):
            spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", section)
            rows.append(
                {
                    "kernel": name,
                    "registers": found(r"Used (\d+) registers", section),
                    "scratch_bytes": str(int(spills[1]) + int(spills[2])) if spills else "0",
                    "shared_bytes": "",
                    "waves_per_simd": "",
                }
            )
    return rows


def amd_command(clang: str, target: str) -> list[str]:
    """Compiles for the device alone; what to make of which file is still to be said."""
    command = [clang]
    if Path(clang).name == "zig":  # clang itself, which does not know where its headers are
        command += ["clang", "-isystem", str(Path(clang).parent / "lib/include")]
    return [
        *command, "-x", "hip", "-std=c++20", "-O3", f"--offload-arch={target}", "-nogpuinc",
        "-nogpulib", "--cuda-device-only", "--no-gpu-bundle-output", "-Wno-pass-failed",
        '-DRAGGEDDNN_GPU_TARGETS=""',
    ]  # fmt: skip


def amd(clang: str, target: Target, source: Path, out: Path) -> list[Row]:
    text = run(
        [*amd_command(clang, target.name), "-Rpass-analysis=kernel-resource-usage", "-S",
         str(source), "-o", str(out)]
    )  # fmt: skip
    rows = []
    for section in text.split("Function Name: ")[1:]:
        if name := kernel_name(section, target.arch):
            vectors = re.findall(r" (?:VGPRs|AGPRs): (\d+)", section)
            spilled = int(found(r"VGPRs Spill: (\d+)", section))
            scratch = int(found(r"ScratchSize \[bytes/lane\]: (\d+)", section))
            rows.append(
                {
                    "kernel": name,
                    "registers": str(sum(map(int, vectors))),
                    "scratch_bytes": str(scratch + 4 * spilled),
                    "shared_bytes": found(r"LDS Size \[bytes/block\]: (\d+)", section),
                    "waves_per_simd": found(r"Occupancy \[waves/SIMD\]: (\d+)", section),
                }
            )
    return rows


def instances(target: Target, every: bool) -> list[Path]:
    """Files of passes, by their names: PASS_TYPE_dWIDTH.hip."""
    files = sorted((HIP / "instances").glob("*_d*.hip"))
    gated = tuple(f"_bf16_d{width}" for width in target.widths)
    return [file for file in files if every or file.stem.endswith(gated)]


def measure(args: argparse.Namespace, folder: Path) -> list[Row]:
    def one(job: tuple[Target, Path]) -> list[Row]:
        target, source = job
        tool = nvidia if target.compiler == "nvcc" else amd
        out = folder / f"{target.name}_{source.stem}"
        rows = tool(getattr(args, target.compiler), target, source, out)
        if not rows and not args.all:  # not every target has passes for every width
            sys.exit(f"{target.name} {source.name}: no kernel of a pass")
        return [{"target": target.name, **row} for row in rows]

    jobs = [(target, file) for target in TARGETS for file in instances(target, args.all)]
    with ThreadPoolExecutor(2) as pool:
        return [row for rows in pool.map(one, jobs) for row in rows]


def complaints(rows: list[Row], compared: bool, every: bool) -> list[str]:
    with TABLE.open(encoding="utf-8") as text:
        known = {(row["target"], row["kernel"]): row for row in csv.DictReader(text)}
    most = {target.name: target.shared_bytes for target in TARGETS}
    wrong = []
    for row in rows:
        where = f"{row['target']} {row['kernel']}"
        if row["scratch_bytes"] != "0":
            wrong.append(f"{where}: got {row['scratch_bytes']} bytes of scratch, expected none")
        if int(row["shared_bytes"] or 0) > most[row["target"]]:
            wrong.append(
                f"{where}: got {row['shared_bytes']} bytes of shared memory, "
                f"expected at most {most[row['target']]}"
            )
        expected = known.get((row["target"], row["kernel"]))
        if compared and expected != row and not (every and expected is None):
            wrong.append(f"{where}: got {row}, expected {expected}")
    if compared and not every:
        measured = {(row["target"], row["kernel"]) for row in rows}
        wrong += [f"{' '.join(key)}: is in the table only" for key in known if key not in measured]
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--clang", required=True)
    parser.add_argument("--zig", required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if args.all and args.write:
        parser.error("the table has the gate's kernels only: --all and --write exclude each other")
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(args, Path(folder))
    for row in rows:
        print(", ".join(f"{key} {row[key]}" for key in FIELDS if row[key]))
    if args.write:
        with TABLE.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    if wrong := complaints(rows, not args.write, args.all):
        sys.exit("\n".join(["kernels are not as expected:", *wrong]))


if __name__ == "__main__":
    main()
