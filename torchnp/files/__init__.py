"""Readers for untrusted files: JSON, zip archives, and arrays in .npy, .npz and .safetensors.

Each reader takes time and memory in proportion to the file. A size that a file claims is compared with the file's
length before anything of that size is allocated. Nothing is unpickled, and repeated names are refused.
"""
