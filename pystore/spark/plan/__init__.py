"""
What a read of a store will read: options, paths, selection, splits. On the driver.
"""
