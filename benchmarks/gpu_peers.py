"""Packed attention of other libraries on a CUDA GPU, each where it is installed, and ours.

Every contender is a function of a batch and of whether the mask is causal that returns two calls,
the forward and the backward pass. What is not installed raises ImportError.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch


@dataclass(frozen=True)
class Batch:
    """Random packed sequences in bfloat16; gradients are asked for."""

    lengths: list[int]
    heads: int
    heads_kv: int
    width: int

    @functools.cached_property
    def qkv(self) -> list[torch.Tensor]:
        return [self._rows(heads).requires_grad_() for heads in self._heads]

    @functools.cached_property
    def d_o(self) -> torch.Tensor:
        return self._rows(self.heads)

    @functools.cached_property
    def offsets(self) -> torch.Tensor:
        return torch.tensor([0, *self.lengths]).cumsum(0).int().cuda()

    @property
    def longest(self) -> int:
        return max(self.lengths)

    @property
    def _heads(self) -> tuple[int, int, int]:
        return self.heads, self.heads_kv, self.heads_kv

    def _rows(self, heads: int) -> torch.Tensor:
        return torch.randn(sum(self.lengths), heads, self.width, device="cuda").bfloat16()


class Passes(NamedTuple):
    forward: Callable[[], Any]
    backward: Callable[[], Any]


def of_autograd(
    qkv: list[torch.Tensor], d_o: torch.Tensor, call: Callable[..., torch.Tensor]
) -> Passes:
    """``call(q, k, v)``: the forward pass without gradients, the backward pass by autograd."""
    output = call(*qkv)

    def forward() -> None:
        with torch.no_grad():
            call(*qkv)

    def backward() -> None:
        torch.autograd.grad(output, qkv, d_o, retain_graph=True)

    return Passes(forward, backward)


def ours(batch: Batch, causal: bool) -> Passes:
    import raggeddnn.torch as rt

    cu, longest = batch.offsets, batch.longest
    return of_autograd(
        batch.qkv,
        batch.d_o,
        lambda q, k, v: rt.flash_attn_varlen_func(q, k, v, cu, cu, longest, longest, causal=causal),
    )


def pytorch(batch: Batch, causal: bool) -> Passes:
    from torch.nn.attention.varlen import varlen_attn

    cu, longest = batch.offsets, batch.longest
    window = (-1, 0) if causal else (-1, -1)
    return of_autograd(
        batch.qkv,
        batch.d_o,
        lambda q, k, v: varlen_attn(q, k, v, cu, cu, longest, longest, window_size=window),
    )


def flash_attention_4(batch: Batch, causal: bool) -> Passes:
    from flash_attn.cute import flash_attn_varlen_func

    limits = {
        "cu_seqlens_q": batch.offsets, "cu_seqlens_k": batch.offsets,
        "max_seqlen_q": batch.longest, "max_seqlen_k": batch.longest,
    }  # fmt: skip

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        result = flash_attn_varlen_func(q, k, v, **limits, causal=causal)
        output: torch.Tensor = result[0] if isinstance(result, tuple) else result
        return output

    return of_autograd(batch.qkv, batch.d_o, call)


class CudnnGraph:
    """A graph of cuDNN's over the batch: tensors with ragged offsets and their memory."""

    def __init__(self, batch: Batch) -> None:
        import cudnn

        self.cudnn, self.batch = cudnn, batch
        self.handle = cudnn.create_handle()
        cudnn.set_stream(handle=self.handle, stream=torch.cuda.current_stream().cuda_stream)
        self.graph = cudnn.pygraph(
            handle=self.handle,
            io_data_type=cudnn.data_type.BFLOAT16,
            intermediate_data_type=cudnn.data_type.FLOAT,
            compute_data_type=cudnn.data_type.FLOAT,
        )
        self.pack: dict[Any, torch.Tensor] = {}
        self.tables: dict[int, Any] = {}
        lengths = torch.tensor(batch.lengths, dtype=torch.int32, device="cuda")
        self.lengths = [self._table(lengths, cudnn.data_type.INT32) for _ in range(2)]

    def _table(self, memory: torch.Tensor, data_type: Any) -> Any:
        made = self.graph.tensor(
            dim=[memory.numel(), 1, 1, 1], stride=[1, 1, 1, 1], data_type=data_type
        )
        self.pack[made] = memory.view(-1, 1, 1, 1)
        return made

    def state(self, tensor: Any, memory: torch.Tensor) -> Any:
        """``tensor`` is where the packed rows of ``memory``, [T, H, D], are."""
        heads, width = memory.shape[1:]
        row = heads * width
        if row not in self.tables:
            offsets = self.batch.offsets.long() * row
            self.tables[row] = self._table(offsets, self.cudnn.data_type.INT64)
        longest = self.batch.longest
        tensor.set_dim([len(self.batch.lengths), heads, longest, width])
        tensor.set_stride([longest * row, width, row, 1])
        tensor.set_ragged_offset(self.tables[row])
        self.pack[tensor] = memory
        return tensor

    def input(self, memory: torch.Tensor, data_type: Any = None) -> Any:
        data_type = data_type or self.cudnn.data_type.BFLOAT16
        made = self.graph.tensor(dim=[1, 1, 1, 1], stride=[1, 1, 1, 1], data_type=data_type)
        return self.state(made, memory)

    def options(self, causal: bool) -> dict[str, Any]:
        lengths_q, lengths_kv = self.lengths
        return {
            "attn_scale": 1 / math.sqrt(self.batch.width), "use_causal_mask": causal,
            "use_padding_mask": True, "seq_len_q": lengths_q, "seq_len_kv": lengths_kv,
        }  # fmt: skip

    def build(self) -> Callable[[], None]:
        self.graph.validate()
        self.graph.build_operation_graph()
        self.graph.create_execution_plans([self.cudnn.heur_mode.A])
        self.graph.check_support()
        self.graph.build_plans()
        workspace = torch.empty(self.graph.get_workspace_size(), dtype=torch.uint8, device="cuda")
        return lambda: self.graph.execute(self.pack, workspace, handle=self.handle)


