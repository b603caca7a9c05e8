"""Measures this library against others and against plain boto3 loops, side by side.

``python -m benchmarks`` runs all of it; ``docs/performance.md`` shows what came out.
"""
