"""
The slave's end of a link: its protocol objects, and its log.
"""