def cudnn_ragged(batch: Batch, causal: bool) -> Passes:
    inputs = [x.detach() for x in batch.qkv]
    output, stats = torch.empty_like(inputs[0]), torch.empty(*inputs[0].shape[:2], 1, device="cuda")
    forward = CudnnGraph(batch)
    float_type = forward.cudnn.data_type.FLOAT
    q, k, v = map(forward.input, inputs)
    made = forward.graph.sdpa(
        name="forward", q=q, k=k, v=v, generate_stats=True, **forward.options(causal)
    )
    for tensor, memory in zip(made, (output, stats), strict=True):
        tensor.set_output(True)
        forward.state(tensor, memory)
    made[1].set_data_type(float_type)

    backward = CudnnGraph(batch)
    q, k, v, o, d_o = map(backward.input, (*inputs, output, batch.d_o))
    gradients = backward.graph.sdpa_backward(
        name="backward", q=q, k=k, v=v, o=o, dO=d_o, stats=backward.input(stats, float_type),
        max_total_seq_len_q=len(output), max_total_seq_len_kv=len(output),
        **backward.options(causal),
    )  # fmt: skip
    for tensor, memory in zip(gradients, map(torch.empty_like, inputs), strict=True):
        tensor.set_output(True)
        backward.state(tensor, memory)
    passes = Passes(forward.build(), backward.build())
    passes.forward()  # its results are the backward pass's inputs
    return passes


CONTENDERS: dict[str, Callable[[Batch, bool], Passes]] = {
    "ours": ours,
    "PyTorch": pytorch,
    "cuDNN": cudnn_ragged,
    "FA4": flash_attention_4,
}
