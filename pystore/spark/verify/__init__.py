"""
Stores checked by Spark: every segment by itself, and replicas against each other.
"""
