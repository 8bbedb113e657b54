"""From the official archive of a data set to Parquet files, once.

``download`` gets the archive whole, a file for each set knows its layout, ``conversion`` lays it
down and ``fetch`` does one after the other. Reading what then lies there belongs in ``stored``.
"""
