"""
Reads a split of a segment into Arrow batches. Runs on executors.
"""
