"""The C API, from C: plain C11 programs (``tests/c/test_*.c``) that see the installed headers and
``libraggeddnn.so`` and nothing else. Each says what failed and exits with 1.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from pathlib import Path

import cpp_build
import pytest
import raggeddnn._core

SOURCES = Path(__file__).parent / "c"
# Beside the extension: an editable install has its Python files elsewhere.
PACKAGE = Path(raggeddnn._core.__file__).parent
HEADERS = PACKAGE / "include" / "raggeddnn" / "backend"
COMPILER = os.environ.get("CC", "cc")
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
if cpp_build.SANITIZE:
    STRICT += [f"-fsanitize={cpp_build.SANITIZE}", "-fno-sanitize-recover=all", "-g1"]
PLUGIN = "fake_1_4_0"
PLUGIN_ENGINE = "RAGGEDDNN_FAKE_ENGINE"


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled programs."""
    folder = tmp_path_factory.mktemp("c_api")
    library = PACKAGE / "lib"
    for source in sorted(SOURCES.glob("test_*.c")):
        cpp_build.run(
            [
                COMPILER,
                *STRICT,
                f"-I{PACKAGE / 'include'}",
                source,
                "-o",
                folder / source.stem,
                f"-L{library}",
                "-lraggeddnn",
                "-lm",
                f"-Wl,-rpath,{library}",
            ]
        )
    return folder


@pytest.mark.parametrize(
    "name", ["test_ragged_sdpa", "test_overrides", "test_errors", "test_attributes"]
)
def test_program(programs: Path, name: str) -> None:
    assert f"{name}: 0 failures" in cpp_build.run([programs / name])


def test_plugins(programs: Path) -> None:
    version = importlib.metadata.version("raggeddnn")
    plugin = cpp_build.built_plugin(PLUGIN)
    arguments = [plugin, plugin.parent / PLUGIN, PLUGIN_ENGINE, version]
    output = cpp_build.run([programs / "test_plugins", *arguments])
    assert "test_plugins: 0 failures" in output


def test_device_from_environment(programs: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="device is 'toaster', expected 'cpu'"):
        cpp_build.run([programs / "test_errors"], {"RAGGEDDNN_DEVICE": "toaster"})


@pytest.mark.parametrize("header", ["hipdnn_backend", "hipdnn_backend_types"])
@pytest.mark.parametrize("language", ["c", "c++"])
def test_header_stands_alone(tmp_path: Path, header: str, language: str) -> None:
    """Alone, and beside the plugin ABI's header in either order: the two share types."""
    plugin = "raggeddnn/plugin/engine_plugin_api.h"
    own = f"raggeddnn/backend/{header}.h"
    for number, includes in enumerate(([own], [own, plugin], [plugin, own])):
        source = tmp_path / f"{number}.txt"
        lines = [f'#include "{include}"' for include in includes]
        source.write_text("\n".join([*lines, "int main(void) { return 0; }", ""]))
        standard = "-std=c11" if language == "c" else "-std=c++20"
        options = [standard, *STRICT[1:], f"-I{PACKAGE / 'include'}", "-fsyntax-only"]
        cpp_build.run([COMPILER, *options, "-x", language, source])


def attribute_numbers() -> dict[str, int]:
    text = (HEADERS / "hipdnn_backend_attributes.h").read_text()
    found = re.findall(r"^    HIPDNN_ATTR_(\w+) = (\d+)", text, re.MULTILINE)
    return {name: int(number) for name, number in found}


def test_attribute_numbers_are_unique() -> None:
    numbers = attribute_numbers()
    assert len(numbers) > 250
    assert len(set(numbers.values())) == len(numbers)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ENGINEHEUR_RESULTS", 102),
        ("OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT", 609),
        ("VARIANT_PACK_OVERRIDE_LENGTHS_EXT", 707),
        ("TENSOR_VALUE_EXT", 1306),
        ("TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT", 1308),
        ("TENSOR_RAGGED_OFFSET_MULTIPLIER", 1311),
        ("POINTWISE_AXIS", 2308),
        ("SDPA_FWD_COMP_TYPE_EXT", 2641),
        ("SDPA_BWD_COMP_TYPE_EXT", 3128),
        ("REDUCTION_IS_DETERMINISTIC", 3204),
        ("LAYERNORM_BACKWARD_COMP_TYPE_EXT", 3610),
    ],
)
def test_attribute_number(name: str, number: int) -> None:
    assert attribute_numbers()[name] == number
