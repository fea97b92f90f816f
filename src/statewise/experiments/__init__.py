"""The paper's figures and claims as data (`paper.toml`), the runner that computes them, and their tables and plots."""
