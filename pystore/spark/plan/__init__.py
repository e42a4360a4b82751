"""
Plans a read of a store: options, paths, selection, splits. Runs on the driver.
"""
