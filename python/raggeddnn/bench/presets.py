"""What ``raggeddnn bench`` measures: head counts of known models, lengths of real documents."""

from __future__ import annotations

import ast
import functools
import math
import random
import sysconfig
import warnings
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Preset:
    """A batch to measure. ``heads`` are those of q, k, v; lengths are in tokens.

    ``source`` is ``docstrings`` (a word is a token), ``log-uniform`` or ``equal``. No sequence is
    longer than ``longest``.
    """

    name: str
    about: str
    heads: tuple[int, int, int]
    head_dim: int
    sequences: int
    longest: int
    source: str = "docstrings"
    causal: bool = False

    def lengths(self, seed: int) -> tuple[int, ...]:
        """The batch's lengths; the same seed, preset and Python version give the same ones."""
        rng = random.Random(seed)
        if self.source == "equal":
            return (self.longest,) * self.sequences
        if self.source == "log-uniform":
            low, high = math.log(8), math.log(self.longest)
            return tuple(round(math.exp(rng.uniform(low, high))) for _ in range(self.sequences))
        known = [n for n in docstring_lengths() if n <= self.longest]
        return tuple(rng.sample(known, min(self.sequences, len(known))))


PRESETS: tuple[Preset, ...] = (
    Preset(
        "docstrings",
        "docstrings of Python's standard library, a small encoder (8 heads of 64)",
        (8, 8, 8),
        64,
        sequences=64,
        longest=256,
    ),
    Preset(
        "minilm",
        "the same documents, heads of all-MiniLM-L6 (12 of 32)",
        (12, 12, 12),
        32,
        sequences=64,
        longest=512,
    ),
    Preset(
        "qwen2-0.5b",
        "the same documents, heads of Qwen2-0.5B (14 on 2, of 64), causal",
        (14, 2, 2),
        64,
        sequences=64,
        longest=512,
        causal=True,
    ),
    Preset(
        "llama-3-8b",
        "the same documents, heads of Llama 3 8B (32 on 8, of 128), causal",
        (32, 8, 8),
        128,
        sequences=64,
        longest=512,
        causal=True,
    ),
    Preset(
        "log-uniform",
        "lengths 8 to 1024, uniform in their logarithm (8 heads of 64)",
        (8, 8, 8),
        64,
        sequences=16,
        longest=1024,
        source="log-uniform",
    ),
    Preset(
        "equal",
        "equal lengths: what the ragged layout costs when there is no padding to save",
        (2, 2, 2),
        32,
        sequences=16,
        longest=96,
        source="equal",
    ),
    Preset(
        "tiny",
        "four short documents, to try the command",
        (2, 1, 1),
        8,
        sequences=4,
        longest=24,
    ),
)

DEFAULT_PRESET = PRESETS[0].name


def preset_named(name: str) -> Preset:
    """The preset of that name; raises ValueError listing the known ones."""
    for preset in PRESETS:
        if preset.name == name:
            return preset
    raise ValueError(f"no preset is named {name!r}; there are {preset_names()}")


def preset_names() -> str:
    """All names, as messages and help list them."""
    return ", ".join(preset.name for preset in PRESETS)


@functools.lru_cache(maxsize=1)
def docstring_lengths() -> tuple[int, ...]:
    """Words in each docstring of the standard library's top-level modules, in a fixed order.

    The sources are parsed, never imported; files that cannot be read or parsed are passed over. The
    numbers differ between Python versions, as the library does.
    """
    lengths = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                words = len((ast.get_docstring(node, clean=False) or "").split())
                if words:
                    lengths.append(words)
    return tuple(lengths)
