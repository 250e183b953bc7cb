"""What tests, benchmarks and ``raggeddnn verify`` share: float64 oracles, derived tolerances, named
cases, graphs, and the verification harness.

Attention: ``cases`` and ``reported`` name inputs, ``graphs`` and ``graphs_backward`` make graphs of
them, ``oracle``, ``oracle_backward``, ``tolerance`` and ``gradients`` say what must come out and
how closely, ``checks`` runs an engine. Other operations: ``op_graphs``, with the oracles and graphs
of ``pointwise``, ``linear`` (products, reductions), ``norms`` and ``batchnorm``. ``harness``
compares any graph's results on two engines.

Nothing here needs more than NumPy (bfloat16 cases also need ml_dtypes). An engine's own test suite
may import it: build a :class:`Problem` from a :class:`Case`, run it, hand the result to
:func:`assert_sdpa_close`.
"""

from .cases import (
    CASES,
    Case,
    Problem,
    Side,
    assert_sdpa_close,
    case_named,
    lay_out,
    make_problem,
    numpy_dtype,
)
from .gradients import BackwardProblem, make_backward
from .harness import (
    IntegrationGraphVerificationHarness,
    OutputReport,
    PreSuppliedInputs,
    Tolerance,
    VerificationReport,
)
from .oracle import SdpaOptions, padded_oracle, ragged_oracle, sdpa_oracle, visible_keys
from .oracle_backward import SdpaGradients, sdpa_backward_oracle
from .tolerance import (
    assert_sequence_close,
    epsilon,
    error_bound,
    first_violation,
    plain_results,
    plain_sdpa,
)

__all__ = [
    "CASES",
    "BackwardProblem",
    "Case",
    "IntegrationGraphVerificationHarness",
    "OutputReport",
    "PreSuppliedInputs",
    "Problem",
    "SdpaGradients",
    "SdpaOptions",
    "Side",
    "Tolerance",
    "VerificationReport",
    "assert_sdpa_close",
    "assert_sequence_close",
    "case_named",
    "epsilon",
    "error_bound",
    "first_violation",
    "lay_out",
    "make_backward",
    "make_problem",
    "numpy_dtype",
    "padded_oracle",
    "plain_results",
    "plain_sdpa",
    "ragged_oracle",
    "sdpa_backward_oracle",
    "sdpa_oracle",
    "visible_keys",
]
