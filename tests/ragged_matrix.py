"""What the ragged-tensor document demands (sections 4.2 to 4.11, and what of 7 is done), statement
by statement, and the tests that show it. A test's name is ``file::function``; statements about C++
itself are shown by a program of ``tests/cpp``, as ``test_cpp.py::test_check[program]``.
"""

from __future__ import annotations

ATTRIBUTES = "test_tensor_attributes.py::"
FRONTEND = "test_graph_frontend.py::"
GUARDS = "test_guards.py::"
CHAIN = "test_chain.py::"
HARNESS = "test_harness.py::"
SDK = "test_tensor_sdk.py::"
FILLS = "test_tensor_fills.py::"
CPP = "test_cpp.py::test_check[test_tensor_sdk]"
DEVICE = "test_cpp.py::test_check[test_tensor_device]"
HARNESS_CPP = "test_cpp.py::test_check[test_harness]"

MATRIX = {
    "4.2 setters of ragged offset and alignment chain; alignment is 16 by default": (
        ATTRIBUTES + "test_setters_chain_on_the_same_object",
        ATTRIBUTES + "test_defaults",
    ),
    "4.2 the aux exists in the graph": (
        FRONTEND + "test_bad_offsets_are_named",
        GUARDS + "test_a_ragged_offset_that_is_not_in_the_graph_is_refused",
    ),
    "4.2 the aux has rank 4 and B + 1 as its first dim": (
        FRONTEND + "test_bad_offsets_are_named",
        FRONTEND + "test_good_offsets_are_written_with_rank_4",
    ),
    "4.2 get_alignment() >= 1": (ATTRIBUTES + "test_validate_says_what_is_wrong",),
    "4.2 alignment is required of the pointer": (
        "test_variant_pack.py::test_a_misaligned_base_is_refused",
        "test_variant_pack.py::test_a_lower_alignment_takes_what_the_default_refuses",
    ),
    "4.2 seq_lens are validated by the node that reads them": (
        FRONTEND + "test_options_that_do_not_fit_are_named",
    ),
    "4.3 the fields are appended, optional and defaulted": (
        "test_schema_slots.py::test_slots_types_and_defaults",
        "test_reported_forms.py::"
        "test_t33_an_optional_field_of_a_tensor_is_unset_default_or_zero_and_stays_so",
    ),
    "4.3 is_ragged_tensor_enabled is required, and derived": (
        GUARDS + "test_the_stamps_of_a_graph",
        GUARDS + "test_the_ragged_flag_cannot_be_set",
    ),
    "4.3 a graph with ragged tensors goes to plugins that know them only": (
        "test_plugins.py::test_a_graph_is_offered_from_its_floor_on",
        "test_plugins.py::test_a_provider_below_the_floor_is_not_even_asked",
    ),
    "4.3 on read the strictest of flag, stamp and tensors is the floor": (
        GUARDS + "test_where_stamp_and_features_disagree_the_stricter_holds",
        GUARDS + "test_the_ragged_flag_counts_without_ragged_tensors",
    ),
    "4.3 JSON carries the fields, and an older text gets the defaults": (
        "test_json.py::test_every_field_of_graph_and_tensor_survives",
        "test_json.py::test_an_older_text_gets_the_defaults",
    ),
    "4.4 the descriptor exposes the fields by get and set": ("test_c_api.py::test_program",),
    "4.4 the pack carries every tensor, offsets and lengths too": (
        "test_plugins.py::test_offsets_and_multiplier_reach_the_provider",
        "test_variant_pack.py::test_a_missing_tensor_is_the_engine_s_error",
    ),
    "4.5.1 the aux is type-erased: int32 and int64 alike": (
        SDK + "test_offsets_of_both_types",
        CPP,
    ),
    "4.5.1 read_offset throws for elements of neither 4 nor 8 bytes": (
        SDK + "test_an_aux_of_another_type_is_rejected",
    ),
    "4.5.2 dims()[seq_axis] is S_max, required of the caller and not derived": (
        SDK + "test_dims_are_reported_as_given",
    ),
    "4.5.3 get_index checks the number of indices, then asks get_index_impl": (
        SDK + "test_too_long_an_index_is_rejected",
        CPP,
    ),
    "4.5.3 every addressing path is ragged-aware": (
        SDK + "test_every_way_to_an_element_is_ragged_aware",
        CPP,
    ),
    "4.5.3 ragged_iteration_info is nullopt for dense tensors, else offsets, axis, stride": (CPP,),
    "4.5.3 iteration visits element_count() positions, not prod(dims), as {b, within ...}": (
        SDK + "test_iteration_visits_each_element_once_in_the_order_of_dims",
        SDK + "test_iteration_of_both_orders_of_dims",
    ),
    "4.5.4 iteration walks whole ranges, padding included": (
        SDK + "test_iteration_does_not_know_valid_lengths",
    ),
    "4.5.4 the sequence axis is the caller's, not inferred": (
        SDK + "test_the_sequence_axis_is_the_caller_s",
    ),
    "4.5.4 only memory whose batches are contiguous is legal": (
        SDK + "test_heads_outermost_is_rejected",
        SDK + "test_rows_with_gaps_or_overlap_are_rejected",
    ),
    "4.5.4 an extent is the offsets' difference over the sequence stride": (
        SDK + "test_a_batch_has_as_many_rows_as_its_offsets_say",
    ),
    "4.5.5 paddedDims is non-empty": (SDK + "test_empty_dims_are_rejected",),
    "4.5.5 raggedOffset is not null": (SDK + "test_no_aux_is_rejected", CPP),
    "4.5.5 the aux has B + 1 elements": (SDK + "test_an_aux_of_other_length_is_rejected",),
    "4.5.5 the aux has rank 4": (SDK + "test_an_aux_of_other_rank_is_rejected",),
    "4.5.5 the aux is int32 or int64": (SDK + "test_an_aux_of_another_type_is_rejected",),
    "4.5.5 ragged_offset[0] is 0": (SDK + "test_bad_offsets_are_rejected",),
    "4.5.5 offsets do not decrease": (SDK + "test_bad_offsets_are_rejected",),
    "4.5.5 the sequence stride is positive": (SDK + "test_no_sequence_stride_is_rejected",),
    "4.5.5 each batch is a whole number of rows": (SDK + "test_bad_offsets_are_rejected",),
    "4.5.5 no batch has more rows than S_max": (SDK + "test_bad_offsets_are_rejected",),
    "4.5.5 both types check the same": (SDK + "test_bad_offsets_are_rejected",),
    "4.5.6 element_count() is the last offset": (SDK + "test_counts",),
    "4.5.6 element_space() is the physical count": (SDK + "test_counts",),
    "4.5.7 is_packed() returns false": (SDK + "test_never_packed_and_never_regular",),
    "4.6 the physical count is inferred, or given": (
        SDK + "test_counts",
        SDK + "test_too_small_a_physical_count_is_rejected",
    ),
    "4.6 a shared base; one template parameter": (CPP,),
    "4.6 host and device data are supported": (
        FILLS + "test_device_memory_through_a_runtime",
        DEVICE,
    ),
    "4.6 pinned host memory": (FILLS + "test_device_memory_through_a_runtime", DEVICE),
    "4.6 the aux is fixed at construction and never reseated": (
        SDK + "test_the_layout_is_read_once",
    ),
    "4.6 the buffer stays mutable": (SDK + "test_every_way_to_an_element_is_ragged_aware",),
    "4.6 an index is based at the batch's offset": (SDK + "test_an_index_starts_at_its_batch",),
    "4.6 {b} is based at the offset, {} returns 0": (SDK + "test_an_index_starts_at_its_batch",),
    "4.6 beyond a batch's rows is out of bounds": (SDK + "test_an_index_outside_is_rejected",),
    "4.6.1 an aux is an ordinary tensor, shared by several primaries": (
        SDK + "test_one_aux_for_several_tensors",
    ),
    "4.7 a shallow tensor's host data is the borrowed memory": (
        SDK + "test_a_shallow_tensor_is_the_array_s_memory",
    ),
    "4.7 a shallow tensor's raw_device_data throws": (CPP,),
    "4.7 a shallow tensor supports fill_with_value only; other fills throw": (
        SDK + "test_a_shallow_tensor_is_filled_with_a_value_only",
    ),
    "4.8 the aux and seq_lens are dense": (SDK + "test_dense_tensors_iterate_densely",),
    "4.9 several tensors refer to one aux": (
        SDK + "test_one_aux_for_several_tensors",
        CHAIN + "test_one_plan_serves_ten_layouts",
    ),
    "4.9 the aux of an intermediate must be there; none is made": (
        HARNESS + "test_the_offsets_of_a_virtual_tensor_are_required_too",
        HARNESS_CPP,
    ),
    "4.9 offsets and seq_lens come from the variant pack, never from a node": (
        "test_given_extents.py::test_what_a_node_writes_says_nothing_of_extents",
        "test_given_extents.py::test_received_bytes_are_refused_alike",
        "test_cpp.py::test_check[test_given_extents]",
    ),
    "4.9 tensors of one side must agree in their rows": (
        "test_sdpa_graph.py::test_boundaries_of_one_side_agree_between_its_tensors",
        "test_reported_cases_backward.py::test_boundaries_of_one_side_agree_between_its_tensors",
    ),
    "4.10 make_shallow_itensor picks the type at run time": (CPP,),
    "4.10 offsets are read at each execute": (
        "test_one_plan.py::test_five_sets_of_lengths_and_scales_on_one_plan",
        CHAIN + "test_one_plan_serves_ten_layouts",
    ),
    "4.10 seq_len bounds what is computed, where given": (
        "test_sdpa_graph.py::test_case",
        HARNESS + "test_padding_of_a_random_input_is_filled_and_of_an_output_skipped",
    ),
    "4.10.1 create_tensor_from_attribute returns a dense or a ragged tensor": (HARNESS_CPP,),
    "4.10.1 virtual tensors that the pack lacks are allocated, with sentinels": (HARNESS_CPP,),
    "4.11.1 a missing ragged_offset fails setup": (
        HARNESS + "test_a_missing_ragged_offset_fails_setup",
        HARNESS_CPP,
    ),
    "4.11.1 both paths see the same supplied tensor, and it is not randomized": (
        HARNESS + "test_both_paths_see_the_tensor_that_was_supplied",
        HARNESS + "test_a_supplied_input_is_not_random",
    ),
    "4.11.1 seq_lens are not checked for": (HARNESS + "test_lengths_are_an_ordinary_input",),
    "4.11.2 a ragged tensor has ragged_offset[B] elements": (
        HARNESS + "test_a_ragged_tensor_is_as_large_as_its_last_offset",
    ),
    "4.11.3 ragged outputs hold sentinels, inputs the same random values": (
        HARNESS + "test_random_inputs_are_the_same_on_both_paths_and_follow_the_seed",
        HARNESS + "test_padding_of_a_random_input_is_filled_and_of_an_output_skipped",
        HARNESS_CPP,
    ),
    "4.11.4 what the reference did not write is skipped, the rest compared": (
        HARNESS + "test_padding_of_a_random_input_is_filled_and_of_an_output_skipped",
        HARNESS + "test_a_wrong_result_is_shown_with_index_got_and_expected",
    ),
    "4.11.4 sentinel-skip comparison": (
        FILLS + "test_comparison_skips_what_the_reference_left",
        "test_cpp.py::test_check[test_tensor_compare]",
    ),
    "5.7 iteration costs about what a dense strided tensor's does": (
        "test_cpp.py::test_check[test_tensor_iteration_cost]",
    ),
    "7.2 has_regular_dims() is false": (SDK + "test_never_packed_and_never_regular",),
    "7.3 a sentinel per data type": (FILLS + "test_sentinels",),
    "7.3 a sentinel before the tail of a row is a result": (
        FILLS + "test_a_sentinel_before_the_tail_is_a_result",
    ),
}
