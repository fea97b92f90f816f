"""Propensities that were not logged: estimated, calibrated, carried into intervals."""
