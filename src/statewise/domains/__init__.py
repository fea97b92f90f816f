"""Simulated worlds: they write logs like any user's, and score policies. No learner imports them."""
