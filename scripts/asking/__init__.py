"""What `make_data.py` asks of torch, file by file."""
