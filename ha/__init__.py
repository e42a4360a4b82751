"""
Comes with a later release; the name is taken here.
"""
