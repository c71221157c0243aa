"""The fidelity gate: rules that tell whether a predicted observation may be trusted.

Below the domains: `findings`, `content`, `trees`, `shared` and one file of checks per surface.
Above them: `gate`, which asks a domain for its checks.
"""
