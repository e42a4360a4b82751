"""
Masters, slaves and links for tests.
"""
