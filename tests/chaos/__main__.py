"""``python -m tests.chaos``: a worker. A module of its own, so that the jobs are those that children import."""

from tests.chaos.jobs import main

main()
