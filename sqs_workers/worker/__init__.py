"""The worker engine: it knows a transport, handlers and policies, and nothing of queues, jobs or codecs."""
