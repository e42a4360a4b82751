"""
Reading a split of a segment into Arrow batches. On the executors.
"""
