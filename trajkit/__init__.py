"""trajkit turns raw agent logs into training data for language world models."""

__version__ = "0.1.0"
