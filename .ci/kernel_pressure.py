"""What one round of a kernel's main loop asks of an AMD GPU's pipes, by LLVM's machine model.

    python .ci/kernel_pressure.py [--instance forward_bf16_d128] [--target gfx942 ...]

Cuts the main loop out of the compiler's output, of that the way taken by a block of keys that needs
no mask, and prints for how many cycles, of four clocks each, a round takes each pipe of a wave.
Waves overlap, so the largest bounds the loop. A model, not a measurement; by hand.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from kernels import HIP, amd_command

MATRIX = re.compile(r"v_(s?mfmac?|s?wmmac?)_")
KERNEL = re.compile(r"^(_ZN9raggeddnn3hip8run_pass\w+):")
PIPES = {  # of llvm-mca
    "HWXDL": "matrix", "HWVALU": "vector", "HWLGKM": "LDS", "HWVMEM": "memory", "HWSALU": "scalar",
}  # fmt: skip
# The model counts 1 for them; the hardware takes four times as long as for others (AMD Instinct
# MI300 ISA, "Transcendental instructions").
TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")


@dataclass
class Block:
    label: str
    code: list[str] = field(default_factory=list)


def blocks_of(assembly: str) -> list[list[Block]]:
    """The blocks of each pass's kernel, in the order of the output."""
    kernels: list[list[Block]] = []
    inside = False
    for line in assembly.splitlines():
        if KERNEL.match(line):
            kernels.append([Block("entry")])
            inside = True
        elif line.startswith(".Lfunc_end"):
            inside = False
        elif inside and (label := re.match(r"(\.LBB\w+):|; %(bb\.\d+):", line)):
            kernels[-1].append(Block(label[1] or label[2]))
        elif inside:
            code = line.split(";")[0].strip()
            if code and not code.startswith("."):
                kernels[-1][-1].code.append(code)
    return kernels


def successors(blocks: list[Block], i: int) -> list[int]:
    at = {block.label: n for n, block in enumerate(blocks)}
    found: list[int] = []
    for code in blocks[i].code:
        if jump := re.match(r"s_c?branch\w* (\.LBB\w+)", code):
            found.append(at[jump[1]])
            if code.startswith("s_branch"):
                return found
        elif code.startswith(("s_endpgm", "s_setpc")):
            return found
    return [*found, i + 1] if i + 1 < len(blocks) else found


def main_loop(blocks: list[Block]) -> list[str]:
    """The code of the way once round the loop with the most matrix instructions.

    Of the ways through it the one that does the most of what a block of keys needs, with the fewest
    instructions beside that.
    """
    heads = {j for i in range(len(blocks)) for j in successors(blocks, i) if j <= i}
    sys.setrecursionlimit(10 * len(blocks) + 1000)

    def worth(block: Block) -> tuple[int, ...]:
        starts = Counter(x.split("_")[0] for x in block.code)
        calls = sum(x.startswith("s_swappc") for x in block.code)
        matrix = sum(bool(MATRIX.match(x)) for x in block.code)
        stores = sum(x.startswith("ds_write") for x in block.code)
        return matrix - 10**6 * calls, starts["buffer"] + starts["global"], stores, -starts["v"]

    best: tuple[int, tuple[int, ...]] = (0, ())
    for head in heads:

        @cache
        def way(i: int, head: int = head) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
            """The best way from block `i` forwards and back to the head."""
            ends: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
            for j in successors(blocks, i):
                if j == head:
                    ends.append(((0, 0, 0, 0), ()))
                elif j > i and (rest := way(j)):
                    ends.append(rest)
            if not ends:
                return None
            score, rest_of_way = max(ends)
            own = worth(blocks[i])
            return tuple(a + b for a, b in zip(own, score, strict=True)), (i, *rest_of_way)

        found = way(head)
        # An outer loop has as many, once; what is asked for is the share of them.
        if found and found[0][0] > 0:
            share = found[0][0] * 1000 // sum(len(blocks[i].code) for i in found[1])
            best = max(best, (share, found[1]))
    return [code for i in best[1] for code in blocks[i].code]


def modelled(code: str) -> str:
    """llvm-mca 19 crashes on buffer loads: a global load of as many registers in their place."""
    load = re.match(r"buffer_load_(\w+) (v\S+),", code)
    return f"global_load_{load[1]} {load[2]}, v[0:1], off" if load else code


def pressure(mca: str, target: str, code: list[str]) -> Counter[str]:
    kept = [modelled(x) for x in code if not re.match(r"s_c?branch|s_barrier", x)]
    done = subprocess.run(
        [mca, "-mtriple=amdgcn", f"-mcpu={target}", "-iterations=1"],
        input="\n".join(kept), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{mca}: {done.stderr[-2000:]}")
    names = re.findall(r"^\[[\d.]+\]\s+- (\w+)", done.stdout, re.MULTILINE)
    row = re.search(r"pressure per iteration:\n.*\n(.*)\n", done.stdout)
    if not row:
        sys.exit(f"{mca}: no table of resources in:\n{done.stdout[:2000]}")
    cycles: Counter[str] = Counter()
    for name, value in zip(names, row[1].split(), strict=True):
        if value != "-":
            cycles[PIPES.get(name, name)] += round(float(value))
    cycles["vector"] += 3 * sum(bool(TRANSCENDENTAL.match(x)) for x in code)
    return cycles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clang", default="clang++-19")
    parser.add_argument("--mca", default="llvm-mca-19")
    parser.add_argument("--instance", default="forward_bf16_d128")
    parser.add_argument("--target", nargs="+", default=["gfx90a", "gfx942"])
    parser.add_argument("--code", action="store_true", help="print the loop as well")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for target in args.target:
            out = Path(folder) / f"{target}.s"
            source = HIP / f"instances/{args.instance}.hip"
            subprocess.run([*amd_command(args.clang, target), "-S", source, "-o", out], check=True)
            for kernel in blocks_of(out.read_text()):
                code = main_loop(kernel)
                if not code:
                    continue
                cycles = pressure(args.mca, target, code)
                table = ", ".join(f"{name} {value:g}" for name, value in cycles.most_common())
                ratio = cycles["matrix"] / cycles["vector"]
                print(f"{target} {args.instance}: {table}; matrix to vector {ratio:.2f}")
                if args.code:
                    print("\n".join(code))


if __name__ == "__main__":
    main()
