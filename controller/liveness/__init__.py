"""
Who is alive, whose lease runs, and whether this controller may still say so.
"""
