"""Decoding of encoded images: a file for each family of formats, and one for what they share."""
