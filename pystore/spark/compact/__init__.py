"""
Compaction of a store on Spark: keeps the latest record of each key of a queue.

The log is scanned once, with a task for each segment. Spark finds the latest record of
each key. The new offset of each record is planned, queue by queue. Then the records
are copied, again with a task for each segment. Because the offsets are planned, a task
that runs twice writes the same bytes to the same places: retries and speculative tasks
cannot change the result.

The result is RocketMQ's compaction store. It appears by one rename. The log of each
queue can also be read as the log of a store.
"""
