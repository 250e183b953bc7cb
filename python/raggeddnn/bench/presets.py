"""What ``raggeddnn bench`` measures: head counts of known models, and small batches for them."""

from __future__ import annotations

from dataclasses import dataclass

DOCUMENTS, LOG_UNIFORM, ONE_LONG, FIXED = "documents", "log-uniform", "one-long", "fixed"


@dataclass(frozen=True)
class Preset:
    """A model's attention, and the batch measured unless the command says otherwise.

    ``heads`` are those of q, k, v; ``value_dim`` None means ``head_dim``. ``sequences`` of at most
    ``longest`` tokens are drawn from the distribution ``lengths``.
    """

    name: str
    about: str
    heads: tuple[int, int, int]
    head_dim: int
    sequences: int
    longest: int
    lengths: str = DOCUMENTS
    causal: bool = False
    value_dim: int | None = None

    @property
    def d_v(self) -> int:
        return self.head_dim if self.value_dim is None else self.value_dim


# Batches are small enough for the reference engine; --sequences and --longest give larger ones.
PRESETS: tuple[Preset, ...] = (
    Preset("encoder", "a small encoder (8 heads of 64)", (8, 8, 8), 64, 64, 256),
    # sentence-transformers/all-MiniLM-L6-v2, config.json: 12 heads, hidden size 384; the model
    # card: 256 tokens.
    Preset("minilm", "heads of all-MiniLM-L6 (12 of 32)", (12, 12, 12), 32, 64, 256),
    # Dosovitskiy et al. 2021 (arXiv 2010.11929), table 1: 12 heads, width 768; 224 x 224 pixels in
    # patches of 16 are 196 tokens and the class token.
    Preset(
        "vit-b",
        "heads of ViT-B/16 (12 of 64), 197 tokens an image",
        (12, 12, 12),
        64,
        16,
        197,
        FIXED,
    ),
    # Radford et al. 2022 (arXiv 2212.04356), table 1: 20 heads, width 1280; 1500 positions for 30
    # seconds of audio.
    Preset(
        "whisper-large",
        "heads of Whisper large's encoder (20 of 64); 1500 tokens are 30 s",
        (20, 20, 20),
        64,
        6,
        375,
        LOG_UNIFORM,
    ),
    # Qwen2 technical report (arXiv 2407.10671), table 1: 14 heads on 2, head size 64.
    Preset(
        "qwen2-0.5b", "heads of Qwen2-0.5B (14 on 2, of 64), causal", (14, 2, 2), 64, 32, 256,
        causal=True,
    ),
    # Qwen2.5 technical report (arXiv 2412.15115), table 1: 28 heads on 4; config.json: hidden size
    # 3584, so 128 a head.
    Preset(
        "qwen2.5-7b", "heads of Qwen2.5-7B (28 on 4, of 128), causal", (28, 4, 4), 128, 16, 128,
        causal=True,
    ),
    # Llama 3 (arXiv 2407.21783), table 3: 32 heads on 8, width 4096; 70B: 64 heads on 8, width
    # 8192.
    Preset(
        "llama-3-8b", "heads of Llama 3 8B (32 on 8, of 128), causal", (32, 8, 8), 128, 16, 128,
        causal=True,
    ),
    Preset(
        "llama-3-70b", "heads of Llama 3 70B (64 on 8, of 128), causal", (64, 8, 8), 128, 8, 128,
        causal=True,
    ),
    Preset("tiny", "four short documents, to try the command", (2, 1, 1), 8, 4, 24),
)  # fmt: skip

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
