"""Whatever acts: networks, trees, foreign policies; their files, and how to act by them."""
