"""Handles, which are tensors with a shape but no data: conversion of torch calls to engine calls, and shape inference.

Imports `torchnp.rpc.wire`.
"""
