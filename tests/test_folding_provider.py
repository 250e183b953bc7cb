"""A provider that folds its scalar into what it compiles declines runtime ones, and only those."""

from __future__ import annotations

import pytest
import raggeddnn as rd
from plugins.fakes import constant, load, runtime, small, verdicts, with_default

ENGINE = "FOLDS_SCALAR_ENGINE"


@pytest.mark.parametrize("state", [runtime, with_default])
def test_a_folding_provider_declines_runtime_scalars_with_a_default_or_without(state):
    load("veneer_folds")
    sdpa = small("fold", scale=state().set_name("alpha"))
    verdict = verdicts(sdpa.graph)[ENGINE]
    assert not verdict.applicable
    assert "'alpha'" in verdict.reason and "expected a compile-time constant" in verdict.reason
    with pytest.raises(rd.NotSupportedError, match="folded into the kernel"):
        sdpa.graph.build(engine=ENGINE)


@pytest.mark.parametrize("scale", [constant(0.75), 0.75])
def test_a_folding_provider_runs_what_was_baked(scale):
    load("veneer_folds")
    sdpa = small("fold", scale=scale)
    assert (sdpa.run(sdpa.graph.build(engine=ENGINE)) == 0.75).all()
