"""Policies for other programs, one format a file."""
