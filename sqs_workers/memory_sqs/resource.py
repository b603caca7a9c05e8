"""What ``session.resource("sqs")`` returns: boto3's own resource over a memory client."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from sqs_workers.memory_sqs import contract

if TYPE_CHECKING:
    from sqs_workers.memory_sqs.client import MemoryClient

__all__ = ["make_resource"]


@cache
def _resource_class() -> Any:
    import boto3
    from boto3.resources.factory import ResourceFactory
    from boto3.utils import ServiceContext
    from botocore.hooks import HierarchicalEmitter
    from botocore.loaders import Loader

    loader = Loader(extra_search_paths=[os.path.join(os.path.dirname(boto3.__file__), "data")])
    model = loader.load_service_model("sqs", "resources-1", contract.API_VERSION)
    context = ServiceContext(
        service_name="sqs",
        resource_json_definitions=model["resources"],
        service_model=contract.service_model(),
        service_waiter_model=None,
    )
    return ResourceFactory(HierarchicalEmitter()).load_from_definition(
        resource_name="sqs", single_resource_json_definition=model["service"], service_context=context
    )


def make_resource(client: MemoryClient) -> Any:
    """boto3 builds its resources from a description and a client; here the client is the memory one.

    So queues, messages and collections behave exactly as boto3's do.
    """
    return _resource_class()(client=client)
