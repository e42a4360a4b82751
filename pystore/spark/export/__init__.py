"""
Records as Parquet, by topic and day, each exactly once.
"""
