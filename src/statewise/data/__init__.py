"""The decision log and what is done to it before anything is learned."""
