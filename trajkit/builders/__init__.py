"""Builders: training rows from a store of transitions."""
