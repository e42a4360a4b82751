"""
Stores and logs made for tests.
"""
