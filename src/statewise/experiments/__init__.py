"""The paper's figures and claims as data (`paper.toml`), the one runner that makes them, and what is told of them."""
