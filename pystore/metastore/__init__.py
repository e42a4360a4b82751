"""
The small durable facts of a store, in LMDB.
"""
