"""Mutation testing: kernels made wrong by rules, and how many of them the judge catches.

``python -m opinfo_tests.mutate --help`` says how to run it.
"""
