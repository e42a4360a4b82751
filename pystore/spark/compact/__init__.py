"""
The latest record of each key, as a store and as RocketMQ's compaction store.
"""
