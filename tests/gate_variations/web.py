"""Variations of web observations."""

from __future__ import annotations

from gate_variations.tree_variations import variations as variations
