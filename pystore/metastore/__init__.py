"""
The metadata of a store, durable in LMDB.
"""
