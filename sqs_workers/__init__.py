"""Python functions as jobs on Amazon SQS."""
