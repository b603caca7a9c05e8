from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

NAMES = {
    "sqs_workers": """DEFAULT_BACKOFF IMMEDIATE_RETURN ConstantBackoff ExponentialBackoff JobQueue MemorySession
        ProcessingResult RawQueue RetryJob SQSEnv SQSError create_fifo_queue create_standard_queue delete_queue""",
    "sqs_workers.async_task": "AsyncTask AsyncTaskDelayArgs BakedAsyncTask P",
    "sqs_workers.backoff_policies": """BackoffPolicy ConstantBackoff ExponentialBackoff DEFAULT_BACKOFF
        IMMEDIATE_RETURN""",
    "sqs_workers.batching": "BatchingConfiguration NoBatching BatchMessages",
    "sqs_workers.codecs": """DEFAULT_CONTENT_TYPE PICKLE_PY2_COMPAT_PROTO Codec JSONCodec PickleCodec PickleCompatCodec
        get_codec CONTENT_TYPES_CODECS""",
    "sqs_workers.config": "Config instantiate_from_dict instantiate_from_string string_to_object",
    "sqs_workers.context": "SQSContext",
    "sqs_workers.core": "BatchProcessingResult RedrivePolicy get_job_name",
    "sqs_workers.deadletter_queue": "DeadLetterQueue PushBackSender RawQueue",
    "sqs_workers.exceptions": "SQSError",
    "sqs_workers.memory_sqs": """MemoryAWS MemorySession MemoryClient ServiceResource MemoryQueue MemoryMessage""",
    "sqs_workers.processors": """DEFAULT_CONTEXT_VAR RetryJob ProcessingResult Processor get_job_content_type
        get_job_context call_handler logger SQSContext""",
    "sqs_workers.queue": """DEFAULT_MESSAGE_GROUP_ID SEND_BATCH_SIZE MAX_MESSAGE_LENGTH SQSBatchError GenericQueue
        RawQueue JobQueue logger AsyncTask BatchProcessingResult BatchingConfiguration NoBatching DEFAULT_BACKOFF
        DEFAULT_CONTEXT_VAR NEVER_SHUTDOWN ShutdownPolicy ProcessingResult Processor RetryJob SQSError
        batcher get_job_name""",
    "sqs_workers.shutdown_policies": """ShutdownPolicy NeverShutdown IdleShutdown MaxTasksShutdown OrShutdown
        AndShutdown NEVER_SHUTDOWN ASAP_SHUTDOWN""",
    "sqs_workers.sqs_env": """SQSEnv POLICY_NO_BATCHING AnyQueue AnyQueueT logger DEFAULT_BACKOFF DEFAULT_CONTEXT_VAR
        BatchingConfiguration NoBatching NeverShutdown ShutdownPolicy GenericQueue JobQueue RawQueue RedrivePolicy""",
    "sqs_workers.sqs_manage": "create_standard_queue create_fifo_queue delete_queue",
    "sqs_workers.utils": """validate_arguments bind_arguments string_to_object instantiate_from_string
        instantiate_from_dict ensure_string batcher logger""",
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in NAMES.items() for name in names.split()]
)
def test_every_name_is_where_it_was(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


def test_the_modules_are_attributes_of_the_package_after_its_import() -> None:
    modules = [name.split(".")[1] for name in NAMES if "." in name and name != "sqs_workers.config"]
    modules.remove("deadletter_queue")
    code = "import sqs_workers\n" + "\n".join(f"sqs_workers.{name}" for name in modules)
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_values_of_the_constants_are_what_they_were() -> None:
    from sqs_workers.codecs import DEFAULT_CONTENT_TYPE, PICKLE_PY2_COMPAT_PROTO
    from sqs_workers.processors import DEFAULT_CONTEXT_VAR
    from sqs_workers.queue import DEFAULT_MESSAGE_GROUP_ID, MAX_MESSAGE_LENGTH, SEND_BATCH_SIZE
    from sqs_workers.shutdown_policies import ASAP_SHUTDOWN, NEVER_SHUTDOWN

    assert (DEFAULT_MESSAGE_GROUP_ID, SEND_BATCH_SIZE, MAX_MESSAGE_LENGTH) == ("default", 10, 1048576)
    assert (DEFAULT_CONTENT_TYPE, PICKLE_PY2_COMPAT_PROTO, DEFAULT_CONTEXT_VAR) == (
        "pickle_compat",
        2,
        "context",
    )
    assert repr(ASAP_SHUTDOWN) == "IdleShutdown(0)"
    assert repr(NEVER_SHUTDOWN) == "NeverShutdown()"


def test_star_import_brings_the_names_of_the_package() -> None:
    namespace: dict[str, object] = {}
    exec("from sqs_workers import *", namespace)
    assert set(NAMES["sqs_workers"].split()) <= namespace.keys()
