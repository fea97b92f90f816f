"""The report: one page that a person who does not program can read, the answer first."""
