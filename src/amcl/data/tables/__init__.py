"""Tables: Parquet and Arrow files with a column of encoded images."""
