"""The Python of README.md."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
_BLOCK = re.compile(r"^(<!-- python: gpu -->\n)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def python_blocks(*, on_gpu: bool) -> list[str]:
    """The blocks that need a GPU, or the others, in order."""
    found = _BLOCK.findall(README.read_text(encoding="utf-8"))
    return [code for mark, code in found if bool(mark) == on_gpu]
