"""
Epoch tables and their file: the terms of mastership of a log.
"""
