"""What the ragged-tensor document demands of the data SDK (sections 4.5 to 4.8), statement by
statement, and the tests that show it. A test's name is ``file::function``; statements about C++
itself are shown by a program of ``tests/cpp``, as ``test_cpp.py::test_check[program]``.
"""

from __future__ import annotations

SDK = "test_tensor_sdk.py::"
FILLS = "test_tensor_fills.py::"
CPP = "test_cpp.py::test_check[test_tensor_sdk]"
DEVICE = "test_cpp.py::test_check[test_tensor_device]"

MATRIX = {
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
    "4.10 make_shallow_itensor picks the type at run time": (CPP,),
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
