"""
Messages and records as bytes, as values and as columns; no file, no log.
"""
