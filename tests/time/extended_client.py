"""Amazon's extended client, in a process of its own: importing it replaces ``boto3.Session`` for everybody.

``python -m tests.time.extended_client ENDPOINT BUCKET QUEUE_URL send|receive [legacy]``; ``send`` reads the
message from standard input as JSON, ``receive`` prints one and deletes it.
"""

from __future__ import annotations

import json
import sys

from sqs_extended_client import SQSExtendedClientSession


def main(endpoint: str, bucket: str, queue_url: str, action: str, *flags: str) -> None:
    session = SQSExtendedClientSession(
        aws_access_key_id="testing", aws_secret_access_key="testing", region_name="us-east-1"
    )
    client = session.client("sqs", endpoint_url=endpoint)
    client.s3_client = session.client("s3", endpoint_url=endpoint)
    client.large_payload_support = bucket
    client.use_legacy_attribute = "legacy" in flags
    client.delete_payload_from_s3 = True
    if action == "send":
        client.send_message(QueueUrl=queue_url, **json.load(sys.stdin))
        return
    [message] = client.receive_message(QueueUrl=queue_url, MessageAttributeNames=["All"])["Messages"]
    client.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
    json.dump(message, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
