"""One algorithm a file, each two pure functions over literal state; none imports another."""
