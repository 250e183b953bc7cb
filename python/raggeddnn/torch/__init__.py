"""Attention of PyTorch tensors, with gradients, through raggeddnn's graphs and engines.

``flash_attn_varlen_func``, ``varlen_attn`` and ``scaled_dot_product_attention`` take the arguments
of flash-attn's and PyTorch's functions; :func:`register_transformers_attention` makes
``attn_implementation="raggeddnn"`` known to Hugging Face transformers.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("raggeddnn.torch needs PyTorch: pip install raggeddnn[torch]") from error

from ._kernels import clear_plan_cache, set_engine
from ._sdpa import scaled_dot_product_attention
from ._transformers import register_transformers_attention
from ._varlen import flash_attn_varlen_func, varlen_attn

__all__ = [
    "clear_plan_cache",
    "flash_attn_varlen_func",
    "register_transformers_attention",
    "scaled_dot_product_attention",
    "set_engine",
    "varlen_attn",
]
