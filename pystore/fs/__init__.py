"""
Files and folders of a store: names, atomic replacement, descriptors, boot identity.
"""
