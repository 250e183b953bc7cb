"""The C++ checks of ``tests/cpp``: programs that say what failed and exit with 1."""

from __future__ import annotations

from pathlib import Path

import cpp_build
import pytest

CHECKS = sorted(path.stem for path in (Path(__file__).parent / "cpp").glob("test_*.cpp"))

# A leak is a fault of ours in a program of ours.
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


def test_there_are_checks() -> None:
    assert CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_check(name: str) -> None:
    cpp_build.run([cpp_build.built_check(name)], SANITIZER_OPTIONS)


def test_plugins_compile() -> None:
    cpp_build.build_target("plugins")


def test_a_failing_program_fails_the_test(tmp_path: Path) -> None:
    program = tmp_path / "failing"
    program.write_text("#!/bin/sh\necho wrong result\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(pytest.fail.Exception, match="exit status 1\nwrong result"):
        cpp_build.run([program])


def test_a_missing_tool_fails_the_test() -> None:
    with pytest.raises(pytest.fail.Exception, match="no-such-compiler not found"):
        cpp_build.run(["no-such-compiler"])
