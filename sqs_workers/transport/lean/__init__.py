"""A transport that spends a fifth of boto3's CPU on a request and behaves as boto3 does.

It takes credentials, endpoint, timeouts, certificates and retry decisions from a botocore client and does the
rest by itself: the signature, the connections, and SQS's JSON. See ``docs/lean-transport.md``.
"""

from sqs_workers.transport.lean.client import LeanTransport

__all__ = ["LeanTransport"]
