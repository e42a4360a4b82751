"""
Consume queues: their files, their entries, and how entries are built from records.
"""
