"""Files that strangers write, read with suspicion: JSON, zip archives, and arrays in .npy, .npz and .safetensors.

Each reader takes time and memory in proportion to the file. What a file claims of its sizes is compared with the file
before anything of that size is made, nothing is unpickled, and a name that comes twice is refused.
"""
