"""Whatever acts: networks, trees, policies from elsewhere; their files, and how to act by them."""
