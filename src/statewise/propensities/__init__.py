"""Propensities that were not logged: estimated, calibrated, and taken into account in intervals."""
