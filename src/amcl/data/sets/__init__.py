"""Named data sets, one in each file, which registers it."""
