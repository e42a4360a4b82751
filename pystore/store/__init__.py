"""
A store: a log with its consume queues, opened, maintained and closed.
"""
