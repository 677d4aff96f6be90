"""Mutation testing: make kernels wrong by rules, and count how many mutants the judge catches.

``python -m opinfo_tests.mutate --help`` says how to run it.
"""
