"""The queues of an environment. Import them from :mod:`sqs_workers.queue`."""
