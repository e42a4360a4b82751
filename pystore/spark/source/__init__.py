"""
The data source of Spark: batch and stream.
"""
