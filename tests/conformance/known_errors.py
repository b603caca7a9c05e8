"""Where the emulators are known to answer other than AWS documents, case by case.

Each is expected to fail, strictly: an emulator that is mended makes its entry fail, to be removed.
A case is named as in the test report, without its backend; the name of a function alone stands for all of
its cases. Found with moto 5.2 and MiniStack 1.4.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["KNOWN_ERRORS", "NOT_RUN"]


def _by_case(reasons: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """From the cases of each reason to the reason of each case."""
    return {case: reason for reason, cases in reasons.items() for case in cases}


_MOTO: dict[str, tuple[str, ...]] = {
    "does not check all that it documents of a batch request": (
        "test_an_empty_batch_is_refused[change_message_visibility_batch]",
        "test_an_eleventh_entry_is_refused[delete_message_batch]",
        "test_an_eleventh_entry_is_refused[change_message_visibility_batch]",
        "test_an_id_used_twice_is_refused[change_message_visibility_batch]",
        "test_an_id_outside_of_the_rules_is_refused[space-delete_message_batch]",
        "test_an_id_outside_of_the_rules_is_refused[space-change_message_visibility_batch]",
        "test_an_id_outside_of_the_rules_is_refused[dot-delete_message_batch]",
        "test_an_id_outside_of_the_rules_is_refused[dot-change_message_visibility_batch]",
        "test_an_id_outside_of_the_rules_is_refused[81-characters-delete_message_batch]",
        "test_an_id_outside_of_the_rules_is_refused[81-characters-change_message_visibility_batch]",
        "test_an_id_outside_of_the_rules_is_refused[empty-delete_message_batch]",
        "test_an_id_outside_of_the_rules_is_refused[empty-change_message_visibility_batch]",
    ),
    "has no DeadLetterQueueSourceArn": ("test_a_moved_message_names_the_queue_it_came_from",),
    "keeps the deduplication id of a message moved to a FIFO dead-letter queue": (
        "test_a_moved_fifo_message_keeps_its_group_and_has_its_id_as_deduplication_id",
    ),
    "does not check redrive policies in full, or answers with an internal error": (
        "test_a_max_receive_count_outside_of_1_to_1000_is_refused",
        "test_a_malformed_redrive_policy_is_refused",
        "test_a_queue_and_its_dead_letter_queue_must_be_of_one_type",
    ),
    "knows no redrive allow policy": (
        "test_a_queue_that_denies_all_cannot_be_a_dead_letter_queue",
        "test_a_queue_may_allow_its_sources_by_arn",
        "test_a_queue_that_allows_all_takes_any_source",
        "test_a_malformed_redrive_allow_policy_is_refused",
    ),
    "has no ListDeadLetterSourceQueues, or not in pages": ("test_sources_are_listed_in_pages",),
    "has no message move tasks": (
        "test_messages_go_back_to_the_queue_they_came_from",
        "test_messages_of_several_sources_each_go_back_to_their_own",
        "test_messages_may_go_to_another_queue",
        "test_a_moved_message_is_a_new_message_received_for_the_first_time",
        "test_a_queue_that_is_nobodys_dead_letter_queue_is_refused",
        "test_a_missing_source_is_refused",
        "test_a_missing_destination_is_refused",
        "test_a_rate_out_of_range_is_refused",
        "test_a_queue_has_one_running_task_at_a_time",
        "test_a_running_task_is_listed_with_its_handle_rate_and_numbers",
        "test_a_finished_task_has_no_handle",
        "test_a_cancelled_task_moves_no_more_and_leaves_what_it_moved",
        "test_only_a_running_task_can_be_cancelled",
        "test_something_that_is_no_task_handle_is_refused",
        "test_the_newest_task_is_listed_first_and_alone_by_default",
        "test_the_number_of_listed_tasks_has_a_range",
        "test_tasks_of_a_missing_queue_are_refused",
    ),
    "lets a wrong entry of a batch through, or fails the whole batch": (
        "test_a_control_character_fails_its_entry_alone",
        "test_a_wrong_parameter_fails_its_entry_alone[attribute]",
        "test_a_wrong_parameter_fails_its_entry_alone[eleven-attributes]",
        "test_a_body_above_the_limit_of_the_queue_fails_its_entry_alone",
    ),
    "counts characters of the body alone, not bytes and attributes": (
        "test_attributes_count_towards_the_size_of_a_batch",
        "test_the_size_is_counted_in_bytes_of_utf_8",
        "test_names_types_and_values_of_attributes_count_towards_the_size",
    ),
    "gives no sequence number in a queue with deduplication by content": (
        "test_a_fifo_batch_keeps_the_order_of_its_entries",
        "test_sequence_numbers_grow_and_come_with_the_message",
        "test_a_sequence_number_is_large_and_has_128_bits_at_most",
    ),
    "does not check group and deduplication ids": (
        "test_a_group_or_deduplication_id_outside_of_the_rules_is_refused",
        "test_a_standard_queue_refuses_a_deduplication_id",
    ),
    "ignores ReceiveRequestAttemptId": (
        "test_a_repeated_attempt_returns_the_same_messages_and_receipts",
        "test_an_attempt_id_of_129_characters_is_refused",
    ),
    "forgets a deduplication id when its message is deleted": (
        "test_an_id_is_remembered_after_its_message_was_deleted",
    ),
    "ignores the deduplication scope": ("test_an_id_counts_for_its_group_if_the_queue_says_so",),
    "does not check the range of a parameter of a message": (
        "test_a_delay_out_of_range_is_refused[-1]",
        "test_receive_refuses_a_parameter_out_of_range[VisibilityTimeout--1]",
        "test_a_new_timeout_out_of_range_is_refused[-1]",
    ),
    "does not keep the order of a group after its visibility timeout": (
        "test_a_group_comes_back_in_order_after_its_visibility_timeout",
    ),
    "does not check the contents of a message": (
        "test_an_empty_body_is_refused",
        "test_characters_outside_of_the_allowed_set_are_refused",
        "test_a_control_character_in_a_value_is_refused",
    ),
    "does not check message attributes in full": (
        "test_an_eleventh_attribute_is_refused",
        "test_an_attribute_name_outside_of_the_rules_is_refused[AWS.name]",
        "test_an_attribute_name_outside_of_the_rules_is_refused[aws.name]",
        "test_an_attribute_name_outside_of_the_rules_is_refused[Amazon.name]",
        "test_an_attribute_name_outside_of_the_rules_is_refused[AMAZON.name]",
        "test_an_attribute_name_outside_of_the_rules_is_refused[.start]",
        "test_an_attribute_name_outside_of_the_rules_is_refused[end.]",
        "test_an_attribute_name_outside_of_the_rules_is_refused[two..dots]",
        "test_an_attribute_name_outside_of_the_rules_is_refused[257-characters]",
        "test_an_attribute_outside_of_the_rules_is_refused[type-of-257-characters]",
        "test_an_attribute_outside_of_the_rules_is_refused[empty-string]",
        "test_an_attribute_outside_of_the_rules_is_refused[empty-number]",
        "test_an_attribute_outside_of_the_rules_is_refused[empty-binary]",
        "test_an_attribute_outside_of_the_rules_is_refused[number-that-is-none]",
        "test_an_attribute_outside_of_the_rules_is_refused[bytes-as-string]",
        "test_an_attribute_outside_of_the_rules_is_refused[text-as-binary]",
        "test_an_attribute_outside_of_the_rules_is_refused[no-value]",
    ),
    "does not check message system attributes and gives no digest of them": (
        "test_the_trace_header_is_the_only_system_attribute_that_can_be_sent",
        "test_the_trace_header_must_be_a_string",
        "test_send_returns_the_md5_of_system_attributes",
    ),
    "gives times with fractions of a second": ("test_a_queue_created_without_attributes_has_the_defaults",),
    "does not check attributes of a queue in full, or answers with an internal error": (
        "test_a_value_out_of_range_is_refused_on_create[DelaySeconds--1]",
        "test_a_value_out_of_range_is_refused_on_create[DelaySeconds-901]",
        "test_a_value_out_of_range_is_refused_on_create[MessageRetentionPeriod-59]",
        "test_a_value_out_of_range_is_refused_on_create[MessageRetentionPeriod-1209601]",
        "test_a_value_out_of_range_is_refused_on_create[ReceiveMessageWaitTimeSeconds--1]",
        "test_a_value_out_of_range_is_refused_on_create[ReceiveMessageWaitTimeSeconds-21]",
        "test_a_value_out_of_range_is_refused_on_create[VisibilityTimeout--1]",
        "test_a_value_out_of_range_is_refused_on_create[VisibilityTimeout-43201]",
        "test_a_value_out_of_range_is_refused_on_set",
        "test_a_value_that_is_no_integer_is_refused",
        "test_one_wrong_attribute_leaves_all_of_them_unset",
        "test_attributes_of_fifo_queues_take_only_their_own_values",
        "test_a_throughput_limit_per_group_needs_deduplication_per_group",
        "test_the_reuse_period_of_a_data_key_has_a_range",
        "test_only_one_kind_of_encryption_at_a_time",
        "test_a_policy_that_is_not_json_is_refused",
    ),
    "takes attributes that do not exist, cannot be set, or belong to the other type of queue": (
        "test_an_unknown_attribute_is_refused_on_create",
        "test_an_unknown_attribute_is_refused_on_set",
        "test_what_sqs_itself_maintains_cannot_be_set",
        "test_the_type_of_a_standard_queue_cannot_be_changed",
        "test_the_type_of_a_fifo_queue_cannot_be_changed",
        "test_attributes_of_fifo_queues_are_refused_on_a_standard_queue",
    ),
    "does not check names of queues in full": ("test_the_fifo_suffix_alone_does_not_make_a_fifo_queue",),
    "does not check the number of results": ("test_list_queues_refuses_a_limit_out_of_range",),
    "does not wait 60 seconds after a purge or a deletion": (
        "test_a_name_deleted_within_60_seconds_is_refused",
    ),
    "does not check permissions in full": ("test_a_label_outside_of_the_rules_is_refused",),
    "hides an expired message again": ("test_an_expired_message_that_is_hidden_again_stays_visible",),
    "calls the receipt of a deleted message, or an older one, malformed": (
        "test_the_timeout_of_a_deleted_message_cannot_be_changed",
    ),
    "takes expired receipts on a FIFO queue": (
        "test_the_receipt_of_an_expired_message_is_refused_by_a_fifo_queue",
    ),
}

_MINISTACK: dict[str, tuple[str, ...]] = {
    "fails the entries of a batch without deduplication ids instead of the request": (
        "test_a_batch_without_any_id_delivers_nothing",
    ),
    "does not check all that it documents of a batch request": (
        "test_an_empty_batch_is_refused",
        "test_an_eleventh_entry_is_refused[delete_message_batch]",
        "test_an_eleventh_entry_is_refused[change_message_visibility_batch]",
        "test_an_id_used_twice_is_refused",
        "test_an_id_outside_of_the_rules_is_refused",
    ),
    "has no DeadLetterQueueSourceArn": ("test_a_moved_message_names_the_queue_it_came_from",),
    "keeps the deduplication id of a message moved to a FIFO dead-letter queue": (
        "test_a_moved_fifo_message_keeps_its_group_and_has_its_id_as_deduplication_id",
    ),
    "does not check redrive policies in full, or answers with an internal error": (
        "test_a_queue_and_its_dead_letter_queue_must_be_of_one_type",
        "test_an_empty_redrive_policy_removes_it",
    ),
    "knows no redrive allow policy": (
        "test_a_queue_that_denies_all_cannot_be_a_dead_letter_queue",
        "test_a_queue_may_allow_its_sources_by_arn",
        "test_a_malformed_redrive_allow_policy_is_refused",
    ),
    "has no ListDeadLetterSourceQueues, or not in pages": (
        "test_the_sources_of_a_dead_letter_queue_are_listed",
        "test_a_queue_without_sources_lists_none",
        "test_sources_are_listed_in_pages",
        "test_every_call_on_a_missing_queue_is_refused[list_dead_letter_source_queues]",
    ),
    "has no message move tasks": (
        "test_messages_go_back_to_the_queue_they_came_from",
        "test_messages_of_several_sources_each_go_back_to_their_own",
        "test_messages_may_go_to_another_queue",
        "test_a_moved_message_is_a_new_message_received_for_the_first_time",
        "test_a_queue_that_is_nobodys_dead_letter_queue_is_refused",
        "test_a_missing_source_is_refused",
        "test_a_missing_destination_is_refused",
        "test_a_rate_out_of_range_is_refused",
        "test_a_queue_has_one_running_task_at_a_time",
        "test_a_running_task_is_listed_with_its_handle_rate_and_numbers",
        "test_a_finished_task_has_no_handle",
        "test_a_cancelled_task_moves_no_more_and_leaves_what_it_moved",
        "test_only_a_running_task_can_be_cancelled",
        "test_something_that_is_no_task_handle_is_refused",
        "test_the_newest_task_is_listed_first_and_alone_by_default",
        "test_the_number_of_listed_tasks_has_a_range",
        "test_tasks_of_a_missing_queue_are_refused",
    ),
    "lets a wrong entry of a batch through, or fails the whole batch": (
        "test_a_wrong_parameter_fails_its_entry_alone",
        "test_visibility_batch_changes_good_entries_and_reports_bad_ones",
    ),
    "counts characters of the body alone, not bytes and attributes": (
        "test_attributes_count_towards_the_size_of_a_batch",
        "test_names_types_and_values_of_attributes_count_towards_the_size",
    ),
    "still has the former limit of 256 KiB": (
        "test_a_batch_of_exactly_one_mib_in_all_is_accepted",
        "test_a_body_of_exactly_one_mib_is_accepted",
        "test_both_ends_of_a_range_are_accepted_on_create_and_on_set[MaximumMessageSize-1048576]",
    ),
    "counts sequence numbers from one": ("test_a_sequence_number_is_large_and_has_128_bits_at_most",),
    "does not check group and deduplication ids": (
        "test_a_group_or_deduplication_id_outside_of_the_rules_is_refused",
        "test_a_standard_queue_refuses_a_deduplication_id",
    ),
    "ignores ReceiveRequestAttemptId": (
        "test_a_repeated_attempt_returns_the_same_messages_and_receipts",
        "test_an_attempt_id_of_129_characters_is_refused",
    ),
    "does not check the range of a parameter of a message": (
        "test_a_delay_out_of_range_is_refused",
        "test_receive_refuses_a_parameter_out_of_range",
        "test_a_new_timeout_out_of_range_is_refused",
    ),
    "does not check the contents of a message": ("test_a_control_character_in_a_value_is_refused",),
    "does not check message attributes in full": (
        "test_an_eleventh_attribute_is_refused",
        "test_an_attribute_name_outside_of_the_rules_is_refused",
        "test_an_attribute_outside_of_the_rules_is_refused",
    ),
    "does not check message system attributes and gives no digest of them": (
        "test_the_trace_header_is_the_only_system_attribute_that_can_be_sent",
        "test_the_trace_header_must_be_a_string",
        "test_send_returns_the_md5_of_system_attributes",
    ),
    "lacks attributes of a queue, or has other defaults": (
        "test_a_queue_created_without_attributes_has_the_defaults",
        "test_a_fifo_queue_created_without_attributes_has_the_defaults",
    ),
    "does not check attributes of a queue in full, or answers with an internal error": (
        "test_attributes_of_fifo_queues_take_only_their_own_values",
        "test_a_throughput_limit_per_group_needs_deduplication_per_group",
        "test_only_one_kind_of_encryption_at_a_time",
        "test_a_policy_that_is_not_json_is_refused",
    ),
    "takes attributes that do not exist, cannot be set, or belong to the other type of queue": (
        "test_an_unknown_attribute_is_refused_on_create",
        "test_an_unknown_attribute_is_refused_on_set",
        "test_an_unknown_attribute_is_refused_on_get",
        "test_what_sqs_itself_maintains_cannot_be_set",
        "test_the_type_of_a_standard_queue_cannot_be_changed",
        "test_the_type_of_a_fifo_queue_cannot_be_changed",
        "test_attributes_of_fifo_queues_are_refused_on_a_standard_queue",
    ),
    "returns all attributes when none is asked for": ("test_without_names_no_attributes_are_returned",),
    "does not check names of queues in full": (
        "test_a_name_outside_of_the_rules_is_refused",
        "test_the_fifo_suffix_alone_does_not_make_a_fifo_queue",
        "test_the_fifo_suffix_counts_towards_the_80_characters",
    ),
    "does not check the number of results": ("test_list_queues_refuses_a_limit_out_of_range",),
    "does not wait 60 seconds after a purge or a deletion": (
        "test_a_name_deleted_within_60_seconds_is_refused",
        "test_a_second_purge_within_60_seconds_is_refused",
    ),
    "does not check permissions in full": (
        "test_a_label_outside_of_the_rules_is_refused",
        "test_an_action_that_does_not_exist_is_refused",
        "test_a_statement_has_seven_actions_at_most",
        "test_removing_an_unknown_label_is_refused",
    ),
    "keeps an empty policy": ("test_an_empty_policy_removes_the_policy",),
    "hides an expired message again": ("test_an_expired_message_that_is_hidden_again_stays_visible",),
    "calls the receipt of a deleted message, or an older one, malformed": (
        "test_the_timeout_of_a_deleted_message_cannot_be_changed",
        "test_deleting_twice_succeeds",
        "test_an_old_receipt_succeeds_and_the_newest_one_deletes",
    ),
    "takes expired receipts on a FIFO queue": (
        "test_the_receipt_of_an_expired_message_is_refused_by_a_fifo_queue",
    ),
    "lets the queue's delay override that of a message": (
        "test_the_delay_of_a_message_overrides_that_of_the_queue",
    ),
    "does not know the rules of delays on FIFO queues": (
        "test_a_fifo_queue_may_delay_all_of_its_messages",
        "test_a_message_of_a_fifo_queue_cannot_have_its_own_delay",
    ),
    "gives the digest of all attributes where some were asked for": (
        "test_attributes_are_returned_by_name_with_a_digest_of_those_alone",
    ),
}

KNOWN_ERRORS: dict[str, dict[str, str]] = {"moto": _by_case(_MOTO), "ministack": _by_case(_MINISTACK)}

NOT_RUN: dict[str, dict[str, str]] = {
    "moto": {
        "test_a_long_poll_on_a_fifo_queue_wakes_when_the_group_is_free_again": (
            "does not wake a long poll when a group becomes free: the poll would last its 20 seconds"
        ),
    },
    "ministack": {},
}
"""Cases that would hang the emulator, or spoil it for the cases after them."""
