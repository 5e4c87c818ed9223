"""Shards: tar archives of encoded images, any of which is reached by its number."""
