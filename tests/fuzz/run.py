#!/usr/bin/env python3
"""Builds and runs the fuzzers: ``run.py graph plan container json c_api --seconds 600``.

Needs clang with libFuzzer (Debian: clang-19, libclang-rt-19-dev), CMake, and an installed
raggeddnn for the seeds. What is found stays in the build folder: the corpus of each target, and the
inputs that fail as ``crash-*``, ``timeout-*``, ``oom-*``. Run a target on one of these files to see
the failure again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGETS = ("graph", "plan", "container", "json", "c_api")

# An input takes milliseconds; the timeout leaves room for a busy machine. At its worst moment one
# may ask for 64 MiB in one piece; the sanitizers' own memory is in the total.
LIMITS = ["-timeout=20", "-malloc_limit_mb=64", "-rss_limit_mb=1024", "-max_len=16384"]


def find_clang() -> str | None:
    """The newest clang++ that is here; $RAGGEDDNN_CLANGXX comes first."""
    names = [f"clang++-{version}" for version in range(22, 15, -1)]
    candidates = [os.environ.get("RAGGEDDNN_CLANGXX", ""), *names, "clang++"]
    return next((path for name in candidates if name and (path := shutil.which(name))), None)


def build(folder: Path, targets: tuple[str, ...] = TARGETS) -> None:
    """Configure and compile; raises what subprocess raises, with the output in it."""
    clang = find_clang()
    if clang is None:
        raise FileNotFoundError("no clang++ found: the fuzzers need clang with libFuzzer")
    fresh = not (folder / "CMakeCache.txt").exists()
    configure = ["cmake", "-S", str(HERE), "-B", str(folder)]
    if fresh:
        configure += ["-G", "Ninja"] if shutil.which("ninja") else []
        configure += [f"-DCMAKE_CXX_COMPILER={clang}", f"-DPython_EXECUTABLE={sys.executable}"]
        configure += [f"-DCMAKE_C_COMPILER={clang.replace('clang++', 'clang')}"]
    names = [f"fuzz_{target}" for target in targets]
    jobs = str(os.cpu_count() or 1)
    make = ["cmake", "--build", str(folder), "-j", jobs, "--target", *names]
    for command in (configure, make):
        subprocess.run(
            command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


def command(
    target: str, folder: Path, seconds: int, seed: int = 0, corpus: Path | None = None
) -> list[str]:
    """Write the seeds and say how to run a target for a while.

    `seed`: of the mutations, 0 is a new one each time. `corpus`: where new inputs are kept and
    continued from; None: in the build folder.
    """
    sys.path[:0] = [str(HERE.parent)]
    from fuzz import seeds

    seeds.write(target, folder / "seeds" / target)
    corpus = corpus or folder / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    dictionary = folder / "seeds" / f"{target}.dict"
    return [
        str(folder / f"fuzz_{target}"),
        *LIMITS,
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-artifact_prefix={folder}/{target}-",
        "-print_final_stats=1",
        *([f"-dict={dictionary}"] if dictionary.exists() else []),
        str(corpus),
        str(folder / "seeds" / target),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", default=TARGETS, metavar="target", help=str(TARGETS))
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "fuzz")
    arguments = parser.parse_args()
    try:
        build(arguments.build, tuple(arguments.targets))
    except subprocess.CalledProcessError as error:
        print(error.stdout)
        return 1
    for target in arguments.targets:
        words = command(target, arguments.build, arguments.seconds)
        if subprocess.run(words, check=False).returncode != 0:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
