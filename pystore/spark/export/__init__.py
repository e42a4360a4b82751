"""
Records as Parquet, by topic and day, each exactly once.

``export(session, Request(stores, into))`` of `pystore.spark.export.job` exports what
is new; a run becomes visible by one rename, together with the offsets that it holds.
"""
