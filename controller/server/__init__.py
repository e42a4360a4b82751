"""
The controller as a server: what the decisions need to be asked, kept and told.
"""
