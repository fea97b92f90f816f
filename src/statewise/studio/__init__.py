"""A page on this machine for people without a terminal: from a file to a policy and its report.

The pages are rendered here, and the work is done by the command line in a process of its own, so that all that counts
lies in files: a studio that was killed loses nothing, and the next one on the same folder goes on.
"""
