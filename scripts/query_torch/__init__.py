"""Modules that find out what torch does, one for each file that `make_data.py` and `make_lookup.py` write."""
