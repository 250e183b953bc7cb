"""One workload: a batch, a pass and a data type; its useful work; what a contender is.

Useful work counts visible pairs of a query and a key of the same sequence and nothing else: a
product of q and k costs ``2 * D`` operations a pair and query head, one of a weight and v ``2 *
D_v``. The backward pass counts 2.5 times that: it has five such products where the forward pass has
two. A contender that computes padding or hidden pairs gets no credit for them.
"""

from __future__ import annotations

import functools
import zlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..testing import Case, Problem, make_problem
from ..testing.oracle import Array
from .presets import Preset

FORWARD, BACKWARD, BOTH = "forward", "backward", "forward+backward"
PASS_FACTORS = {FORWARD: 1.0, BACKWARD: 2.5, BOTH: 3.5}


def visible_pairs(lens: tuple[int, ...], causal: bool) -> int:
    """Pairs of a query and a key that it sees, over all sequences (self-attention)."""
    return sum(n * (n + 1) // 2 if causal else n * n for n in lens)


@dataclass(frozen=True)
class Workload:
    """What is measured side by side. ``lens`` in tokens, drawn from ``distribution``."""

    preset: Preset
    distribution: str
    lens: tuple[int, ...]
    dtype: str = "float32"
    pass_name: str = FORWARD
    causal: bool = False
    seed: int = 0

    @property
    def tokens(self) -> int:
        return sum(self.lens)

    @property
    def s_max(self) -> int:
        return max(self.lens)

    @property
    def padding_share(self) -> float:
        """The part of a padded batch's rows that belongs to no sequence, 0 to 1."""
        return 1.0 - self.tokens / (len(self.lens) * self.s_max)

    @property
    def typical_length(self) -> float:
        """The length of the sequence that a token lies in, averaged over all tokens."""
        return sum(n * n for n in self.lens) / self.tokens

    def flops_of(self, pairs: int) -> float:
        """Operations of this pass on so many visible pairs."""
        forward = 2.0 * (self.preset.head_dim + self.preset.d_v) * pairs * self.preset.heads[0]
        return PASS_FACTORS[self.pass_name] * forward

    @property
    def useful_flops(self) -> float:
        return self.flops_of(visible_pairs(self.lens, self.causal))

    @property
    def padded_flops(self) -> float:
        """Operations of the rectangle that a padded batch under a mask computes."""
        return self.flops_of(len(self.lens) * self.s_max**2)

    @property
    def title(self) -> str:
        preset, heads = self.preset, self.preset.heads
        return (
            f"{preset.name} (heads {heads[0]} on {heads[1]}, of {preset.head_dim}), "
            f"{self.dtype}{', causal' if self.causal else ''}, {self.pass_name}"
        )

    @property
    def batch_words(self) -> str:
        return (
            f"{self.distribution}: {len(self.lens)} sequences, {self.tokens} tokens, longest "
            f"{self.s_max}, {100 * self.padding_share:.0f} % padding if padded"
        )


@dataclass(frozen=True)
class Batch:
    """A workload with its numbers: packed q, k, v, and the gradient ``do`` (T,Hq,Dv) of the
    output.
    """

    work: Workload

    @functools.cached_property
    def problem(self) -> Problem:
        work = self.work
        case = Case(
            work.preset.name,
            work.lens,
            work.lens,
            heads=work.preset.heads,
            d=work.preset.head_dim,
            d_v=work.preset.value_dim,
            dtype=work.dtype,
            causal=work.causal,
            stats="none" if work.pass_name == FORWARD else "ragged",
            seed=work.seed,
        )
        return make_problem(case)

    @functools.cached_property
    def do(self) -> Array:
        work, problem = self.work, self.problem
        rng = np.random.default_rng([work.seed, zlib.crc32(b"do")])
        shape = (work.tokens, work.preset.heads[0], work.preset.d_v)
        return rng.standard_normal(shape).astype(problem.q.dtype)


class UnavailableError(Exception):
    """Why a contender does not run here: shown beside its name."""


class Job(Protocol):
    """A contender ready to run one workload again and again."""

    @property
    def memory(self) -> int:
        """Bytes of inputs, outputs, mask and known workspace."""

    def run(self) -> None:
        """The call that is timed."""

    def results(self) -> dict[str, Array]:
        """What the last run wrote, as packed rows: o (T,Hq,Dv) and dq, dk, dv where computed."""


class Contender(Protocol):
    """One way of one library to do the work."""

    @property
    def engine(self) -> str:
        """The engine or library."""

    @property
    def layout(self) -> str:
        """How it holds the batch."""

    @property
    def is_ours(self) -> bool:
        """A wrong result of ours ends the command; one of a peer is noted."""

    def stored_padding(self, work: Workload) -> float:
        """The part of its rows that belongs to no sequence, 0 to 1."""

    def prepare(self, batch: Batch) -> Job:
        """Everything that is not timed, a first call included; raises UnavailableError."""
