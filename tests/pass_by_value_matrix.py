"""Section 9 of the runtime pass-by-value document, bullet by bullet: which tests show it.

conftest.py prints the table with outcomes after a run; test_pass_by_value_matrix.py checks that
every test named here exists.
"""

from __future__ import annotations

PLUGINS = "test_plugins.py::"
SCALARS = "test_scalars_of_operations.py::"
GUARDS = "test_guards.py::"
ATTRIBUTES = "test_tensor_attributes.py::"

MATRIX: dict[str, tuple[str, ...]] = {
    "2-bit state round-trip": (
        GUARDS + "test_the_by_value_states_survive_a_round_trip",
        ATTRIBUTES + "test_scalars_on_the_wire",
        "test_roundtrip_properties.py::test_scalars_keep_their_bits",
    ),
    "Legacy round-trip": (
        GUARDS + "test_a_legacy_graph_is_a_constant_and_runs_on_the_first_provider",
    ),
    "Getter-return assertions": (ATTRIBUTES + "test_what_every_getter_says_of_a_state",),
    "Version floor": (
        PLUGINS + "test_a_graph_is_offered_from_its_floor_on",
        PLUGINS + "test_not_supported_lists_every_engine_with_its_reason",
        GUARDS + "test_a_provider_s_payload_keeps_its_runtime_scalars",
        GUARDS + "test_a_provider_refuses_a_payload_that_it_cannot_read",
    ),
    "Non-supporting plugin, both paths": (
        PLUGINS + "test_a_provider_below_the_floor_is_not_even_asked",
        PLUGINS + "test_a_baked_scale_reaches_every_provider",
        "test_folding_provider.py::"
        "test_a_folding_provider_declines_runtime_scalars_with_a_default_or_without",
    ),
    "Override inert for defaulted UID": (
        PLUGINS + "test_a_baked_value_wins_whatever_the_pack_says",
    ),
    "User-supplied delivery": (PLUGINS + "test_a_runtime_scale_is_what_the_caller_supplied",),
    "Validation": (
        ATTRIBUTES + "test_every_by_value_state_validates",
        ATTRIBUTES + "test_validate_says_what_is_wrong",
        "test_graph_frontend.py::test_a_scale_tensor_is_lowered_as_the_tensor",
    ),
    "Serialization parity": (
        GUARDS + "test_a_legacy_graph_is_a_constant_and_runs_on_the_first_provider",
        "test_json.py::test_an_older_text_gets_the_defaults",
    ),
    "Reader-version guard": (
        GUARDS + "test_the_stamps_of_a_graph",
        GUARDS + "test_a_newer_reader_version_is_refused_before_anything_else_is_read",
    ),
    "Missing required value": (
        PLUGINS + "test_a_missing_runtime_scale_is_the_provider_s_invalid_value",
    ),
    "Runtime-default vs runtime-only provider paths": (
        PLUGINS + "test_a_baked_value_wins_whatever_the_pack_says",
        PLUGINS + "test_a_runtime_scale_is_what_the_caller_supplied",
        "test_scalars_at_run_time.py::test_both_runtime_states_on_every_engine",
    ),
    "Constant-operation runtime-value regression": (
        SCALARS + "test_a_runtime_sentinel_shows_in_the_result_or_the_graph_is_declined",
        SCALARS + "test_a_default_holds_whatever_the_pack_says",
        SCALARS + "test_a_missing_runtime_scalar_is_named",
    ),
    "Mixed multi-scalar graph": (
        PLUGINS + "test_scalars_in_different_states_do_not_mix",
        "test_batchnorm.py::test_a_constant_epsilon_and_a_runtime_momentum_do_not_mix",
    ),
    "Backend attribute derivation": ("test_c_api.py::test_program",),
    "Post-build setter warning": (
        ATTRIBUTES + "test_a_setter_after_the_build_warns_and_changes_no_plan",
    ),
    "Harness host-value injection": (
        "test_harness.py::test_a_host_value_reaches_both_paths_as_the_runtime_scalar",
        "test_harness.py::test_a_baked_value_and_a_default_are_the_graph_s",
        "test_harness.py::test_a_runtime_scalar_without_any_value_fails_setup",
    ),
}
