"""The one loop, its run folders, presets and settings."""
