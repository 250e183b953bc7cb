"""Runs every fuzzer for a few seconds; ``tests/fuzz/run.py`` runs them for longer.

Only where RAGGEDDNN_FUZZ=1 asks for them: they need clang, and build the library once more.
RAGGEDDNN_FUZZ_SECONDS is the time of each (3), RAGGEDDNN_FUZZ_BUILD_DIR the build folder
(build/fuzz), kept between runs.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest
from fuzz import run

FOLDER = Path(os.environ.get("RAGGEDDNN_FUZZ_BUILD_DIR") or run.ROOT / "build" / "fuzz").resolve()
SECONDS = int(os.environ.get("RAGGEDDNN_FUZZ_SECONDS", "3"))

pytestmark = pytest.mark.skipif(
    os.environ.get("RAGGEDDNN_FUZZ") != "1", reason="RAGGEDDNN_FUZZ=1 asks for the fuzzers"
)


@pytest.fixture(scope="module")
def fuzzers() -> Path:
    """The folder of the compiled fuzzers. Where they cannot be built, the tests fail."""
    if run.find_clang() is None:
        pytest.fail(
            "no clang++ found: the fuzzers need clang with libFuzzer (Debian: clang-19 and "
            "libclang-rt-19-dev).",
            pytrace=False,
        )
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            run.build(FOLDER)
        except subprocess.CalledProcessError as error:
            lines = "\n".join(error.stdout.splitlines()[-60:])
            pytest.fail(f"the fuzzers do not build:\n{lines}", pytrace=False)
    return FOLDER


@pytest.mark.parametrize("target", run.TARGETS)
def test_nothing_is_found_in_a_few_seconds(fuzzers: Path, tmp_path: Path, target: str) -> None:
    """Always from the same inputs and with the same seed: what fails once, fails again."""
    done = subprocess.run(
        run.command(target, fuzzers, SECONDS, seed=1, corpus=tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=SECONDS + 120,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "stat::number_of_executed_units" in done.stdout
