"""
Segments as units of repair: looked at one by one, compared, patched, installed.
"""
