"""How `make_data.py` and `make_lookup.py` find out what torch does; each file that they write has a module."""
