"""
The open log of the C core: writer, reader, scan, waits, lock, live page.
"""
