"""
Compaction of a store on Spark: of each key of a queue, the latest record alone.

The log is scanned once, a task for each segment; Spark finds the latest record of
each key; where each of them goes is planned for a queue as a whole; then it is copied
there, again a task for each segment. Because the places are planned, a task that
runs twice writes the same bytes to the same places: neither a retry nor speculation
can change the result.

What is made appears by one rename, and is RocketMQ's compaction store: the log of
each queue can be read as the log of a store, too.
"""
