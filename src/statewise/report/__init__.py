"""The report: one page for readers who do not program, with the answer first."""
