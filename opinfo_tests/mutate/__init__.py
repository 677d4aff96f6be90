"""Mutation testing: makes kernels wrong by rules, and counts how many of the wrong kernels (mutants) the judge catches.

``python -m opinfo_tests.mutate --help`` describes how to run it.
"""
