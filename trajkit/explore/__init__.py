"""Look at a store: SQL over its tables, and episodes as text."""
